"""JSON lines: one object a line with `text` and `labels`; other fields are left alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from unmissed.data.streams import lines
from unmissed.errors import InputError
from unmissed.files import parse_json
from unmissed.matrices import assemble
from unmissed.progress import Progress, silent


def read_texts(path: str | os.PathLike[str], progress: Progress = silent) -> list[str]:
    """Read the `text` of each line; labels need not be there."""
    return [text_of(where, document) for where, document in _documents(path, progress)]


def read_texts_and_ids(path: str | os.PathLike[str], progress: Progress = silent) -> tuple[list[str], list[str] | None]:
    """Read the `text` of each line and its `id`, a string or a whole number; None where not every line has one."""
    texts, ids = [], []
    for where, document in _documents(path, progress):
        texts.append(text_of(where, document))
        name = document.get("id")
        if isinstance(name, str | int) and not isinstance(name, bool):
            ids.append(str(name))
    return texts, ids if len(ids) == len(texts) else None


def read_label_lists(path: str | os.PathLike[str], progress: Progress = silent) -> list[list[str]]:
    """Read the `labels` of each line; texts need not be there."""
    return [labels_of(where, document) for where, document in _documents(path, progress)]


def read_documents(path: str | os.PathLike[str], progress: Progress = silent) -> tuple[list[str], list[list[str]]]:
    """Read the `text` and the `labels` of each line."""
    texts, label_lists = [], []
    for where, document in _documents(path, progress):
        texts.append(text_of(where, document))
        label_lists.append(labels_of(where, document))
    return texts, label_lists


def binarize(
    label_lists: Sequence[Sequence[str]], names: Sequence[str] | None = None, *, keep_unknown: bool = False
) -> tuple[sparse.csr_matrix, list[str], int]:
    """Return Y, its label names (sorted, unless given) and how many label marks were left out as unknown.

    With `keep_unknown` none is left out: labels beyond the given names get columns behind theirs, in sorted order.
    """
    if names is None or keep_unknown:
        known_names = set(names or ())
        found = {name for labels in label_lists for name in labels if name not in known_names}
        names = [*(names or ()), *sorted(found)]
    column = {name: place for place, name in enumerate(names)}
    if len(column) != len(names):
        raise InputError("label names are not unique; labels cannot be matched by name")
    pointers = np.zeros(len(label_lists) + 1, np.int64)
    indices: list[int] = []
    n_unknown = 0
    for row, labels in enumerate(label_lists):
        distinct = set(labels)
        known = sorted(column[name] for name in distinct if name in column)
        n_unknown += len(distinct) - len(known)
        indices.extend(known)
        pointers[row + 1] = len(indices)
    marks = np.array(indices, dtype=np.int32)
    Y = assemble(np.ones(marks.size, np.float32), marks, pointers, (len(label_lists), len(names)))
    return Y, list(names), n_unknown


def _documents(path: str | os.PathLike[str], progress: Progress) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the objects of a file."""
    return documents(path, lines(path, progress))


def documents(
    path: str | os.PathLike[str], numbered: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the object of each numbered line, and `file:line` for complaints about it; blank lines are stepped over."""
    for number, line in numbered:
        where = f"{path}:{number}"
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{where}:{error.start + 1}: expected UTF-8 text, found byte 0x{line[error.start]:02X}"
            ) from None
        if not text.strip():
            continue
        try:
            document = parse_json(text, any_string=True)
        except json.JSONDecodeError as error:
            raise InputError(f"{where}:{error.colno}: expected a JSON object: {error.msg}") from error
        except ValueError as error:  # a number too long, brackets too deep, a key twice
            raise InputError(f"{where}: expected a JSON object: {error}") from error
        if not isinstance(document, dict):
            raise InputError(f"{where}:1: expected a JSON object with 'text' and 'labels', found {_kind(document)}")
        yield where, document


def text_of(where: str, document: dict[str, Any]) -> str:
    """Return the `text` of a line's object, or say what it has instead."""
    text = document.get("text")
    if not isinstance(text, str):
        raise InputError(f"{where}: expected 'text' to be a string, found {_found(document, 'text')}")
    return text


def labels_of(where: str, document: dict[str, Any]) -> list[str]:
    """Return the `labels` of a line's object, or say what it has instead."""
    labels = document.get("labels")
    if not isinstance(labels, list):
        raise InputError(f"{where}: expected 'labels' to be a list of identifiers, found {_found(document, 'labels')}")
    result = []
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise InputError(
                f"{where}: expected each of 'labels' to be a string or a whole number, found {_kind(label)}"
            )
        name = str(label)
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise InputError(f"{where}: label {name!r} holds half of a surrogate pair and is no text")
        result.append(name)
    return result


def _found(document: dict[str, Any], key: str) -> str:
    return _kind(document[key]) if key in document else "nothing"


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
