"""The k best labels of many rows, exactly: weights laid out once for a scan in whole numbers (`kernels.scan`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.kernels.candidates import Candidates, score_candidates
from unmissed.kernels.chunks import (
    BYTE,
    MARKS,
    NO_LINE,
    ChunkArrays,
    count_marks,
    count_shard,
    lay_shard,
    mark_shard,
    survey_shard,
)
from unmissed.kernels.scan import NORM, WholeRows, round_rows, scan_chunk
from unmissed.kernels.whole import TILE, byte_place, to_byte
from unmissed.models import scoring
from unmissed.models.label_clusters import csr_arrays, read_only
from unmissed.ranking import Ranking
from unmissed.solvers.buffers import aligned, scratch
from unmissed.solvers.shard import Shard

_CHUNK = 8192  # labels; the sums of a row for so many stay in cache
_MANY = 16  # a feature with weights for more than one in so many labels of a chunk has all of them, with zeros
_LINES = 2**16  # at most so many features have whole lines: their numbers have 16 bits
_REACH = 4  # weights up to so many times the typical one of their label fit into 8 bits
_ROOM = 64  # for candidates of a row, and four times k more
_SUMS = 2**24  # numbers that a thread has at a time; the more rows share them, the less often weights are fetched
_PER_CANDIDATE = 6  # numbers of 4 bytes
_LEAST_ROWS = 256  # that are worth a thread's while
_POINTERS = 20  # bytes per feature and chunk that say where its weights are, or do so while they are laid out


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
        if all(np.isneginf(shard.bias).all() for shard in self._shards):
            return False  # no label can be ranked
        pointers = _POINTERS * self._n_features * -(-n_labels // _CHUNK)
        return pointers <= 2**26 + 8 * n_weights and n_weights < 2**32  # places in lists have 32 bits


class Scan:
    """The weights of all labels in chunks that are ready for the scan, and the exact ones label by label."""

    def __init__(self, shards: Sequence[Shard], n_features: int) -> None:
        labels = _survey(shards)
        order = np.argsort(-labels.sizes, kind="stable")
        order = order[labels.bias[order] > -np.inf]  # a bias of -inf: the label is never ranked
        n_chunks = max(round(len(order) / _CHUNK), 1)  # a few labels more are no chunk of their own
        chosen = np.array_split(order, n_chunks)
        chunk_of = np.full(len(labels.sizes), n_chunks, np.int32)
        for number, names in enumerate(chosen):
            chunk_of[names] = number
        counts = np.zeros((n_chunks + (len(order) < len(chunk_of)), n_features), np.int64)
        for shard in shards:
            count_shard(*_arrays(shard)[:3], chunk_of[shard.first : shard.first + shard.n_labels], counts)
        firsts = np.cumsum([0, *(len(names) for names in chosen)])[:-1].tolist()
        self.chunks = [
            (first, _lay(shards, labels, names, counts[number]))
            for number, (first, names) in enumerate(zip(firsts, chosen, strict=True))
        ]

    def rank(self, X: sp.csr_matrix, k: int, n_jobs: int | None) -> Ranking:
        """Return the k best labels of each row."""
        labels = np.full((X.shape[0], k), -1, np.int32)
        best = np.full((X.shape[0], k), -np.inf, np.float32)
        indptr, indices, data = csr_arrays(X)
        threads = Threads(n_jobs)
        width = max(TILE * len(chunk.scale) for _, chunk in self.chunks)
        size = _rows_at_a_time(X.shape[0], width + _PER_CANDIDATE * _room(k), threads.n_jobs)

        def some(begin: int) -> None:
            end = min(begin + size, X.shape[0])
            rows = _rounded(indptr[begin : end + 1], indices, data)
            best_of_rows = labels[begin:end], best[begin:end]
            found = _no_candidates(end - begin, k)
            for first, chunk in self.chunks:
                sums = scratch("whole scores", (end - begin, TILE * len(chunk.scale)), np.int32)
                scan_chunk(chunk, first, rows, sums, sums.view(np.float32), found, *best_of_rows)
            for first, chunk in self.chunks:
                score_candidates(chunk, first, rows, found, *best_of_rows)

        pieces = range(0, X.shape[0], size)
        for _ in (threads if len(pieces) > 1 else Threads(1)).each(some, pieces):
            pass
        return Ranking(labels, best)


def _rows_at_a_time(n_rows: int, width: int, n_jobs: int) -> int:
    """Return how many rows a thread takes at a time: equal parts for all threads, as few as there is room for."""
    most = max(_SUMS // max(width, 1), 1)
    n_parts = n_jobs * -(-n_rows // (n_jobs * most))
    return max(-(-n_rows // max(n_parts, 1)), min(_LEAST_ROWS, most))


def _rounded(indptr: npt.NDArray[np.int64], indices: npt.NDArray[np.int32], data: npt.NDArray[np.float32]) -> WholeRows:
    """Return rows as whole numbers."""
    factors = np.empty(indptr[-1] - indptr[0], np.int16)
    rows = WholeRows(indptr, indices, data, factors, *np.empty((3, len(indptr) - 1)))
    round_rows(rows)
    return rows


def _room(k: int) -> int:
    """Return for how many candidates a row has room."""
    return _ROOM + 4 * k


def _no_candidates(n_rows: int, k: int) -> Candidates:
    """Return empty lists."""
    room = n_rows, _room(k)
    floor = np.full((n_rows, k), -np.inf, np.float32)
    return Candidates(floor, np.zeros(n_rows, np.int64), np.empty(room, np.int32), np.empty(room, np.float32))


class _Labels(NamedTuple):
    """What each label is like: how many weights it has, the sum of their squares, the largest, and its bias."""

    sizes: npt.NDArray[np.int64]
    squares: npt.NDArray[np.float64]
    peaks: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float32]


def _survey(shards: Sequence[Shard]) -> _Labels:
    """Look at the weights of all labels."""
    bias = np.concatenate([np.empty(0, np.float32), *(shard.bias for shard in shards)]).astype(np.float32, copy=False)
    found = _Labels(np.zeros(len(bias), np.int64), np.zeros(len(bias)), np.zeros(len(bias)), bias)
    for shard in shards:
        mine = slice(shard.first, shard.first + shard.n_labels)
        survey_shard(*_arrays(shard)[1:], *(array[mine] for array in found[:3]))
    return found


def _lay(
    shards: Sequence[Shard], labels: _Labels, names: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> ChunkArrays:
    """Lay out the weights of some labels; `counts` has how many there are for each feature, and is used up."""
    typical = np.sqrt(labels.squares[names] / np.maximum(labels.sizes[names], 1))
    order = np.argsort(typical, kind="stable")
    names = names[order]
    norm, peak = (_of_tiles(values[names]) for values in (np.sqrt(labels.squares), labels.peaks))
    scale = np.maximum.reduce([peak / 32767, norm / NORM, _REACH * _of_tiles(typical[order]) / BYTE])
    scale = np.where(scale > 0, scale, 1.0)
    features = np.argsort(-counts, kind="stable")[:_LINES]  # frequent ones side by side
    features = features[_MANY * counts[features] > len(names)]
    lines = np.full(len(counts), -1, np.int32)
    lines[features] = np.arange(len(features))
    marks = np.zeros((len(names), -(-len(features) // MARKS)), np.uint64)
    places = np.full(len(labels.sizes), -1, np.int32)
    places[names] = np.arange(len(names))
    mine = [(_arrays(shard), places[shard.first : shard.first + shard.n_labels]) for shard in shards]
    counts[:] = 0
    for arrays, of_shard in mine:
        mark_shard(*arrays, of_shard, lines, scale, marks, counts)
    chunk = _make_room(names, lines, marks, _starts(counts), scale, norm, labels.bias[names])
    counts[:] = 0
    for arrays, of_shard in mine:
        lay_shard(*arrays, of_shard, chunk, counts)
    return chunk


def _make_room(
    names: npt.NDArray[np.int64],
    lines: npt.NDArray[np.int32],
    marks: npt.NDArray[np.uint64],
    starts: npt.NDArray[np.int64],
    scale: npt.NDArray[np.float64],
    norm: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float32],
) -> ChunkArrays:
    """Return a chunk without weights: zeros in its lines, and room in its lists."""
    own_starts = np.zeros(len(names) + 1, np.int64)
    own_starts[0] = starts[-1]  # the lists have theirs before
    count_marks(marks, own_starts)
    zeros = np.zeros(TILE, np.int8)
    for lane in range(TILE):
        zeros[byte_place(lane)] = to_byte(0, lane)
    n_lines = max(int(lines.max(initial=-1)) + 1, 1)
    dense = aligned(len(scale) * n_lines * TILE, np.int8).reshape(len(scale), n_lines * TILE)
    dense.reshape(-1, TILE)[:] = zeros
    return ChunkArrays(
        names=names.astype(np.int32),
        table=np.stack([starts, np.append(lines, -1) % (NO_LINE + 1)], axis=1).astype(np.uint32),  # NO_LINE for -1
        dense=dense,
        words=np.empty(starts[-1], np.int32),
        scale=scale,
        norm=norm,
        largest=_of_tiles(np.abs(bias.astype(np.float64))),
        bias=np.append(bias, np.full(-len(bias) % TILE, -np.inf, np.float32)),
        exact=np.empty(own_starts[-1], np.float32),
        own_starts=own_starts,
        marks=marks,
    )


def _arrays(shard: Shard) -> tuple[npt.NDArray[Any], ...]:
    return tuple(read_only(array) for array in (shard.features, shard.starts, shard.labels, shard.weights))


def _of_tiles(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the largest value of each tile of labels."""
    padded = np.zeros(-(-len(values) // TILE) * TILE)
    padded[: len(values)] = values
    return np.asarray(padded.reshape(-1, TILE).max(axis=1))


def _starts(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
