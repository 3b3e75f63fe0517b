"""Out-of-fold cells: scores of (row, label) pairs by models that were not trained on the row, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse as sp
from sklearn.base import clone

from unmissed.calibration import CANDIDATES, CELL_LAYOUT, Cells, Folds
from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Threads, Work
from unmissed.metrics.calibration_error import find_observed
from unmissed.models.base import Model
from unmissed.models.linear.linear_model import LinearModel
from unmissed.models.training_data import TrainingData
from unmissed.progress import Progress, describe, silent
from unmissed.propensity import FromTable, as_propensity
from unmissed.ranking import Ranking

SAMPLED = 5
_AT_ONCE = 4096  # rows whose cells are scored at a time


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Shared state of fold tasks: an unfitted model, the rows and their folds.

    Parameters
    ----------
    model : the model that is calibrated; each fold trains a clone with its `fast_params`
    rows : training rows
    folds : the fold of each row
    depth : cells with the highest scores that are kept per row
    n_sampled : cells that are sampled per row among the rest, if the model scores chosen labels
    seed : seed of the sample
    progress : progress callback of the trainings; it stays in this process
    """

    model: Model
    rows: TrainingData
    folds: Folds
    depth: int = CANDIDATES
    n_sampled: int = SAMPLED
    seed: int = 0
    progress: Progress = silent

    def __reduce__(self) -> tuple[Any, ...]:
        kept = self.model, self.rows, self.folds, self.depth, self.n_sampled, self.seed
        return CrossFit, kept

    def __post_init__(self) -> None:
        if self.depth < 1 or self.n_sampled < 0:
            raise InputError(f"depth is {self.depth} and n_sampled {self.n_sampled}; expected at least 1 and 0")
        if len(self.folds.fold) != self.rows.n_samples:
            raise InputError(f"there are folds of {len(self.folds.fold)} rows; expected {self.rows.n_samples}")

    def __call__(self) -> CrossFit:
        """Return the shared state, which is this object."""
        return self

    @property
    def chosen(self) -> dict[str, Any]:
        """The parameters that the fitted model selected on held-out rows; empty if it selected none."""
        choice = self.model.choice() if hasattr(self.model, "pieces_") else None
        return {} if choice is None else dict(choice["params"])

    def fit(self, fold: int) -> Model:
        """Train a clone of the model on the rows outside of a fold.

        As in model selection, propensities come from all rows, and parameters such as C are scaled to the number of
        rows (`Model.row_exponents`).
        """
        rows, training = self.rows, self.folds.training(fold)
        known = self.model.get_params(deep=False)
        model: Model = clone(self.model)
        model.set_params(**self.chosen)  # a fold does not repeat the selection of parameters
        known |= self.chosen
        model.set_params(**{name: one for name, one in model.fast_params.items() if name in known})
        if "propensity" in known and rows.cell_propensity is None:
            p = as_propensity(known["propensity"]).estimate(rows.label_counts, rows.total_weight)
            model.set_params(propensity=FromTable(p))
        for name, exponent in model.row_exponents.items():
            model.set_params(**{name: known[name] * (rows.n_samples / len(training)) ** exponent})
        part = rows.take(training, normalize=bool(known.get("normalize", False)))
        describe(self.progress, f"training without fold {fold + 1} of {self.folds.n_folds}")
        return model.fit_rows(part, Work(progress=self.progress))

    def score(self, model: Model, held: npt.NDArray[np.int64], rng: np.random.Generator) -> list[npt.NDArray[Any]]:
        """Return the arrays of the kept cells of held-out rows, in the order of `Cells`."""
        X, Y = self.rows.X[held], self.rows.Y[held]
        ranking = model.rank(X, min(self.depth, self.rows.n_labels))
        labels, scores = ranking.labels, ranking.scores
        depth = labels.shape[1]
        weights = np.ones(labels.shape, np.float32)
        if isinstance(model, LinearModel):
            edges = np.linspace(0, Y.shape[1], min(self.n_sampled, Y.shape[1]) + 1).astype(np.int32)
            others = _other_labels(labels, Y, model.untrained_, edges, rng)
            scored = model.rank(X, others.shape[1], candidates=Ranking.sort(others, np.zeros(others.shape)))
            labels, scores = np.hstack([labels, scored.labels]), np.hstack([scores, scored.scores])
            weights = np.hstack([weights, _sampling_weights(scored.labels, Y, edges)])
        observed = find_observed(labels, Y)
        kept = np.isfinite(scores) & (labels >= 0)
        position = np.arange(labels.shape[1], dtype=np.int32)
        ranks = np.broadcast_to(np.where(position < depth, position, -1), labels.shape)
        of_row = np.broadcast_to(held[:, None].astype(np.int32), labels.shape)
        return [array[kept] for array in (of_row, labels, scores, weights, observed, ranks)]


@dataclass(frozen=True)
class FoldTask:
    """Trains the model of a fold and scores the rows that it holds out."""

    fold: int
    size: int

    @property
    def key(self) -> str:
        """The key of the fold's piece."""
        return f"out-of-fold/{self.fold:02d}"

    def run(self, shared: CrossFit) -> Piece:
        """Return the piece with the cells of the fold."""
        model, held = shared.fit(self.fold), shared.folds.held_out(self.fold)
        rng = np.random.default_rng([shared.seed, self.fold])
        blocks = [shared.score(model, held[at : at + _AT_ONCE], rng) for at in range(0, len(held), _AT_ONCE)]
        names = [name for name in CELL_LAYOUT if name != "train_counts"]
        arrays = {name: np.concatenate([block[at] for block in blocks]) for at, name in enumerate(names)}
        Y = shared.rows.Y[shared.folds.training(self.fold)]
        counts = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int32)
        arrays["train_counts"] = counts[arrays["labels"]]
        return Piece(self.key, arrays, {"fold": self.fold, "n_held_out": len(held)})


