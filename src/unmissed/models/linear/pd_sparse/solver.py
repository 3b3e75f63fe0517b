"""The solver of PD-Sparse: the state of the joint problem over all labels, its epochs, and its duality gap.

An epoch visits rows chunk by chunk and updates the dual variables of their active sets. While a chunk is visited, the
rows of the next chunk are scored under the weights from the start of that visit; violating negatives enter their active
sets. Older weights would give all rows the same few negatives. The result depends neither on threads nor on timing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.models.linear.pd_sparse import kernels
from unmissed.models.parameters import L1, Cost, FitBias, Seed, Tolerance, check_parameters

_MAX_LOAD = 0.7  # maximum load factor of the hash table of v
_ROWS_PER_TASK = 256  # rows per scoring task
_MAX_ENTERING = 8  # negatives that may enter an active set per epoch
_CHUNKS = 12, 4  # chunks per epoch, in early and in later epochs
_EARLY_EPOCHS = 10  # number of early epochs, in which weights change fast
_SOLVED_SHARE = 0.3  # a row is skipped if its gap term times n_samples is below this fraction of `tol`
_FIRST_CHUNK = 64  # rows of the first chunk; chunk sizes double in the first epoch
Active = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
Entering = tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class JointHinge:
    """The validated parameters of the joint problem, which is solved to a relative duality gap of `tol`.

    `fit_bias` adds a constant feature 1, penalized like the others.
    """

    l1: L1 = 0.3
    C: Cost = 10.0
    tol: Tolerance = 1e-2
    fit_bias: FitBias = False
    random_state: Seed = 0

    def __post_init__(self) -> None:
        check_parameters(self)


class DualTable:
    """The hash table of v by (label, feature), with open addressing; `v` is the float64 view of `slots`."""

    def __init__(self, bits: int = 16) -> None:
        self.bits, self.shift = bits, 64 - bits
        self.slots = np.full((2**bits, 2), kernels.EMPTY, np.int64)
        self.v = self.slots.view(np.float64)
        self.n_free = int(_MAX_LOAD * 2**bits)

    @property
    def n_entries(self) -> int:
        """The number of entries."""
        return int(_MAX_LOAD * 2**self.bits) - self.n_free

    def grown(self, n_free: int) -> DualTable:
        """Return a table of twice the capacity with the same entries."""
        larger = DualTable(self.bits + 1)
        kernels.grow_table(self.slots, self.v, larger.slots, larger.v, larger.shift)
        larger.n_free -= int(_MAX_LOAD * 2**self.bits) - n_free
        return larger


@dataclass(frozen=True)
class SparseWeights:
    """The non-zero weights by feature (a CSR matrix of features x labels)."""

    starts: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays in the order in which kernels take them."""
        return self.starts, self.labels, self.weights


@dataclass(frozen=True)
class JointCertificate:
    """The objective of some weights and its relative duality gap."""

    objective: float
    gap: float


def as_arrays(solver: JointHinge, X: Any, Y: Any) -> tuple[tuple[Any, ...], Active]:
    """Return the CSR arrays of X, with the constant feature if `fit_bias` is set, and of Y, as kernels take them."""
    if solver.fit_bias:
        X = sp.hstack([X, np.ones((X.shape[0], 1), np.float32)], format="csr", dtype=np.float32)
    arrays = X.indptr.astype(np.int64), X.indices.astype(np.int32), np.ascontiguousarray(X.data, np.float32)
    return arrays, (Y.indptr.astype(np.int64), Y.indices.astype(np.int32))


class MeanWeights:
    """The mean of the weights over epochs; `total` is their sum (features x labels)."""

    def __init__(self, n_features: int, n_labels: int) -> None:
        self.total = sp.csr_matrix((n_features, n_labels), dtype=np.float64)
        self.n = 0

    def add(self, weights: SparseWeights) -> None:
        """Add the weights of an epoch."""
        arrays = weights.weights.astype(np.float64), weights.labels.copy(), weights.starts
        W = sp.csr_matrix(arrays, shape=self.total.shape)
        W.sort_indices()  # in place, hence the copy
        self.total = self.total + W
        self.n += 1

    def weights(self) -> SparseWeights:
        """Return the mean."""
        values = (self.total.data / self.n).astype(np.float32)
        return SparseWeights(self.total.indptr.astype(np.int64), self.total.indices.astype(np.int32), values)


