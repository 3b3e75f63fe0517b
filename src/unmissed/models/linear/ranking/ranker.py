"""Exact top-k labels of many rows: weights are laid out once for the quantized scan (`scan`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Once, Threads
from unmissed.models.linear.ranking import exact_scores
from unmissed.models.linear.ranking.candidates import CROWDED, Candidates, score_candidates
from unmissed.models.linear.ranking.chunks import (
    FLAGS_PER_WORD,
    MAX_INT8,
    NO_LINE,
    ChunkArrays,
    add_label_statistics,
    count_flags,
    count_weights,
    flag_weights,
    write_weights,
)
from unmissed.models.linear.ranking.dense_products import set_norms
from unmissed.models.linear.ranking.dense_scores import DensePart
from unmissed.models.linear.ranking.int8 import TILE, byte_slot, to_byte
from unmissed.models.linear.ranking.scan import NORM, QuantizedBatch, quantize_rows, scan_chunk
from unmissed.models.linear.ranking.top_labels import TopLabels
from unmissed.models.linear.shard import Shard
from unmissed.numerics.csr import csr_arrays, read_only
from unmissed.numerics.workspace import aligned, workspace
from unmissed.ranking import Ranking
from unmissed.settings import SETTINGS

_MAX_LINES = 2**16  # features with dense lines; line numbers are uint16
_PER_CANDIDATE = 2  # 32-bit numbers
_MIN_ROWS_PER_THREAD = 256  # fewer do not repay a thread
# Nanoseconds of scoring a row directly, per weight, per feature and shard, per label, and per dense weight; and of
# scoring one candidate, per feature and per dense weight (`benchmarks.ranking`, `benchmarks.ranking_dense`).
_WEIGHT_COST, _SEARCH_COST, _LABEL_COST, _DENSE_COST = 1.0, 150.0, 2.0, 0.03
_CANDIDATE_COST, _DENSE_CANDIDATE_COST = 13.0, 0.2


class Ranker:
    """Exact top-k labels: rows are scored directly from shards, or by the quantized scan once its layout is there.

    `prepare` builds the layout, once for all threads. So does a call of `rank` with at least SETTINGS.prepare_rows
    rows, which repays it. Other calls never build it and use it if it is there, so no call waits for a layout that only
    later calls need. All ways give the same bits.
    """

    def __init__(self, shards: Sequence[Shard], n_sparse: int, n_jobs: int | None = None) -> None:
        self._shards = shards
        self.scan = Once("quantized weights", partial(build_scan, shards, n_sparse, n_jobs))

    def prepare(self) -> None:
        """Build the layout of the scan, unless it is there or not worth its memory."""
        self.scan.get()

    def rank(self, X: sp.csr_matrix, k: int, n_jobs: int | None, dense: DensePart | None = None) -> Ranking:
        """Return the k highest-scoring labels of each row, exactly; `dense` is the dense part of the scores."""
        top = TopLabels.empty(X.shape[0], k)
        self._merge(X, top, n_jobs, dense)
        return top.ranking

    def decide(
        self, X: sp.csr_matrix, threshold: float, n_jobs: int | None, dense: DensePart | None = None
    ) -> sp.csr_matrix:
        """Return the sparse 0/1 matrix of labels with a score of at least `threshold`.

        It is a ranking above the threshold. Rows with too many labels for that are scored directly.
        """
        n_labels = sum(shard.n_labels for shard in self._shards)
        least = max(np.float32(threshold), np.finfo(np.float32).min)  # -inf is the score of labels that are not ranked
        top = TopLabels.above(least, X.shape[0], max(min(SETTINGS.decided_labels, n_labels), 1))
        self._merge(X, top, n_jobs, dense)
        full = np.flatnonzero(top.full)
        top.scores[full] = -np.inf
        rows, positions = np.nonzero(top.scores >= least)
        labels = top.labels[rows, positions]
        if len(full):
            their_dense = None if dense is None else dense.of(full)
            their_rows, their_labels = exact_scores.decide(X[full], self._shards, least, n_jobs, their_dense)
            rows, labels = np.append(rows, full[their_rows]), np.append(labels, their_labels)
        return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, labels)), shape=(X.shape[0], n_labels))

    def _merge(self, X: sp.csr_matrix, top: TopLabels, n_jobs: int | None, dense: DensePart | None) -> None:
        if X.shape[0] >= SETTINGS.prepare_rows:
            self.prepare()
        scan = self.scan.peek()
        if scan is None:
            exact_scores.merge(X, self._shards, top, n_jobs, dense)
        else:
            scan.merge(X, top, n_jobs, dense)


def build_scan(shards: Sequence[Shard], n_sparse: int, n_jobs: int | None = None) -> QuantizedScan | None:
    """Return the layout of the scan, or None if it would be large relative to the weights.

    It is for a million labels with few weights each.
    """
    n_labels = sum(shard.n_labels for shard in shards)
    n_weights = sum(shard.weights.size for shard in shards)
    if all(np.isneginf(shard.bias).all() for shard in shards):
        return None  # no label can be ranked
    table_bytes = SETTINGS.table_bytes * n_sparse * -(-n_labels // SETTINGS.chunk_labels)
    pays = table_bytes <= 2**26 + 8 * n_weights and n_weights < 2**32  # positions in lists are uint32
    return QuantizedScan(shards, n_sparse, n_jobs) if pays else None


class QuantizedScan:
    """The weights of all labels in chunks: quantized for the scan, and exact per label.

    Crowded rows are scored from the shards.
    """

    def __init__(self, shards: Sequence[Shard], n_sparse: int, n_jobs: int | None = None) -> None:
        self._shards = shards
        labels = _label_statistics(shards)
        order = np.argsort(-labels.sizes, kind="stable")
        order = order[labels.bias[order] > -np.inf]  # a label with bias -inf is never ranked
        n_chunks = max(round(len(order) / SETTINGS.chunk_labels), 1)  # a small remainder makes no chunk
        chosen = np.array_split(order, n_chunks)
        chunk_of = np.full(len(labels.sizes), n_chunks, np.int32)
        for number, label_ids in enumerate(chosen):
            chunk_of[label_ids] = number
        counts = np.zeros((n_chunks + (len(order) < len(chunk_of)), n_sparse), np.int64)
        for shard in shards:
            count_weights(*_arrays(shard)[:3], chunk_of[shard.first : shard.first + shard.n_labels], counts)
        self._feature_costs = _WEIGHT_COST * counts.sum(axis=0) + _SEARCH_COST * len(shards)
        self._n_dense = max((0 if shard.dense is None else shard.dense.shape[1] for shard in shards), default=0)
        self._label_costs = (_LABEL_COST + _DENSE_COST * self._n_dense) * len(chunk_of)
        firsts = np.cumsum([0, *(len(label_ids) for label_ids in chosen)])[:-1].tolist()

        def build(number: int) -> tuple[int, ChunkArrays]:
            return firsts[number], _build_chunk(shards, labels, chosen[number], counts[number])

        self.chunks = sorted(Threads(n_jobs).each(build, range(n_chunks)), key=lambda pair: pair[0])

    @property
    def n_bytes(self) -> int:
        """Size in memory."""
        return sum(array.nbytes for _, chunk in self.chunks for array in chunk)

    def merge(self, X: sp.csr_matrix, top: TopLabels, n_jobs: int | None, dense: DensePart | None = None) -> None:
        """Merge all labels into each row's top k, exactly; `dense` is the dense part of the scores."""
        indptr, indices, data = csr_arrays(X)
        threads = Threads(n_jobs)
        width = max(TILE * len(chunk.scale) for _, chunk in self.chunks)
        size = _rows_at_a_time(X.shape[0], width + _PER_CANDIDATE * _capacity(top), threads.n_jobs)

        def rank_rows(begin: int) -> None:
            end = min(begin + size, X.shape[0])
            rows = _quantize(indptr[begin : end + 1], indices, data, None if dense is None else dense.X[begin:end])
            mine = top.of(slice(begin, end))
            candidates = _empty_candidates(mine)
            for first, chunk in self.chunks:
                scan_chunk(chunk, first, rows, *_scan_workspaces(chunk, rows), candidates)
            self._mark_crowded(rows, candidates)
            for first, chunk in self.chunks:
                score_candidates(chunk, first, rows, candidates, *mine)
            crowded = begin + np.flatnonzero(candidates.counts == CROWDED)
            if len(crowded):
                theirs = top.of(crowded)
                exact_scores.merge(X[crowded], self._shards, theirs, 1, None if dense is None else dense.of(crowded))
                top.labels[crowded], top.scores[crowded] = theirs

        pieces = range(0, X.shape[0], size)
        for _ in (threads if len(pieces) > 1 else Threads(1)).each(rank_rows, pieces):
            pass

    def _mark_crowded(self, rows: QuantizedBatch, candidates: Candidates) -> None:
        """Mark the rows as crowded whose candidates cost more than all labels."""
        cost = _CANDIDATE_COST * np.maximum(np.diff(rows.indptr), 1) + _DENSE_CANDIDATE_COST * self._n_dense
        cost *= candidates.counts
        if (cost <= self._label_costs).all():
            return  # most batches end here, without the costs of features
        begin, end = rows.indptr[0], rows.indptr[-1]
        sums = np.append(0.0, np.cumsum(self._feature_costs[rows.indices[begin:end]]))
        candidates.counts[cost > self._label_costs + np.diff(sums[rows.indptr - begin])] = CROWDED


