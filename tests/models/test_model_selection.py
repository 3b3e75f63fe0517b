"""Parameters chosen on held-out rows: what is taken, what is not, and how much data is used."""

import json
import pickle
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from tests.runs.corpora import small_corpus, tree_bytes
from unmissed.errors import InputError
from unmissed.execution import Piece
from unmissed.features import Features
from unmissed.metrics import Difference, RowMetric, register, registry
from unmissed.metrics.builtin import BUILTIN
from unmissed.models import Model, PWDiSMEC
from unmissed.models.linear.dismec.estimator import WeightingSelection
from unmissed.models.model_selection import QUICK, Goal, HeldOut, Sampling, choose
from unmissed.models.training_data import TrainingData
from unmissed.propensity import FromTable, Jain
from unmissed.ranking import Ranking
from unmissed.runs import extend, open_run, train

HEAD, N_LABELS = 4, 40


class Guesser(Model):
    """Knows the label of a row by its only feature, but only as many head and tail labels as its parameters say."""

    baseline_params: ClassVar = {"tail": 0.5}
    n_fitted = 0

    def __init__(self, *, head: float = 1.0, tail: float = 0.0, lean: bool = False) -> None:
        self.head, self.tail, self.lean = head, tail, lean

    def _fit(self, rows, work):
        Guesser.n_fitted += 1
        work.pieces.put(Piece("nothing"))

    def _open(self, pieces):
        pass

    def _rank(self, X, k):
        label = X.indices
        head, tail = (0.4, 0.9) if self.lean else (self.head, self.tail)
        lucky = np.arange(len(label)) % 10 < 10 * np.where(label < HEAD, head, tail)
        best = np.where(lucky, label, N_LABELS - 1)
        labels = np.full((len(label), k), -1, np.int32)
        labels[:, 0] = best
        return Ranking(labels, np.where(labels < 0, -np.inf, 1).astype(np.float32))


@pytest.fixture
def rows():
    """Half of the rows have head labels; each row has one feature, which is its label."""
    rng = np.random.default_rng(0)
    label = np.where(rng.random(3000) < 0.5, rng.integers(0, HEAD, 3000), rng.integers(HEAD, N_LABELS - 1, 3000))
    one = sp.csr_matrix((np.ones(3000, np.float32), label, np.arange(3001)), shape=(3000, N_LABELS))
    Guesser.n_fitted = 0
    return TrainingData(Features(one), one)


def chosen(rows, tries, **goal):
    return choose(Guesser(), rows, tries, Goal(**goal), Sampling(least_held=0))


def test_a_candidate_that_raises_the_metric_and_keeps_the_other_is_chosen(rows):
    found = chosen(rows, {"tail": [0.0, 0.7, 0.9, 0.8]})
    assert found.params == {"tail": 0.9}
    assert [trial.params["tail"] for trial in found.trials] == [0.5, 0.0, 0.7, 0.9, 0.8]
    verdicts = [trial.verdict for trial in found.trials]
    assert verdicts == ["baseline", "P@1 is lower", "less than the chosen one", "chosen", "less than the chosen one"]
    gain = found.chosen.gains["PSP@5"]
    assert gain.low > 0
    assert found.chosen.figures["P@1"] == pytest.approx(0.95, abs=0.02)
    assert found.trials[0].figures["P@1"] == pytest.approx(0.75, abs=0.03)


def test_a_candidate_that_lowers_the_kept_metric_is_not_chosen_however_much_it_raises_the_other(rows):
    found = choose(Guesser(tail=0.5), rows, {"lean": [True]}, Goal("PSP@5", "P@1"))
    assert found.params == {"lean": False}
    assert found.trials[1].gains["PSP@5"].low > 0
    assert found.trials[1].gains["P@1"].high < 0
    assert found.trials[1].verdict == "P@1 is lower"
    found = choose(Guesser(tail=0.5), rows, {"lean": [True]}, Goal("PSP@5", "PSP@1"))
    assert found.params == {"lean": True}


@pytest.mark.parametrize(
    ("kept", "allowed"),
    [
        (Difference(0.001, -0.004, 0.006, 0.7), True),
        (Difference(-0.005, -0.011, 0.0, 0.03), True),
        (Difference(-0.003, -0.005, -0.001, 0.01), False),  # a small loss, but shown
        (Difference(-0.006, -0.02, 0.008, 0.25), False),  # a loss that may be none, but half a point is exceeded
    ],
)
def test_a_loss_that_is_shown_or_larger_than_half_a_point_is_not_allowed(kept, allowed):
    assert Goal().allows(kept) is allowed
    assert Goal(margin=0.0).allows(kept) is (allowed and kept.value >= 0)


@pytest.mark.parametrize(
    ("gain", "likely"),
    [
        (Difference(0.003, -0.001, 0.007, 0.9), True),  # the interval reaches 0, and yet it is likely
        (Difference(0.003, -0.004, 0.01, 0.79), False),
        (Difference(-0.0001, -0.0002, 0.0, 0.9), False),
    ],
)
def test_a_gain_is_likely_that_shows_in_four_fifths_of_the_resamples(gain, likely):
    assert Goal().prefers(gain) is likely


