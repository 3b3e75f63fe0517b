"""PD-Sparse: one max-margin problem over all labels with sparse weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Work
from unmissed.models.base import Certificate
from unmissed.models.linear import Linear, shard_piece
from unmissed.models.rows import Rows
from unmissed.solvers.joint import Joint, JointHinge, Judge, Mean, Proof, Weights, label_blocks
from unmissed.solvers.parameters import BlockSize, Count, NotNegative, Positive, Seed, Tolerance, check_flag
from unmissed.solvers.shard import Shard

_CERTIFICATE = "joint"
_PATIENCE = 5  # epochs without better weights after which early stopping stops
_KEPT = 10  # epochs between two states from which an interrupted training goes on
_STATE = {"starts": (np.int64, 1), "labels": (np.int32, 1), "alpha": (np.float64, 1)}
_BEST = {"best_starts": (np.int64, 1), "best_labels": (np.int32, 1), "best_weights": (np.float32, 1)}
_TOTAL = {"total_starts": (np.int64, 1), "total_labels": (np.int32, 1), "total_weights": (np.float64, 1)}


@dataclass(frozen=True)
class Best:
    """The weights that a training ends with unless better ones come, and their precision on held-out rows."""

    precision: float
    epoch: int
    weights: Weights


class Stopper:
    """Early stopping: the weights so far, or their mean over all epochs, that are best on held-out rows."""

    def __init__(self, judge: Judge, n_features: int, n_labels: int) -> None:
        self._judge = judge
        self.mean = Mean(n_features, n_labels)
        self.best: Best | None = None

    def take(self, weights: Weights, epoch: int) -> bool:
        """Judge the weights of an epoch; return whether nothing became better for so long that training should end."""
        self.mean.add(weights)
        for one in (weights, self.mean.weights()):
            precision = self._judge.precision(one)
            if self.best is None or precision > self.best.precision:
                self.best = Best(precision, epoch, one)
        assert self.best is not None  # the first weights are better than none
        return epoch - self.best.epoch >= _PATIENCE

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return arrays and facts of what an interrupted training needs of this."""
        assert self.best is not None  # states are kept after epochs
        total = self.mean.total
        sums = total.indptr.astype(np.int64), total.indices.astype(np.int32), total.data
        arrays = dict(zip((*_BEST, *_TOTAL), (*self.best.weights.arrays, *sums), strict=True))
        return arrays, {"precision": self.best.precision, "best_epoch": self.best.epoch}

    def restore(self, piece: Piece, epoch: int) -> None:
        """Take up a state, after checking that its lists hold together."""
        arrays = piece.expect(_STATE | _BEST | _TOTAL)
        n_features, n_labels = self.mean.total.shape
        for names in (_BEST, _TOTAL):
            _check_lists(piece, names, n_features, n_labels)
        starts, labels, w = (np.array(arrays[name]) for name in _BEST)
        told = piece.numbers("precision", "best_epoch")
        self.best = Best(told["precision"], int(told["best_epoch"]), Weights(starts, labels, w))
        starts, labels, w = (np.array(arrays[name]) for name in _TOTAL)
        self.mean.total = sp.csr_matrix((w, labels, starts), shape=(n_features, n_labels))
        self.mean.n = epoch