def _rows_at_a_time(n_rows: int, width: int, n_jobs: int) -> int:
    """Return the number of rows per task: equal parts for all threads, as few parts as memory permits."""
    most = max(SETTINGS.scan_sums // max(width, 1), 1)
    n_parts = n_jobs * -(-n_rows // (n_jobs * most))
    return max(-(-n_rows // max(n_parts, 1)), min(_MIN_ROWS_PER_THREAD, most))


def _quantize(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    data: npt.NDArray[np.float32],
    dense: npt.NDArray[np.float32] | None = None,
) -> QuantizedBatch:
    """Return quantized rows."""
    factors, n_rows = np.empty(indptr[-1] - indptr[0], np.int16), len(indptr) - 1
    with_ones = np.ones((n_rows, 1 if dense is None else dense.shape[1] + 1), np.float32)
    if dense is not None:
        with_ones[:, :-1] = dense
    unit, norm, l1_norm, dense_norm = np.empty((4, n_rows))
    rows = QuantizedBatch(indptr, indices, data, factors, unit, norm, l1_norm, dense_norm, with_ones)
    quantize_rows(rows)
    return rows


def _scan_workspaces(chunk: ChunkArrays, rows: QuantizedBatch) -> tuple[npt.NDArray[Any], ...]:
    """Return the offsets of the scan, the bias or the products of the dense part, and its workspaces."""
    shape = len(rows.unit), TILE * len(chunk.scale)
    sums = workspace("quantized scores", shape, np.int32)
    if not len(chunk.dense):
        return chunk.bias[None], sums, sums.view(np.float32)
    products = workspace("dense products", shape, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        np.matmul(rows.dense, chunk.dense.T, out=products)
    return products, sums, products


def _capacity(top: TopLabels) -> int:
    """Return the capacity of a row's list of candidates."""
    return SETTINGS.candidate_capacity + 4 * int(top.labels.shape[1])


def _empty_candidates(top: TopLabels) -> Candidates:
    """Return empty lists of candidates for each row's top k, in the workspace of this thread."""
    n_rows, shape = len(top.labels), (len(top.labels), _capacity(top))
    labels, upper_bounds = workspace("candidates", shape, np.int32), workspace("upper bounds", shape, np.float32)
    return Candidates(top.scores.copy(), np.zeros(n_rows, np.int64), labels, upper_bounds)


class _LabelStatistics(NamedTuple):
    """Per label: number of weights, squared norm, largest absolute weight, bias."""

    sizes: npt.NDArray[np.int64]
    squares: npt.NDArray[np.float64]
    peaks: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float32]


def _label_statistics(shards: Sequence[Shard]) -> _LabelStatistics:
    """Return the statistics of all labels."""
    bias = np.concatenate([np.empty(0, np.float32), *(shard.bias for shard in shards)]).astype(np.float32, copy=False)
    statistics = _LabelStatistics(np.zeros(len(bias), np.int64), np.zeros(len(bias)), np.zeros(len(bias)), bias)
    for shard in shards:
        mine = slice(shard.first, shard.first + shard.n_labels)
        add_label_statistics(*_arrays(shard)[1:], *(array[mine] for array in statistics[:3]))
    return statistics


def _build_chunk(
    shards: Sequence[Shard], labels: _LabelStatistics, label_ids: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> ChunkArrays:
    """Return the chunk of the given labels.

    counts[f] is the number of their weights for feature f; it is overwritten.
    """
    typical = np.sqrt(labels.squares[label_ids] / np.maximum(labels.sizes[label_ids], 1))
    order = np.argsort(typical, kind="stable")
    label_ids = label_ids[order]
    norm, peak = (_max_per_tile(values[label_ids]) for values in (np.sqrt(labels.squares), labels.peaks))
    features = np.argsort(-counts, kind="stable")[:_MAX_LINES]  # most frequent features first
    features = features[SETTINGS.dense_labels * counts[features] > len(label_ids)]
    scale = np.maximum(peak / 32767, norm / NORM)
    if len(features):  # lines hold int8, lists int16
        scale = np.maximum(scale, SETTINGS.int8_range * _max_per_tile(typical[order]) / MAX_INT8)
    scale = np.where(scale > 0, scale, 1.0)
    lines = np.full(len(counts), -1, np.int32)
    lines[features] = np.arange(len(features))
    flags = np.zeros((len(label_ids), -(-len(features) // FLAGS_PER_WORD)), np.uint64)
    positions = np.full(len(labels.sizes), -1, np.int32)
    positions[label_ids] = np.arange(len(label_ids))
    mine = [(_arrays(shard), positions[shard.first : shard.first + shard.n_labels]) for shard in shards]
    counts[:] = 0
    for arrays, of_shard in mine:
        flag_weights(*arrays, of_shard, lines, scale, flags, counts)
    dense = _gather_dense(shards, label_ids, labels.bias[label_ids], TILE * len(scale))
    chunk = _allocate_chunk(label_ids, lines, flags, _starts(counts), scale, norm, labels.bias[label_ids], dense)
    counts[:] = 0
    for arrays, of_shard in mine:
        write_weights(*arrays, of_shard, chunk, counts)
    return chunk


def _gather_dense(
    shards: Sequence[Shard], label_ids: npt.NDArray[np.int64], bias: npt.NDArray[np.float32], n_lanes: int
) -> npt.NDArray[np.float32]:
    """Return the dense weights of labels with their bias, padded to n_lanes rows; no rows without dense weights."""
    matrices = {shard.first: shard.dense for shard in shards if shard.dense is not None}
    if not matrices:
        return np.empty((0, 1), np.float32)
    firsts = np.array(list(matrices))
    gathered = np.zeros((n_lanes, 1 + next(iter(matrices.values())).shape[1]), np.float32)
    gathered[:, -1] = np.finfo(np.float32).min
    gathered[: len(bias), -1] = bias
    owners = np.searchsorted(firsts, label_ids, side="right") - 1
    for at, (first, matrix) in enumerate(matrices.items()):
        mine = np.flatnonzero(owners == at)
        gathered[mine, :-1] = matrix[label_ids[mine] - first]
    return gathered


def _allocate_chunk(
    label_ids: npt.NDArray[np.int64],
    lines: npt.NDArray[np.int32],
    flags: npt.NDArray[np.uint64],
    starts: npt.NDArray[np.int64],
    scale: npt.NDArray[np.float64],
    norm: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float32],
    dense: npt.NDArray[np.float32],
) -> ChunkArrays:
    """Return a chunk without weights: lines of zeros, and uninitialized lists."""
    label_starts = np.zeros(len(label_ids) + 1, np.int64)
    label_starts[0] = starts[-1]  # after the weights of the lists
    count_flags(flags, label_starts)
    zeros = np.zeros(TILE, np.int8)
    for lane in range(TILE):
        zeros[byte_slot(lane)] = to_byte(0, lane)
    n_lines = max(int(lines.max(initial=-1)) + 1, 1)
    int8_lines = aligned(len(scale) * n_lines * TILE, np.int8).reshape(len(scale), n_lines * TILE)
    int8_lines.reshape(-1, TILE)[:] = zeros
    dense_norms = np.zeros(len(dense))
    set_norms(np.ascontiguousarray(dense[:, :-1]), dense_norms)
    return ChunkArrays(
        label_ids=label_ids.astype(np.int32),
        table=np.stack([starts, np.append(lines, -1) % (NO_LINE + 1)], axis=1).astype(np.uint32),  # NO_LINE for -1
        lines=int8_lines,
        entries=np.empty(starts[-1], np.int32),
        scale=scale,
        norm=norm,
        max_bias=_max_per_tile(np.abs(bias.astype(np.float64))),
        bias=np.append(bias, np.full(-len(bias) % TILE, -np.inf, np.float32)),
        exact=np.empty(label_starts[-1], np.float32),
        label_starts=label_starts,
        flags=flags,
        dense=dense,
        dense_norm=_max_per_tile(dense_norms) if len(dense) else np.zeros(len(scale)),
    )


def _arrays(shard: Shard) -> tuple[npt.NDArray[Any], ...]:
    return tuple(read_only(array) for array in (shard.features, shard.starts, shard.labels, shard.weights))


def _max_per_tile(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the maximum of each tile of labels."""
    padded = np.zeros(-(-len(values) // TILE) * TILE)
    padded[: len(values)] = values
    return np.asarray(padded.reshape(-1, TILE).max(axis=1))


def _starts(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
