"""PD-Sparse: one max-margin problem over all labels with sparse weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Work
from unmissed.models.evidence import Certificate
from unmissed.models.linear.linear_model import LinearModel, shard_piece
from unmissed.models.linear.pd_sparse.solver import (
    HeldOutPrecision,
    JointCertificate,
    JointHinge,
    JointProblem,
    MeanWeights,
    SparseWeights,
    label_blocks,
)
from unmissed.models.linear.shard import Shard
from unmissed.models.parameters import (
    L1,
    BlockSize,
    Cost,
    FitBias,
    Help,
    Jobs,
    Normalize,
    Prune,
    RandomSeed,
    Tolerance,
)
from unmissed.models.ranges import IntegerRange
from unmissed.models.training_data import TrainingData

_CERTIFICATE = "joint"
_PATIENCE = 5  # epochs without improvement after which early stopping ends training
_STATE_INTERVAL = 10  # epochs between two saved states, from which training can be resumed
_STATE = {"starts": (np.int64, 1), "labels": (np.int32, 1), "alpha": (np.float64, 1)}
_BEST = {"best_starts": (np.int64, 1), "best_labels": (np.int32, 1), "best_weights": (np.float32, 1)}
_TOTAL = {"total_starts": (np.int64, 1), "total_labels": (np.int32, 1), "total_weights": (np.float64, 1)}

MaxEpochs = Annotated[
    int, IntegerRange(1), Help("maximum number of passes over the rows; a warning is given if `tol` is not reached")
]
Early = Annotated[
    bool,
    Help(
        "hold out a tenth of the rows and keep the weights of highest precision on them, either those of an epoch or "
        "their mean over all epochs so far. There is no certificate then. It ranks better than the optimum; C=100 and "
        "l1=1 work best"
    ),
]


@dataclass(frozen=True)
class BestWeights:
    """The best weights so far, with their epoch and their precision on held-out rows."""

    precision: float
    epoch: int
    weights: SparseWeights


class EarlyStopping:
    """Early stopping on held-out rows; candidates are the weights of each epoch and their running mean."""

    def __init__(self, held_out: HeldOutPrecision, n_features: int, n_labels: int) -> None:
        self._held_out = held_out
        self.mean = MeanWeights(n_features, n_labels)
        self.best: BestWeights | None = None

    def take(self, weights: SparseWeights, epoch: int) -> bool:
        """Evaluate the weights of an epoch; return whether training should end."""
        self.mean.add(weights)
        for candidate in (weights, self.mean.weights()):
            precision = self._held_out.precision(candidate)
            if self.best is None or precision > self.best.precision:
                self.best = BestWeights(precision, epoch, candidate)
        assert self.best is not None  # set in the first call
        return epoch - self.best.epoch >= _PATIENCE

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the arrays and metadata needed to resume an interrupted training."""
        assert self.best is not None  # states are saved after epochs
        total = self.mean.total
        sums = total.indptr.astype(np.int64), total.indices.astype(np.int32), total.data
        arrays = dict(zip((*_BEST, *_TOTAL), (*self.best.weights.arrays, *sums), strict=True))
        return arrays, {"precision": self.best.precision, "best_epoch": self.best.epoch}

    def restore(self, piece: Piece, epoch: int) -> None:
        """Resume from a saved state; raise if its arrays are inconsistent."""
        arrays = piece.expect(_STATE | _BEST | _TOTAL)
        n_features, n_labels = self.mean.total.shape
        for names in (_BEST, _TOTAL):
            _check_lists(piece, names, n_features, n_labels)
        starts, labels, w = (np.array(arrays[name]) for name in _BEST)
        numbers = piece.numbers("precision", "best_epoch")
        self.best = BestWeights(numbers["precision"], int(numbers["best_epoch"]), SparseWeights(starts, labels, w))
        starts, labels, w = (np.array(arrays[name]) for name in _TOTAL)
        self.mean.total = sp.csr_matrix((w, labels, starts), shape=(n_features, n_labels))
        self.mean.n = epoch


