"""The k best labels of many rows, exactly: weights laid out once for a scan in whole numbers (`kernels.scan`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.kernels.scan import (
    BYTE,
    NORM,
    Candidates,
    ChunkArrays,
    count_marks,
    lay_shard,
    mark_shard,
    scan_chunk,
    score_candidates,
    survey_shard,
)
from unmissed.kernels.whole import TILE, byte_place, to_byte
from unmissed.models import scoring
from unmissed.models.label_clusters import csr_arrays, read_only
from unmissed.ranking import Ranking
from unmissed.solvers.buffers import scratch
from unmissed.solvers.shard import Shard

_CHUNK = 4096  # labels; sums of some rows for so many stay in cache
_MANY = 16  # a feature with weights for more than one in so many labels of a chunk has all of them, with zeros
_LINES = 2**16  # at most so many features have whole lines: their numbers have 16 bits
_REACH = 4  # weights up to so many times the typical one of their label fit into 8 bits
_ROOM = 64  # for candidates of a row, and four times k more
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
            best_of_rows = labels[begin:end], best[begin:end]
            found = _no_candidates(end - begin, k)
            for first, chunk in self.chunks:
                sums = scratch("whole scores", (end - begin, TILE * len(chunk.scale)), np.int32)
                scan_chunk(chunk, first, *rows, sums, found, *best_of_rows)
            for first, chunk in self.chunks:
                score_candidates(chunk, first, *rows, found, *best_of_rows)

        pieces = range(0, X.shape[0], _ROWS)
        for _ in Threads(n_jobs if len(pieces) > 1 else 1).each(some, pieces):
            pass
        return Ranking(labels, best)


def _no_candidates(n_rows: int, k: int) -> Candidates:
    """Return empty lists."""
    room = n_rows, _ROOM + 4 * k
    floor = np.full((n_rows, k), -np.inf, np.float32)
    return Candidates(floor, np.zeros(n_rows, np.int64), np.empty(room, np.int32), np.empty(room, np.float32))


def _lay(shards: Sequence[Shard], n_features: int, first: int, last: int) -> ChunkArrays:
    """Lay out the weights of labels `first` to `last` - 1."""
    n_labels = last - first
    mine = list(_overlapping(shards, first, last))
    counts, sizes = np.zeros(n_features, np.int64), np.zeros(n_labels, np.int64)
    squares, peaks = np.zeros(n_labels), np.zeros(n_labels)
    for place, shard in mine:
        survey_shard(*_arrays(shard), place, counts, sizes, squares, peaks)
    typical = np.sqrt(squares / np.maximum(sizes, 1))
    names = np.argsort(typical, kind="stable")
    places = np.empty(n_labels, np.int64)
    places[names] = np.arange(n_labels)
    norm, peak, spread = (_of_tiles(values[names]) for values in (np.sqrt(squares), peaks, typical))
    scale = np.maximum.reduce([peak / 32767, norm / NORM, _REACH * spread / BYTE])
    scale = np.where(scale > 0, scale, 1.0)
    order = np.argsort(-counts, kind="stable")[:_LINES]  # frequent features side by side
    order = order[_MANY * counts[order] > n_labels]
    lines = np.full(n_features, -1, np.int32)
    lines[order] = np.arange(len(order))
    bits = np.zeros((n_labels, -(-len(order) // 64)), np.uint64)
    counts[:] = 0
    for place, shard in mine:
        mark_shard(*_arrays(shard), place, places, lines, scale, bits, counts)
    bias = np.concatenate([shard.bias[max(-place, 0) : last - shard.first] for place, shard in mine])[names]
    chunk = _make_room(names, lines, bits, _starts(counts), scale, norm, bias.astype(np.float32, copy=False))
    counts[:] = 0
    for place, shard in mine:
        lay_shard(*_arrays(shard), place, places, chunk, counts)
    return chunk


def _make_room(
    names: npt.NDArray[np.int64],
    lines: npt.NDArray[np.int32],
    bits: npt.NDArray[np.uint64],
    starts: npt.NDArray[np.int64],
    scale: npt.NDArray[np.float64],
    norm: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float32],
) -> ChunkArrays:
    """Return a chunk without weights: zeros in its lines, and room in its lists."""
    ranks, own_starts = np.empty(bits.shape, np.uint16), np.zeros(len(names) + 1, np.int64)
    count_marks(bits, ranks, own_starts)
    zeros = np.zeros(TILE, np.int8)
    for lane in range(TILE):
        zeros[byte_place(lane)] = to_byte(0, lane)
    return ChunkArrays(
        names=names.astype(np.uint16),
        lines=lines,
        dense=np.tile(zeros, (len(scale), max(int(lines.max(initial=-1)) + 1, 1))),
        starts=starts,
        labels=np.empty(starts[-1], np.uint16),
        weights=np.empty(starts[-1], np.int16),
        scale=scale,
        norm=norm,
        largest=_of_tiles(np.abs(bias.astype(np.float64))),
        bias=bias,
        listed=np.empty(starts[-1], np.float32),
        own_starts=own_starts,
        own=np.zeros(own_starts[-1] + 1, np.float32),  # one more: a place that is looked at, and not used
        bits=bits,
        ranks=ranks,
    )


def _overlapping(shards: Sequence[Shard], first: int, last: int) -> Iterator[tuple[int, Shard]]:
    """Yield the shards that have some of these labels, and where in the chunk their own first label is."""
    for shard in shards:
        if shard.first < last and shard.first + shard.n_labels > first:
            yield shard.first - first, shard


def _arrays(shard: Shard) -> tuple[npt.NDArray[Any], ...]:
    return tuple(read_only(array) for array in (shard.features, shard.starts, shard.labels, shard.weights))


def _of_tiles(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the largest value of each tile of labels."""
    padded = np.zeros(-(-len(values) // TILE) * TILE)
    padded[: len(values)] = values
    return np.asarray(padded.reshape(-1, TILE).max(axis=1))


def _starts(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
