"""Products with factors, for embeddings and networks: sparse rows times a factor, and scores by tiles of labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.numerics.factors import pack_tile, score_factors, sparse_times_factor
from unmissed.numerics.simd import LANES
from unmissed.numerics.topk import merge_best

Floats = npt.NDArray[np.float32]

ROWS = 512  # Rows of a factor per chunk; fixed, so sums do not depend on the number of threads.


class CSRChunks:
    """A CSR matrix whose rows are cut into chunks with similar numbers of entries."""

    def __init__(self, A: sp.csr_matrix) -> None:
        self.indptr = A.indptr.astype(np.int64)
        self.indices = A.indices.astype(np.int32, copy=False)
        self.data = A.data.astype(np.float32, copy=False)
        targets = np.arange(1, len(self.data) // 200_000 + 1) * 200_000
        ends = np.unique(np.append(np.searchsorted(self.indptr, targets), A.shape[0]))
        self.chunks = list(zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True))

    def times(self, factor: Floats, threads: Threads) -> Floats:
        """Return A F, (n_rows, rank)."""
        out = np.empty((len(self.indptr) - 1, factor.shape[1]), np.float32)

        def multiply(chunk: tuple[int, int]) -> None:
            begin, end = chunk
            sparse_times_factor(self.indptr[begin : end + 1], self.indices, self.data, factor, out[begin:end])

        for _ in threads.each(multiply, self.chunks):
            pass
        return out


def sparse_product(A: sp.csr_matrix, factor: Floats, threads: Threads) -> Floats:
    """Return A F, without storing A for further products."""
    return CSRChunks(A).times(factor, threads)


class FactorTiles:
    """A copy of a factor in tiles of 64 rows, the layout in which inner products with all rows are computed."""

    def __init__(self, factor: Floats) -> None:
        self._n_rows = len(factor)
        self._firsts = range(0, len(factor), LANES)
        self._tiles = np.empty((len(self._firsts), factor.shape[1], LANES), np.float32)
        for first, tile in zip(self._firsts, self._tiles, strict=True):
            pack_tile(factor, first, tile)

    @property
    def n_bytes(self) -> int:
        """Size in memory."""
        return self._tiles.nbytes

    def each(self, queries: Floats, work: Callable[[slice, int, Floats], None], threads: Threads) -> None:
        """Call work(rows, first, scores) for all rows and tiles, scores = queries[rows] factor[first : first + 64]^T.

        Needs memory for 512 x 64 scores per thread. For one chunk of rows, `first` increases from call to call.
        """

        def one(begin: int) -> None:
            rows = slice(begin, begin + ROWS)
            scores = np.empty((len(queries[rows]), LANES), np.float32)
            for first, tile in zip(self._firsts, self._tiles, strict=True):
                score_factors(queries[rows], tile, scores)
                work(rows, first, scores[:, : self._n_rows - first])

        for _ in threads.each(one, range(0, len(queries), ROWS)):
            pass

    def largest(self, queries: Floats, k: int, threads: Threads) -> tuple[npt.NDArray[np.int32], Floats]:
        """Return the k rows of the factor with the largest inner products for each query, and the products.

        Sorted by decreasing product, ties by increasing row; padded with -1 and -inf if the factor has fewer than k
        rows.
        """
        found = np.full((len(queries), k), -1, np.int32)
        best = np.full((len(queries), k), -np.inf, np.float32)

        def one(rows: slice, first: int, scores: Floats) -> None:
            merge_best(scores, first, found[rows], best[rows])

        self.each(queries, one, threads)
        return found, best
