"""A metric of one's own: figures, intervals, comparisons, batches, its name in the registry, and what is refused."""

import pickle
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from tests.metrics.cases import cases, conventions, corpus
from unmissed.errors import InputError, UnmissedError
from unmissed.metrics import (
    Conventions,
    EvaluatedRows,
    LabelMetric,
    RowMetric,
    compare,
    evaluate,
    find_metrics,
    intervals,
    known_metrics,
    merge,
    register,
    split_figure,
)
from unmissed.metrics import metric_registry as registry
from unmissed.metrics.builtin import BUILTIN
from unmissed.ranking import Ranking

KS = (1, 2, 3, 5)


class OwnRecall(RowMetric):
    name = "own recall"

    def per_row(self, rows):
        return rows.hits.sum(axis=1) / np.maximum(rows.n_true, 1)


class OwnPSP(RowMetric):
    name = "own PSP"
    needs = ("inverse_propensities",)

    def per_row(self, rows):
        weights = np.append(rows.inverse_propensities, 0.0)
        best = [np.sort(weights[row.indices])[::-1][: rows.k].sum() for row in rows.Y]
        return (weights[rows.labels] * rows.hits).sum(axis=1), np.array(best)


class OwnMacroRecall(LabelMetric):
    name = "own macro recall"

    def per_label(self, labels):
        return labels.hits / np.maximum(labels.true, 1)


class TailRecall(RowMetric):
    name = "tail recall"
    needs = ("train_counts",)

    def per_row(self, rows):
        rare = np.append(rows.train_counts <= 2, False)
        return (rows.hits & rare[rows.labels]).sum(axis=1), rows.Y @ rare[:-1].astype(float)


OWN = {"own recall": "recall", "own PSP": "PSP", "own macro recall": "macro recall"}