class PDSparse(Linear):
    """All labels as one max-margin problem with an l1 penalty (Yen, Huang, Zhong, Ravikumar and Dhillon, 2016).

    It minimises sum_k (1/2 |w_k|^2 + l1 |w_k|_1) + C sum_i max(0, max over negatives n and positives p of row i of 1 +
    s_n - s_p), s = W x_i, by coordinate ascent over rows and the negatives that violate their margins, to a relative
    duality gap of `tol`. Rows without labels have no part in it. The problem cannot be cut into label blocks, so new
    labels need a new training.

    Parameters
    ----------
    l1 : the l1 penalty: the larger, the fewer weights
    C : the weight of the loss against the penalties
    tol : the relative duality gap at which training ends
    max_epochs : passes over the rows after which it ends anyway, with a warning
    early_stopping : hold a tenth of the rows out and keep the weights that are best on them, those of an epoch or their
        mean over all epochs so far; nothing is certified then. It ranks better than the optimum, best with C=100, l1=1
    prune : weights smaller than this become 0 after training
    unit_rows : scale each row to length 1 first, in training and in prediction
    fit_bias : give each label a constant that is penalised like a weight
    block_size : labels per piece, the unit of file; it does not change the ranking
    n_jobs : threads; all cores by default
    random_state : seed of the order in which rows are visited
    """

    unit: ClassVar[str] = "epochs"

    def __init__(
        self,
        *,
        l1: NotNegative = 0.3,
        C: Positive = 10.0,
        tol: Tolerance = 1e-2,
        max_epochs: Count = 200,
        early_stopping: bool = False,
        prune: NotNegative = 0.0,
        unit_rows: bool = True,
        fit_bias: bool = False,
        block_size: BlockSize = 256,
        n_jobs: int | None = None,
        random_state: Seed = 0,
    ) -> None:
        self.l1 = l1
        self.C = C
        self.tol = tol
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.prune = prune
        self.unit_rows = unit_rows
        self.fit_bias = fit_bias
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, rows: Rows, work: Work) -> None:
        solver = JointHinge(self.l1, self.C, self.tol, self.fit_bias, self.random_state)
        check_flag("early_stopping", self.early_stopping)
        if work.pieces.get(_CERTIFICATE) is not None:
            return
        work.plan(int(self.max_epochs))
        X, Y, judge = rows.features, rows.Y, None
        if self.early_stopping:
            order = np.random.default_rng(int(self.random_state)).permutation(rows.n_samples)
            held, kept = np.sort(order[: rows.n_samples // 10]), np.sort(order[rows.n_samples // 10 :])
            judge = Judge(solver, X[held], Y[held], self.n_jobs)
            X, Y = X[kept], Y[kept]
        problem = Joint(solver, X, Y, self.n_jobs)
        stopper = None if judge is None else Stopper(judge, problem.n_features, problem.n_labels)
        kept_epoch = self._go_on(problem, stopper, work)
        while True:
            weights, about = problem.run_epoch()
            work.tell(1)
            done = problem.epoch >= self.max_epochs
            if stopper is not None:
                done = stopper.take(weights, problem.epoch) or about <= self.tol or done
            elif done or about <= self.tol:
                proof = problem.prove(weights)
                done = done or proof.gap <= self.tol
            if done:
                break
            if problem.epoch % _KEPT == 0:
                problem.refresh()
                work.pieces.put(_state(problem, stopper))
                if kept_epoch:
                    work.pieces.drop(_state_key(kept_epoch))
                kept_epoch = problem.epoch
        work.tell(int(self.max_epochs) - problem.epoch)
        epochs = problem.epoch
        if stopper is not None and stopper.best is not None:
            weights, epochs = stopper.best.weights, stopper.best.epoch
            proof = problem.prove(weights)
        self._leave(weights, proof, epochs, problem.n_labels, int(self.block_size), work)
        if kept_epoch:
            work.pieces.drop(_state_key(kept_epoch))

    def _go_on(self, problem: Joint, stopper: Stopper | None, work: Work) -> int:
        """Take up the newest state that was kept; return its epoch, or 0."""
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

    def _leave(self, weights: Weights, proof: Proof, epochs: int, n_labels: int, size: int, work: Work) -> None:
        """Keep the weights in shards of labels, then the certificate, which says that all is there."""
        for first, block in label_blocks(weights, n_labels, size):
            work.pieces.put(shard_piece(self._shard(first, block, proof.gap, epochs)))
        facts = {"objective": proof.objective, "gap": proof.gap, "epochs": epochs}
        work.pieces.put(Piece(_CERTIFICATE, {}, facts))

    def _shard(self, first: int, block: Any, gap: float, epochs: int) -> Shard:
        """Make a shard of a block of features x labels, whose last row are the biases where there are any."""
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
        """Return the gap of the one problem, that of its solution before pruning; None where it stopped early."""
        self._check_fitted()
        if self.early_stopping:
            return None
        gap = np.array([self.joint_["gap"]])
        columns = {"epochs": np.array([self.joint_["epochs"]])}
        return Certificate(self.tol, gap, float(self.joint_["objective"]), unit="joint problem", columns=columns)


def _check_lists(piece: Piece, names: Iterable[str], n_lists: int, n_labels: int) -> None:
    """Refuse a state whose lists of labels, one per row or per feature, do not hold together."""
    starts, labels, values = (piece.arrays[name] for name in names)
    if len(starts) != n_lists + 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
        raise piece.damaged(f"its lists are not those of {n_lists} rows or features")
    if not starts[-1] == len(labels) == len(values):
        raise piece.damaged("its lists do not end where their numbers do")
    if len(labels) and not (labels.min() >= 0 and labels.max() < n_labels):
        raise piece.damaged(f"it has a label that is not below {n_labels}")
    if not np.isfinite(values).all():
        raise piece.damaged("it has a number that is not finite")


def _state(problem: Joint, stopper: Stopper | None) -> Piece:
    """Return what an interrupted training goes on from."""
    values = *problem.active, problem.alpha
    arrays: dict[str, npt.NDArray[Any]] = dict(zip(_STATE, values, strict=True))
    facts: dict[str, Any] = {"epoch": problem.epoch}
    if stopper is not None:
        more, told = stopper.state()
        arrays |= more
        facts |= told
    return Piece(_state_key(problem.epoch), arrays, facts)


def _state_key(epoch: int) -> str:
    return f"state/{epoch:06d}"
