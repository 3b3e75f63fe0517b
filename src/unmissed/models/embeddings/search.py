"""Maximum inner product search over the rows of a factor: exact, or approximate with HNSW (faiss)."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.execution import Threads
from unmissed.models.embeddings.low_rank import pack_tile, score_factors
from unmissed.models.embeddings.products import ROWS, Floats
from unmissed.numerics.simd import LANES
from unmissed.numerics.topk import merge_best


def each_tile(queries: Floats, factor: Floats, work: Callable[[slice, int, Floats], None], threads: Threads) -> None:
    """Call work(rows, first, scores) with scores = queries[rows] factor[first : first + 64]^T for all rows and tiles.

    Needs memory for a tiled copy of the factor and 512 x 64 scores per thread. For one chunk of rows, `first` increases
    from call to call.
    """
    firsts = range(0, len(factor), LANES)
    tiles = np.empty((len(firsts), factor.shape[1], LANES), np.float32)
    for first, tile in zip(firsts, tiles, strict=True):
        pack_tile(factor, first, tile)

    def one(begin: int) -> None:
        rows = slice(begin, begin + ROWS)
        scores = np.empty((len(queries[rows]), LANES), np.float32)
        for first, tile in zip(firsts, tiles, strict=True):
            score_factors(queries[rows], tile, scores)
            work(rows, first, scores[:, : len(factor) - first])

    for _ in threads.each(one, range(0, len(queries), ROWS)):
        pass


def largest_products(queries: Floats, factor: Floats, k: int, threads: Threads) -> tuple[npt.NDArray[np.int32], Floats]:
    """Return the k rows of the factor with the largest inner products for each query, and the products.

    Sorted by decreasing product, ties by increasing row; padded with -1 and -inf if the factor has fewer than k rows.
    """
    found = np.full((len(queries), k), -1, np.int32)
    best = np.full((len(queries), k), -np.inf, np.float32)

    def one(rows: slice, first: int, scores: Floats) -> None:
        merge_best(scores, first, found[rows], best[rows])

    each_tile(queries, factor, one, threads)
    return found, best


def normalize_rows(factor: Floats) -> Floats:
    """Return the factor with L2-normalized rows; zero rows stay zero."""
    norms = np.sqrt((factor.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    scaled: Floats = np.divide(factor, norms, out=np.zeros_like(factor), where=norms > 0).astype(np.float32)
    return scaled


class Search(Protocol):
    """Protocol of a maximum inner product search over the rows of a factor."""

    def nearest(self, queries: Floats, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the k nearest rows of each query, best first, padded with -1."""


@dataclass(frozen=True)
class ExactSearch:
    """Exhaustive search."""

    factor: Floats

    def nearest(self, queries: Floats, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the k nearest rows of each query."""
        return largest_products(queries, self.factor, k, threads)[0]


class HNSWSearch:
    """Approximate search with an HNSW graph of faiss. The first query builds the graph, in one thread: reproducible."""

    links, ef_construction, ef_search = 32, 100, 100

    def __init__(self, factor: Floats) -> None:
        _faiss()
        self._factor = factor
        self._index: Any = None
        self._lock = Lock()

    def nearest(self, queries: Floats, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return approximately the k nearest rows of each query."""
        faiss = _faiss()
        with self._lock:
            if self._index is None:
                self._index = self._build(faiss)
        parameters = faiss.SearchParametersHNSW(efSearch=max(self.ef_search, k))
        if _Forked.with_faiss:
            faiss.omp_set_num_threads(1)  # applies to the calling thread
        found = self._index.search(np.ascontiguousarray(queries), k, params=parameters)[1]
        return np.asarray(found, np.int32)

    def _build(self, faiss: Any) -> Any:
        index = faiss.IndexHNSWFlat(self._factor.shape[1], self.links, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.ef_construction
        before = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)  # several threads would race, and the graph would vary
        try:
            index.add(np.ascontiguousarray(self._factor))
        finally:
            faiss.omp_set_num_threads(before)
        return index


SEARCHES: dict[str, Callable[[Floats], Search]] = {"exact": ExactSearch, "hnsw": HNSWSearch}
"""Search classes by name."""


def make_search(name: str, factor: Floats) -> Search:
    """Return the search of a name over the rows of a factor."""
    if name not in SEARCHES:
        raise InputError(f"unknown search {name!r}; known: {', '.join(SEARCHES)}")
    return SEARCHES[name](factor)


class _Forked:
    """Whether this process was forked from one that had loaded faiss.

    OpenMP threads do not survive a fork, and GNU OpenMP would wait for them forever. Such a process uses one thread.
    """

    with_faiss = False

    @classmethod
    def record(cls) -> None:
        """Record whether faiss was loaded before the fork."""
        cls.with_faiss = cls.with_faiss or "faiss" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forked.record)


def _faiss() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # raised by the SWIG wrappers of faiss
            import faiss  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise InputError("search='hnsw' needs faiss; install unmissed[neighbors], or use search='exact'") from error
    return faiss