class PDSparse(LinearModel):
    """All labels as one max-margin problem with an l1 penalty (Yen, Huang, Zhong, Ravikumar and Dhillon, 2016).

    It minimizes sum_k (1/2 |w_k|^2 + l1 |w_k|_1) + C sum_i max(0, max over negatives n and positives p of row i of 1 +
    s_n - s_p), s = W x_i, by dual coordinate ascent over rows and the negatives that violate their margins, to a
    relative duality gap of `tol`. Rows without labels are ignored. The problem does not decompose by label, so that new
    labels require a new training.
    """

    unit: ClassVar[str] = "epochs"

    @classmethod
    def compile_kernels(cls, X: sp.csr_matrix, Y: sp.csr_matrix) -> None:
        """Train and rank many rows for a few epochs."""
        cls(max_epochs=5).fit(X, Y).rank(X, 3)

    def __init__(
        self,
        *,
        l1: L1 = 1.0,
        C: Cost = 100.0,
        tol: Tolerance = 1e-2,
        max_epochs: MaxEpochs = 200,
        early_stopping: Early = True,
        prune: Prune = 0.0,
        normalize: Normalize = True,
        fit_bias: FitBias = False,
        block_size: BlockSize = 256,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        self.l1 = l1
        self.C = C
        self.tol = tol
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.prune = prune
        self.normalize = normalize
        self.fit_bias = fit_bias
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, rows: TrainingData, work: Work) -> None:
        solver = JointHinge(self.l1, self.C, self.tol, self.fit_bias, self._seed)
        if work.pieces.get(_CERTIFICATE) is not None:
            return
        work.plan(int(self.max_epochs))
        X, Y, held_out = rows.features.csr, rows.Y, None
        if self.early_stopping:
            order = np.random.default_rng(self._seed).permutation(rows.n_samples)
            held_out_rows, training_rows = (np.sort(part) for part in np.split(order, [rows.n_samples // 10]))
            held_out = HeldOutPrecision(solver, X[held_out_rows], Y[held_out_rows], self.n_jobs)
            X, Y = X[training_rows], Y[training_rows]
        problem = JointProblem(solver, X, Y, self.n_jobs)
        stopper = None if held_out is None else EarlyStopping(held_out, problem.n_features, problem.n_labels)
        saved_epoch = self._resume(problem, stopper, work)
        while True:
            weights, estimated_gap = problem.run_epoch()
            work.tell(1)
            done = problem.epoch >= self.max_epochs
            if stopper is not None:
                done = stopper.take(weights, problem.epoch) or estimated_gap <= self.tol or done
            elif done or estimated_gap <= self.tol:
                certificate = problem.certify(weights)
                done = done or certificate.gap <= self.tol
            if done:
                break
            if problem.epoch % _STATE_INTERVAL == 0:
                problem.refresh()
                work.pieces.put(_state(problem, stopper))
                if saved_epoch:
                    work.pieces.drop(_state_key(saved_epoch))
                saved_epoch = problem.epoch
        work.tell(int(self.max_epochs) - problem.epoch)
        epochs = problem.epoch
        if stopper is not None and stopper.best is not None:
            weights, epochs = stopper.best.weights, stopper.best.epoch
            certificate = problem.certify(weights)
        self._save(weights, certificate, epochs, problem.n_labels, int(self.block_size), work)
        if saved_epoch:
            work.pieces.drop(_state_key(saved_epoch))

    def _resume(self, problem: JointProblem, stopper: EarlyStopping | None, work: Work) -> int:
        """Resume from the newest saved state; return its epoch, or 0 if there is none."""
        states = [key for key in work.pieces.listed() if key.startswith("state/")]
        if not states:
            return 0
        piece = work.pieces.get(max(states))
        assert piece is not None  # it is listed
        arrays = piece.expect(_STATE | (_BEST | _TOTAL if stopper else {}))
        _check_lists(piece, _STATE, problem.n_samples, problem.n_labels)
        if (np.diff(arrays["starts"]) < problem.n_positives).any():
            raise piece.damaged("a row is without one of its labels")
        problem.restore(int(piece.numbers("epoch")["epoch"]), *(arrays[name] for name in _STATE))
        if stopper is not None:
            stopper.restore(piece, problem.epoch)
        for key in states:
            if key != piece.key:
                work.pieces.drop(key)
        work.tell(problem.epoch)
        return problem.epoch

    def _save(
        self, weights: SparseWeights, certificate: JointCertificate, epochs: int, n_labels: int, size: int, work: Work
    ) -> None:
        """Save the weights as shards of labels, then the certificate, which completes the training."""
        for first, block in label_blocks(weights, n_labels, size):
            work.pieces.put(shard_piece(self._shard(first, block, certificate.gap, epochs)))
        metadata = {"objective": certificate.objective, "gap": certificate.gap, "epochs": epochs}
        work.pieces.put(Piece(_CERTIFICATE, {}, metadata))

    def _shard(self, first: int, block: Any, gap: float, epochs: int) -> Shard:
        """Return the shard of a block (features x labels); its last row is the bias if `fit_bias` is set."""
        sizes = abs(block).astype(np.float64)
        penalty = np.asarray((0.5 * sizes.power(2) + self.l1 * sizes).sum(axis=0)).ravel()
        n_labels = block.shape[1]
        bias = np.zeros(n_labels, np.float32)
        if self.fit_bias:
            bias = block[-1].toarray().ravel().astype(np.float32)
            block = block[:-1]
        block = block.copy()
        block.data[np.abs(block.data) < self.prune] = 0
        block.eliminate_zeros()
        counts = np.diff(block.indptr)
        used = np.flatnonzero(counts)
        return Shard(
            first=first,
            features=used.astype(np.int32),
            starts=np.append(0, np.cumsum(counts[used])).astype(np.int64),
            labels=block.indices.astype(np.uint16),
            weights=block.data.astype(np.float32),
            bias=np.where(np.abs(bias) < self.prune, np.float32(0), bias),
            objective=penalty,
            gap=np.full(n_labels, gap),
            epochs=np.full(n_labels, epochs, np.int32),
        )

    def _open(self, pieces: Pieces) -> None:
        super()._open(pieces)
        piece = pieces.get(_CERTIFICATE)
        if piece is None:
            raise InputError(f"the piece {_CERTIFICATE} is missing; the run is damaged")
        self.joint_ = piece.numbers("objective", "gap", "epochs")

    def certificate(self) -> Certificate | None:  # type: ignore[override]
        """Return the relative duality gap of the joint problem before pruning; None with early stopping."""
        self._check_fitted()
        if self.early_stopping:
            return None
        gap = np.array([self.joint_["gap"]])
        columns = {"epochs": np.array([self.joint_["epochs"]])}
        return Certificate(self.tol, gap, float(self.joint_["objective"]), unit="joint problem", columns=columns)


def _check_lists(piece: Piece, names: Iterable[str], n_lists: int, n_labels: int) -> None:
    """Raise if the label lists of a saved state, one per row or per feature, are inconsistent."""
    starts, labels, values = (piece.arrays[name] for name in names)
    if len(starts) != n_lists + 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
        raise piece.damaged(f"its label lists are not those of {n_lists} rows or features")
    if not starts[-1] == len(labels) == len(values):
        raise piece.damaged("its label lists and their values have different lengths")
    if len(labels) and not (labels.min() >= 0 and labels.max() < n_labels):
        raise piece.damaged(f"it has a label that is not below {n_labels}")
    if not np.isfinite(values).all():
        raise piece.damaged("it has a value that is not finite")


def _state(problem: JointProblem, stopper: EarlyStopping | None) -> Piece:
    """Return the state from which an interrupted training can be resumed."""
    values = *problem.active, problem.alpha
    arrays: dict[str, npt.NDArray[Any]] = dict(zip(_STATE, values, strict=True))
    metadata: dict[str, Any] = {"epoch": problem.epoch}
    if stopper is not None:
        more_arrays, more_metadata = stopper.state()
        arrays |= more_arrays
        metadata |= more_metadata
    return Piece(_state_key(problem.epoch), arrays, metadata)


def _state_key(epoch: int) -> str:
    return f"state/{epoch:06d}"
