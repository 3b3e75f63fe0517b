"""Calibration of a model: folds, out-of-fold cells and the fitted link, stored as pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from unmissed.calibration import KEY, Calibration, Cells, Folds, fit_calibration, make_folds
from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Work
from unmissed.models.base import Model
from unmissed.models.out_of_fold import cross_fit, read_folds
from unmissed.models.training_data import TrainingData
from unmissed.ranking import Ranking

_FOLDS = "folds"
_FOLDS_LAYOUT: dict[str, tuple[Any, int]] = {"fold": (np.int64, 1), "group": (np.int64, 1)}


def calibrate_model(
    model: Model,
    rows: TrainingData,
    *,
    groups: Any = None,
    n_folds: int | None = None,
    seed: int = 0,
    work: Work | None = None,
) -> Calibration:
    """Return the calibration of a model from out-of-fold scores of its training rows.

    Folds, the cells of each fold and the calibration are pieces of `work`, so that an interrupted call resumes.

    Parameters
    ----------
    model : the model; a clone is trained for each fold
    rows : its training rows
    groups, n_folds, seed : as in `make_folds`
    work : storage of pieces, executor of the folds, and progress
    """
    work = Work() if work is None else work
    stored = work.pieces.get(KEY)
    if stored is not None:
        return Calibration.from_piece(stored, rows.n_labels)
    folds = _folds(work.pieces, rows, groups, n_folds, seed)
    cells = cross_fit(model, rows, folds, seed=seed, work=work)
    calibration = fit_calibration(cells, rows.label_counts)
    work.pieces.put(calibration.to_piece())
    return calibration


def read_cells(pieces: Pieces, n_samples: int, n_labels: int) -> Cells:
    """Return the out-of-fold cells that `calibrate_model` stored; raise InputError if they are not there."""
    stored = pieces.get(_FOLDS)
    if stored is None:
        raise InputError("the scores of held-out rows were not stored with the calibration")
    folds = _open_folds(stored, n_samples)
    return read_folds(pieces, (n_samples, n_labels), folds)


def as_probability_matrix(ranking: Ranking, n_labels: int) -> sp.csr_matrix:
    """Return the probabilities of ranked labels as a sparse matrix (n_samples, n_labels)."""
    assert ranking.probabilities is not None
    listed = ranking.labels >= 0
    starts = np.append(0, np.cumsum(listed.sum(axis=1)))
    matrix = sp.csr_matrix(
        (ranking.probabilities[listed], ranking.labels[listed], starts), shape=(ranking.n_samples, n_labels)
    )
    matrix.sort_indices()
    return matrix


def _folds(pieces: Pieces, rows: TrainingData, groups: Any, n_folds: int | None, seed: int) -> Folds:
    """Return the stored folds, or new ones, which are stored."""
    stored = pieces.get(_FOLDS)
    if stored is not None:
        return _open_folds(stored, rows.n_samples)
    folds = make_folds(rows.X, groups, n_folds=n_folds, seed=seed)
    pieces.put(Piece(_FOLDS, {"fold": folds.fold, "group": folds.group}, {"n_folds": folds.n_folds}))
    return folds


def _open_folds(piece: Piece, n_samples: int) -> Folds:
    """Return stored folds; raise if they are damaged."""
    arrays, n_folds = piece.expect(_FOLDS_LAYOUT), int(piece.numbers("n_folds")["n_folds"])
    fold, group = arrays["fold"], arrays["group"]
    if not len(fold) == len(group) == n_samples or not n_folds >= 1:
        raise piece.damaged(f"it has folds of {len(fold)} rows, expected {n_samples}")
    if fold.size and not (-1 <= fold.min() <= fold.max() < n_folds and 0 <= group.min() <= group.max() < n_samples):
        raise piece.damaged("it has a fold or a group out of range")
    return Folds(fold, group, n_folds)
