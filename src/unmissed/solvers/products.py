"""Products of a sparse matrix with low-rank factors, both ways, shared out among threads in any number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.execution.blas import one_blas_thread
from unmissed.kernels.factors import column_dots, sparse_times_factor

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

ROWS = 512  # rows of a factor that one thread takes at a time: a fixed cut, so that sums do not depend on the threads


class Products:
    """A sparse matrix A, laid out by rows and by columns, and its products A F and A^T F with factors F.

    Parameters
    ----------
    A : sparse matrix, (n_rows, n_columns); float32
    threads : who shares the rows
    """

    def __init__(self, A: Any, threads: Threads) -> None:
        self.shape: tuple[int, int] = A.shape
        self.threads = threads
        self._rows = _Laid(sp.csr_matrix(A))
        self._columns = _Laid(sp.csr_matrix(A.T))

    def times(self, factor: Floats) -> Floats:
        """Return A F, (n_rows, rank)."""
        return self._rows.times(factor, self.threads)

    def transposed_times(self, factor: Floats) -> Floats:
        """Return A^T F, (n_columns, rank)."""
        return self._columns.times(factor, self.threads)

    def column_squares(self) -> Floats:
        """Return the squared length of each column."""
        laid = self._columns
        sums = np.add.reduceat(np.append(laid.data, np.float32(0)).astype(np.float64) ** 2, laid.indptr[:-1])
        sums[np.diff(laid.indptr) == 0] = 0
        return sums.astype(np.float32)


class _Laid:
    """One side of a sparse matrix: its rows cut into pieces of about as many entries."""

    def __init__(self, A: sp.csr_matrix) -> None:
        self.indptr = A.indptr.astype(np.int64)
        self.indices = A.indices.astype(np.int32, copy=False)
        self.data = A.data.astype(np.float32, copy=False)
        wanted = np.arange(1, len(self.data) // 200_000 + 1) * 200_000
        ends = np.unique(np.append(np.searchsorted(self.indptr, wanted), A.shape[0]))
        self.pieces = list(zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True))

    def times(self, factor: Floats, threads: Threads) -> Floats:
        out = np.empty((len(self.indptr) - 1, factor.shape[1]), np.float32)

        def one(piece: tuple[int, int]) -> None:
            begin, end = piece
            sparse_times_factor(self.indptr[begin : end + 1], self.indices, self.data, factor, out[begin:end])

        for _ in threads.each(one, self.pieces):
            pass
        return out


def with_constant(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return X with the constant feature 1 behind the others."""
    n_samples = X.shape[0]
    ones = sp.csr_matrix(
        (np.ones(n_samples, np.float32), np.zeros(n_samples, np.int32), np.arange(n_samples + 1)), (n_samples, 1)
    )
    return sp.csr_matrix(sp.hstack([X, ones], format="csr"))


def sparse_product(A: sp.csr_matrix, factor: Floats, threads: Threads) -> Floats:
    """Return A F for a matrix that is needed once."""
    return _Laid(A).times(factor, threads)


def gram(factor: Floats, threads: Threads) -> Doubles:
    """Return F^T F in float64, summed over fixed pieces of rows in their order."""
    cuts = range(0, factor.shape[0], 8 * ROWS)

    def one(begin: int) -> tuple[int, Doubles]:
        part = factor[begin : begin + 8 * ROWS].astype(np.float64)
        return begin, part.T @ part

    total = np.zeros((factor.shape[1], factor.shape[1]))
    with one_blas_thread():
        parts = dict(threads.each(one, cuts))
    for begin in cuts:
        total += parts[begin]
    return total


def dots(a: Floats, b: Floats) -> Doubles:
    """Return the inner product of each column of a with the same column of b, in float64."""
    out = np.empty(a.shape[1])
    column_dots(a, b, out)
    return out
