"""CSV and TSV reader: a header line with column names, then one record per document."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from typing import Any

from unmissed.data.encodings import not_utf8
from unmissed.data.readers.reader import Document, DocumentReader, PathLike, ReadOptions, Source
from unmissed.data.streams import bare_suffix, lines
from unmissed.data.table_columns import Columns, LabelCells, find_columns
from unmissed.errors import InputError
from unmissed.progress import Progress, silent
from unmissed.settings import SETTINGS

_DELIMITERS = {".csv": ",;\t", ".tsv": "\t", ".tab": "\t"}


class Delimited(DocumentReader):
    """Reads CSV and TSV files.

    The delimiter is a tab in `.tsv`; in `.csv` it is a comma, semicolon or tab, whichever gives a header with the
    needed columns. Fields may be quoted as in RFC 4180 and may then contain line breaks. Without a header, columns are
    named 1, 2, 3, ... A record whose number of fields differs from the first line raises InputError.
    """

    name = "a table"
    suffixes = tuple(_DELIMITERS)

    def documents(
        self, source: Source, options: ReadOptions, needed: Collection[str], progress: Progress = silent
    ) -> Iterator[Document]:
        """Yield `file:line` and the needed cells of each record; labels are parsed to a list."""
        columns, rows = options.columns, _Lines(source, progress, options.columns.encoding)
        first = rows.first
        if first is None:
            raise InputError(f"{source}: holds no documents; expected a line of column names and a record per document")
        delimiter, names = _first_line(source, first, columns, needed, options.header)
        try:
            positions = find_columns(f"{source}:1", names, columns, needed)
        except InputError as error:
            raise InputError(f"{error}{_headerless(names, needed, options)}") from None
        cells = LabelCells(str(source), columns)
        for where, record in rows.records(delimiter, skip_first=options.header):
            if len(record) != len(names):
                raise InputError(f"{where}: {len(record)} fields; the first line has {len(names)}")
            document: dict[str, Any] = {name: record[position] for name, position in positions.items()}
            if columns.labels in needed:
                document[columns.labels] = cells.read(where, document[columns.labels])
            yield where, document
        cells.check()


def _headerless(names: list[str], needed: Collection[str], options: ReadOptions) -> str:
    """Return advice if the first line is probably a text and its labels, and not column names."""
    if not options.header or len(names) != 2 or set(names) & {*needed, Columns.text, Columns.labels}:
        return ""
    return (
        "; if the first line is a text and its labels: --no-header --text-column 1 --labels-column 2 --separator ' ' "
        "(Annif's corpora are recognized by the URIs after the tab)"
    )


class _Lines:
    """The lines of a file as text, with access to the first line before the records."""

    def __init__(self, path: PathLike, progress: Progress, encoding: str) -> None:
        self.path = path
        self._numbered = lines(path, progress, encoding=encoding)
        self._first_line = next(self._numbered, None)
        self.first = None if self._first_line is None else self._text(*self._first_line)

    def records(self, delimiter: str, *, skip_first: bool) -> Iterator[tuple[str, list[str]]]:
        """Yield `file:line` and the fields of each record; blank lines are skipped."""
        csv.field_size_limit(max(csv.field_size_limit(), SETTINGS.cell_bytes))  # global to the process: never lowered
        reader = csv.reader(self._texts(delimiter), delimiter=delimiter, strict=True)
        while True:
            where = f"{self.path}:{reader.line_num + 1}"
            try:
                record = next(reader, None)
            except csv.Error as error:
                raise InputError(f"{where}: a record cannot be read, up to line {reader.line_num}: {error}") from error
            if record is None:
                return
            if skip_first:
                skip_first = False
            elif record:
                yield where, record

    def _texts(self, delimiter: str) -> Iterator[str]:
        separator = delimiter.encode()
        if self._first_line is not None:
            yield self._text(*self._first_line)
        for number, line in self._numbered:
            if line.count(separator) > SETTINGS.line_fields:
                raise InputError(
                    f"{self.path}:{number}: a line of more than {SETTINGS.line_fields} fields; is this another format?"
                )
            yield self._text(number, line)

    def _text(self, number: int, line: bytes) -> str:
        try:
            return line.decode("utf-8") + "\n"
        except UnicodeDecodeError as error:
            raise not_utf8(f"{self.path}:{number}:{error.start + 1}", line, error) from None


def _first_line(
    path: PathLike, line: str, columns: Columns, needed: Collection[str], header: bool
) -> tuple[str, list[str]]:
    """Return the delimiter and the column names."""
    candidates: list[tuple[str, list[str]]] = []
    for delimiter in _DELIMITERS[bare_suffix(path)]:
        try:
            record = next(csv.reader([line[: SETTINGS.cell_bytes]], delimiter=delimiter, strict=True))
        except csv.Error as error:
            raise InputError(f"{path}:1: the names of columns cannot be read: {error}") from error
        names = [name.strip() for name in record] if header else [str(position + 1) for position in range(len(record))]
        if set(needed) <= set(names):
            return delimiter, names
        candidates.append((delimiter, names))
    return max(candidates, key=lambda candidate: len(candidate[1]))
