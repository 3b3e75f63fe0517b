"""Parameters chosen on held-out rows: what is chosen, what is not, and in which rungs."""

from typing import ClassVar

import pytest

from tests.models.selection.guesser import Guesser, rows_of_two_labels
from tests.runs.corpora import small_corpus
from unmissed.errors import InputError
from unmissed.models import FastXML, Parabel, PWDiSMEC
from unmissed.models.selection import Goal, Sampling, choose, compare_models
from unmissed.models.training_data import TrainingData

ROWS = rows_of_two_labels()
LARGE = Sampling(budget=2.0, least_work=0)


@pytest.fixture(autouse=True)
def nothing_fitted():
    Guesser.n_fitted = 0


class Ridge(Guesser):
    """Its figures have a ridge: a good `tail` needs a good `step`, and neither helps alone."""

    preferred_params: ClassVar = {"tail": 0.5, "step": 1.0}

    def _rank(self, X, k):
        both = self.tail + self.step
        good = {True: 0.9, False: 0.4}[abs(both - 0.8) < 0.01]
        kept = self.tail, self.second
        self.tail, self.second = (0.5, 0.5) if both == 1.5 else (good, good)
        try:
            return super()._rank(X, k)
        finally:
            self.tail, self.second = kept


def test_the_best_candidate_is_chosen_and_the_verdicts_say_why():
    found = choose(Guesser(), ROWS, {"tail": [0.0, 0.9, 0.8]}, sampling=Sampling(budget=1, least_work=0))
    assert found.params == {"tail": 0.9}
    assert found.baseline == {"tail": 0.5}
    assert found.chosen.gains["PSP@5"].low > 0
    assert found.chosen.gains["P@1"].value == pytest.approx(0.2, abs=0.03)
    assert {one.params["tail"]: one.verdict for one in found.candidates} == {
        0.5: "baseline",
        0.0: "dropped after rung 1",
        0.9: "chosen",
        0.8: "dropped after rung 1",
    }
    assert [one.gains == {} for one in found.candidates] == [True, False, False, False]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(budget=5.0, least_work=0)], ids=["small", "large"])
def test_the_search_is_joint(sampling):
    """Neither parameter helps at the other's start value, so a search of one after the other finds nothing."""
    tries = {"tail": [0.1, 0.3, 0.5, 0.7], "step": [0.1, 0.5, 1.0, 1.5]}
    found = choose(Ridge(), ROWS, tries, Goal(margin=0.005), sampling)
    assert found.params in ({"tail": 0.3, "step": 0.5}, {"tail": 0.7, "step": 0.1})


@pytest.mark.parametrize(
    ("params", "lower"),
    [({"head": 0.4, "tail": 0.9}, "P@1"), ({"second": 0.2, "tail": 0.9}, "P@5"), ({"tail": 0.4, "head": 1.0}, "PSP@1")],
)
def test_a_candidate_that_loses_in_a_metric_is_never_chosen(params, lower):
    tries = {name: [value] for name, value in params.items()}
    found = choose(Guesser(), ROWS, tries, Goal("PSP@1", ["P@1", "P@5"]))
    loser = next(one for one in found.candidates if one.params == params)
    assert loser.gains[lower].high < 0
    assert loser.verdict == f"{lower} is lower"
    assert found.params != params


def test_without_a_guard_the_same_candidate_is_chosen():
    tries = {"second": [0.2], "tail": [0.9]}
    assert choose(Guesser(), ROWS, tries, Goal("PSP@1")).params["tail"] == 0.9


class Opinionated(Guesser):
    """Prefers a value that is as good as the best one."""

    preferred_params: ClassVar = {"tail": 0.899}


def test_of_near_ties_the_preferred_candidate_is_chosen():
    found = choose(Opinionated(), ROWS, {"tail": [0.895, 0.9]})
    assert found.params == {"tail": 0.899}
    best = next(one for one in found.candidates if one.params == {"tail": 0.9})
    assert best.verdict in ("not likely better than the chosen one", "dropped after rung 1")