class HeldOutPrecision:
    """Precision on rows that are held out of training, for early stopping."""

    def __init__(self, solver: JointHinge, X: Any, Y: Any, n_jobs: int | None) -> None:
        self._X, self._Y = as_arrays(solver, X, Y)
        self._n_labels = Y.shape[1]
        self._threads = Threads(n_jobs)

    def precision(self, weights: SparseWeights) -> float:
        """Return the mean R-precision: the precision of each row at its number of labels."""
        n = len(self._Y[0]) - 1

        def work(begin: int) -> tuple[int, float]:
            end = min(begin + _ROWS_PER_TASK, n)
            total = kernels.precision_of_rows(self._X, begin, end, weights.arrays, self._n_labels, self._Y)
            return begin, float(total)

        parts = sorted(self._threads.each(work, range(0, n, _ROWS_PER_TASK)))  # a fixed order of summation
        return sum(share for _, share in parts) / n if n else 0.0


class JointProblem:
    """The joint problem for X and Y (CSR) with the current active sets and dual variables."""

    def __init__(self, solver: JointHinge, X: Any, Y: Any, n_jobs: int | None) -> None:
        self.solver = solver
        self.n_samples, self.n_features = X.shape[0], X.shape[1] + int(solver.fit_bias)
        self.n_labels = Y.shape[1]
        self.X, self.Y = as_arrays(solver, X, Y)
        self.norms = np.zeros(self.n_samples)
        np.add.at(self.norms, np.repeat(np.arange(self.n_samples), np.diff(self.X[0])), self.X[2].astype(float) ** 2)
        self.n_positives = np.diff(self.Y[0])
        self.active: Active = self.Y
        self.alpha = np.zeros(len(self.Y[1]))
        self.table = DualTable()
        self.epoch = 0
        self._threads = Threads(n_jobs)

    def restore(self, epoch: int, starts: Any, labels: Any, alpha: Any) -> None:
        """Resume from the active sets and dual variables of an epoch; v is computed from them."""
        self.epoch = epoch
        self.active = np.array(starts, np.int64), np.array(labels, np.int32)
        self.alpha = np.array(alpha, np.float64)
        self.table = self._fill_table()

    def weights(self) -> SparseWeights:
        """Return the weights of the current dual variables."""
        return self._collect_weights()[0]

    def _collect_weights(self) -> tuple[SparseWeights, float]:
        """Return the weights, and 1/2 the sum of their squares before rounding to float32."""
        table = self.table
        keys, values = np.empty(table.n_entries + 1, np.int64), np.empty(table.n_entries + 1)
        n = kernels.collect_weights(table.slots, table.v, float(self.solver.l1), keys, values)
        starts = np.zeros(self.n_features + 1, np.int64)
        labels, weights = np.empty(n, np.int32), np.empty(n, np.float32)
        half_square = kernels.list_weights(keys[:n], values[:n], starts, labels, weights)
        return SparseWeights(starts, labels, weights), float(half_square)

    def run_epoch(self) -> tuple[SparseWeights, float]:
        """Visit each row once; return the weights and an estimate of their gap, from the losses of rows before visits.

        Negatives whose dual variable is 0 leave the active sets.
        """
        order = np.random.default_rng([int(self.solver.random_state), self.epoch]).permutation(self.n_samples)
        entering = np.full((self.n_samples, _MAX_ENTERING), -1, np.int32), np.zeros((self.n_samples, _MAX_ENTERING))
        losses, gains = np.zeros(self.n_samples), np.zeros(self.n_samples)
        weights, half_square = self._collect_weights()
        C, slack = float(self.solver.C), _SOLVED_SHARE * self.solver.tol * self._dual(half_square) / self.n_samples
        chunks = self._chunks(order)
        self._search(chunks[0], weights, entering[0], losses, gains)
        for chunk, following in zip(chunks, [*chunks[1:], order[:0]], strict=True):
            rows = chunk[C * losses[chunk] - gains[chunk] > slack]  # the other rows are solved accurately enough
            self._search(following, weights, entering[0], losses, gains, partial(self._visit, rows, entering))
            weights, half_square = self._collect_weights()
        self._advance(entering)
        return weights, self._certificate(weights, half_square, losses).gap

    def certify(self, weights: SparseWeights) -> JointCertificate:
        """Return the objective of weights, by scoring all rows, and its gap to the current dual objective."""
        losses, gains = np.zeros(self.n_samples), np.zeros(self.n_samples)
        entering_labels = np.empty((self.n_samples, 1), np.int32)
        self._search(np.arange(self.n_samples), weights, entering_labels, losses, gains)
        return self._certificate(weights, self._collect_weights()[1], losses)

    def _dual(self, half_square: float) -> float:
        within = np.arange(len(self.alpha)) - np.repeat(self.active[0][:-1], np.diff(self.active[0]))
        positive = within < np.repeat(self.n_positives, np.diff(self.active[0]))
        return float(self.alpha[positive].sum()) - half_square

    def _certificate(
        self, weights: SparseWeights, half_square: float, losses: npt.NDArray[np.float64]
    ) -> JointCertificate:
        dual = self._dual(half_square)
        sizes = np.abs(weights.weights.astype(np.float64))
        penalty = float(np.sum(0.5 * sizes**2 + self.solver.l1 * sizes))
        objective = penalty + float(self.solver.C) * float(losses.sum())
        return JointCertificate(objective, max(objective - dual, 0.0) / objective if objective > 0 else 0.0)

    def _chunks(self, order: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """Split the order of an epoch into chunks; the first epoch starts with small ones: weights change fast."""
        most = max(_FIRST_CHUNK, -(-self.n_samples // _CHUNKS[self.epoch >= _EARLY_EPOCHS]))
        ends, size = [0], _FIRST_CHUNK if self.epoch == 0 else most
        while ends[-1] < self.n_samples:
            ends.append(min(ends[-1] + size, self.n_samples))
            size = min(2 * size, most)
        return [order[begin:end] for begin, end in pairwise(ends)] or [order]

    def _search(
        self,
        rows: npt.NDArray[np.int64],
        weights: SparseWeights,
        entering_labels: npt.NDArray[np.int32],
        losses: npt.NDArray[np.float64],
        gains: npt.NDArray[np.float64],
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Score rows under the weights on all threads; one of them calls `meanwhile` first."""

        def work(part: npt.NDArray[np.int64] | None) -> None:
            if part is not None:
                arguments = (
                    weights.arrays,
                    self.n_labels,
                    self.Y,
                    self.active,
                    self.alpha,
                    entering_labels,
                    losses,
                    gains,
                )
                kernels.search_rows(self.X, part, *arguments)
            elif meanwhile is not None:
                meanwhile()

        parts = [rows[begin : begin + _ROWS_PER_TASK] for begin in range(0, len(rows), _ROWS_PER_TASK)]
        for _ in self._threads.each(work, [None, *parts]):
            pass

    def _advance(self, entering: Entering) -> None:
        size = len(self.alpha) + int((entering[0] >= 0).sum())
        starts = np.empty(self.n_samples + 1, np.int64)
        labels, alpha = np.empty(size, np.int32), np.empty(size)
        size = kernels.next_active(self.active, self.n_positives, self.alpha, entering, starts, labels, alpha)
        self.active, self.alpha = (starts, labels[:size].copy()), alpha[:size].copy()
        self.epoch += 1

    def refresh(self) -> None:
        """Recompute v from the dual variables, as `restore` does, so that a resumed training gives the same bits."""
        self.table = self._fill_table()

    def _visit(self, rows: npt.NDArray[np.int64], entering: Entering) -> None:
        done = 0
        while done < len(rows):
            table = self.table
            done, n_free = kernels.visit_rows(
                self.X,
                self.norms,
                rows,
                done,
                self.active,
                self.n_positives,
                self.alpha,
                entering,
                float(self.solver.C),
                float(self.solver.l1),
                table.slots,
                table.v,
                table.shift,
                table.n_free,
            )
            table.n_free = n_free
            if done < len(rows):
                self.table = table.grown(n_free)

    def _fill_table(self) -> DualTable:
        bits = 16
        while True:
            table = DualTable(bits)
            arguments = table.slots, table.v, table.shift, table.n_free
            n_free = kernels.fill_table(self.X, self.active, self.n_positives, self.alpha, *arguments)
            if n_free >= 0:
                table.n_free = int(n_free)
                return table
            bits += 1


def label_blocks(weights: SparseWeights, n_labels: int, size: int) -> Iterator[tuple[int, Any]]:
    """Yield the weights of `size` labels at a time as CSR matrices of features x labels, sorted."""
    W = sp.csr_matrix(
        (weights.weights, weights.labels, weights.starts), shape=(len(weights.starts) - 1, n_labels)
    ).tocsc()
    for first in range(0, n_labels, size):
        block = W[:, first : first + size].tocsr()
        block.sort_indices()
        yield first, block
