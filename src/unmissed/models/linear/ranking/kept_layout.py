"""Layouts of the quantized scan that are kept on disk: their keys, and the checks of those that are opened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.execution import Layouts, Piece
from unmissed.matrices import rises
from unmissed.models.linear.ranking.chunks import FLAGS_PER_WORD, NO_LINE, ChunkArrays, entry_label
from unmissed.models.linear.ranking.int8 import TILE
from unmissed.models.linear.ranking.layout import ScanLayout
from unmissed.models.linear.shard import Shard
from unmissed.numerics.csr import read_only
from unmissed.settings import SETTINGS

_ARRAYS: dict[str, tuple[Any, int]] = {
    "label_ids": (np.int32, 1),
    "table": (np.uint32, 2),
    "lines": (np.int8, 2),
    "entries": (np.int32, 1),
    "scale": (np.float64, 1),
    "norm": (np.float64, 1),
    "max_bias": (np.float64, 1),
    "bias": (np.float32, 1),
    "exact": (np.float32, 1),
    "label_starts": (np.int64, 1),
    "flags": (np.uint64, 2),
    "dense": (np.float32, 2),
    "dense_norm": (np.float64, 1),
}
_COUNTS = "feature_counts"


def layout_key(shards: Sequence[Shard], n_sparse: int) -> str | None:
    """Return a digest of all that determines a layout: weights, settings and program; None if weights have no digest.

    The bias is part of it, because untrained labels are hidden by their bias.
    """
    weights = []
    for shard in shards:
        if shard.digest is None:
            return None
        weights.append([shard.first, shard.digest, hashlib.sha256(shard.bias.tobytes()).hexdigest()])
    settings = [SETTINGS.chunk_labels, SETTINGS.dense_labels, SETTINGS.int8_range]
    content = json.dumps([_code_digest(), settings, n_sparse, weights])
    return hashlib.sha256(content.encode()).hexdigest()[:32]


@cache
def _code_digest() -> str:
    """Return a digest of the modules that build and read layouts, so that a layout of another version is not used."""
    digest = hashlib.sha256()
    package = resources.files(__package__)
    for module in sorted(one.name for one in package.iterdir() if one.name.endswith(".py")):
        digest.update(module.encode() + (package / module).read_bytes())
    return digest.hexdigest()


def keep_layout(layouts: Layouts, key: str, layout: ScanLayout) -> None:
    """Keep a layout on disk."""
    arrays = {_COUNTS: layout.feature_counts}
    for number, chunk in enumerate(layout.chunks):
        arrays |= {_name(field, number): array for field, array in chunk._asdict().items()}
    layouts.put(Piece(key, arrays, {"chunks": len(layout.chunks)}))


def open_layout(layouts: Layouts, key: str, shards: Sequence[Shard], n_sparse: int) -> ScanLayout | None:
    """Return the layout that is kept under a key, memory-mapped; None if there is none, or if it is damaged."""
    piece = layouts.get(key)
    if piece is None:
        return None
    try:
        return _read(piece, shards, n_sparse)
    except InputError as error:
        layouts.discard(error)
        return None


def _name(field: str, number: int) -> str:
    return f"{field}-{number:04d}"


def _read(piece: Piece, shards: Sequence[Shard], n_sparse: int) -> ScanLayout:
    """Return the layout of a piece; raise unless every index in it is valid and it has the labels of the shards."""
    n_chunks = int(piece.numbers("chunks")["chunks"])
    if not 0 < n_chunks <= len(piece.arrays):
        raise piece.damaged(f"it claims {n_chunks} chunks")
    expected = {_name(field, number): kind for number in range(n_chunks) for field, kind in _ARRAYS.items()}
    arrays = piece.expect({_COUNTS: (np.int64, 1)} | expected)
    chunks = [
        ChunkArrays(**{field: read_only(arrays[_name(field, number)]) for field in _ARRAYS})
        for number in range(n_chunks)
    ]
    n_dense = max((0 if shard.dense is None else shard.dense.shape[1] for shard in shards), default=0)
    bias = np.concatenate([shard.bias for shard in shards])
    found = np.sort(np.concatenate([chunk.label_ids for chunk in chunks]))
    if arrays[_COUNTS].shape != (n_sparse,) or not np.array_equal(found, np.flatnonzero(bias > -np.inf)):
        raise piece.damaged("its labels or features are not those of the run")
    for number, chunk in enumerate(chunks):
        if not (_fits(chunk, n_sparse, n_dense, bias) and _has_lists(chunk) and _has_flags(chunk)):
            raise piece.damaged(f"the arrays of chunk {number} do not fit together")
    return ScanLayout(chunks, read_only(arrays[_COUNTS]))


def _fits(chunk: ChunkArrays, n_sparse: int, n_dense: int, bias: npt.NDArray[np.float32]) -> bool:
    """Return whether the arrays of a chunk have the right shapes, and the bias is that of the labels."""
    n_labels, n_tiles = len(chunk.label_ids), -(-len(chunk.label_ids) // TILE)
    per_tile = (chunk.scale, chunk.norm, chunk.max_bias, chunk.dense_norm)
    return (
        all(len(array) == n_tiles for array in per_tile)
        and chunk.table.shape == (n_sparse + 1, 2)
        and chunk.lines.shape[0] == n_tiles
        and chunk.flags.shape[0] == n_labels
        and len(chunk.label_starts) == n_labels + 1
        and chunk.dense.shape == ((TILE * n_tiles, n_dense + 1) if n_dense else (0, 1))
        and np.array_equal(chunk.bias[:n_labels], bias[chunk.label_ids])
        and len(chunk.bias) == TILE * n_tiles
        and bool(np.isneginf(chunk.bias[n_labels:]).all())
    )


def _has_lists(chunk: ChunkArrays) -> bool:
    """Return whether the lists of features lie within the entries, and entries and lines within the chunk."""
    starts, lines = chunk.table[:, 0], chunk.table[:, 1]
    numbers = lines[lines != NO_LINE]
    n_lines = chunk.lines.shape[1] // TILE
    if starts[0] != 0 or starts[-1] != len(chunk.entries) or not rises(starts):
        return False
    if numbers.size and int(numbers.max()) >= min(n_lines, FLAGS_PER_WORD * chunk.flags.shape[1]):
        return False
    if not len(chunk.entries):
        return True
    lowest, highest = entry_label(chunk.entries.min()), entry_label(chunk.entries.max())
    return bool(lowest >= 0 and highest < len(chunk.label_ids))  # labels are the upper bits of entries


def _has_flags(chunk: ChunkArrays) -> bool:
    """Return whether each word of flags has the rank of its first flag, so that all positions are within `exact`."""
    halves = chunk.flags.astype("<u8", copy=False).view("<u2").reshape(*chunk.flags.shape, 4)
    first, second, third = (_ones()[halves[:, :, part]] for part in range(3))  # a sum over an axis takes twice as long
    counts = first + second + third
    ranks = np.cumsum(counts, axis=1, dtype=np.int64)
    ends = chunk.label_starts[0] + np.cumsum(ranks[:, -1] if ranks.shape[1] else np.zeros(len(ranks), np.int64))
    return (
        chunk.label_starts[0] == len(chunk.entries)
        and np.array_equal(chunk.label_starts[1:], ends)
        and len(chunk.exact) == chunk.label_starts[-1]
        and np.array_equal(halves[:, :, 3], ranks - counts)
    )


@cache
def _ones() -> npt.NDArray[np.uint8]:
    """Return the number of bits that are set in each 16-bit number."""
    numbers = np.arange(2**16, dtype=np.uint16)
    return np.asarray(np.unpackbits(numbers.view(np.uint8)).reshape(-1, 16).sum(axis=1), dtype=np.uint8)
