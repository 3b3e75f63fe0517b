"""Maximum inner product search over the rows of a factor: exact, or approximate with HNSW (faiss)."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.execution import Once, Threads
from unmissed.models.factor_products import FactorTiles, Floats
from unmissed.models.parameters import Help

_LINKS, _EF_CONSTRUCTION = 32, 100  # of the HNSW graph

SearchKind = Annotated[
    Literal["exact", "hnsw"],
    Help("nearest neighbor search: exact, or hnsw for approximate search with faiss (extra `neighbors`)"),
]


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
