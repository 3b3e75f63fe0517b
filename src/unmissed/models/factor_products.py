"""Products with factors, for embeddings and networks: sparse rows times a factor, and scores by tiles of labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Once, Threads
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

    def product(self, queries: Floats, threads: Threads) -> Floats:
        """Return queries factor^T, (n_queries, n_rows)."""
        out = np.empty((len(queries), self._n_rows), np.float32)

        def one(rows: slice, first: int, scores: Floats) -> None:
            out[rows, first : first + scores.shape[1]] = scores

        self.each(queries, one, threads)
        return out

    def largest(
        self, queries: Floats, k: int, threads: Threads, without: npt.NDArray[np.bool_] | None = None
    ) -> tuple[npt.NDArray[np.int32], Floats]:
        """Return the k rows of the factor with the largest inner products for each query, and the products.

        Sorted by decreasing product, ties by increasing row; padded with -1 and -inf if the factor has fewer than k
        rows. The rows `without` get the product -inf.
        """
        found = np.full((len(queries), k), -1, np.int32)
        best = np.full((len(queries), k), -np.inf, np.float32)

        def one(rows: slice, first: int, scores: Floats) -> None:
            if without is not None:
                scores[:, without[first : first + scores.shape[1]]] = -np.inf
            merge_best(scores, first, found[rows], best[rows])

        self.each(queries, one, threads)
        return found, best


class ScoredByFactors(ABC):
    """What models have whose scores are inner products of an embedding of the row and a vector of the label."""

    n_jobs: int | None
    n_labels_: int
    untrained_: npt.NDArray[np.bool_] | None
    label_tiles_: Once[FactorTiles]
    _chosen: Callable[..., npt.NDArray[np.int64]]
    _check_fitted: Callable[[], None]

    @abstractmethod
    def embed(self, X: Any) -> Floats:
        """Return the embedding of each row."""

    @abstractmethod
    def _label_factor(self) -> Floats:
        """Return the vectors of the labels, (n_labels, n_components)."""

    def predict(self, X: Any, threshold: float = 0.0) -> sp.csr_matrix:
        """Return the sparse 0/1 matrix of labels whose score is at least `threshold`."""
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]

        def one(rows: slice, first: int, scores: Floats) -> None:
            above = scores >= threshold
            if self.untrained_ is not None:
                above &= ~self.untrained_[first : first + scores.shape[1]]
            row, label = np.nonzero(above)
            found.append((row + rows.start, label + first))

        embedded = self.embed(X)
        self.label_tiles_.get().each(embedded, one, Threads(self.n_jobs))
        rows, labels = (np.concatenate(part) for part in zip(*found, strict=True))
        ones = np.ones(len(rows), np.float32)
        return sp.csr_matrix((ones, (rows, labels)), shape=(len(embedded), self.n_labels_))

    def decision_function(self, X: Any, labels: npt.ArrayLike | None = None) -> Floats:
        """Return the scores of all or of the selected labels, (n_samples, len(labels))."""
        self._check_fitted()
        embedded = self.embed(X)
        chosen = self._chosen(labels, len(embedded))
        return FactorTiles(self._label_factor()[chosen]).product(embedded, Threads(self.n_jobs))
