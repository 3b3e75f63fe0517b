"""PD-Sparse's joint problem over all labels: its state, one epoch of it, and its certificate.

An epoch visits rows chunk by chunk, one row after the other, over their active sets. While a chunk is visited, the rows
of the next one are scored under the weights as they were when that began, which gives the negatives that their active
sets miss: old weights would give all rows the same few. What comes out depends on neither threads nor time.
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
from unmissed.kernels import joint as kernels
from unmissed.solvers.parameters import NotNegative, Positive, Seed, Tolerance, check_flag, check_ranges

_LOAD = 0.7  # how full the table of v may become
_ROWS = 256  # rows that a thread scores at a time
_NEW = 8  # negatives that an active set takes in per epoch
_CHUNKS = 12, 4  # chunks per epoch, in early epochs and in later ones
_EARLY = 10  # epochs in which weights change fast
_SLACK = 0.3  # a row is left out if all rows with its part in the gap would come to this share of `tol`
_FIRST = 64  # rows of the first chunk; the first epoch's chunks double from there
Active = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
Fresh = tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class JointHinge:
    """What is minimised, and how far: a relative duality gap of `tol`.

    With `fit_bias` a constant feature 1 is added, penalised like the others.
    """

    l1: NotNegative = 0.3
    C: Positive = 10.0
    tol: Tolerance = 1e-2
    fit_bias: bool = False
    random_state: Seed = 0

    def __post_init__(self) -> None:
        check_ranges(self, type(self))
        check_flag("fit_bias", self.fit_bias)


class Table:
    """v of every (label, feature) that was ever touched, by open addressing; `v` sees the values of `slots`."""

    def __init__(self, bits: int = 16) -> None:
        self.bits, self.shift = bits, 64 - bits
        self.slots = np.full((2**bits, 2), kernels.EMPTY, np.int64)
        self.v = self.slots.view(np.float64)
        self.room = int(_LOAD * 2**bits)

    @property
    def held(self) -> int:
        """How many entries there are."""
        return int(_LOAD * 2**self.bits) - self.room

    def grown(self, room: int) -> Table:
        """Return a larger table of the same entries."""
        larger = Table(self.bits + 1)
        kernels.grow_table(self.slots, self.v, larger.slots, larger.v, larger.shift)
        larger.room -= int(_LOAD * 2**self.bits) - room
        return larger


@dataclass(frozen=True)
class Weights:
    """The non-zero weights by feature (a CSR matrix of features x labels)."""

    starts: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the kernel that scores rows takes."""
        return self.starts, self.labels, self.weights


@dataclass(frozen=True)
class Proof:
    """What is known of some weights: their objective, and its relative distance to a lower bound of the least one."""

    objective: float
    gap: float


def as_arrays(solver: JointHinge, X: Any, Y: Any) -> tuple[tuple[Any, ...], Active]:
    """Return rows, with the constant feature where there is one, and their labels as kernels take them."""
    if solver.fit_bias:
        X = sp.hstack([X, np.ones((X.shape[0], 1), np.float32)], format="csr", dtype=np.float32)
    arrays = X.indptr.astype(np.int64), X.indices.astype(np.int32), np.ascontiguousarray(X.data, np.float32)
    return arrays, (Y.indptr.astype(np.int64), Y.indices.astype(np.int32))


class Mean:
    """The mean of the weights of all epochs; `total` is their sum, features x labels."""

    def __init__(self, n_features: int, n_labels: int) -> None:
        self.total = sp.csr_matrix((n_features, n_labels), dtype=np.float64)
        self.n = 0

    def add(self, weights: Weights) -> None:
        """Add the weights of one more epoch."""
        arrays = weights.weights.astype(np.float64), weights.labels.copy(), weights.starts
        W = sp.csr_matrix(arrays, shape=self.total.shape)
        W.sort_indices()  # in place: hence the copies
        self.total = self.total + W
        self.n += 1

    def weights(self) -> Weights:
        """Return the mean."""
        values = (self.total.data / self.n).astype(np.float32)
        return Weights(self.total.indptr.astype(np.int64), self.total.indices.astype(np.int32), values)


