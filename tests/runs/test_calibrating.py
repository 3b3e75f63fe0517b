"""Calibrated runs: resumed, replaced, extended, updated, and refused where something is wrong."""

from dataclasses import replace

import numpy as np
import pytest

from tests.runs.corpora import PARAMS, small_corpus, tree_bytes, write_texts
from unmissed.calibration import true_probability
from unmissed.data import Dataset, load, write_store
from unmissed.errors import InputError
from unmissed.execution import Processes
from unmissed.models import PWDiSMEC
from unmissed.ranking import Ranking
from unmissed.runs import calibrate, extend, open_run, predict, train, update
from unmissed.runs.inspection import describe_calibration, verify
from unmissed.runs.parts import predict_parts

TRAIN, TEST = small_corpus(n_labels=12, n_train=80)
MORE = Dataset(TEST.X, TEST.Y, label_names=[*TEST.label_names[:-1], "a new label"], feature_names=TRAIN.feature_names)


class StopError(Exception):
    """An interruption."""


@pytest.fixture
def run(tmp_path):
    train("dismec", TRAIN, tmp_path / "run", PARAMS)
    return tmp_path / "run"


def test_a_calibrated_run_ranks_as_its_model_and_stores_what_was_held_out(run):
    calibrated = calibrate(run, old_rows=[TRAIN])
    found = calibrated.rank(TEST.X, 5)
    expected = open_run(run).model.calibrate(TRAIN.X, TRAIN.Y).rank(TEST.X, 5)
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    cells = calibrated.held_out_cells()
    assert set(cells.rows) == set(range(80))
    np.testing.assert_array_equal(cells.observed, np.asarray(TRAIN.Y[cells.rows, cells.labels]).ravel() > 0)
    assert describe_calibration(calibrated)["labels_added_since"] == 0
    verify(calibrated)


def test_an_interrupted_calibration_resumes_with_the_same_bytes(run, tmp_path):
    def stop(done, total):
        if calls.append(done) or len(calls) > 3:
            raise StopError

    calls = []
    with pytest.raises(StopError):
        calibrate(run, old_rows=[TRAIN], progress=stop)
    assert open_run(run).calibration is None
    calibrate(run, old_rows=[TRAIN])
    train("dismec", TRAIN, tmp_path / "other", PARAMS)
    calibrate(tmp_path / "other", old_rows=[TRAIN])
    parts = [tree_bytes(path / "calibrations") for path in (run, tmp_path / "other")]
    assert parts[0] == parts[1]


