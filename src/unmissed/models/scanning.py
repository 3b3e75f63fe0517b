"""The k best labels of many rows, exactly: weights laid out once for a scan in whole numbers (`kernels.scan`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.kernels.scan import NORM, ChunkArrays, lay_shard, rank_chunk, survey_shard
from unmissed.kernels.whole import TILE
from unmissed.models import scoring
from unmissed.models.label_clusters import csr_arrays, read_only
from unmissed.ranking import Ranking
from unmissed.solvers.buffers import scratch
from unmissed.solvers.shard import Shard

_CHUNK = 4096  # labels; sums of some rows for so many stay in cache
_MANY = 8  # a feature with weights for more than one in so many labels of a chunk has all of them, with zeros
_LINES = 2**16  # at most so many features have whole lines: their numbers have 16 bits
_ROWS = 1024  # rows that one thread takes at a time
_POINTERS = 20  # bytes per feature and chunk that say where its weights are


class Ranker:
    """The k best labels of rows: the first few straight from shards, and by a scan once there have been many."""

    def __init__(self, shards: Sequence[Shard], n_features: int) -> None:
        self._shards, self._n_features = shards, n_features
        self._n_ranked = 0
        self._scan: Scan | None = None

    def rank(self, X: sp.csr_matrix, k: int, n_jobs: int | None) -> Ranking:
        """Return the k best labels of each row, the same bits on every way."""
        self._n_ranked += X.shape[0]
        if self._scan is None and self._n_ranked > scoring.FEW and self._pays():
            self._scan = Scan(self._shards, self._n_features)
        if self._scan is None:
            return scoring.rank(X, self._shards, k, n_jobs)
        return self._scan.rank(X, k, n_jobs)

    def __reduce__(self) -> tuple[Any, ...]:
        return Ranker, (self._shards, self._n_features)  # a scan is quickly made again

    def _pays(self) -> bool:
        """Tell whether there are weights enough beside what points to them: not with a million labels of few each."""
        n_labels = sum(shard.n_labels for shard in self._shards)
        n_weights = sum(shard.weights.size for shard in self._shards)
        return _POINTERS * self._n_features * -(-n_labels // _CHUNK) <= 2**26 + 8 * n_weights


class Scan:
    """The weights of all labels in chunks that are ready for the scan, and the exact ones label by label."""

    def __init__(self, shards: Sequence[Shard], n_features: int) -> None:
        n_labels = sum(shard.n_labels for shard in shards)
        cuts = range(0, n_labels, _CHUNK)
        self.chunks = [(first, _lay(shards, n_features, first, min(first + _CHUNK, n_labels))) for first in cuts]

    def rank(self, X: sp.csr_matrix, k: int, n_jobs: int | None) -> Ranking:
        """Return the k best labels of each row."""
        labels = np.full((X.shape[0], k), -1, np.int32)
        best = np.full((X.shape[0], k), -np.inf, np.float32)
        indptr, indices, data = csr_arrays(X)

        def some(begin: int) -> None:
            end = min(begin + _ROWS, X.shape[0])
            rows = indptr[begin : end + 1], indices, data
            for first, chunk in self.chunks:
                sums = scratch("whole scores", (end - begin, TILE * len(chunk.scale)), np.int32)
                rank_chunk(chunk, first, *rows, sums, labels[begin:end], best[begin:end])

        pieces = range(0, X.shape[0], _ROWS)
        for _ in Threads(n_jobs if len(pieces) > 1 else 1).each(some, pieces):
            pass
        return Ranking(labels, best)


def _lay(shards: Sequence[Shard], n_features: int, first: int, last: int) -> ChunkArrays:
    """Lay out the weights of labels `first` to `last` - 1."""
    n_labels = last - first
    n_tiles = -(-n_labels // TILE)
    counts, squares, peaks = np.zeros(n_features, np.int64), np.zeros(n_labels), np.zeros(n_labels)
    mine = list(_overlapping(shards, first, last))
    bias = np.concatenate([shard.bias[max(-place, 0) : last - shard.first] for place, shard in mine])
    for place, shard in mine:
        survey_shard(*_arrays(shard), place, counts, squares, peaks)
    norm = np.sqrt(_of_tiles(squares, n_tiles))
    scale = np.maximum(_of_tiles(peaks, n_tiles) / 32767, norm / NORM)
    order = np.argsort(-counts, kind="stable")[:_LINES]  # frequent features side by side
    order = order[_MANY * counts[order] > n_labels]
    lines = np.full(n_features, -1, np.int32)
    lines[order] = np.arange(len(order))
    starts = _starts(np.where(lines < 0, counts, 0))
    exact_starts = _starts(counts)
    chunk = ChunkArrays(
        lines=lines,
        dense=np.zeros((n_tiles, TILE * max(len(order), 1)), np.int16),
        starts=starts,
        labels=np.empty(starts[-1], np.uint16),
        weights=np.empty(starts[-1], np.int16),
        scale=np.where(scale > 0, scale, 1.0),
        norm=norm,
        largest=_of_tiles(np.abs(bias.astype(np.float64)), n_tiles),
        bias=bias.astype(np.float32, copy=False),
        exact_starts=exact_starts,
        exact=np.empty(exact_starts[-1] + 1, np.float32),  # one more: a place that is asked for, and not used
        masks=np.zeros((n_tiles, len(order)), np.uint64),
        ranks=np.zeros((n_tiles, len(order)), np.uint16),
    )
    counts[:] = 0
    for place, shard in mine:
        lay_shard(*_arrays(shard), place, chunk, counts)
    return chunk


def _overlapping(shards: Sequence[Shard], first: int, last: int) -> Iterator[tuple[int, Shard]]:
    """Yield the shards that have some of these labels, and where in the chunk their own first label is."""
    for shard in shards:
        if shard.first < last and shard.first + shard.n_labels > first:
            yield shard.first - first, shard


def _arrays(shard: Shard) -> tuple[npt.NDArray[Any], ...]:
    return tuple(read_only(array) for array in (shard.features, shard.starts, shard.labels, shard.weights))


def _of_tiles(values: npt.NDArray[np.float64], n_tiles: int) -> npt.NDArray[np.float64]:
    """Return the largest value of each tile of labels."""
    padded = np.zeros(n_tiles * TILE)
    padded[: len(values)] = values
    return np.asarray(padded.reshape(n_tiles, TILE).max(axis=1))


def _starts(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
