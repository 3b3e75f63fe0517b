"""JSON lines: one object per line, with a text and labels; other fields are left alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from unmissed.data.columns import kind_of
from unmissed.data.encodings import not_utf8
from unmissed.data.streams import write_stream
from unmissed.errors import InputError
from unmissed.files import parse_json


def documents(
    path: str | os.PathLike[str], numbered: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the object of each numbered line, and `file:line` for complaints about it; blank lines are skipped."""
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
        except ValueError as error:  # a number too long, brackets too deep, a key twice
            raise InputError(f"{where}: expected a JSON object: {error}") from error
        if not isinstance(document, dict):
            raise InputError(f"{where}:1: expected a JSON object with 'text' and 'labels', found {kind_of(document)}")
        yield where, document


def write_lines(path: str | os.PathLike[str], found: Iterable[dict[str, Any]]) -> None:
    """Write objects as JSON lines, compressed as the path's suffix says; the file appears whole or not at all.

    An existing file is refused, unless it holds the same bytes.
    """
    with write_stream(path, keep_same=True) as stream:
        for document in found:
            stream.write(json.dumps(document, ensure_ascii=False).encode() + b"\n")
