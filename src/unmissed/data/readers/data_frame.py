"""Reader of data frames of pandas or polars."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from unmissed.data.readers.reader import Document, DocumentReader, ReadOptions, Source
from unmissed.data.table_columns import LabelCells, find_columns, table_document
from unmissed.progress import Progress, silent

_NAME = "the data frame"


class DataFrame(DocumentReader):
    """Reads the rows of a data frame in memory."""

    name = "a data frame"

    def sniff(self, source: Source, *, labels: bool = True) -> bool:
        """Return whether this is a data frame."""
        return hasattr(source, "columns") and hasattr(source, "to_numpy")

    def documents(
        self, source: Any, options: ReadOptions, needed: Collection[str], progress: Progress = silent
    ) -> Iterator[Document]:
        """Yield the position and the needed cells of each row."""
        columns = options.columns
        wanted = list(find_columns(_NAME, [str(one) for one in source.columns], columns, needed))
        cells = LabelCells(_NAME, columns)
        for row, values in enumerate(zip(*(list(source[one]) for one in wanted), strict=True), start=1):
            if row % 256 == 0:
                progress(row, len(source))
            where = f"{_NAME}, row {row}"
            yield where, table_document(where, dict(zip(wanted, values, strict=True)), columns, needed, cells)
        cells.check()
