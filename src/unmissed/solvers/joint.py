"""PD-Sparse's joint problem over all labels: its state, one epoch of it, and its certificate.

An epoch does two things at once: rows are visited one after the other over their active sets, and meanwhile all rows
are scored under the weights as they were when it began, which gives the loss, hence the duality gap, of those weights
and the negatives that active sets miss. What comes out depends on neither threads nor time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.kernels import joint as kernels
from unmissed.solvers.parameters import check_flag, check_not_negative, check_positive, check_seed, check_tol

_LOAD = 0.7  # how full the table of v may become
_ROWS = 512  # rows that a thread scores at a time
_NEW = 8  # negatives that an active set takes in per epoch
Active = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]


@dataclass(frozen=True)
class JointHinge:
    """What is minimised, and how far: a relative duality gap of `tol`.

    With `fit_bias` a constant feature 1 is added, penalised like the others.
    """

    l1: float = 0.01
    C: float = 1.0
    tol: float = 1e-2
    fit_bias: bool = True
    random_state: int = 0

    def __post_init__(self) -> None:
        check_not_negative("l1", self.l1)
        check_positive("C", self.C)
        check_tol(self.tol)
        check_flag("fit_bias", self.fit_bias)
        check_seed(self.random_state)


class Table:
    """v of every (label, feature) that was ever touched, by open addressing; `v` sees the values of `slots`."""

    def __init__(self, bits: int = 16) -> None:
        self.bits, self.shift = bits, 64 - bits
        self.slots = np.full((2**bits, 2), kernels.EMPTY, np.int64)
        self.v = self.slots.view(np.float64)
        self.room = int(_LOAD * 2**bits)

    def grown(self, room: int) -> Table:
        """Return a larger table of the same entries."""
        larger = Table(self.bits + 1)
        kernels.grow_table(self.slots, self.v, larger.slots, larger.v, larger.shift)
        larger.room -= int(_LOAD * 2**self.bits) - room
        return larger


@dataclass(frozen=True)
class Weights:
    """The non-zero weights by feature (a CSR matrix of features x labels), and the dual objective they came with."""

    starts: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    dual: float

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the kernel that scores rows takes."""
        return self.starts, self.labels, self.weights


@dataclass(frozen=True)
class Search:
    """What scoring all rows gave: the objective, its relative gap, and the negatives that active sets miss."""

    objective: float
    gap: float
    found: npt.NDArray[np.int32]


def as_arrays(solver: JointHinge, X: Any, Y: Any) -> tuple[tuple[Any, ...], Active]:
    """Return rows, with the constant feature where there is one, and their labels as kernels take them."""
    if solver.fit_bias:
        X = sp.hstack([X, np.ones((X.shape[0], 1), np.float32)], format="csr", dtype=np.float32)
    arrays = X.indptr.astype(np.int64), X.indices.astype(np.int32), np.ascontiguousarray(X.data, np.float32)
    return arrays, (Y.indptr.astype(np.int64), Y.indices.astype(np.int32))


class Judge:
    """Rows that were held out of training, to say when to stop."""

    def __init__(self, solver: JointHinge, X: Any, Y: Any) -> None:
        self._X, self._Y = as_arrays(solver, X, Y)
        self._n_labels = Y.shape[1]

    def share_right(self, weights: Weights) -> float:
        """Return the share of rows whose best label is a true one."""
        n = len(self._Y[0]) - 1
        found, losses, right = np.empty((n, 1), np.int32), np.empty(n), np.empty(n, np.bool_)
        arguments = weights.arrays, self._n_labels, self._Y, self._Y, 1, found, losses, right
        kernels.search_rows(self._X, 0, n, *arguments)
        return float(right.mean()) if n else 0.0


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
        """Go on from the active sets and dual variables of an epoch; v is made of them anew."""
        self.epoch = epoch
        self.active = np.array(starts, np.int64), np.array(labels, np.int32)
        self.alpha = np.array(alpha, np.float64)
        self.table = self._filled()

    def weights(self) -> Weights:
        """Return the weights of the dual variables as they are."""
        table, l1 = self.table, float(self.solver.l1)
        starts = np.zeros(self.n_features + 1, np.int64)
        half_square = kernels.count_weights(table.slots, table.v, l1, self.n_features, starts)
        np.cumsum(starts, out=starts)
        labels, weights = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
        kernels.list_weights(table.slots, table.v, l1, self.n_features, starts, labels, weights)
        within = np.arange(len(self.alpha)) - np.repeat(self.active[0][:-1], np.diff(self.active[0]))
        positive = within < np.repeat(self.n_positives, np.diff(self.active[0]))
        return Weights(starts, labels, weights, float(self.alpha[positive].sum()) - float(half_square))

    def run_epoch(self, weights: Weights) -> Search:
        """Visit every row once, and score all rows under `weights`, which are those of the epoch's beginning."""
        found = np.empty((self.n_samples, _NEW), np.int32)
        losses, right = np.empty(self.n_samples), np.empty(self.n_samples, np.bool_)
        parts: list[int | None] = [None, *range(0, self.n_samples, _ROWS)]

        def work(begin: int | None) -> None:
            if begin is None:
                self._visit()
            else:
                end = min(begin + _ROWS, self.n_samples)
                arguments = weights.arrays, self.n_labels, self.Y, self.active, _NEW, found, losses, right
                kernels.search_rows(self.X, begin, end, *arguments)

        for _ in self._threads.each(work, parts):
            pass
        sizes = np.abs(weights.weights.astype(np.float64))
        penalty = float(np.sum(0.5 * sizes**2 + self.solver.l1 * sizes))
        objective = penalty + float(self.solver.C) * float(losses.sum())
        gap = max(objective - weights.dual, 0.0) / objective if objective > 0 else 0.0
        return Search(objective, gap, found)

    def advance(self, search: Search) -> None:
        """Drop negatives whose dual variable is 0 from the active sets, take in those that were found, count on."""
        size = len(self.alpha) + int((search.found >= 0).sum())
        starts = np.empty(self.n_samples + 1, np.int64)
        labels, alpha = np.empty(size, np.int32), np.empty(size)
        size = kernels.next_active(self.active, self.n_positives, self.alpha, search.found, starts, labels, alpha)
        self.active, self.alpha = (starts, labels[:size].copy()), alpha[:size].copy()
        self.epoch += 1

    def refresh(self) -> None:
        """Make v of the dual variables anew, as `restore` does, so that who goes on from here gets the same bits."""
        self.table = self._filled()

    def _visit(self) -> None:
        order = np.random.default_rng([int(self.solver.random_state), self.epoch]).permutation(self.n_samples)
        done = 0
        while done < self.n_samples:
            table = self.table
            done, room = kernels.visit_rows(
                self.X,
                self.norms,
                order,
                done,
                self.active,
                self.n_positives,
                self.alpha,
                float(self.solver.C),
                float(self.solver.l1),
                self.n_features,
                table.slots,
                table.v,
                table.shift,
                table.room,
            )
            table.room = room
            if done < self.n_samples:
                self.table = table.grown(room)

    def _filled(self) -> Table:
        bits = 16
        while True:
            table = Table(bits)
            arguments = self.n_features, table.slots, table.v, table.shift, table.room
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