def cross_fit(
    model: Model,
    rows: TrainingData,
    folds: Folds,
    *,
    depth: int = CANDIDATES,
    n_sampled: int = SAMPLED,
    seed: int = 0,
    work: Work | None = None,
) -> Cells:
    """Return the out-of-fold cells of a model: the `depth` best of each row, observed labels, and a sample of the rest.

    Observed labels below the best ones and the sample are kept for models that score chosen labels (linear models). Of
    other models only ranked cells are known. Each fold is a task, so that an interrupted run resumes.

    Parameters
    ----------
    model : the model to calibrate; it need not be fitted
    rows : its training rows
    folds : the folds, as `make_folds` returns them
    depth, n_sampled, seed : as in `CrossFit`
    work : storage of pieces and executor; in memory, one fold at a time, by default
    """
    work = Work() if work is None else work
    if work.executor is None:
        work.executor = Threads(1)  # each training uses the threads of the model
    shared = CrossFit(model, rows, folds, depth, n_sampled, seed, work.progress)
    work = Work(work.pieces, work.executor, partition=work.partition)  # progress is that of the trainings
    tasks = [FoldTask(fold, int(np.count_nonzero(folds.fold == fold))) for fold in range(folds.n_folds)]
    work.run(tasks, shared)
    return read_folds(work.pieces, rows.Y.shape, folds)


def read_folds(pieces: Pieces, shape: tuple[int, int], folds: Folds) -> Cells:
    """Return the stored cells of all folds; raise InputError if a fold is missing."""
    keys = [FoldTask(fold, 0).key for fold in range(folds.n_folds)]
    found = [piece for piece in map(pieces.get, keys) if piece is not None]
    if len(found) < len(keys):
        raise InputError(f"the cells of {len(keys) - len(found)} of {len(keys)} folds are missing")
    return _join(found, shape, folds)


def _join(pieces: Sequence[Piece], shape: tuple[int, int], folds: Folds) -> Cells:
    """Return the cells of all folds, sorted by row; raise if a piece does not fit to the rows and folds."""
    parts = [_check_piece(piece, fold, shape, folds) for fold, piece in enumerate(pieces)]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in list(CELL_LAYOUT)}
    order = np.argsort(joined["rows"], kind="stable")
    arrays = {name: array[order] for name, array in joined.items()}
    return Cells(**arrays, groups=folds.group[arrays["rows"]], n_labels=shape[1])


def _check_piece(piece: Piece, fold: int, shape: tuple[int, int], folds: Folds) -> Any:
    """Return the arrays of a fold's piece; raise if they are damaged or were made with other rows or folds."""
    arrays = piece.expect(CELL_LAYOUT)
    rows, labels, scores, weights = (arrays[name] for name in ("rows", "labels", "scores", "weights"))
    if len({len(array) for array in arrays.values()}) != 1:
        raise piece.damaged("its arrays do not fit together")
    for name, values, size in (("row", rows, shape[0]), ("label", labels, shape[1])):
        if values.size and not 0 <= int(values.min()) <= int(values.max()) < size:
            raise piece.damaged(f"it has a {name} that is not below {size}")
    if not np.isfinite(scores).all() or not (np.isfinite(weights) & (weights > 0)).all():
        raise piece.damaged("it has a score or a weight that is not finite")
    if (folds.fold[rows] != fold).any():
        raise InputError(f"{piece.where or piece.key}: was made with other folds")
    return arrays


def _other_labels(
    ranked: npt.NDArray[np.int32],
    Y: sp.csr_matrix,
    untrained: Any,
    edges: npt.NDArray[np.int32],
    rng: np.random.Generator,
) -> npt.NDArray[np.int32]:
    """Return labels to score besides the ranked ones: observed ones, and one label of each stratum, uniformly drawn.

    Stratum j has the labels from edges[j] to edges[j + 1] (exclusive). Draws that are ranked, observed or untrained
    are dropped (-1).
    """
    n_rows, lengths = Y.shape[0], np.diff(Y.indptr)
    slot = np.arange(Y.nnz) - np.repeat(Y.indptr[:-1], lengths)
    observed = np.full((n_rows, int(lengths.max(initial=0)) + 1), -1, np.int32)  # at least one column
    observed[np.repeat(np.arange(n_rows), lengths), slot] = Y.indices
    drawn = rng.integers(edges[:-1], edges[1:], (n_rows, len(edges) - 1), dtype=np.int32)
    drawn[find_observed(drawn, Y)] = -1
    starts = np.append(0, np.cumsum((ranked >= 0).sum(axis=1)))
    listed = sp.csr_matrix((np.ones(starts[-1], np.float32), ranked[ranked >= 0], starts), shape=Y.shape)
    listed.sort_indices()
    others = np.hstack([observed, drawn])
    hidden = np.append(np.zeros(Y.shape[1], np.bool_) if untrained is None else untrained, False)
    return np.where(find_observed(others, listed) | hidden[others], np.int32(-1), others)


def _sampling_weights(
    labels: npt.NDArray[np.int32], Y: sp.csr_matrix, edges: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32]:
    """Return 1 for observed labels and the size of their stratum, 1 / inclusion probability, for sampled ones."""
    size = np.diff(edges)[np.maximum(np.searchsorted(edges, labels, side="right") - 1, 0)]
    return np.where(find_observed(labels, Y), 1, size).astype(np.float32)
