"""Reader of Parquet files (with pyarrow)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.data.readers.reader import Document, DocumentReader, ReadOptions, Source
from unmissed.data.table_columns import LabelCells, find_columns, table_document
from unmissed.errors import InputError, UnmissedError
from unmissed.files import open_regular, reading
from unmissed.progress import Progress, silent
from unmissed.settings import SETTINGS

_ROWS = 1024  # maximum rows per batch; fewer if rows are large


class Parquet(DocumentReader):
    """Reads the rows of a Parquet file.

    Strings are read dictionary-encoded and decoded in parts of bounded size, because a small file can repeat a large
    string in many rows. A cell of more than `SETTINGS.cell_bytes` bytes raises InputError.
    """

    name = "a Parquet file"
    suffixes = (".parquet", ".pq")

    def documents(
        self, source: Source, options: ReadOptions, needed: Collection[str], progress: Progress = silent
    ) -> Iterator[Document]:
        """Yield `file, row n` and the needed cells of each row."""
        columns = options.columns
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError as error:
            raise UnmissedError("Parquet is read by pyarrow; pip install 'unmissed[parquet]'") from error
        what = "a readable Parquet file"
        with open_regular(source) as stream:
            with reading(source, what):
                file = ParquetFile(stream, memory_map=False)
                names, n_rows = list(file.schema_arrow.names), file.metadata.num_rows
            wanted = list(find_columns(str(source), names, columns, needed))
            for name in wanted:
                _check_type(str(source), name, file.schema_arrow.field(name).type)
            with reading(source, what):
                file = ParquetFile(stream, memory_map=False, read_dictionary=_strings(file, wanted))
            cells = LabelCells(str(source), columns)
            row = 0
            batches = _batches(file, wanted)
            while True:
                with reading(source, what):
                    batch = next(batches, None)
                if batch is None:
                    break
                for part in _parts(source, what, batch, row):
                    for values in zip(*part, strict=True):
                        row += 1
                        where = f"{source}, row {row}"
                        cells_of_row = dict(zip(wanted, values, strict=True))
                        yield where, table_document(where, cells_of_row, columns, needed, cells)
                progress(row, n_rows)
        cells.check()


def _check_type(path: str, name: str, kind: Any) -> None:
    """Raise InputError unless a column holds scalars or lists of scalars."""
    from pyarrow import types

    inner = kind.value_type if _is_list(kind) else kind
    if types.is_nested(inner):
        raise InputError(f"{path}: column {name!r} holds {str(kind)[:60]}; expected strings, numbers or lists of them")


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _strings(file: Any, wanted: Collection[str]) -> list[str]:
    """Return the paths of the string columns that can be read dictionary-encoded."""
    columns = [file.schema.column(number) for number in range(len(file.schema))]
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    return [
        column.path
        for number, column in enumerate(columns)
        if column.physical_type == "BYTE_ARRAY"
        and column.path.split(".")[0] in wanted
        and not any(_is_delta(group.column(number)) for group in groups)
    ]


def _is_delta(chunk: Any) -> bool:
    """Return whether strings are delta-encoded, which pyarrow cannot read as a dictionary."""
    return any(name.startswith("DELTA") for name in chunk.encodings)


def _batches(file: Any, wanted: Collection[str]) -> Iterator[Any]:
    """Yield a file in record batches, with fewer rows per batch if rows are large.

    The size of a row is estimated as the uncompressed bytes of its row group per row. With delta encoding, one row can
    have all bytes of the group.
    """
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        chunks = [group.column(position) for position in range(group.num_columns)]
        chunks = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in wanted]
        size = sum(
            chunk.total_uncompressed_size // (1 if _is_delta(chunk) else max(group.num_rows, 1)) for chunk in chunks
        )
        rows = min(max(SETTINGS.decoded_bytes // max(size, 1), 1), _ROWS)
        yield from file.iter_batches(rows, row_groups=[number], columns=list(wanted))


def _parts(path: Any, what: str, batch: Any, first: int) -> Iterator[list[list[Any]]]:
    """Yield the columns of a batch as lists, in parts of bounded size; raise InputError if a cell is too large."""
    with reading(path, what):
        sizes = np.array([_sizes(column) for column in batch.columns], np.int64)
    for row in np.flatnonzero((sizes > SETTINGS.cell_bytes).any(axis=0))[:1].tolist():
        name = batch.schema.names[int(sizes[:, row].argmax())]
        raise InputError(f"{path}, row {first + row + 1}: a cell of {name!r} has more than {SETTINGS.cell_bytes} bytes")
    total = np.cumsum(sizes.sum(axis=0))
    begin = 0
    while begin < batch.num_rows:
        before = int(total[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(total, before + SETTINGS.decoded_bytes, side="right")), begin + 1)
        with reading(path, what):
            part = [_decode(column.slice(begin, end - begin)) for column in batch.columns]
        yield part
        begin = end


def _is_text(array: Any) -> bool:
    from pyarrow import types

    kind = array.type.value_type if types.is_dictionary(array.type) else array.type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind))


def _sizes(array: Any) -> npt.NDArray[np.int64]:
    """Return the decoded size of each cell, in bytes."""
    from pyarrow import compute, types

    if _is_list(array.type):
        lengths = compute.fill_null(compute.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        ends = np.cumsum(lengths.astype(np.int64))
        total = np.concatenate([[0], np.cumsum(_sizes(array.flatten()))])
        return np.asarray(total[ends] - total[ends - lengths], np.int64)
    if not _is_text(array):
        return np.full(len(array), 8, np.int64)
    strings = array.dictionary if types.is_dictionary(array.type) else array
    sizes = compute.fill_null(compute.binary_length(strings), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not types.is_dictionary(array.type):
        return np.asarray(sizes)
    indices = compute.fill_null(array.indices, -1).to_numpy(zero_copy_only=False)
    return np.asarray(np.append(sizes, 0)[indices], np.int64)


def _decode(array: Any) -> list[Any]:
    """Return the cells of a column as Python objects."""
    from pyarrow import compute, types

    if _is_list(array.type):
        lengths: Sequence[int | None] = compute.list_value_length(array).to_pylist()
        values = iter(_decode(array.flatten()))
        return [None if length is None else [next(values) for _ in range(length)] for length in lengths]
    decoded = array.dictionary_decode() if types.is_dictionary(array.type) and _is_text(array) else array
    return list(decoded.to_pylist())