@pytest.mark.parametrize("preferred", [0.3, 0.5])
def test_a_preferred_candidate_that_is_not_better_than_the_baseline_is_left(preferred, monkeypatch):
    monkeypatch.setattr(Opinionated, "preferred_params", {"tail": preferred})
    found = choose(Opinionated(), ROWS, {"tail": [0.49999]})
    assert found.params == {"tail": 0.5}
    assert found.chosen.verdict == "baseline, chosen"


def test_candidates_go_through_rungs_and_at_most_a_third_goes_on():
    tries = {"tail": [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8], "second": [0.3, 0.4, 0.5, 0.6]}
    found = choose(Guesser(), ROWS, tries, sampling=Sampling(budget=40, least_work=0))
    assert found.params == {"tail": 0.8, "second": 0.6}
    reached = [sum(one.rung >= rung for one in found.candidates) for rung in (1, 2, 3)]
    assert reached[0] == 29  # the baseline is not among the values
    assert 2 <= reached[2] <= 5
    assert reached[1] <= 11
    sizes = [(one.n_fit, one.n_held) for rung in (1, 2, 3) for one in found.candidates if one.rung == rung]
    assert sizes == sorted(sizes)
    assert next(one for one in found.candidates if one.params == found.baseline).rung == 3


def test_a_large_grid_on_larger_data_begins_with_the_middle():
    tries = {"tail": [0.2, 0.4, 0.5, 0.6, 0.8], "second": [0.3, 0.4, 0.5, 0.6, 0.7]}
    found = choose(Guesser(), ROWS, tries, sampling=LARGE)
    assert [one.params for one in found.candidates] == [{"tail": 0.5, "second": 0.5}]
    found = choose(Guesser(tail=0.6, second=0.6), ROWS, tries, sampling=LARGE)
    assert len(found.candidates) == 3
    assert found.params == {"tail": 0.6, "second": 0.6}


class Modes(Guesser):
    """Has a parameter without an order."""

    baseline_params: ClassVar = {"mode": "none", "second": 0.5}
    preferred_params: ClassVar = {"mode": "b", "second": 0.4}

    def __init__(self, *, mode: str = "none", second: float = 0.5) -> None:
        super().__init__(tail={"none": 0.5, "a": 0.9, "b": 0.6, "c": 0.7}[mode], second=second)
        self.mode = mode


def test_the_middle_goes_on_with_the_best_and_the_neighbors_of_the_preferred_candidate():
    tries = {"mode": ["none", "a", "b", "c"], "second": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]}
    found = choose(Modes(), ROWS, tries, sampling=LARGE)
    rungs = {(one.params["mode"], one.params["second"]): one.rung for one in found.candidates}
    assert rungs == {("none", 0.5): 2, ("b", 0.4): 2, ("a", 0.5): 2, ("b", 0.5): 2, ("c", 0.5): rungs["c", 0.5]}
    assert found.params == {"mode": "a", "second": 0.5}


def test_a_large_grid_on_large_data_begins_with_every_second_value():
    tries = {"tail": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], "second": [0.3, 0.4, 0.5, 0.6, 0.7]}
    found = choose(Guesser(), ROWS, tries, sampling=Sampling(budget=5.0, least_work=0))
    first = [one.params for one in found.candidates if one.rung == 1]
    assert all(one["tail"] in (0.2, 0.4, 0.6, 0.8) and one["second"] in (0.4, 0.6) for one in first)
    last = [one.params for one in found.candidates if one.rung == 2]
    assert {"tail": 0.8, "second": 0.6} in last
    assert {"tail": 0.9, "second": 0.6} in last
    assert found.params in ({"tail": 0.9, "second": 0.6}, {"tail": 0.8, "second": 0.7})
    assert Guesser.n_fitted < 20