def test_all_labels_compete_as_long_as_they_are_not_too_many(rows):
    assert len(HeldOut(rows, [1]).labels) == N_LABELS
    assert Sampling().most_labels >= 35_000  # a sample of labels hides what a weighting does to the first places


def test_what_is_as_good_as_the_plain_one_is_not_chosen(rows):
    found = chosen(rows, {"tail": [0.5, 0.49999]})
    assert found.params == {"tail": 0.5}
    assert [trial.verdict for trial in found.trials] == ["baseline, chosen", "PSP@5 is not likely higher"]


def test_parameters_are_tried_one_after_the_other_with_the_best_so_far(rows):
    found = chosen(rows, {"tail": [0.9], "head": [0.5]})
    assert [trial.params for trial in found.trials] == [
        {"tail": 0.5, "head": 1.0},
        {"tail": 0.9, "head": 1.0},
        {"tail": 0.9, "head": 0.5},
    ]
    assert found.params == {"tail": 0.9, "head": 1.0}


def test_progress_ends_with_the_number_of_candidates(rows):
    reports = []
    choose(
        Guesser(),
        rows,
        {"tail": [0.5, 0.9], "head": [1.0, 0.5]},
        sampling=QUICK,
        progress=lambda *at: reports.append(at),
    )
    assert reports == [(1, 3), (2, 3), (3, 3)]


def test_few_rows_are_held_out_in_turns_and_many_are_sampled(rows):
    turns = HeldOut(rows, [1], sampling=Sampling(least_held=1500))
    held = np.concatenate([held for _, held in turns.splits])
    assert len(turns.splits) == 3
    assert len(np.unique(held)) == len(held) == turns.n_held == 1800
    assert all(not np.isin(held, fit).any() and len(fit) == 2400 for fit, held in turns.splits)
    small = HeldOut(rows, [1], sampling=Sampling(least_held=0, most_held=50, most_fit=200, most_labels=10))
    assert (small.n_held, small.n_fit, len(small.labels)) == (50, 200, 10)
    fit, held = small.splits[0]
    assert np.diff(small.Y[held].indptr).all()  # nothing could be found in a row without any of the labels
    assert not np.diff(small.Y[fit].indptr).all()
    assert np.array_equal(
        small.p, Jain().estimate(rows.label_counts, 3000)[small.labels]
    )  # a sample changes no propensity


def test_too_few_rows_leave_the_plain_parameters():
    Guesser.n_fitted = 0
    found = choose(
        Guesser(), TrainingData(Features(sp.eye(50, format="csr")), sp.eye(50, format="csr")), {"tail": [0.9]}
    )
    assert found.params == {"tail": 0.5}
    assert found.trials == []
    assert found.chosen is None
    assert Guesser.n_fitted == 0


def test_a_goal_is_of_known_metrics_with_a_cut_off():
    for name in ("PSP", "PSP@0", "P@1 "):
        with pytest.raises(InputError, match="a figure is a metric and a cut-off"):
            Goal(metric=name)
        with pytest.raises(InputError, match="a figure is a metric and a cut-off"):
            Goal(keep=name)
    with pytest.raises(InputError, match=r"unknown metric 'PSN@5'; known metrics: P@k, .*macro F1@k"):
        Goal("PSN@5")


def test_every_built_in_metric_can_be_tuned_for(rows):
    for metric in BUILTIN:
        found = chosen(rows, {"tail": [0.9]}, metric=f"{metric.name}@1", keep="MRR@1")
        assert found.goal.metrics == sorted({metric.name, "MRR"})
        trial = found.trials[1]
        assert trial.gains.keys() == {f"{metric.name}@1", "MRR@1"}
        assert np.isfinite(trial.gains[f"{metric.name}@1"]).all()
        alike = metric.name in ("coverage", "macro precision")  # each label is hit, and nearly all listed ones are
        assert found.params == {"tail": 0.5 if alike else 0.9}, metric.name


def test_a_metric_of_ones_own_can_be_tuned_for(rows, monkeypatch):
    class TailHits(RowMetric):
        """The fraction of rows whose first label is a hit that was rare in training."""

        name = "tail hits"
        needs = ("train_counts",)

        def per_row(self, rows):
            return rows.hits[:, 0] & (rows.train_counts[rows.labels[:, 0]] < 100)

    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    with pytest.raises(InputError, match="unknown metric 'tail hits@1'"):
        Goal("tail hits@1")
    register(TailHits())
    found = chosen(rows, {"lean": [True]}, metric="tail hits@1", keep="PSP@1")
    assert found.params == {"lean": True}
    assert found.chosen.gains["tail hits@1"].low > 0
    assert json.loads(json.dumps(found.to_json()))["metric"] == "tail hits@1"


