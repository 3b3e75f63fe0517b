"""Search: the rows of a factor with the largest inner products, exactly, in tiles; for labels and for neighbours."""

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
from unmissed.kernels.factors import lay_tile, score_factors
from unmissed.kernels.ranking import merge_best
from unmissed.kernels.vectors import LANES
from unmissed.solvers.products import ROWS, Floats


def each_tile(queries: Floats, factor: Floats, work: Callable[[slice, int, Floats], None], threads: Threads) -> None:
    """Call work(rows, first, scores) with queries[rows] factor[first : first + 64]^T for all rows and tiles.

    Takes a copy of the factor in tiles, and 512 x 64 scores per thread; the calls for one piece of rows come in rising
    order of `first`.
    """
    firsts = range(0, len(factor), LANES)
    tiles = np.empty((len(firsts), factor.shape[1], LANES), np.float32)
    for first, tile in zip(firsts, tiles, strict=True):
        lay_tile(factor, first, tile)

    def one(begin: int) -> None:
        rows = slice(begin, begin + ROWS)
        scores = np.empty((len(queries[rows]), LANES), np.float32)
        for first, tile in zip(firsts, tiles, strict=True):
            score_factors(queries[rows], tile, scores)
            work(rows, first, scores[:, : len(factor) - first])

    for _ in threads.each(one, range(0, len(queries), ROWS)):
        pass


def largest_products(queries: Floats, factor: Floats, k: int, threads: Threads) -> tuple[npt.NDArray[np.int32], Floats]:
    """Return the k rows of the factor with the largest inner product for each query, and the products.

    Best first, equal products by rising row, -1 and -inf where the factor has fewer than k rows.
    """
    found = np.full((len(queries), k), -1, np.int32)
    best = np.full((len(queries), k), -np.inf, np.float32)

    def one(rows: slice, first: int, scores: Floats) -> None:
        merge_best(scores, first, found[rows], best[rows])

    each_tile(queries, factor, one, threads)
    return found, best


def unit_rows(factor: Floats) -> Floats:
    """Return the factor with rows of length 1; rows of zeros stay."""
    lengths = np.sqrt((factor.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    scaled: Floats = np.divide(factor, lengths, out=np.zeros_like(factor), where=lengths > 0).astype(np.float32)
    return scaled


class Search(Protocol):
    """Finds the rows of a factor with the largest inner products."""

    def nearest(self, queries: Floats, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the k nearest rows of each query, best first, -1 where there are fewer."""


@dataclass(frozen=True)
class ExactSearch:
    """Looks at every row."""

    factor: Floats

    def nearest(self, queries: Floats, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the k nearest rows of each query."""
        return largest_products(queries, self.factor, k, threads)[0]


class HNSWSearch:
    """Walks over faiss's graph of near rows, made when it is first asked for, in one thread: always the same graph."""

    links, while_building, while_searching = 32, 100, 100

    def __init__(self, factor: Floats) -> None:
        _faiss()
        self._factor = factor
        self._index: Any = None
        self._making = Lock()

    def nearest(self, queries: Floats, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return about the k nearest rows of each query."""
        faiss = _faiss()
        with self._making:
            if self._index is None:
                self._index = self._build(faiss)
        wanted = faiss.SearchParametersHNSW(efSearch=max(self.while_searching, k))
        if _Forked.with_faiss:
            faiss.omp_set_num_threads(1)  # a setting of the calling thread
        found = self._index.search(np.ascontiguousarray(queries), k, params=wanted)[1]
        return np.asarray(found, np.int32)

    def _build(self, faiss: Any) -> Any:
        index = faiss.IndexHNSWFlat(self._factor.shape[1], self.links, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.while_building
        before = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)  # more of them would race for the links
        try:
            index.add(np.ascontiguousarray(self._factor))
        finally:
            faiss.omp_set_num_threads(before)
        return index


SEARCHES: dict[str, Callable[[Floats], Search]] = {"exact": ExactSearch, "hnsw": HNSWSearch}
"""Ways to find nearest rows, by name."""


def make_search(name: str, factor: Floats) -> Search:
    """Return a search over the rows of a factor, or say which searches there are."""
    if name not in SEARCHES:
        raise InputError(f"unknown search {name!r}; known: {', '.join(SEARCHES)}")
    return SEARCHES[name](factor)


class _Forked:
    """Whether this process was forked from one that had loaded faiss.

    The threads of OpenMP do not survive a fork, and GNU's OpenMP waits for them forever; one thread needs no others.
    """

    with_faiss = False

    @classmethod
    def note(cls) -> None:
        """Note that faiss came with the fork."""
        cls.with_faiss = cls.with_faiss or "faiss" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forked.note)


def _faiss() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # its wrappers are older than the newest Python
            import faiss  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise InputError("search='hnsw' needs faiss; install unmissed[neighbours], or use search='exact'") from error
    return faiss
