"""Parquet files: columns of other types and shapes, damaged bytes, false footers, and few bytes that unpack to many."""

from __future__ import annotations

import decimal
import io
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from tests.hostile.campaign import Format
from tests.hostile.mutators import Rng, pick, spoil_bytes
from unmissed.data import load
from unmissed.data.statistics import describe_labels

TEXTS = ["one two", "three", "äöü"] * 4
LABELS = [["a"], ["b", "c"], []] * 4
N = len(TEXTS)


def invalid_utf8() -> Any:
    """Return strings that are no UTF-8: half of a surrogate pair, as no writer should leave it."""
    words = [b"ok", b"\xed\xa0\x80", b"\xff"] * (N // 3)
    return pyarrow.Array.from_buffers(pyarrow.string(), N, pyarrow.array(words, pyarrow.binary()).buffers())


def odd_columns() -> dict[str, Any]:
    """Return columns of every type that Parquet has, of as many rows as the texts."""
    array = pyarrow.array
    return {
        "strings": array(TEXTS),
        "large strings": array(TEXTS, pyarrow.large_string()),
        "dictionary": array(TEXTS).dictionary_encode(),
        "binary": array([text.encode() for text in TEXTS]),
        "invalid UTF-8": invalid_utf8(),
        "integers": array(range(N)),
        "unsigned": array([2**64 - 1] * N, pyarrow.uint64()),
        "floats": array([0.5, float("nan"), float("inf")] * (N // 3)),
        "halves": array(np.ones(N, np.float16)),
        "flags": array([True, False, None] * (N // 3)),
        "nulls": pyarrow.nulls(N),
        "nulls and strings": array([None, "x", ""] * (N // 3)),
        "decimals": array([decimal.Decimal("1.5")] * N),
        "times": array([datetime(2020, 1, 1)] * N),
        "far times": array([2**62] * N, pyarrow.timestamp("ns")),
        "far dates": array([2**30] * N, pyarrow.date32()),
        "lists": array(LABELS),
        "lists of integers": array([[1], [2, 3], []] * (N // 3)),
        "lists of nulls": array([[None], None, []] * (N // 3), pyarrow.list_(pyarrow.string())),
        "nested lists": array([[["a"]], [], None] * (N // 3)),
        "objects": array([{"a": 1, "b": "x"}] * N),
        "lists of objects": array([[{"a": 1}]] * N),
        "maps": array([[("a", 1)]] * N, pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "long strings": array(["x" * 10**5] * N),
    }


def prepare(workdir: Path) -> dict[str, Any]:
    """Make a sound file and the columns that replace its own."""
    columns = odd_columns()
    sound = packed(pyarrow.table({"text": columns["strings"], "labels": columns["lists"]}))
    return {"columns": columns, "sound": sound}


def packed(table: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    parquet.write_table(table, stream, **options)
    return stream.getvalue()


def spoil(rng: Rng, seeds: Any, folder: Path) -> Path:
    """Write a file with odd columns, one that unpacks to far more, or one with damaged bytes."""
    way = rng.random()
    if way < 0.45:
        content = packed(odd_table(rng, seeds["columns"]), **odd_options(rng))
    elif way < 0.46:
        content = bomb(rng)
    elif way < 0.75:
        content = spoil_footer(rng, seeds["sound"])
    else:
        content = spoil_bytes(rng, seeds["sound"])
    path = folder / "a.parquet"
    path.write_bytes(content)
    return path


def odd_table(rng: Rng, columns: dict[str, Any]) -> Any:
    """Return a table whose columns have other types, names or numbers than documents have."""
    chosen = {"text": columns["strings"], "labels": columns["lists"], "id": columns["integers"]}
    for name in {pick(rng, sorted(chosen)) for _ in range(2)}:
        chosen[name] = columns[pick(rng, sorted(columns))]
    names, arrays = list(chosen), list(chosen.values())
    way = rng.random()
    if way < 0.1:
        names[int(rng.integers(3))] = pick(rng, ("text", "labels", "", "\x00", "x" * 10**4, "\x1b[31m", "Text"))
    elif way < 0.15:
        names, arrays = names[:1], arrays[:1]
    table = pyarrow.Table.from_arrays(arrays, names=names)
    return table.slice(0, int(rng.integers(N + 1))) if rng.random() < 0.2 else table


def odd_options(rng: Rng) -> dict[str, Any]:
    return {
        "compression": pick(rng, ("none", "snappy", "gzip", "zstd", "brotli")),
        "use_dictionary": bool(rng.random() < 0.5),
        "row_group_size": pick(rng, (1, 5, None)),
        "data_page_version": pick(rng, ("1.0", "2.0")),
        "store_schema": bool(rng.random() < 0.5),
    }


def bomb(rng: Rng) -> bytes:
    """Return some KB that unpack to 400 MB: one long text or label that a dictionary repeats in every row."""
    repeated = pyarrow.array(np.zeros(100, np.int32))
    words = ["x", "y" * (4 << 20)]
    texts, labels = words if rng.random() < 0.5 else words[::-1]
    columns = {"text": texts, "labels": labels}
    table = {
        name: pyarrow.DictionaryArray.from_arrays(repeated, pyarrow.array([word])) for name, word in columns.items()
    }
    return packed(pyarrow.table(table), compression="zstd", store_schema=False, dictionary_pagesize_limit=1 << 30)


def spoil_footer(rng: Rng, raw: bytes) -> bytes:
    """Change bytes of the footer alone: numbers of rows, sizes and offsets of pages, types."""
    size = int.from_bytes(raw[-8:-4], "little")
    begin = len(raw) - 8 - size
    if rng.random() < 0.2:
        claimed = int(pick(rng, (0, 1, size - 1, size + 1, len(raw), 2**31 - 1, 2**32 - 1)))
        return raw[:-8] + claimed.to_bytes(4, "little") + pick(rng, (b"PAR1", b"PARE", b"PAR2"))
    footer = bytearray(raw[begin:-8])
    for position in rng.integers(size, size=1 + int(rng.integers(3))).tolist():
        footer[position] = int(pick(rng, (0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256)))))
    return raw[:begin] + bytes(footer) + raw[-8:]


def use(seeds: Any, path: Path) -> None:
    """Read the documents of a file."""
    describe_labels(load(path).Y)


FORMATS = (Format("parquet", prepare, spoil, use, memory=1 << 30),)
