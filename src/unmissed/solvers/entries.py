"""Entries: the loss of a score matrix A B^T over all its entries or over the observed ones, never held dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.execution.blas import one_blas_thread
from unmissed.kernels.entries import (
    LOGISTIC,
    SQUARED,
    SQUARED_HINGE,
    observed_curvatures,
    observed_slopes,
    tile_curvatures,
    tile_slopes,
)
from unmissed.solvers.products import Floats

LOSSES = {"squared": SQUARED, "logistic": LOGISTIC, "squared-hinge": SQUARED_HINGE}
BEND = {"squared": 1.0, "logistic": 0.25, "squared-hinge": 2.0}  # the largest curvature of each loss
_ROWS, _COLUMNS = 256, 4096  # the size of a dense tile


class Entries(Protocol):
    """The sum of losses over the entries of A B^T, and its derivatives with respect to A."""

    bend: float
    """About the curvature of an entry, for scaling only: the largest one times the share of entries observed."""

    def slopes(self, left: Floats, right: Floats) -> tuple[float, Floats]:
        """Return the sum of the losses and D B, where D holds the slopes."""

    def curvatures(self, left: Floats, right: Floats, change: Floats) -> Floats:
        """Return (C * (change B^T)) B, where C holds the curvatures and * goes entry by entry."""


class AllEntries:
    """All entries are observed: tiles of A B^T are made, used and forgotten.

    Parameters
    ----------
    Y : CSR matrix of ones, sorted, (rows of A, rows of B)
    loss : a name of LOSSES
    threads : who shares the rows
    """

    def __init__(self, Y: sp.csr_matrix, loss: str, threads: Threads) -> None:
        self.bend = BEND[loss]
        self._loss, self._threads = LOSSES[loss], threads
        self._indptr, self._indices = Y.indptr.astype(np.int64), Y.indices.astype(np.int32, copy=False)

    def slopes(self, left: Floats, right: Floats) -> tuple[float, Floats]:
        """Return the sum of the losses and D B."""

        def one(rows: slice, first: int, part: Floats, scores: Floats) -> float:
            total: float = tile_slopes(self._loss, self._rows(rows), self._indices, first, scores)
            return total

        return self._each(left, right, one)

    def curvatures(self, left: Floats, right: Floats, change: Floats) -> Floats:
        """Return (C * (change B^T)) B."""

        def one(rows: slice, first: int, part: Floats, scores: Floats) -> float:
            current = left[rows] @ part.T
            tile_curvatures(self._loss, self._rows(rows), self._indices, first, current, scores)
            return 0.0

        return self._each(change, right, one)[1]

    def _rows(self, rows: slice) -> Any:
        return self._indptr[rows.start : rows.stop + 1]

    def _each(
        self, left: Floats, right: Floats, work: Callable[[slice, int, Floats, Floats], float]
    ) -> tuple[float, Floats]:
        """Give each tile of left right^T to `work`, multiply what it leaves by `right`, and add up in a fixed order."""
        out = np.zeros_like(left)

        def one(begin: int) -> tuple[int, float]:
            rows, total = slice(begin, min(begin + _ROWS, len(left))), 0.0
            for first in range(0, len(right), _COLUMNS):
                part = right[first : first + _COLUMNS]
                tile = left[rows] @ part.T
                total += work(rows, first, part, tile)
                out[rows] += tile @ part
            return begin, total

        with one_blas_thread():
            totals = dict(self._threads.each(one, range(0, len(left), _ROWS)))
        return sum(totals[begin] for begin in sorted(totals)), out


class ObservedEntries:
    """Only some entries are observed.

    Parameters
    ----------
    Y : CSR matrix of ones, (rows of A, rows of B)
    observed : CSR matrix whose stored entries are the observed ones; what Y holds outside of them is not looked at
    loss : a name of LOSSES
    threads : who shares the rows
    """

    def __init__(self, Y: sp.csr_matrix, observed: sp.csr_matrix, loss: str, threads: Threads) -> None:
        self.bend = BEND[loss] * observed.nnz / max(observed.shape[0] * observed.shape[1], 1)
        self._loss, self._threads = LOSSES[loss], threads
        self._indptr, self._indices = observed.indptr.astype(np.int64), observed.indices.astype(np.int32, copy=False)
        ones = sp.csr_matrix((np.ones(observed.nnz, np.float32), observed.indices, observed.indptr), observed.shape)
        self._targets = (ones + ones.multiply(Y)).tocsr().data.astype(np.float32) - 1  # zeros stay stored: y = 0

    def slopes(self, left: Floats, right: Floats) -> tuple[float, Floats]:
        """Return the sum of the losses and D B."""
        return self._each(left, lambda pattern, rows, out: observed_slopes(*pattern, left[rows], right, out))

    def curvatures(self, left: Floats, right: Floats, change: Floats) -> Floats:
        """Return (C * (change B^T)) B."""

        def one(pattern: Any, rows: slice, out: Floats) -> float:
            observed_curvatures(*pattern, left[rows], right, change[rows], out)
            return 0.0

        return self._each(left, one)[1]

    def _each(self, left: Floats, work: Callable[[Any, slice, Floats], float]) -> tuple[float, Floats]:
        out = np.empty_like(left)

        def one(begin: int) -> tuple[int, float]:
            rows = slice(begin, min(begin + _ROWS, len(left)))
            indptr = self._indptr[rows.start : rows.stop + 1]
            return begin, work((self._loss, indptr, self._indices, self._targets), rows, out[rows])

        totals = dict(self._threads.each(one, range(0, len(left), _ROWS)))
        return sum(totals[begin] for begin in sorted(totals)), out
