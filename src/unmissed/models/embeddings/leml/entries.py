"""The loss of a low-rank score matrix A B^T over all or over the observed entries, without storing the matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.execution.blas import one_blas_thread
from unmissed.models.embeddings.leml.entry_losses import (
    LOGISTIC,
    SQUARED,
    SQUARED_HINGE,
    observed_curvatures,
    observed_derivatives,
    tile_curvatures,
    tile_derivatives,
)
from unmissed.models.factor_products import Floats

LOSSES = {"squared": SQUARED, "logistic": LOGISTIC, "squared-hinge": SQUARED_HINGE}
MAX_CURVATURE = {"squared": 1.0, "logistic": 0.25, "squared-hinge": 2.0}  # upper bound of the second derivative
_ROWS, _COLUMNS = 256, 4096  # Size of a dense tile.


class Entries(Protocol):
    """Protocol of the sum of losses over entries of A B^T, and its derivatives with respect to A."""

    mean_curvature: float
    """Scale of the curvature, for preconditioning: its upper bound times the fraction of observed entries."""

    def derivatives(self, left: Floats, right: Floats) -> tuple[float, Floats]:
        """Return the sum of the losses and D B, where D is the matrix of derivatives."""

    def curvatures(self, left: Floats, right: Floats, change: Floats) -> Floats:
        """Return the Hessian product (C * (change B^T)) B, where C is the matrix of curvatures and * is elementwise."""


class AllEntries:
    """All entries are observed. A B^T is computed tile by tile.

    Parameters
    ----------
    Y : CSR matrix of ones, sorted, (rows of A, rows of B)
    loss : a name of LOSSES
    threads : executor of the chunks of rows
    """

    def __init__(self, Y: sp.csr_matrix, loss: str, threads: Threads) -> None:
        self.mean_curvature = MAX_CURVATURE[loss]
        self._loss, self._threads = LOSSES[loss], threads
        self._indptr, self._indices = Y.indptr.astype(np.int64), Y.indices.astype(np.int32, copy=False)

    def derivatives(self, left: Floats, right: Floats) -> tuple[float, Floats]:
        """Return the sum of the losses and D B."""

        def one(rows: slice, first: int, part: Floats, scores: Floats) -> float:
            total: float = tile_derivatives(self._loss, self._rows(rows), self._indices, first, scores)
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
        """Apply `work` in place to each tile of left right^T, then sum tile times right in a fixed order."""
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
    """Only the entries of a mask are observed.

    Parameters
    ----------
    Y : CSR matrix of ones, (rows of A, rows of B)
    observed : CSR matrix whose stored entries are the observed ones; other entries of Y are ignored
    loss : a name of LOSSES
    threads : executor of the chunks of rows
    """

    def __init__(self, Y: sp.csr_matrix, observed: sp.csr_matrix, loss: str, threads: Threads) -> None:
        self.mean_curvature = MAX_CURVATURE[loss] * observed.nnz / max(observed.shape[0] * observed.shape[1], 1)
        self._loss, self._threads = LOSSES[loss], threads
        self._indptr, self._indices = observed.indptr.astype(np.int64), observed.indices.astype(np.int32, copy=False)
        ones = sp.csr_matrix((np.ones(observed.nnz, np.float32), observed.indices, observed.indptr), observed.shape)
        self._targets = (ones + ones.multiply(Y)).tocsr().data.astype(
            np.float32
        ) - 1  # explicit zeros stay stored: y = 0

    def derivatives(self, left: Floats, right: Floats) -> tuple[float, Floats]:
        """Return the sum of the losses and D B."""
        return self._each(left, lambda pattern, rows, out: observed_derivatives(*pattern, left[rows], right, out))

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