@pytest.fixture(autouse=True)
def _keep_registry(monkeypatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def measure(case, convention=None, rows=slice(None)):
    ranking = Ranking(case.ranking.labels[rows], case.ranking.scores[rows])
    more = {} if convention is None else {"conventions": convention}
    metrics = [*OWN.values(), OwnRecall(), OwnPSP(), OwnMacroRecall()]
    counts = case.train_counts
    return evaluate(ranking, case.Y[rows], case.inverse, KS, metrics=metrics, train_counts=counts, **more)


@pytest.mark.kernel
@settings(deadline=None, max_examples=50)
@given(cases(), conventions)
def test_a_built_in_metric_written_again_has_the_same_figures(case, convention):
    found = measure(case, convention)
    plain = convention.variant in ("pyxclib", "dismecpp", "fastxml") and not convention.rerank
    for own, known in OWN.items():
        if plain or known != "PSP":
            for k in KS:
                assert found[f"{own}@{k}"] == pytest.approx(found[f"{known}@{k}"], rel=1e-12, nan_ok=True), own


@settings(deadline=None, max_examples=20)
@given(cases(least_rows=3))
def test_batches_merge_in_any_order(case):
    third = case.Y.shape[0] // 3
    batches = [measure(case, rows=rows) for rows in (slice(third, None), slice(third))]
    assert merge(batches).figures == pytest.approx(measure(case).figures, rel=1e-12, nan_ok=True)


def test_intervals_and_paired_differences_are_those_of_the_same_metric_built_in():
    ranking, Y = corpus(200)
    other, _ = corpus(200, skill=0.2)
    metrics = [*OWN.values(), OwnRecall(), OwnPSP(), OwnMacroRecall()]
    first, second = (evaluate(one, Y, 1 + np.arange(50.0), metrics=metrics) for one in (ranking, other))
    ranges, differences = intervals(first, 100), compare(first, second, 100)
    for own, known in OWN.items():
        for k in (1, 3, 5):
            assert ranges[f"{own}@{k}"] == pytest.approx(ranges[f"{known}@{k}"], rel=1e-6)
            assert differences[f"{own}@{k}"] == pytest.approx(differences[f"{known}@{k}"], rel=1e-5)
    assert differences["own PSP@3"].ahead > 0.9


def test_rows_are_what_the_conventions_leave():
    seen = []

    class Spy(RowMetric):
        name = "spy"

        def per_row(self, rows):
            seen.append(rows)
            return np.zeros(len(rows.labels))

    Y = sp.csr_matrix([[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]])
    ranking = Ranking.from_scores([[4.0, 3, 2, 1], [1, 2, 3, 4], [4, 3, 2, 1]], 3)
    more = {"filtered": [[0, 0]], "train_counts": [1, 1, 1, 0]}
    dropping = Conventions(empty_rows="drop", unseen_labels="drop")
    evaluate(ranking, Y, k=(1, 2), metrics=[Spy()], conventions=dropping, **more)
    assert [rows.k for rows in seen] == [1, 2]
    rows: EvaluatedRows = seen[1]
    assert rows.labels.tolist() == [[1, 2], [0, 1]]  # row 1 is empty, and label 1 moves up in row 0
    assert rows.hits.tolist() == [[True, False], [True, False]]
    assert rows.n_true.tolist() == [1, 1]  # label 3 is unseen
    assert rows.Y.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
    assert rows.inverse_propensities is None
    for array in (rows.labels, rows.scores, rows.hits):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 0


def test_an_aggregation_of_its_own():
    class RootRecall(OwnRecall):
        name = "root recall"

        def aggregate(self, numerator, denominator):
            return np.sqrt(super().aggregate(numerator, denominator))

    found = evaluate(*corpus(100), metrics=["recall", RootRecall()])
    assert found["root recall@5"] == pytest.approx(np.sqrt(found["recall@5"]))
    low, high = intervals(found, 50)["root recall@5"]
    assert (low, high) == pytest.approx(np.sqrt(intervals(found, 50)["recall@5"]), rel=1e-6)


def test_a_registered_metric_is_computed_by_default_if_its_needs_are_given():
    register(OwnRecall())
    register(TailRecall())
    ranking, Y = corpus(100)
    without = evaluate(ranking, Y).figures
    assert "own recall@5" in without
    assert "tail recall@5" not in without
    counts = np.arange(50) % 5
    found = evaluate(ranking, Y, train_counts=counts)
    rare = Y.multiply(counts <= 2).tocsr()
    hits = sum(rare[row, label] for row in range(100) for label in ranking.labels[row, :5])
    assert found["tail recall@5"] == pytest.approx(hits / rare.sum())
    with pytest.raises(InputError, match="tail recall needs train_counts; pass them to evaluate"):
        evaluate(ranking, Y, metrics=["tail recall"])
    with pytest.raises(InputError, match="PSP needs inverse_propensities"):
        evaluate(ranking, Y, metrics="PSP")


def test_registering_again_replaces_the_metric_and_another_of_the_name_is_refused():
    register(OwnRecall())
    newer = OwnRecall()
    register(newer)
    assert known_metrics()["own recall"] is newer
    for name in ("own recall", "recall", "P"):
        other = TailRecall()
        other.name = name
        with pytest.raises(InputError, match=f"a metric named '{name}' is already registered"):
            register(other)


def test_a_metric_of_an_installed_package_is_known(monkeypatch):
    entries = [EntryPoint("tail", f"{__name__}:TailRecall", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == "unmissed.metrics" else [])
    registry._installed.cache_clear()
    try:
        ranking, Y = corpus(20)
        assert "tail recall@1" in evaluate(ranking, Y, train_counts=np.ones(50)).figures
        assert split_figure("tail recall@7") == ("tail recall", 7)
        for name, value, message in (
            ("gone", f"{__name__}:Gone", "the entry point 'gone' = .* has no attribute 'Gone'"),
            ("P", "unmissed.metrics.builtin:Coverage", None),
            ("odd", "unmissed.metrics:evaluate", "the entry point 'odd' = .*: a metric is a name, or an object"),
        ):
            entries[:] = [EntryPoint(name, value, registry.GROUP)]
            registry._installed.cache_clear()
            if message is None:
                assert list(known_metrics()) == [metric.name for metric in BUILTIN]
                continue
            with pytest.raises(InputError, match=message):
                known_metrics()
    finally:
        registry._installed.cache_clear()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.ones(7), r"metric 'wrong' returned float64 of shape \(7,\) and .*; expected one number per row, .*\(20,\)"),
        ((np.ones(20),), "expected one number per row"),
        ((np.ones(20), np.ones(20), np.ones(20)), "expected one number per row"),
        (np.full(20, "x"), "expected one number per row"),
        (1.0, r"float64 of shape \(\)"),
        (np.where(np.arange(20) == 3, np.nan, 1.0), "not finite for row 3"),
        ((np.ones(20), np.where(np.arange(20) == 4, np.inf, 1.0)), "not finite for row 4"),
        (np.full(20, 1e39), "not finite for row 0"),
    ],
)
def test_values_that_are_not_one_finite_number_per_row_are_refused(returned, message):
    class Wrong(RowMetric):
        name = "wrong"

        def per_row(self, rows):
            return returned

    with pytest.raises(InputError, match=message):
        evaluate(*corpus(20), metrics=[Wrong()])