class Judge:
    """Rows that were held out of training, to say when to stop."""

    def __init__(self, solver: JointHinge, X: Any, Y: Any, n_jobs: int | None) -> None:
        self._X, self._Y = as_arrays(solver, X, Y)
        self._n_labels = Y.shape[1]
        self._threads = Threads(n_jobs)

    def precision(self, weights: Weights) -> float:
        """Return the mean share of true labels among the first labels of a row, as many as it has."""
        n = len(self._Y[0]) - 1

        def work(begin: int) -> tuple[int, float]:
            end = min(begin + _ROWS, n)
            found = kernels.precision_of_rows(self._X, begin, end, weights.arrays, self._n_labels, self._Y)
            return begin, float(found)

        parts = sorted(self._threads.each(work, range(0, n, _ROWS)))  # in the same order whichever was first
        return sum(share for _, share in parts) / n if n else 0.0


class Joint:
    """The problem for X and Y (CSR), and how far its dual variables have come."""

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
        self.table = Table()
        self.epoch = 0
        self._threads = Threads(n_jobs)

    def restore(self, epoch: int, starts: Any, labels: Any, alpha: Any) -> None:
        """Go on from the active sets and dual variables of an epoch; v is computed from them."""
        self.epoch = epoch
        self.active = np.array(starts, np.int64), np.array(labels, np.int32)
        self.alpha = np.array(alpha, np.float64)
        self.table = self._filled()

    def weights(self) -> Weights:
        """Return the weights of the dual variables as they are."""
        return self._listed()[0]

    def _listed(self) -> tuple[Weights, float]:
        """Return the weights, and 1/2 the sum of their squares before they become float32."""
        table = self.table
        keys, values = np.empty(table.held + 1, np.int64), np.empty(table.held + 1)
        n = kernels.collect_weights(table.slots, table.v, float(self.solver.l1), keys, values)
        starts = np.zeros(self.n_features + 1, np.int64)
        labels, weights = np.empty(n, np.int32), np.empty(n, np.float32)
        half_square = kernels.list_weights(keys[:n], values[:n], starts, labels, weights)
        return Weights(starts, labels, weights), float(half_square)

    def run_epoch(self) -> tuple[Weights, float]:
        """Visit every row once; return the weights and about their gap, from losses of rows before their visit.

        Negatives whose dual variable is 0 leave the active sets.
        """
        order = np.random.default_rng([int(self.solver.random_state), self.epoch]).permutation(self.n_samples)
        fresh = np.full((self.n_samples, _NEW), -1, np.int32), np.zeros((self.n_samples, _NEW))
        losses, gains = np.zeros(self.n_samples), np.zeros(self.n_samples)
        weights, half_square = self._listed()
        C, slack = float(self.solver.C), _SLACK * self.solver.tol * self._dual(half_square) / self.n_samples
        chunks = self._chunks(order)
        self._search(chunks[0], weights, fresh[0], losses, gains)
        for chunk, following in zip(chunks, [*chunks[1:], order[:0]], strict=True):
            rows = chunk[C * losses[chunk] - gains[chunk] > slack]  # the others are as good as solved
            self._search(following, weights, fresh[0], losses, gains, partial(self._visit, rows, fresh))
            weights, half_square = self._listed()
        self._advance(fresh)
        return weights, self._proof(weights, half_square, losses).gap

    def prove(self, weights: Weights) -> Proof:
        """Score all rows under some weights; the lower bound is the dual objective of the variables as they are."""
        losses, gains = np.zeros(self.n_samples), np.zeros(self.n_samples)
        found = np.empty((self.n_samples, 1), np.int32)
        self._search(np.arange(self.n_samples), weights, found, losses, gains)
        return self._proof(weights, self._listed()[1], losses)

    def _dual(self, half_square: float) -> float:
        within = np.arange(len(self.alpha)) - np.repeat(self.active[0][:-1], np.diff(self.active[0]))
        positive = within < np.repeat(self.n_positives, np.diff(self.active[0]))
        return float(self.alpha[positive].sum()) - half_square

    def _proof(self, weights: Weights, half_square: float, losses: npt.NDArray[np.float64]) -> Proof:
        dual = self._dual(half_square)
        sizes = np.abs(weights.weights.astype(np.float64))
        penalty = float(np.sum(0.5 * sizes**2 + self.solver.l1 * sizes))
        objective = penalty + float(self.solver.C) * float(losses.sum())
        return Proof(objective, max(objective - dual, 0.0) / objective if objective > 0 else 0.0)

    def _chunks(self, order: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """Cut the order of an epoch; the first epoch begins with small chunks, since its weights change fast."""
        most = max(_FIRST, -(-self.n_samples // _CHUNKS[self.epoch >= _EARLY]))
        ends, size = [0], _FIRST if self.epoch == 0 else most
        while ends[-1] < self.n_samples:
            ends.append(min(ends[-1] + size, self.n_samples))
            size = min(2 * size, most)
        return [order[begin:end] for begin, end in pairwise(ends)] or [order]

    def _search(
        self,
        rows: npt.NDArray[np.int64],
        weights: Weights,
        found: npt.NDArray[np.int32],
        losses: npt.NDArray[np.float64],
        gains: npt.NDArray[np.float64],
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Score some rows under the weights on all threads, of which one does something else first."""

        def work(part: npt.NDArray[np.int64] | None) -> None:
            if part is not None:
                arguments = weights.arrays, self.n_labels, self.Y, self.active, self.alpha, found, losses, gains
                kernels.search_rows(self.X, part, *arguments)
            elif meanwhile is not None:
                meanwhile()

        parts = [rows[begin : begin + _ROWS] for begin in range(0, len(rows), _ROWS)]
        for _ in self._threads.each(work, [None, *parts]):
            pass

    def _advance(self, fresh: Fresh) -> None:
        size = len(self.alpha) + int((fresh[0] >= 0).sum())
        starts = np.empty(self.n_samples + 1, np.int64)
        labels, alpha = np.empty(size, np.int32), np.empty(size)
        size = kernels.next_active(self.active, self.n_positives, self.alpha, fresh, starts, labels, alpha)
        self.active, self.alpha = (starts, labels[:size].copy()), alpha[:size].copy()
        self.epoch += 1

    def refresh(self) -> None:
        """Compute v from the dual variables again, as `restore` does: going on from here gives the same bits."""
        self.table = self._filled()

    def _visit(self, rows: npt.NDArray[np.int64], fresh: Fresh) -> None:
        done = 0
        while done < len(rows):
            table = self.table
            done, room = kernels.visit_rows(
                self.X,
                self.norms,
                rows,
                done,
                self.active,
                self.n_positives,
                self.alpha,
                fresh,
                float(self.solver.C),
                float(self.solver.l1),
                table.slots,
                table.v,
                table.shift,
                table.room,
            )
            table.room = room
            if done < len(rows):
                self.table = table.grown(room)

    def _filled(self) -> Table:
        bits = 16
        while True:
            table = Table(bits)
            arguments = table.slots, table.v, table.shift, table.room
            room = kernels.fill_table(self.X, self.active, self.n_positives, self.alpha, *arguments)
            if room >= 0:
                table.room = int(room)
                return table
            bits += 1


def label_blocks(weights: Weights, n_labels: int, size: int) -> Iterator[tuple[int, Any]]:
    """Yield the weights of `size` labels at a time as CSR matrices of features x labels, sorted."""
    W = sp.csr_matrix(
        (weights.weights, weights.labels, weights.starts), shape=(len(weights.starts) - 1, n_labels)
    ).tocsc()
    for first in range(0, n_labels, size):
        block = W[:, first : first + size].tocsr()
        block.sort_indices()
        yield first, block
