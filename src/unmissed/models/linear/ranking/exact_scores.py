"""Exact scores, rankings and decisions of linear models stored in shards.

Scores of the sparse part come from `tiles`. A `DensePart` adds those of the dense part, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.models.linear.design import by_frequency
from unmissed.models.linear.ranking.dense_scores import DensePart
from unmissed.models.linear.ranking.tiles import fill_tile, score_sparse, score_tile
from unmissed.models.linear.ranking.top_labels import TopLabels
from unmissed.models.linear.shard import Shard
from unmissed.numerics.simd import LANES
from unmissed.numerics.topk import merge_best
from unmissed.settings import SETTINGS

_ROWS = 512  # rows per task of a thread

Scores = npt.NDArray[np.float32]
Cells = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Rows and labels."""
ScoreConsumer = Callable[[int, slice, Scores], None]
ScoringPass = tuple[int, int, Any, tuple[npt.NDArray[Any], ...]]
"""First label, number of labels, kernel, arguments of the kernel."""


def merge(
    X: sp.csr_matrix, shards: Sequence[Shard], top: TopLabels, n_jobs: int | None, dense: DensePart | None = None
) -> None:
    """Merge the exact scores of all labels into each row's top k; the full score matrix is never in memory."""

    def consume(first: int, rows: slice, scores: Scores) -> None:
        if dense is None:
            merge_best(scores, first, top.labels[rows], top.scores[rows])
        else:
            dense.merge_best(first, rows, scores, top.labels[rows], top.scores[rows])

    _score(X, shards, consume, n_jobs)


def decide(
    X: sp.csr_matrix, shards: Sequence[Shard], least: np.float32, n_jobs: int | None, dense: DensePart | None = None
) -> Cells:
    """Return the rows and labels of all scores of at least `least`."""
    hits = [(np.empty(0, np.int64), np.empty(0, np.int64))]

    def consume(first: int, rows: slice, scores: Scores) -> None:
        if dense is not None:
            dense.add(first, rows, scores)
        row, label = np.nonzero(scores >= least)
        hits.append((row + rows.start, label + first))

    _score(X, shards, consume, n_jobs)
    rows, labels = (np.concatenate(part) for part in zip(*hits, strict=True))
    return rows, labels


def scores_of(
    X: sp.csr_matrix, shards: Sequence[Shard], labels: npt.NDArray[np.int64], dense: DensePart | None = None
) -> Scores:
    """Return the scores of selected labels, (n_samples, len(labels))."""
    out = np.empty((X.shape[0], len(labels)), np.float32)
    for shard in shards:
        wanted = np.flatnonzero((labels >= shard.first) & (labels < shard.first + shard.n_labels))
        if len(wanted):

            def consume(first: int, rows: slice, scores: Scores, wanted: Any = wanted) -> None:
                inside = wanted[(labels[wanted] >= first) & (labels[wanted] < first + scores.shape[1])]
                scores = scores[:, labels[inside] - first]
                if dense is not None:
                    dense.add_exactly(labels[inside], rows, scores)
                out[rows.start : rows.stop, inside] = scores

            _score(X, [shard], consume, 1)
    return out


def _score(X: sp.csr_matrix, shards: Sequence[Shard], consume: ScoreConsumer, n_jobs: int | None) -> None:
    """Call consume(first label, rows, scores) per shard or tile and block of rows; threads share the rows.

    Up to SETTINGS.direct_rows rows are scored directly from the shards, more over dense tiles.
    """
    indptr, data = X.indptr.astype(np.int64), X.data
    pieces = [slice(begin, min(begin + _ROWS, X.shape[0])) for begin in range(0, X.shape[0], _ROWS)]
    threads = Threads(n_jobs if len(pieces) > 1 else 1)
    if X.shape[0] <= SETTINGS.direct_rows or not X.nnz:
        indices, passes = X.indices.astype(np.int32, copy=False), _shard_passes(shards)
    else:
        position = by_frequency(X.indices, X.shape[1])
        indices = position[X.indices].view(np.uint32)  # unsigned: no wrap-around checks
        passes = _tile_passes(shards, position)
    for first, n_labels, kernel, arguments in passes:

        def score(rows: slice, first: int = first, n_labels: int = n_labels, call: Any = (kernel, arguments)) -> None:
            scores = np.empty((rows.stop - rows.start, len(call[1][-1])), np.float32)
            call[0](indptr[rows.start : rows.stop + 1], indices, data, *call[1], scores)
            consume(first, rows, scores[:, :n_labels])

        for _ in threads.each(score, pieces):
            pass


def _shard_passes(shards: Sequence[Shard]) -> Iterator[ScoringPass]:
    """Yield one pass per shard, in its stored sparse layout."""
    for shard in shards:
        arrays = (shard.features, shard.starts, shard.labels, shard.weights, shard.bias)
        yield shard.first, shard.n_labels, score_sparse, arrays


def _tile_passes(shards: Sequence[Shard], position: npt.NDArray[np.int32]) -> Iterator[ScoringPass]:
    """Yield one pass per dense tile of LANES labels, all in the same memory.

    Feature j is in row position[j] of a tile.
    """
    tile = np.empty((len(position), LANES), np.float32)
    for shard in shards:
        for left in range(0, shard.n_labels, LANES):
            n_labels = min(LANES, shard.n_labels - left)
            bias = np.zeros(LANES, np.float32)
            bias[:n_labels] = shard.bias[left : left + n_labels]
            tile[:] = 0
            fill_tile(shard.features, shard.starts, shard.labels, shard.weights, left, position, tile)
            yield shard.first + left, n_labels, score_tile, (tile, bias)
