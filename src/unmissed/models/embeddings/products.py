"""Products of a sparse matrix and its transpose with low-rank factors, multithreaded and reproducible."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.execution.blas import one_blas_thread
from unmissed.models.embeddings.low_rank import column_dots
from unmissed.models.factor_products import ROWS, CSRChunks, Floats

Doubles = npt.NDArray[np.float64]


class SparseOperator:
    """A sparse matrix A in CSR and CSC layout, with its products A F and A^T F.

    Parameters
    ----------
    A : sparse matrix, (n_rows, n_columns); float32
    threads : executor of the chunks of rows
    """

    def __init__(self, A: Any, threads: Threads) -> None:
        self.shape: tuple[int, int] = A.shape
        self.threads = threads
        self._rows = CSRChunks(sp.csr_matrix(A))
        self._columns = CSRChunks(sp.csr_matrix(A.T))

    def times(self, factor: Floats) -> Floats:
        """Return A F, (n_rows, rank)."""
        return self._rows.times(factor, self.threads)

    def transposed_times(self, factor: Floats) -> Floats:
        """Return A^T F, (n_columns, rank)."""
        return self._columns.times(factor, self.threads)

    def column_squares(self) -> Floats:
        """Return the squared norm of each column."""
        columns = self._columns
        sums = np.add.reduceat(np.append(columns.data, np.float32(0)).astype(np.float64) ** 2, columns.indptr[:-1])
        sums[np.diff(columns.indptr) == 0] = 0
        return sums.astype(np.float32)


def append_constant(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return X with the constant feature 1 appended."""
    n_samples = X.shape[0]
    ones = sp.csr_matrix(
        (np.ones(n_samples, np.float32), np.zeros(n_samples, np.int32), np.arange(n_samples + 1)), (n_samples, 1)
    )
    return sp.csr_matrix(sp.hstack([X, ones], format="csr"))


def gram(factor: Floats, threads: Threads) -> Doubles:
    """Return F^T F in float64, summed over fixed chunks of rows in order."""
    starts = range(0, factor.shape[0], 8 * ROWS)

    def chunk_gram(begin: int) -> tuple[int, Doubles]:
        part = factor[begin : begin + 8 * ROWS].astype(np.float64)
        return begin, part.T @ part

    total = np.zeros((factor.shape[1], factor.shape[1]))
    with one_blas_thread():
        parts = dict(threads.each(chunk_gram, starts))
    for begin in starts:
        total += parts[begin]
    return total


def column_inner_products(a: Floats, b: Floats) -> Doubles:
    """Return the inner products of corresponding columns of a and b, in float64."""
    out = np.empty(a.shape[1])
    column_dots(a, b, out)
    return out