def test_values_that_are_not_one_finite_number_per_label_are_refused():
    class Wrong(LabelMetric):
        name = "wrong"

        def per_label(self, labels):
            return np.full(labels.true.size, np.nan)

    with pytest.raises(InputError, match="metric 'wrong' returned a value that is not finite for label 0"):
        evaluate(*corpus(20), metrics=[Wrong()])["wrong@1"]


@pytest.mark.parametrize("name", ["", "A@5", "a,b", " a", "a  b", None, 3])
def test_a_metric_needs_a_name_that_figures_and_commands_can_hold(name):
    metric = OwnRecall()
    metric.name = name
    for use in (register, lambda one: find_metrics([one])):
        with pytest.raises(InputError, match=r"OwnRecall.name must be a text without '@' and ','; got "):
            use(metric)


def test_what_is_not_a_metric_is_refused():
    with pytest.raises(InputError, match=r"OwnRecall is a class; pass a metric, OwnRecall\(\)"):
        find_metrics([OwnRecall])
    with pytest.raises(InputError, match="a metric is a name, or an object of a subclass"):
        find_metrics([3])
    with pytest.raises(InputError, match="'P' was named twice"):
        find_metrics(["P", "PSP", "P"])
    with pytest.raises(InputError, match="no metric was named; known metrics: P, nDCG"):
        find_metrics([])
    with pytest.raises(InputError, match=r"metric 'P@3': name the metric and k separately here, P and k = 3"):
        find_metrics(["P@3"])
    with pytest.raises(InputError, match=r"unknown metric 'nDGC'; known metrics: P, .*; did you mean 'nDCG'\?"):
        find_metrics(["nDGC"])


def test_a_figure_is_a_known_metric_and_a_cut_off():
    assert split_figure("PSP@5") == ("PSP", 5)
    assert split_figure("macro F1@10") == ("macro F1", 10)
    for wrong in ("PSP@0", "PSP@", "PSP", "PSP@-1", "PSP@x", "PSP@²", "PSP@10000000000"):
        with pytest.raises(InputError, match="a figure is a metric and a cut-off, such as"):
            split_figure(wrong)
    for wrong in ("", "@5", "P@5@5", "5"):
        with pytest.raises(InputError, match="unknown metric"):
            split_figure(wrong)


def test_an_unknown_figure_is_refused_with_the_known_ones():
    found = evaluate(*corpus(20))
    with pytest.raises(InputError, match=r"no figure 'F1@5'; figures: P@1, .*; did you mean 'macro F1@5'\?") as caught:
        found["F1@5"]
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, UnmissedError)
    assert str(caught.value)[0] == "n"  # no quotes around it, as KeyError has them
    with pytest.raises(KeyError, match="no figure 'P@2'"):
        found["P@2"]


def test_values_per_row_give_the_figure():
    ranking, Y = corpus(50)
    found = evaluate(ranking, Y, 1 + np.arange(50.0), metrics=["PSP", "P", OwnRecall(), "coverage"])
    for name in ("PSP@3", "P@5", "own recall@1"):
        above, below = found.per_row(name)
        assert above.shape == below.shape == (50,)
        assert above.sum() / below.sum() == pytest.approx(found[name], rel=1e-6)
    for name in ("coverage@1", "PSP@2", "nDCG@1"):
        with pytest.raises(KeyError, match=rf"no values per row of '{name}'; figures over rows: PSP@1, .*own recall@1"):
            found.per_row(name)


def test_an_evaluation_survives_pickling():
    found = evaluate(*corpus(20), metrics=["P", OwnRecall(), "coverage"])
    again = pickle.loads(pickle.dumps(found))
    assert again.figures == found.figures
    assert merge([again, found])["P@1"] == found["P@1"]
