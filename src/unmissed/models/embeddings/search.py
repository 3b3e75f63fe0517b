"""Maximum inner product search over the rows of a factor: exact, or approximate with HNSW (faiss)."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.execution import Once, Threads
from unmissed.models.embeddings.low_rank import pack_tile, score_factors
from unmissed.models.embeddings.products import ROWS, Floats
from unmissed.numerics.simd import LANES
from unmissed.numerics.topk import merge_best

_LINKS, _EF_CONSTRUCTION = 32, 100  # of the HNSW graph


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


def normalize_rows(factor: Floats) -> Floats:
    """Return the factor with L2-normalized rows; zero rows stay zero."""
    norms = np.sqrt((factor.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    scaled: Floats = np.divide(factor, norms, out=np.zeros_like(factor), where=norms > 0).astype(np.float32)
    return scaled


class Search(Protocol):
    """Protocol of a maximum inner product search over the rows of a factor."""

    def prepare(self) -> None:
        """Build the index unless it is there; `nearest` does so, too."""

    def nearest(self, queries: Floats, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the k nearest rows of each query, best first, padded with -1."""


class ExactSearch:
    """Exhaustive search."""

    def __init__(self, factor: Floats) -> None:
        self._tiles = Once("tiles of embeddings", partial(FactorTiles, factor))

    def prepare(self) -> None:
        """Copy the factor to tiles."""
        self._tiles.get()

    def nearest(self, queries: Floats, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the k nearest rows of each query."""
        return self._tiles.get().largest(queries, k, threads)[0]


class HNSWSearch:
    """Approximate search with an HNSW graph of faiss, built once, in one thread: reproducible."""

    ef_search = 100

    def __init__(self, factor: Floats) -> None:
        _faiss()
        self._graph = Once("HNSW graph", partial(_build_graph, factor))

    def prepare(self) -> None:
        """Build the graph."""
        self._graph.get()

    def nearest(self, queries: Floats, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return approximately the k nearest rows of each query."""
        faiss, graph = _faiss(), self._graph.get()
        parameters = faiss.SearchParametersHNSW(efSearch=max(self.ef_search, k))
        with _openmp_threads(faiss, 1 if _Forked.with_faiss else threads.n_jobs):
            found = graph.search(np.ascontiguousarray(queries), k, params=parameters)[1]
        return np.asarray(found, np.int32)


def _build_graph(factor: Floats) -> Any:
    faiss = _faiss()
    index = faiss.IndexHNSWFlat(factor.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _EF_CONSTRUCTION
    with _openmp_threads(faiss, 1):  # several threads would race, and the graph would vary
        index.add(np.ascontiguousarray(factor))
    return index


@contextmanager
def _openmp_threads(faiss: Any, n: int) -> Iterator[None]:
    """Let OpenMP use n threads for calls of this thread."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


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