def test_the_same_call_changes_nothing_and_other_options_replace_the_calibration(run):
    calibrate(run, old_rows=[TRAIN])
    before = tree_bytes(run)
    calibrate(run, old_rows=[TRAIN])
    assert tree_bytes(run) == before
    second = calibrate(run, old_rows=[TRAIN], groups=np.arange(80) // 2, n_folds=4)
    assert second.calibration.groups == "given groups"
    assert [entry.name for entry in (run / "calibrations").iterdir()] == [second.calibration.name]
    folds = second.held_out_cells()
    assert folds.groups.max() == 39


def test_processes_give_the_same_bytes_as_threads(tmp_path):
    write_store(TRAIN, tmp_path / "store")
    for name, executor in (("here", None), ("elsewhere", Processes(2))):
        train("dismec", load(tmp_path / "store"), tmp_path / name, PARAMS)
        calibrate(tmp_path / name, executor=executor)
    assert tree_bytes(tmp_path / "here" / "calibrations") == tree_bytes(tmp_path / "elsewhere" / "calibrations")


def test_extended_labels_are_said_to_be_not_calibrated(run):
    calibrate(run, old_rows=[TRAIN])
    before = open_run(run).rank(TEST.X, 5)
    extended = extend(run, MORE, old_rows=[TRAIN])
    assert describe_calibration(extended)["labels_added_since"] == 1
    opened = open_run(run)
    assert opened.model.calibration_.n_labels == 13
    np.testing.assert_array_equal(opened.model.calibration_.slopes[:12], open_run(run).model.calibration_.slopes[:12])
    assert before.probabilities is not None
    again = calibrate(run, old_rows=[TRAIN, MORE])
    assert describe_calibration(again)["labels_added_since"] == 0


def test_an_update_calibrates_again_on_all_rows(run):
    calibrate(run, old_rows=[TRAIN], seed=3)
    updated = update(run, MORE, old_rows=[TRAIN])
    assert updated.calibration.n_samples == 130
    assert updated.calibration.seed == 3
    assert set(updated.held_out_cells().rows) == set(range(130))
    assert updated.rank(TEST.X, 2).probabilities is not None


def test_an_update_drops_a_calibration_with_given_groups(run):
    calibrate(run, old_rows=[TRAIN], groups=np.arange(80))
    assert update(run, MORE, old_rows=[TRAIN]).calibration is None


def test_groups_come_from_a_column_of_the_training_file(tmp_path):
    texts = write_texts(tmp_path / "train.jsonl")
    lines = texts.read_text().splitlines()
    texts.write_text("\n".join(line[:-1] + f', "source": "s{at // 3}"}}' for at, line in enumerate(lines)) + "\n")
    train("dismec", load(texts), tmp_path / "run", PARAMS)
    found = calibrate(tmp_path / "run", group_column="source")
    assert found.calibration.groups == "column source"
    cells = found.held_out_cells()
    names = np.array([f"s{row // 3}" for row in cells.rows])
    assert len({*zip(cells.groups.tolist(), names.tolist(), strict=True)}) == len(set(names))
    assert found.suggest("cod quota net", 2).probabilities is not None
    with pytest.raises(InputError, match="'shelf'"):
        calibrate(tmp_path / "run", group_column="shelf")
    moved = texts.rename(tmp_path / "moved.jsonl")
    again = calibrate(tmp_path / "run", old_rows=[moved], group_column="source", n_folds=2)
    assert set(again.held_out_cells().groups) == set(cells.groups)


def test_the_selection_of_parameters_is_not_repeated_in_each_fold(tmp_path, monkeypatch):
    train("pw-dismec", TRAIN, tmp_path / "run", {**PARAMS, "weighting": "auto"})

    def refuse(*_args, **_kwargs):
        raise AssertionError("selected again")

    monkeypatch.setattr(PWDiSMEC, "_choose", refuse, raising=False)
    seen = []
    fit = PWDiSMEC.fit_rows
    monkeypatch.setattr(PWDiSMEC, "fit_rows", lambda self, *a, **k: seen.append(self.weighting) or fit(self, *a, **k))
    calibrate(tmp_path / "run", old_rows=[TRAIN])
    assert seen
    assert "auto" not in seen


def test_true_probabilities_are_observed_ones_over_the_propensity(run):
    calibrated = calibrate(run, old_rows=[TRAIN])
    ranking = calibrated.rank(TEST.X, 5)
    found = calibrated.with_true_probabilities(ranking, 0.5)
    np.testing.assert_allclose(found.true_probabilities, np.minimum(1, ranking.probabilities / 0.5), rtol=1e-6)
    assert found.clipped_fraction == (ranking.probabilities > 0.5).mean()
    default = calibrated.with_true_probabilities(ranking)
    expected = true_probability(ranking.labels, ranking.probabilities, calibrated.propensities())
    np.testing.assert_array_equal(default.true_probabilities, expected.probability)


def test_a_prediction_in_parts_has_the_same_probabilities(run, tmp_path):
    calibrate(run, old_rows=[TRAIN])
    write_store(TEST, tmp_path / "store")
    opened = open_run(run)
    found = predict_parts(opened, tmp_path / "store", 3, tmp_path / "out.npz", executor=Processes(1))
    np.testing.assert_array_equal(found.probabilities, predict(opened, TEST.X, 3).probabilities)
    found.save(tmp_path / "saved.npz")
    np.testing.assert_array_equal(Ranking.load(tmp_path / "saved.npz").probabilities, found.probabilities)


def test_a_run_without_probabilities_says_how_to_make_them(run):
    opened = open_run(run)
    for call in (
        opened.held_out_cells,
        lambda: opened.with_true_probabilities(opened.rank(TEST.X, 2)),
    ):
        with pytest.raises(InputError, match="unmissed calibrate"):
            call()


def test_a_damaged_calibration_is_refused(run):
    calibrated = calibrate(run, old_rows=[TRAIN])
    folder = run / "calibrations" / calibrated.calibration.name / "calibration"
    slopes = next(folder.glob("*slopes*"))
    slopes.write_bytes(slopes.read_bytes()[:-4] + b"\xff\xff\xff\xff")
    with pytest.raises(InputError, match=r"calibration.*damaged"):
        open_run(run).rank(TEST.X, 2)


def test_other_training_rows_are_refused(run):
    with pytest.raises(InputError, match="was not trained on these"):
        calibrate(run, old_rows=[TEST])
    with pytest.raises(InputError, match="one id for each of 80 rows"):
        calibrate(run, old_rows=[TRAIN], groups=[1, 2])


def test_rankings_keep_cut_and_join_probabilities():
    labels, scores = np.array([[3, 1, -1], [0, 2, 4]]), np.array([[2.0, 1, -np.inf], [3, 2, 1]], np.float32)
    p = np.array([[0.5, 0.75, 0], [0.25, 0.5, 0.125]], np.float32)
    ranking = Ranking(labels, scores, probabilities=p)
    kept = ranking.keep(np.array([[False, True, True], [True, False, True]]))
    assert kept.labels.tolist() == [[1, -1, -1], [0, 4, -1]]
    assert kept.probabilities.tolist() == [[0.75, 0, 0], [0.25, 0.125, 0]]
    assert ranking.top(1).probabilities.tolist() == [[0.5], [0.25]]
    assert ranking.padded(4).probabilities[:, 3].tolist() == [0, 0]
    assert Ranking.join([ranking, ranking], 3).probabilities.shape == (4, 3)
    assert Ranking.join([ranking, replace(ranking, probabilities=None)], 3).probabilities is None
    by = ranking.by_probability()
    assert by.labels.tolist() == [[1, 3, -1], [2, 0, 4]]
    for wrong in (p + 1, p[:, :2], p.astype(int), np.full_like(p, 0.5)):
        with pytest.raises(InputError, match="probabilit"):
            Ranking(labels, scores, probabilities=wrong)
