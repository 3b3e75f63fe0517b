"""JSON lines reader and writer: one object with a text and labels per line; other fields are ignored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from unmissed.data.encodings import not_utf8
from unmissed.data.readers.annif_corpora import annif_document, is_annif_document
from unmissed.data.readers.reader import Document, DocumentWriter, LineReader, PathLike, ReadOptions
from unmissed.data.streams import write_stream
from unmissed.data.table_columns import kind_of
from unmissed.errors import InputError
from unmissed.files import parse_json


class JsonLines(LineReader, DocumentWriter):
    """Reads and writes JSON lines.

    If the first object with more than a text has Annif's fields and no others, all objects are documents of Annif.
    """

    name = "JSON lines"
    suffixes = (".jsonl", ".ndjson")

    def parse(
        self, path: str, numbered: Iterable[tuple[int, bytes]], options: ReadOptions | None = None
    ) -> Iterator[Document]:
        """Yield `file:line` and the parsed object of each numbered line; blank lines are skipped."""
        is_annif: bool | None = None
        for number, line in numbered:
            where = f"{path}:{number}"
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(f"{where}:{error.start + 1}", line, error) from None
            if not text.strip():
                continue
            try:
                document = parse_json(text, any_string=True)
            except json.JSONDecodeError as error:
                raise InputError(f"{where}:{error.colno}: expected a JSON object: {error.msg}") from error
            except ValueError as error:  # a number with too many digits, deep nesting, a duplicate key
                raise InputError(f"{where}: expected a JSON object: {error}") from error
            if not isinstance(document, dict):
                raise InputError(
                    f"{where}:1: expected a JSON object with 'text' and 'labels', found {kind_of(document)}"
                )
            if is_annif is None and document.keys() - {"text"}:
                is_annif = is_annif_document(document)
            if options is not None and is_annif:
                document = annif_document(where, document, options.columns)
            yield where, document

    def write_documents(self, documents: Iterable[dict[str, Any]], path: PathLike) -> None:
        """Write objects as JSON lines, atomically, compressed according to the suffix of the path."""
        with write_stream(path, keep_same=True) as stream:
            for document in documents:
                stream.write(json.dumps(document, ensure_ascii=False).encode() + b"\n")