def test_the_budget_bounds_the_rows_that_are_trained_on():
    n_rows = 0

    class Counting(Guesser):
        def __init__(self, *, tail: float = 0.5, second: float = 0.5) -> None:
            super().__init__(tail=tail, second=second)

        def _fit(self, rows, work):
            nonlocal n_rows
            n_rows += rows.n_samples
            super()._fit(rows, work)

    tries = {"tail": [0.1, 0.3, 0.5, 0.7, 0.9], "second": [0.3, 0.4, 0.5, 0.6, 0.7]}
    for budget in (4.0, 10.0, 40.0):
        n_rows = 0
        choose(Counting(), ROWS, tries, sampling=Sampling(budget=budget, least_work=0))
        assert 0.3 * budget * 3000 < n_rows <= budget * 3000


def test_progress_says_what_is_tried_and_how_long_it_takes():
    class Heard(list):
        def __call__(self, done, total):
            self.append((done, total))

        def describe(self, text):
            self.append(text)

    heard = Heard()
    choose(Guesser(), ROWS, {"tail": [0.8, 0.9]}, sampling=Sampling(budget=10, least_work=0), progress=heard)
    assert heard[0] == "rung 1 of 1: tail 0.5 (1 of 3)"
    assert heard[2].startswith("rung 1 of 1: tail 0.8 (2 of 3), about 0 s left")
    assert heard[1::2] == [(10_000, 30_000), (20_000, 30_000), (30_000, 30_000)]


def test_a_fold_is_not_trained_again_in_a_later_rung():
    tries = {"tail": [0.6, 0.7, 0.8, 0.9]}
    choose(Guesser(), ROWS, tries, sampling=Sampling(budget=40, least_work=0))
    assert Guesser.n_fitted <= 5 * 5


def test_too_few_rows_leave_the_baseline():
    found = choose(Guesser(), rows_of_two_labels(50), {"tail": [0.9]})
    assert found.params == {"tail": 0.5}
    assert found.candidates == []
    assert found.chosen is None
    assert Guesser.n_fitted == 0


def test_any_method_can_be_searched_and_threads_do_not_matter():
    train, _ = small_corpus(n_labels=20, n_train=300)
    rows = TrainingData.check(train.X, train.Y)
    for model, tries in (
        (Parabel(), {"n_trees": [1, 2]}),
        (FastXML(n_trees=2), {"C": [0.5, 2.0], "max_leaf": [5, 10]}),
        (PWDiSMEC(), {"normalize": [True, False], "weighting": ["none", "tail"]}),
    ):
        once = choose(model.set_params(n_jobs=1), rows, tries).to_json()
        assert once == choose(model.set_params(n_jobs=2), rows, tries).to_json()
        assert all(name in tries for name in once["params"])


class Slow(Guesser):
    """Takes longer than others."""

    def _fit(self, rows, work):
        import time

        time.sleep(0.05)
        super()._fit(rows, work)


def test_the_best_of_several_models_is_recommended_and_the_fastest_of_those_that_are_close():
    models = {"plain": Guesser(), "best": Slow(tail=0.9), "close": Guesser(tail=0.8), "uneven": Guesser(head=0.3)}
    models["uneven"].set_params(tail=1.0, second=1.0)
    found = compare_models(models, ROWS, Goal("PSP@5", "P@1"))
    assert found.params == {"method": "best"}
    verdicts = {one.params["method"]: one.verdict for one in found.candidates}
    assert verdicts == {"plain": "baseline", "best": "chosen", "close": "", "uneven": "P@1 is lower"}
    assert all(one.seconds > 0 for one in found.candidates)
    assert len({one.n_held for one in found.candidates}) == 1
    assert compare_models(models, ROWS, Goal("PSP@5", "P@1"), fastest_within=0.1).params == {"method": "close"}
    assert compare_models(models, ROWS, Goal("PSP@5", "P@1"), fastest_within=0.001).params == {"method": "best"}


def test_few_rows_are_not_enough_to_compare_models():
    with pytest.raises(InputError, match="there are 50 rows; a comparison needs at least 100"):
        compare_models({"a": Guesser(), "b": Guesser()}, rows_of_two_labels(50))
