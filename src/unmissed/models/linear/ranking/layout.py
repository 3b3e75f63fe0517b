"""Build the layout of the quantized scan: the weights of all labels in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.execution import Threads
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
from unmissed.models.linear.ranking.int8 import TILE, byte_slot, to_byte
from unmissed.models.linear.ranking.scan import NORM
from unmissed.models.linear.shard import Shard
from unmissed.numerics.csr import read_only
from unmissed.numerics.workspace import aligned
from unmissed.settings import SETTINGS

_MAX_LINES = 2**16  # features with dense lines; line numbers are uint16


class ScanLayout(NamedTuple):
    """The weights of all labels in chunks, and the number of weights of each sparse feature; all arrays read-only."""

    chunks: list[ChunkArrays]
    feature_counts: npt.NDArray[np.int64]

    @property
    def firsts(self) -> list[int]:
        """The position in the scan of the first label of each chunk."""
        sizes = [len(chunk.label_ids) for chunk in self.chunks]
        return [sum(sizes[:number]) for number in range(len(sizes))]

    @property
    def n_bytes(self) -> int:
        """Size in memory."""
        return sum(array.nbytes for chunk in self.chunks for array in chunk)


def build_layout(shards: Sequence[Shard], n_sparse: int, n_jobs: int | None) -> ScanLayout:
    """Return the layout of the weights of shards; labels with bias -inf are left out, as they are never ranked."""
    labels = _label_statistics(shards)
    order = np.argsort(-labels.sizes, kind="stable")
    order = order[labels.bias[order] > -np.inf]
    n_chunks = max(round(len(order) / SETTINGS.chunk_labels), 1)  # a small remainder makes no chunk
    chosen = np.array_split(order, n_chunks)
    chunk_of = np.full(len(labels.sizes), n_chunks, np.int32)
    for number, label_ids in enumerate(chosen):
        chunk_of[label_ids] = number
    counts = np.zeros((n_chunks + (len(order) < len(chunk_of)), n_sparse), np.int64)
    for shard in shards:
        count_weights(*_arrays(shard)[:3], chunk_of[shard.first : shard.first + shard.n_labels], counts)
    feature_counts = counts.sum(axis=0)

    def build(number: int) -> tuple[int, ChunkArrays]:
        chunk = _build_chunk(shards, labels, chosen[number], counts[number])
        return number, ChunkArrays(*map(read_only, chunk))

    built = dict(Threads(n_jobs).each(build, range(n_chunks)))
    return ScanLayout([built[number] for number in range(n_chunks)], read_only(feature_counts))


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
