"""The dense part of scores: approximate products by BLAS, and exact ones of the labels that may matter."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Once
from unmissed.execution.blas import one_blas_thread
from unmissed.features import Features
from unmissed.models.linear.ranking import dense_products
from unmissed.models.linear.shard import Shard
from unmissed.numerics.csr import read_only
from unmissed.numerics.topk import merge_best
from unmissed.numerics.workspace import workspace
from unmissed.settings import SETTINGS

Floats = npt.NDArray[np.float32]

_UNIT = 2.0**-24  # relative rounding error of float32
_NO_OVERFLOW = 1e37  # sums of products are finite, in any order, if |x| |w| is at most this
_UNDERFLOW = 2.0**-124  # more than a product and a sum lose by underflow, even if it flushes to zero
_SMALLEST_NORM = 2.0**-126  # smaller float32 numbers have fewer digits


class DenseWeights:
    """The dense weights of all labels, in the memory of their shards."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        sizes = sorted({0 if shard.dense is None else int(shard.dense.shape[1]) for shard in shards})
        if len(sizes) > 1:
            raise InputError(f"labels of the model have {sizes} dense features; expected one number")
        self.n_dense = sizes[0] if sizes else 0
        self.matrices = [read_only(shard.dense) for shard in shards if shard.dense is not None]
        self.firsts = [shard.first for shard in shards]
        self.norms = Once("norms of dense weights", partial(norms_of_labels, self.matrices))

    @contextmanager
    def part(self, X: Features, exact: bool = False) -> Iterator[tuple[sp.csr_matrix, DensePart | None]]:
        """Yield the sparse part of rows and the dense part of their scores, None for models without dense weights.

        Unless rows are few or all scores must be exact, products come from BLAS, limited to one thread per worker.
        """
        if not self.n_dense:
            yield X.csr, None
            return
        sparse, dense = X.both
        if exact or X.shape[0] <= SETTINGS.dense_direct_rows:
            yield sparse, DensePart(self, dense)
        else:
            with one_blas_thread():
                yield sparse, BoundedDensePart(self, dense)

    def index_of(self, label: int) -> int:
        """Return the index of the shard of a label."""
        return bisect_right(self.firsts, label) - 1


class DensePart:
    """The dense part of the scores of rows, computed exactly.

    Each method gets scores[i, l] of the sparse part, for a slice of the rows and labels of one shard.
    """

    def __init__(self, weights: DenseWeights, X: Floats) -> None:
        self._weights, self._X = weights, read_only(X)

    @property
    def X(self) -> Floats:
        """The dense features of the rows."""
        return self._X

    def of(self, rows: npt.NDArray[np.int64]) -> DensePart:
        """Return the dense part of the scores of some rows."""
        return type(self)(self._weights, self._X[rows])

    def merge_best(self, first: int, rows: slice, scores: Floats, labels: Any, best: Any) -> None:
        """Merge the scores of the labels first, first + 1, ... into each row's top k."""
        self.add(first, rows, scores)
        merge_best(scores, first, labels, best)

    def add(self, first: int, rows: slice, scores: Floats) -> None:
        """Add the dense part to the scores of the labels first, first + 1, ..."""
        at, labels = self._position(first, scores.shape[1])
        dense_products.add_products(self._X[rows], self._weights.matrices[at][labels], scores)

    def add_exactly(self, labels: npt.NDArray[np.int64], rows: slice, scores: Floats) -> None:
        """Add the dense part to the scores of given labels of one shard."""
        at = self._weights.index_of(int(labels[0]))
        W = self._weights.matrices[at][labels - self._weights.firsts[at]]
        dense_products.add_products(self._X[rows], read_only(W), scores)

    def add_to_candidates(self, rows: slice, candidates: npt.NDArray[np.int32], scores: Floats) -> None:
        """Add the dense part to scores[i, c] of the labels candidates[i, c]; -1 is no label."""
        labels = candidates.reshape(-1).astype(np.int64)
        order = np.argsort(labels, kind="stable")
        ends = [*np.searchsorted(labels[order], self._weights.firsts), len(order)]
        for at, W in enumerate(self._weights.matrices):
            cells = order[ends[at] : ends[at + 1]]
            if len(cells):
                arrays = cells // candidates.shape[1], labels[cells] - self._weights.firsts[at], cells
                dense_products.add_products_of(self._X[rows], W, *arrays, scores.reshape(-1))

    def _position(self, first: int, n_labels: int) -> tuple[int, slice]:
        """Return the index of a shard, and the positions of the labels first, first + 1, ... in it."""
        at = self._weights.index_of(first)
        begin = first - self._weights.firsts[at]
        return at, slice(begin, begin + n_labels)


class BoundedDensePart(DensePart):
    """The dense part of the scores of many rows: products by BLAS, with bounds on their errors.

    It gives the same bits as `DensePart`.
    """

    def __init__(self, weights: DenseWeights, X: Floats) -> None:
        super().__init__(weights, X)
        n, norms = weights.n_dense, np.empty(len(X))
        dense_products.set_norms(self._X, norms)
        factors = 1.001 * (n * _UNIT / (1 - n * _UNIT) + 8 * _UNIT) * norms
        self._norms = weights.norms.get()
        largest = max(float(of_shard.max(initial=0)) for of_shard in self._norms)
        with np.errstate(over="ignore", invalid="ignore"):
            self._factors = np.where(norms * largest <= _NO_OVERFLOW, factors, np.inf).astype(np.float32)
        self._underflow = np.float32((n + 8) * _UNDERFLOW)

    def merge_best(self, first: int, rows: slice, scores: Floats, labels: Any, best: Any) -> None:
        """Merge the scores of the labels first, first + 1, ... into each row's top k."""
        at, mine = self._position(first, scores.shape[1])
        X, W, norms = self._X[rows], self._weights.matrices[at][mine], self._norms[at][mine]
        products = workspace("dense products", scores.shape, np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            np.matmul(X, W.T, out=products)
        bounds = self._factors[rows], norms, self._underflow
        dense_products.merge_bounded(np.ascontiguousarray(scores), products, X, W, *bounds, first, labels, best)


def norms_of_labels(matrices: Sequence[Floats]) -> list[Floats]:
    """Return the L2 norms of the weights of labels, for each matrix (n_labels, n_dense)."""
    result = []
    for W in matrices:
        norms = np.empty(len(W))
        dense_products.set_norms(W, norms)
        with np.errstate(over="ignore"):
            result.append(np.maximum(norms, _SMALLEST_NORM).astype(np.float32))
    return result
