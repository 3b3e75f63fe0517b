"""Readers of Annif's document corpora, recognized by their contents: TSV, CSV, and the objects of its JSON lines.

Annif names subjects by URIs, in angle brackets or not; labels here are URIs without brackets. A subject without a URI
is named by its label. `json_lines.py` reads JSON lines, `text_folder.py` folders of full texts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from unmissed.data.encodings import not_utf8
from unmissed.data.readers.delimited import Delimited
from unmissed.data.readers.reader import Document, LineReader, ReadOptions, Source, suffix_of_file
from unmissed.data.streams import first_bytes
from unmissed.data.table_columns import Columns, kind_of
from unmissed.errors import InputError
from unmissed.progress import Progress, silent

SUBJECTS, URIS, DOCUMENT_ID = "subjects", "subject_uris", "document_id"
_FIELDS = {DOCUMENT_ID, "text", "metadata", SUBJECTS}  # all that Annif's schema of a document allows
_SAMPLE = 1 << 16  # bytes at the start of a file by which it is recognized
_URI = re.compile(r"<[^<>\s]+>|[A-Za-z][A-Za-z0-9+.-]*://[^\s;,|]+")


def strip_brackets(uri: str) -> str:
    """Return a URI without its angle brackets, if it has them."""
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri


class AnnifTsv(LineReader):
    """Reads lines of a text, a tab and URIs that are separated by spaces; there is no header, and quotes are text.

    A file is recognized if its first lines have nothing but URIs after the tab. For prediction, a line needs no tab.
    """

    name = "Annif's TSV corpus"

    def sniff(self, source: Source, *, labels: bool = True) -> bool:
        """Return whether a `.tsv` file starts with lines of texts and URIs."""
        if suffix_of_file(source) not in (".tsv", ".tab"):
            return False
        sample = first_bytes(source, _SAMPLE)
        complete = sample.rpartition(b"\n")[0] if len(sample) == _SAMPLE else sample
        after = [line.partition("\t")[2].split() for line in complete.decode("utf-8", "replace").split("\n")]
        return any(after) and all(_URI.fullmatch(uri) for uris in after for uri in uris)

    def parse(self, path: str, numbered: Iterable[tuple[int, bytes]], options: ReadOptions) -> Iterator[Document]:
        """Yield `file:line`, the text and the URIs of each line; without a tab, a line has no labels."""
        columns = options.columns
        for number, line in numbered:
            where = f"{path}:{number}"
            try:
                text, tab, uris = line.decode("utf-8").partition("\t")
            except UnicodeDecodeError as error:
                raise not_utf8(f"{where}:{error.start + 1}", line, error) from None
            if text.strip() or tab:
                document: dict[str, Any] = {columns.text: text}
                if tab:
                    document[columns.labels] = [strip_brackets(uri) for uri in uris.split()]
                yield where, document


class AnnifCsv(Delimited):
    """Reads CSV with the columns `text`, `subject_uris` (separated by spaces) and, as the id, `document_id`.

    Other columns can be named as texts (`--text-column title:2,text`). A file with the column `labels` is a table.
    """

    name = "Annif's CSV corpus"
    suffixes = ()

    def sniff(self, source: Source, *, labels: bool = True) -> bool:
        """Return whether a `.csv` file has Annif's columns and no column `labels`."""
        if suffix_of_file(source) != ".csv":
            return False
        names = _column_names(source)
        return Columns.labels not in names and (URIS in names or (not labels and DOCUMENT_ID in names))

    def documents(
        self, source: Source, options: ReadOptions, needed: Collection[str], progress: Progress = silent
    ) -> Iterator[Document]:
        """Yield `file:line` and the needed cells of each record; labels are a list of URIs."""
        columns, names = options.columns, _column_names(source)
        own = {"labels": _renamed(columns, "labels", URIS), "id": columns.id}
        if columns.id not in names and DOCUMENT_ID in names:
            own["id"] = _renamed(columns, "id", DOCUMENT_ID)
        inner = replace(columns, **own, separator=columns.separator or " ")
        wanted = [inner.labels if name == columns.labels else name for name in needed]
        for where, document in super().documents(source, replace(options, columns=inner), wanted, progress):
            if inner.labels in document:
                document[columns.labels] = [strip_brackets(uri) for uri in document.pop(inner.labels)]
            if inner.id in document:
                document[columns.id] = document.pop(inner.id)
            yield where, document


def is_annif_document(document: Any) -> bool:
    """Return whether a JSON value has Annif's fields, no others, and at least one that only Annif has."""
    if not isinstance(document, dict) or not document.keys() <= _FIELDS or not document.keys() & (_FIELDS - {"text"}):
        return False
    subjects = document.get(SUBJECTS, [])
    return isinstance(subjects, list) and all(isinstance(one, dict) for one in subjects)


def annif_document(where: str, document: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Return the cells of an object with Annif's fields; its labels are URIs, or names of subjects without a URI."""
    metadata = document.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InputError(f"{where}: expected 'metadata' to be an object, found {kind_of(metadata)}")
    cells = {"text": "", **metadata, **document}
    if columns.labels in (Columns.labels, SUBJECTS) and Columns.labels not in document:
        subjects = document.get(SUBJECTS, [])
        if not isinstance(subjects, list):
            raise InputError(f"{where}: expected {SUBJECTS!r} to be a list, found {kind_of(subjects)}")
        cells[columns.labels] = [_subject(where, one) for one in subjects]
    if columns.id == Columns.id and DOCUMENT_ID in document:
        cells[columns.id] = document[DOCUMENT_ID]
    return cells


def _subject(where: str, subject: Any) -> Any:
    """Return the URI of a subject, else its label; strings and integers are returned as they are."""
    if not isinstance(subject, dict):
        return subject
    name = subject.get("uri", subject.get("label"))
    if not isinstance(name, str) or not name:
        raise InputError(f"{where}: expected a subject to have the string 'uri' or 'label', found {kind_of(name)}")
    return strip_brackets(name)


def _renamed(columns: Columns, what: str, name: str) -> str:
    """Return the name of a column: that of Annif unless another than the default was named."""
    given: str = getattr(columns, what)
    return name if given == getattr(Columns, what) else given


def _column_names(source: Source) -> list[str]:
    """Return the column names of a CSV file; none if its first line cannot be read."""
    first = first_bytes(source, _SAMPLE).decode("utf-8", "replace").partition("\n")[0]
    try:
        return [name.strip() for name in next(csv.reader([first], strict=True), [])]
    except csv.Error:
        return []
