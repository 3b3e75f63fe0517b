"""Out-of-fold cells: what is kept, with which weight, and that folds are tasks."""

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.calibration.folds import make_folds
from unmissed.errors import InputError
from unmissed.execution import InMemory, OnDisk, Piece, Threads, Work
from unmissed.models import LEML, FastXML, Parabel, PWDiSMEC, TrainingData
from unmissed.models.out_of_fold import CrossFit, FoldTask, cross_fit


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 30, (120, 3))
    Y = sp.csr_matrix((np.ones(360), (np.repeat(np.arange(120), 3), labels.ravel())), (120, 31))
    Y.data[:] = 1
    X = sp.hstack([Y[:, :20], sp.random(120, 30, 0.2, random_state=1)]).tocsr()
    return TrainingData.check(X.astype(np.float32), (Y > 0).astype(np.float32), normalize=True)


@pytest.fixture(scope="module")
def folds(rows):
    return make_folds(rows.X, np.arange(rows.n_samples))


MODEL = PWDiSMEC(weighting="floored-tail", C=0.5)


def test_cells_are_the_scores_of_the_model_that_did_not_see_the_row(rows, folds):
    cells = cross_fit(MODEL, rows, folds, depth=4, n_sampled=3)
    shared = CrossFit(MODEL, rows, folds)
    for fold in range(3):
        dense = shared.fit(fold).decision_function(rows.X[np.arange(rows.n_samples)])
        mine = folds.fold[cells.rows] == fold
        np.testing.assert_allclose(cells.scores[mine], dense[cells.rows[mine], cells.labels[mine]], atol=1e-5)
    assert (np.diff(cells.rows) >= 0).all()


def test_cells_hold_the_best_labels_all_observed_ones_and_a_sample_of_the_rest(rows, folds):
    cells = cross_fit(MODEL, rows, folds, depth=4, n_sampled=3)
    keys = cells.rows.astype(np.int64) * rows.n_labels + cells.labels
    assert len(np.unique(keys)) == len(keys)
    assert (np.bincount(cells.rows[cells.ranks >= 0]) == 4).all()
    np.testing.assert_array_equal(cells.observed, np.asarray(rows.Y[cells.rows, cells.labels]).ravel() > 0)
    trained = np.stack([rows.Y[folds.training(fold)].sum(axis=0).A1 > 0 for fold in range(3)])
    at = rows.Y.tocoo()
    assert cells.observed.sum() == trained[folds.fold[at.row], at.col].sum()
    assert (cells.weights[cells.observed | (cells.ranks >= 0)] == 1).all()
    sampled = ~cells.observed & (cells.ranks < 0)
    assert set(cells.weights[sampled]) == {10.0, 11.0}


def test_sampling_weights_add_up_to_the_number_of_cells(rows, folds):
    totals = [cross_fit(MODEL, rows, folds, depth=4, n_sampled=8, seed=seed).weights.sum() for seed in range(5)]
    trained = np.stack([rows.Y[folds.training(fold)].sum(axis=0).A1 > 0 for fold in range(3)])
    n_cells = trained.sum(axis=1) @ np.bincount(folds.fold)
    assert abs(np.mean(totals) / n_cells - 1) < 0.03


@pytest.mark.parametrize("model", [Parabel(n_trees=1), FastXML(n_trees=2), LEML(n_components=4)])
def test_every_family_gives_finite_scores_of_ranked_cells(model, rows, folds):
    cells = cross_fit(model, rows, folds, depth=6)
    assert np.isfinite(cells.scores).all()
    assert (cells.ranks >= 0).all()
    assert (cells.weights == 1).all()
    assert set(np.unique(cells.rows)) == set(range(rows.n_samples))


def test_finished_folds_are_not_trained_again_and_results_do_not_depend_on_the_executor(rows, folds, tmp_path):
    expected = cross_fit(MODEL, rows, folds, depth=4)
    disk = OnDisk(tmp_path)
    disk.put(FoldTask(1, 40).run(CrossFit(MODEL, rows, folds, depth=4)))
    seen = []
    work = Work(disk, Threads(2), lambda done, total: seen.append((done, total)))
    found = cross_fit(MODEL, rows, folds, depth=4, work=work)
    assert seen.count((31, 31)) == 2, "the progress is that of the trainings, and one fold of three was there"
    for name in ("rows", "labels", "scores", "weights", "observed", "ranks", "groups"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_pieces_of_other_folds_and_damaged_pieces_are_refused(rows, folds):
    piece = FoldTask(0, 40).run(CrossFit(MODEL, rows, folds, depth=4))
    for change, message in [
        ({"rows": (piece.arrays["rows"] + 1) % 120}, "other folds"),
        ({"labels": piece.arrays["labels"] + 31}, "a label that is not below 31"),
        ({"scores": piece.arrays["scores"] + np.float32(np.inf)}, "not finite"),
        ({"scores": piece.arrays["scores"][1:]}, "do not fit"),
    ]:
        pieces = InMemory()
        pieces.put(Piece(piece.key, {**piece.arrays, **change}))
        with pytest.raises(InputError, match=message):
            cross_fit(MODEL, rows, folds, depth=4, work=Work(pieces))


def test_cells_know_how_many_positives_the_model_of_their_fold_was_trained_on(rows, folds):
    cells = cross_fit(MODEL, rows, folds, depth=4, n_sampled=3)
    for fold in range(3):
        counts = np.asarray(rows.Y[folds.training(fold)].sum(axis=0)).ravel()
        mine = folds.fold[cells.rows] == fold
        np.testing.assert_array_equal(cells.train_counts[mine], counts[cells.labels[mine]])


def test_a_fold_trains_with_the_weights_and_the_propensities_of_its_own_rows(rows, folds):
    rng = np.random.default_rng(3)
    P = sp.csr_matrix((rng.uniform(0.1, 1, rows.Y.nnz), rows.Y.indices, rows.Y.indptr), rows.Y.shape)
    weights, training = rng.uniform(0.5, 3, rows.n_samples), folds.training(0)
    weighted = rows.weighted(weights).with_cell_propensity(P)
    found = CrossFit(MODEL, weighted, folds).fit(0)
    model = PWDiSMEC(C=0.5 * (rows.n_samples / len(training)) ** 0.5, **PWDiSMEC.fast_params)
    X, Y = rows.X.csr[training], rows.Y[training]
    expected = model.fit(X, Y, sample_weight=weights[training], cell_propensity=P[training])
    assert np.array_equal(found.rank(X, 5).scores, expected.rank(X, 5).scores)
    assert not np.array_equal(found.rank(X, 5).scores, CrossFit(MODEL, rows, folds).fit(0).rank(X, 5).scores)
