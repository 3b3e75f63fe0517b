"""NearRows: the training rows that are nearest to a vector, without the positives of a label."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Threads
from unmissed.features import Features, ScaledFeatures
from unmissed.models.factor_products import FactorTiles, Floats, sparse_product
from unmissed.models.linear.design import RowIndices
from unmissed.models.neighbor_search import HNSWSearch, Search, make_search

_ONE = Threads(1)  # blocks of labels already use all threads


class NearRows:
    """Finds the rows of X with the largest inner products with a vector, exactly or by an HNSW index.

    Vectors have the dense features of X if it has any, else the sparse ones. `HNSW` needs dense features.
    """

    def __init__(self, X: ScaledFeatures, search: str) -> None:
        if X.features.n_dense:
            X = ScaledFeatures(Features(None, X.features.dense, trusted=True), X.factors)
        self._sparse, self._rows = X.multiplied().both
        self.n_samples, self.n_dense = self._rows.shape
        self.n_features = self.n_dense or self._sparse.shape[1]
        self._index: Search | None = None
        self._scores: Callable[[Floats], Floats]
        if search == "hnsw":
            if not self.n_dense:
                raise InputError("search='hnsw' needs dense features, such as embeddings; use search='exact'")
            self._index = make_search(search, self._rows)
            assert isinstance(self._index, HNSWSearch)
            self._index.prepare()
        elif self.n_dense:
            tiles = FactorTiles(self._rows)
            self._scores = lambda queries: tiles.product(queries, _ONE)
        else:
            self._scores = lambda queries: sparse_product(self._sparse, queries.T.copy(), _ONE).T

    def centroid(self, rows: RowIndices) -> Floats:
        """Return the mean of some rows; 0 without rows."""
        part = self._rows[rows] if self.n_dense else sp.csr_matrix(self._sparse[rows])
        total: npt.NDArray[np.float64] = np.asarray(part.sum(axis=0, dtype=np.float64)).ravel()
        return (total / max(len(rows), 1)).astype(np.float32)

    def nearest(self, queries: Floats, positives: Sequence[RowIndices], counts: Sequence[int]) -> list[RowIndices]:
        """Return for each query its nearest rows, ascending: `counts` of them, or fewer, without its positives."""
        if self._index is not None:
            return [self._by_index(*one) for one in zip(queries, positives, counts, strict=True)]
        found = []
        for scores, own, count in zip(self._scores(queries), positives, counts, strict=True):
            candidates = scores.copy()
            candidates[own] = -np.inf
            count = min(count, self.n_samples - len(own))
            rows = np.argpartition(-candidates, count - 1)[:count] if count else np.empty(0)
            found.append(np.sort(rows).astype(np.int32))
        return found

    def _by_index(self, query: Floats, positives: RowIndices, count: int) -> RowIndices:
        """Search the index for one label: what it finds depends on the number of rows wanted."""
        assert self._index is not None
        rows = self._index.nearest(query[None], min(count + len(positives), self.n_samples), _ONE)[0]
        rows = rows[(rows >= 0) & ~np.isin(rows, positives)][:count]
        return np.sort(rows)