def test_the_level_is_a_fraction():
    with pytest.raises(InputError, match="between 0 and 1"):
        Goal(level=95)


TRAIN, TEST = small_corpus()
LOSING = FromTable(np.where(TRAIN.label_counts > 30, 0.999, 0.5))  # by which `tail` hardly learns frequent labels
AUTO = {"weighting": "auto", "block_size": 16, "propensity": LOSING}


@pytest.fixture(scope="module")
def auto():
    return PWDiSMEC(**AUTO, n_jobs=1).fit(TRAIN.X, TRAIN.Y)


def test_auto_leaves_a_weighting_that_hurts_and_ranks_like_what_it_chose(auto):
    found = auto.choice()
    assert found["params"] == {"weighting": auto.weighting_}
    assert [trial["params"]["weighting"] for trial in found["trials"]] == [
        "none",
        "surrogate",
        "tail",
        "floored-tail",
        "balanced",
    ]
    tail = found["trials"][2]
    assert tail["gains"]["P@1"]["high"] < 0  # the positives of frequent labels cost 0.001
    assert tail["verdict"] == "P@1 is lower"
    assert auto.weighting_ != "tail"
    assert auto.metadata()["weighting chosen"] == auto.weighting_
    plain = PWDiSMEC(**{**AUTO, "weighting": auto.weighting_}, n_jobs=1).fit(TRAIN.X, TRAIN.Y)
    assert plain.choice() is None
    assert np.array_equal(auto.rank(TEST.X, 5).scores, plain.rank(TEST.X, 5).scores)
    assert auto.weighting == "auto"
    assert json.loads(json.dumps(found)) == found


def test_auto_does_not_depend_on_threads_and_goes_on_where_it_stopped(auto, tmp_path):
    train("pw-dismec", TRAIN, tmp_path / "whole", {**AUTO, "n_jobs": 2})

    def stop(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train("pw-dismec", TRAIN, tmp_path / "broken", {**AUTO, "n_jobs": 1}, progress=stop)
    run = train("pw-dismec", TRAIN, tmp_path / "broken", {**AUTO, "n_jobs": 1})
    assert tree_bytes(tmp_path / "broken") == tree_bytes(tmp_path / "whole")
    assert open_run(tmp_path / "whole").model.choice() == run.model.choice() == auto.choice()
    manifest = json.loads((tmp_path / "whole" / "pieces" / "choice" / "weighting" / "manifest.json").read_text())
    assert manifest["metadata"] == auto.choice()


def test_progress_is_reported_after_each_candidate():
    reports = []
    params = {**AUTO, "n_jobs": 1}
    PWDiSMEC(**params).fit(TRAIN.X, TRAIN.Y, progress=lambda *at: reports.append(at))
    assert reports[:6] == [(0, 0)] * 5 + [(0, 40)]  # five candidates, then the labels
    assert reports[-1] == (40, 40)
    assert pickle.loads(pickle.dumps(WeightingSelection(1, 2, reports.append))) == WeightingSelection(1, 2)


def test_labels_that_come_later_get_the_weighting_that_was_chosen(tmp_path):
    from unmissed.data import Dataset

    some = Dataset(TRAIN.X, TRAIN.Y[:, :20], label_names=TRAIN.label_names[:20], feature_names=TRAIN.feature_names)
    params = {"weighting": "auto", "block_size": 16, "n_jobs": 1}
    train("pw-dismec", some, tmp_path / "auto", params)
    run = extend(tmp_path / "auto", TRAIN, old_rows=[some], n_jobs=1)
    name = run.model.weighting_
    train("pw-dismec", some, tmp_path / "named", {**params, "weighting": name})
    other = extend(tmp_path / "named", TRAIN, old_rows=[some], n_jobs=1)
    assert np.array_equal(run.rank(TEST.X, 40).scores, other.rank(TEST.X, 40).scores)


def test_a_choice_that_is_missing_or_strange_is_noticed(auto):
    from unmissed.execution import InMemory

    def opened(**metadata):
        pieces = InMemory()
        for key in auto.pieces_.listed():
            piece = auto.pieces_.get(key)
            if key != "choice/weighting":
                pieces.put(piece)
            elif metadata:
                pieces.put(Piece(key, metadata=metadata))
        return PWDiSMEC.open({"weighting": "auto"}, pieces, auto.n_features_in_, auto.n_labels_)

    with pytest.raises(InputError, match="choice/weighting is missing"):
        opened()
    for params in ({"weighting": "heavy"}, {}, None, {"weighting": []}):
        with pytest.raises(InputError, match="it has no valid weighting"):
            opened(params=params)
    assert opened(params={"weighting": "tail"}).weighting_ == "tail"


def test_few_rows_choose_none():
    model = PWDiSMEC(weighting="auto", n_jobs=1).fit(TRAIN.X[:50], TRAIN.Y[:50])
    assert model.weighting_ == "none"
    assert model.choice()["trials"] == []
