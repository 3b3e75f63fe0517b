"""One truth, whatever its format: the policy for unseen labels decides, and the result says on how much."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.data import Dataset, save, write_store, write_xmc
from unmissed.errors import InputError
from unmissed.metrics import Conventions
from unmissed.propensity import Constant, FromTable, Jain
from unmissed.ranking import Ranking
from unmissed.runs.measurement import Measuring, evaluate_ranking
from unmissed.settings import SETTINGS

NAMES = [f"label {number}" for number in range(6)] + ["unseen a", "unseen b"]  # sorted, the unseen ones last
TRAIN = [[0, 1], [0], [0, 2], [1, 3], [0, 4], [0, 5], [1], [0, 1, 2]]
TRUE = [[0, 6], [7], [1, 2], [6, 7], [], [3], [0, 1, 7], [5]]
LISTED = [[0, 1], [0, 1], [1, 0], [2, 3], [0, 1], [3, 0], [1, 2], [0, 4]]
FORMS = ["json", "xmc", "store", "npz", "xmc of fewer", "store of fewer"]


def marks(rows, n_labels):
    Y = np.zeros((len(rows), n_labels), dtype=np.float32)
    for row, labels in enumerate(rows):
        Y[row, labels] = 1
    return Y


def write_json(path, rows):
    lines = [json.dumps({"text": "words", "labels": [NAMES[label] for label in labels]}) for labels in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def written(folder, form):
    """Write the training set and the truth; of fewer: the training set has no columns for the unseen labels."""
    if form == "json":
        return write_json(folder / "train.jsonl", TRAIN), write_json(folder / "test.jsonl", TRUE)
    kind, _, fewer = form.partition(" of ")
    width = 6 if fewer else 8
    X = sp.csr_matrix(np.ones((8, 2), dtype=np.float32))
    train = Dataset(X, marks(TRAIN, width), label_names=NAMES[:width])
    order = np.random.default_rng(0).permutation(8)  # columns of the truth in an order of their own
    test = Dataset(X, marks(TRUE, 8)[:, order], label_names=[NAMES[label] for label in order])
    paths = []
    for name, dataset in (("train", train), ("test", test)):
        position = folder / name
        if kind == "store":
            write_store(dataset, position)
        else:
            position.mkdir()
            position = position / "rows.txt" if kind == "xmc" else f"{position / 'X.npz'},{position / 'Y.npz'}"
            if kind == "xmc":
                write_xmc(dataset, position)
            else:
                save(Dataset(dataset.X, dataset.Y if name == "train" else marks(TRUE, 8)), position)  # has no names
        paths.append(position)
    return paths


def ranked(folder):
    scores = np.tile([2.0, 1.0], (8, 1))
    return Ranking(np.array(LISTED), scores).save(folder / "ranking.npz")


def result(folder, form, propensity=Jain(), **conventions):  # noqa: B008, a frozen value
    train, test = written(folder, form)
    measuring = Measuring((1, 2), propensity, Conventions(**conventions), n_resamples=0)
    return evaluate_ranking(ranked(folder), test, train, measuring)


@pytest.mark.parametrize("policy", ["keep", "drop"])
@pytest.mark.parametrize("empty", ["keep", "drop"])
@pytest.mark.parametrize("form", FORMS)
def test_the_same_assignments_give_the_same_metrics_in_every_format(tmp_path, form, policy, empty):
    found = result(tmp_path, form, unseen_labels=policy, empty_rows=empty, macro="all")
    (tmp_path / "other").mkdir()
    other = result(tmp_path / "other", "json", unseen_labels=policy, empty_rows=empty, macro="all")
    for name in ("figures", "unseen", "deciles", "n_samples", "n_labels", "support", "warnings"):
        assert found[name] == other[name], name
    assert found["unseen"] == {"policy": policy, "labels": 2, "assignments": 5, "rows": 4, "rows_without_others": 2}


def test_keeping_and_dropping_unseen_labels_are_two_different_truths(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "dropped").mkdir()
    kept = result(tmp_path / "kept", "json")
    dropped = result(tmp_path / "dropped", "json", unseen_labels="drop")
    assert kept["figures"]["P@1"] == dropped["figures"]["P@1"]
    for name in ("PSP@1", "recall@2", "coverage@2", "nDCG@2"):
        assert kept["figures"][name]["value"] < dropped["figures"][name]["value"], name
    assert not any("left the truth" in warning for warning in kept["warnings"])
    assert (
        "5 label assignments of 2 labels unseen in training left the truth, in 4 rows; "
        "2 rows have no true label left and count as rows in which nothing is found"
    ) in dropped["warnings"]


def test_rows_that_dropping_empties_can_be_left_out_and_that_is_said(tmp_path):
    found = result(tmp_path, "json", unseen_labels="drop", empty_rows="drop")
    assert found["n_samples"] == 5  # row 4 had no label from the start
    assert any(warning.endswith("2 rows have no true label left and do not count") for warning in found["warnings"])


def test_labels_unknown_to_training_have_the_propensity_of_labels_without_a_positive(tmp_path):
    found = result(tmp_path, "json")
    inverse = 1 / Jain().estimate([6, 4, 2, 1, 1, 1, 0, 0], 8)
    Y = marks(TRUE, 8)
    heaviest = np.sort(Y * inverse, axis=1)[:, ::-1][:, 0]
    gains = [Y[row, listed[0]] * inverse[listed[0]] for row, listed in enumerate(LISTED)]
    assert found["figures"]["PSP@1"]["value"] == pytest.approx(sum(gains) / heaviest.sum())


def test_a_table_has_no_propensity_for_labels_that_it_does_not_list(tmp_path):
    table = FromTable(np.full(6, 0.5))
    with pytest.raises(InputError, match=r"test.jsonl: has 2 labels that the training set does not have, .* table"):
        result(tmp_path, "json", table)
    dropped = tmp_path / "dropped"
    dropped.mkdir()
    same = tmp_path / "same"
    same.mkdir()
    found = result(dropped, "json", table, unseen_labels="drop")
    assert found["figures"] == result(same, "json", Constant(0.5), unseen_labels="drop")["figures"]


def test_assignments_that_a_store_dropped_are_reported(tmp_path):
    train, _ = written(tmp_path, "json")
    lost = Dataset(
        sp.csr_matrix(np.ones((8, 2), dtype=np.float32)), marks(TRUE, 8)[:, :6], NAMES[:6], n_unknown_labels=5
    )
    write_store(lost, tmp_path / "lost")
    found = evaluate_ranking(ranked(tmp_path), tmp_path / "lost", train, Measuring((1,), n_resamples=0))
    n_empty = int((marks(TRUE, 8)[:, :6].sum(axis=1) == 0).sum())
    assert n_empty
    line = (
        f"5 assignments of unknown labels were dropped when {tmp_path / 'lost'} was made; {n_empty} rows have no true"
    )
    assert f"{line} label left and count as rows in which nothing is found" in found["warnings"]
    drop = Measuring((1,), conventions=Conventions(empty_rows="drop"), n_resamples=0)
    found = evaluate_ranking(ranked(tmp_path), tmp_path / "lost", train, drop)
    assert f"{line} label left and do not count" in found["warnings"]


def test_evaluation_in_blocks_of_rows_gives_the_same_metrics(tmp_path, monkeypatch):
    train, truth = written(tmp_path, "store")
    Ranking.sort(np.array(LISTED), np.tile([2.0, 1.0], (len(LISTED), 1))).save(tmp_path / "ranking.npz")
    (tmp_path / "pairs.txt").write_text("1 0\n6 1\n")
    measuring = Measuring(k=(1,), filtered=tmp_path / "pairs.txt", n_resamples=20)
    at_once = evaluate_ranking(tmp_path / "ranking.npz", truth, train, measuring)
    monkeypatch.setattr(SETTINGS, "evaluated_rows", 3)
    parts = evaluate_ranking(tmp_path / "ranking.npz", truth, train, measuring)
    assert parts["n_samples"] == at_once["n_samples"] == len(TRUE)
    for name, figure in at_once["figures"].items():
        assert parts["figures"][name] == pytest.approx(figure), name
    assert parts["unseen"] == at_once["unseen"]
    (tmp_path / "pairs.txt").write_text("8 0\n")
    with pytest.raises(InputError, match="name a row that the truth, with 8 rows, does not have"):
        evaluate_ranking(tmp_path / "ranking.npz", truth, train, measuring)
