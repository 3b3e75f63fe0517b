"""Scores and rankings by sparse linear classifiers that are kept in shards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.kernels.ranking import fill_tile, merge_best, score_sparse, score_tile
from unmissed.kernels.vectors import LANES
from unmissed.ranking import Ranking
from unmissed.solvers.design import by_frequency
from unmissed.solvers.shard import Shard

FEW = 256  # up to this many rows are scored straight from the shards; laying out dense tiles would cost more
LITTLE = 1 << 13  # features times shards up to which starting Numba would take longer than numpy's loop
_ROWS = 512  # rows that one thread takes at a time

Scores = npt.NDArray[np.float32]
Work = Callable[[int, slice, Scores], None]
Way = tuple[int, int, Any, tuple[npt.NDArray[Any], ...]]  # first label, number of labels, kernel, its arguments


def rank(X: sp.csr_matrix, shards: Sequence[Shard], k: int, n_jobs: int | None) -> Ranking:
    """Return the k best labels of each row, exactly; the scores of all rows and labels are never held at once."""
    if X.shape[0] == 1 and X.nnz * len(shards) <= LITTLE and "numba" not in sys.modules:
        return rank_one(X, shards, k)
    labels = np.full((X.shape[0], k), -1, np.int32)
    best = np.full((X.shape[0], k), -np.inf, np.float32)

    def work(first: int, rows: slice, scores: Scores) -> None:
        merge_best(scores, first, labels[rows], best[rows])

    _score(X, shards, work, n_jobs)
    return Ranking(labels, best)


def rank_one(X: sp.csr_matrix, shards: Iterable[Shard], k: int) -> Ranking:
    """Return the k best labels of a single row without compiled code, to the same bits.

    Starting Numba takes longer than a sentence does; the shell ranks one and ends.
    """
    scores = [np.empty(0, np.float32)]
    for shard in shards:
        line = shard.bias.astype(np.float32)
        places = np.searchsorted(shard.features, X.indices)
        for feature, value, place in zip(X.indices.tolist(), X.data, places.tolist(), strict=True):
            if place < shard.features.size and shard.features[place] == feature:
                inside = slice(int(shard.starts[place]), int(shard.starts[place + 1]))
                line[shard.labels[inside]] += value * shard.weights[inside]  # a label stands once in a feature
        scores.append(line)
    every = np.concatenate(scores)
    least = np.partition(every, -k)[-k] if 0 < k < every.size else -np.inf
    found = np.flatnonzero(every >= least)
    order = found[np.lexsort((found, -every[found]))[:k]]
    labels, best = np.full((1, k), -1, np.int32), np.full((1, k), -np.inf, np.float32)
    labels[0, : order.size], best[0, : order.size] = order, every[order]
    return Ranking(labels, best)


def decide(X: sp.csr_matrix, shards: Sequence[Shard], n_labels: int, threshold: float, n_jobs: int | None) -> Any:
    """Return the sparse 0/1 matrix of the labels whose score is at least the threshold."""
    hits = [(np.empty(0, np.int64), np.empty(0, np.int64))]

    def work(first: int, rows: slice, scores: Scores) -> None:
        row, label = np.nonzero(scores >= threshold)
        hits.append((row + rows.start, label + first))

    _score(X, shards, work, n_jobs)
    rows, columns = (np.concatenate(part) for part in zip(*hits, strict=True))
    return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(X.shape[0], n_labels))


def scores_of(X: sp.csr_matrix, shards: Sequence[Shard], labels: npt.NDArray[np.int64]) -> Scores:
    """Return the scores of chosen labels, (n_samples, len(labels))."""
    out = np.empty((X.shape[0], len(labels)), np.float32)
    for shard in shards:
        wanted = np.flatnonzero((labels >= shard.first) & (labels < shard.first + shard.n_labels))
        if len(wanted):

            def work(first: int, rows: slice, scores: Scores, wanted: Any = wanted) -> None:
                inside = wanted[(labels[wanted] >= first) & (labels[wanted] < first + scores.shape[1])]
                out[rows.start : rows.stop, inside] = scores[:, labels[inside] - first]

            _score(X, [shard], work, 1)
    return out


def _score(X: sp.csr_matrix, shards: Sequence[Shard], work: Work, n_jobs: int | None) -> None:
    """Call work(first label, rows, scores) for each shard or tile and piece of rows; threads share the rows."""
    indptr, data = X.indptr.astype(np.int64), X.data
    pieces = [slice(begin, min(begin + _ROWS, X.shape[0])) for begin in range(0, X.shape[0], _ROWS)]
    threads = Threads(n_jobs if len(pieces) > 1 else 1)
    if X.shape[0] <= FEW:
        indices, ways = X.indices.astype(np.int32, copy=False), _straight(shards)
    else:
        place = by_frequency(X.indices, X.shape[1])
        indices, ways = place[X.indices].view(np.uint32), _tiles(shards, place)  # unsigned: no wrap-around checks
    for first, n_labels, kernel, arguments in ways:

        def one(rows: slice, first: int = first, n_labels: int = n_labels, call: Any = (kernel, arguments)) -> None:
            scores = np.empty((rows.stop - rows.start, len(call[1][-1])), np.float32)
            call[0](indptr[rows.start : rows.stop + 1], indices, data, *call[1], scores)
            work(first, rows, scores[:, :n_labels])

        for _ in threads.each(one, pieces):
            pass


def _straight(shards: Sequence[Shard]) -> Iterator[Way]:
    """Yield the shards as they are."""
    for shard in shards:
        arrays = (shard.features, shard.starts, shard.labels, shard.weights, shard.bias)
        yield shard.first, shard.n_labels, score_sparse, arrays


def _tiles(shards: Sequence[Shard], place: npt.NDArray[np.int32]) -> Iterator[Way]:
    """Yield dense tiles of LANES labels, one after the other in the same memory; feature j stands at place[j]."""
    tile = np.empty((len(place), LANES), np.float32)
    for shard in shards:
        for left in range(0, shard.n_labels, LANES):
            n_labels = min(LANES, shard.n_labels - left)
            bias = np.zeros(LANES, np.float32)
            bias[:n_labels] = shard.bias[left : left + n_labels]
            tile[:] = 0
            fill_tile(shard.features, shard.starts, shard.labels, shard.weights, left, place, tile)
            yield shard.first + left, n_labels, score_tile, (tile, bias)
