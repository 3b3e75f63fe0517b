"""Parquet files (with pyarrow) and data frames: documents in columns."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any

from unmissed.data.columns import Columns, LabelCells
from unmissed.data.delimited import find_columns
from unmissed.errors import InputError, UnmissedError
from unmissed.files import open_regular, reading
from unmissed.progress import Progress, silent

_ROWS = 1024  # read at a time

Documents = Iterator[tuple[str, dict[str, Any]]]


def documents(
    path: str | os.PathLike[str], columns: Columns, needed: Collection[str], *, progress: Progress = silent
) -> Documents:
    """Give `file, row n` and the needed cells of each row of a Parquet file, read a few rows at a time."""
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise UnmissedError("Parquet is read by pyarrow; pip install 'unmissed[parquet]'") from error
    what = "a readable Parquet file"
    with open_regular(path) as stream:
        with reading(path, what):
            file = ParquetFile(stream, memory_map=False)
            names, n_rows = list(file.schema_arrow.names), file.metadata.num_rows
        wanted = list(find_columns(str(path), names, columns, needed))
        cells = LabelCells(str(path), columns)
        batches = file.iter_batches(_ROWS, columns=wanted)
        row = 0
        while True:
            with reading(path, what):
                batch = next(batches, None)
                held = {} if batch is None else {name: batch.column(name).to_pylist() for name in wanted}
            if batch is None:
                break
            for values in zip(*held.values(), strict=True):
                row += 1
                where = f"{path}, row {row}"
                yield where, _document(where, dict(zip(held, values, strict=True)), columns, needed, cells)
            progress(row, n_rows)
    cells.check()


def is_frame(source: Any) -> bool:
    """Tell whether this is a data frame, as pandas or polars have it."""
    return hasattr(source, "columns") and hasattr(source, "to_numpy")


def frame_documents(frame: Any, columns: Columns, needed: Collection[str], *, progress: Progress = silent) -> Documents:
    """Give the row and the needed cells of each row of a data frame."""
    name = "the data frame"
    wanted = list(find_columns(name, [str(one) for one in frame.columns], columns, needed))
    cells = LabelCells(name, columns)
    for row, values in enumerate(zip(*(list(frame[one]) for one in wanted), strict=True), start=1):
        if row % 256 == 0:
            progress(row, len(frame))
        where = f"{name}, row {row}"
        yield where, _document(where, dict(zip(wanted, values, strict=True)), columns, needed, cells)
    cells.check()


def _document(
    where: str, document: dict[str, Any], columns: Columns, needed: Collection[str], cells: LabelCells
) -> dict[str, Any]:
    if columns.labels in needed:
        document[columns.labels] = cells.read(where, document[columns.labels])
    if columns.id in document and hasattr(document[columns.id], "item"):  # numpy's numbers
        document[columns.id] = document[columns.id].item()
    if columns.text in needed and isinstance(document[columns.text], str):
        try:
            document[columns.text].encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{where}: {columns.text!r} holds half of a surrogate pair and is no text") from error
    return document
