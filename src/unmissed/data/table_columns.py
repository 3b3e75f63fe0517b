"""Columns: names of the columns of texts, labels and ids, and parsing of label cells."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unmissed.data.encodings import UTF8, check_encoding
from unmissed.data.text_fields import join_fields, parse_fields
from unmissed.data.unicode import check_normalization, check_string, normalize
from unmissed.errors import InputError, did_you_mean
from unmissed.files import parse_json

SEPARATOR = ";"
_OTHER_SEPARATORS = (",", "|", "\t", "\n")
_TEXT_LENGTH = 200  # mean characters per cell above which a column holds texts rather than labels
_QUOTED = re.compile(r"\s*(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|(-?[0-9]{1,18}))\s*(,|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SHORT = {"n": "\n", "r": "\r", "t": "\t", "\n": ""}


@dataclass(frozen=True)
class Columns:
    """Options for reading documents: column names of a table (or fields of JSON lines), separator and encoding.

    Parameters
    ----------
    text : name of the text column, or names of several with weights, such as `title:3,abstract:1`
    labels : name of the label column
    separator : separator of labels within a cell; `;` by default, and a list in brackets is parsed as a list
    id : name of the column of row ids; a column other than the default is required to exist
    encoding : encoding of the files, `utf-8` by default
    unicode_normalization : Unicode normal form of label names: `nfc`, `nfkc`, or `none`
    """

    text: str = "text"
    labels: str = "labels"
    separator: str | None = None
    id: str = "id"
    encoding: str = UTF8
    unicode_normalization: str = "nfc"

    def __post_init__(self) -> None:
        for name in ("text", "labels", "id"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"the {name} column is given by its name; got {getattr(self, name)!r}")
        if self.separator is not None and not (isinstance(self.separator, str) and self.separator):
            raise InputError(f"the separator of labels must be a non-empty string such as ';'; got {self.separator!r}")
        parse_fields(self.text)
        check_normalization(self.unicode_normalization)
        object.__setattr__(self, "encoding", check_encoding(self.encoding))

    @property
    def text_names(self) -> tuple[str, ...]:
        """The names of the text columns."""
        return tuple(name for name, _ in parse_fields(self.text))

    @property
    def fields(self) -> str | None:
        """The names and weights of several text columns, as `TextFeatures` take them; None for one column."""
        return self.text if len(self.text_names) > 1 else None

    def needed_names(self, needed: Collection[str]) -> list[str]:
        """Return the names of needed columns, where `text` may stand for several."""
        return [name for one in needed for name in (self.text_names if one == self.text else (one,))]

    def text_of(self, where: str, document: Mapping[str, Any]) -> str:
        """Return the text of a document; raise InputError if it is not a string.

        Of several text columns, some may be empty or missing.
        """
        if self.fields is not None:
            return self._joined_text(where, document)
        text = document.get(self.text)
        if not isinstance(text, str):
            raise InputError(
                f"{where}: expected {self.text!r} to be a string, found {_kind_of_cell(document, self.text)}"
            )
        return check_string(where, repr(self.text), text)

    def _joined_text(self, where: str, document: Mapping[str, Any]) -> str:
        parts = [document.get(name) for name in self.text_names]
        for name, part in zip(self.text_names, parts, strict=True):
            if not (part is None or isinstance(part, str) or part != part):  # NaN in data frames
                raise InputError(f"{where}: expected {name!r} to be a string, found {kind_of(part)}")
        if not any(isinstance(part, str) for part in parts):
            raise InputError(f"{where}: has none of the text columns {', '.join(map(repr, self.text_names))}")
        return check_string(where, "the text", join_fields([part if isinstance(part, str) else "" for part in parts]))

    def labels_of(self, where: str, document: Mapping[str, Any]) -> list[str]:
        """Return the labels of a document: a list, or a string that is split at `separator`."""
        labels = document.get(self.labels)
        if isinstance(labels, str) and self.separator is not None:
            labels = _split(labels, self.separator)
        if not isinstance(labels, list):
            found = _kind_of_cell(document, self.labels)
            raise InputError(f"{where}: expected {self.labels!r} to be a list of identifiers, found {found}")
        return [self._label(where, label) for label in labels]

    def text_and_labels(self, where: str, document: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Return the text and the labels of a document; raise InputError if a required id is missing."""
        self.id_of(where, document)
        return self.text_of(where, document), self.labels_of(where, document)

    def id_of(self, where: str, document: Mapping[str, Any]) -> str | None:
        """Return the id of a row, a string or an integer, or None if it has none.

        If `id` is not the default column, every row must have an id.
        """
        name = document.get(self.id)
        if isinstance(name, int) and not isinstance(name, bool):
            return str(name)
        if isinstance(name, str) and name.strip():
            return check_string(where, f"the id {name[:40]!r}", name)
        if self.id == Columns.id:
            return None
        found = "an empty string" if isinstance(name, str) else _kind_of_cell(document, self.id)
        raise InputError(
            f"{where}: expected {self.id!r}, which names rows, to be a string or an integer, found {found}"
        )

    def _label(self, where: str, label: Any) -> str:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise InputError(
                f"{where}: expected each of {self.labels!r} to be a string or an integer, found {kind_of(label)}"
            )
        name = str(label)
        return normalize(check_string(where, f"label {name[:40]!r}", name), self.unicode_normalization)


@dataclass
class LabelCells:
    """Parser of the label cells of one table; `check` raises InputError if the default separator is probably wrong."""

    path: str
    columns: Columns
    n_split: int = 0
    n_cells: int = 0
    n_characters: int = 0
    others: Counter[str] = field(default_factory=Counter)

    def read(self, where: str, cell: Any) -> list[Any]:
        """Return the labels of a cell; an empty cell has none."""
        if cell is None or (isinstance(cell, float) and cell != cell):
            return []
        if isinstance(cell, int) and not isinstance(cell, bool):
            return [cell]
        if not isinstance(cell, str):
            return _as_list(where, cell)
        if self.columns.separator is not None:
            return _split(cell, self.columns.separator)
        stripped = cell.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            self.n_split += 1
            return _parse_list(where, stripped)
        if SEPARATOR in cell:
            self.n_split += 1
        self.n_cells += 1
        self.n_characters += len(stripped)
        self.others.update(other for other in _OTHER_SEPARATORS if other in stripped)
        return _split(cell, SEPARATOR)

    def check(self) -> None:
        """Raise InputError if labels are probably separated by something other than the default."""
        if self.n_split or not self.others:
            return
        if self.n_characters > _TEXT_LENGTH * self.n_cells:
            raise InputError(
                f"{self.path}: cells of {self.columns.labels!r} have {self.n_characters // self.n_cells} characters on "
                "average and are not split: are they texts? (--text-column, --labels-column; or name the separator of "
                "labels, --separator)"
            )
        other, n_cells = self.others.most_common(1)[0]
        raise InputError(
            f"{self.path}: no cell of {self.columns.labels!r} has {SEPARATOR!r} between labels, but {n_cells} have "
            f"{other!r}; name the separator (--separator {other!r}, or {SEPARATOR!r} if it is part of names)"
        )


def find_columns(where: str, names: Sequence[str], columns: Columns, needed: Collection[str]) -> dict[str, int]:
    """Return the index of each needed column and of the id column, if any; raise InputError unless each exists once."""
    wanted = list(needed)
    if columns.id in names or columns.id != Columns.id:
        wanted.append(columns.id)
    options = dict.fromkeys(columns.text_names, "--text-column")
    options |= {columns.labels: "--labels-column", columns.id: "--id-column"}
    for name in wanted:
        if names.count(name) != 1:
            held = ", ".join(repr(one[:40]) for one in names[:20])
            what = "no column" if name not in names else "more than one column"
            near = did_you_mean(name, names) if name not in names else ""
            raise InputError(
                f"{where}: there is {what} {name!r}; the columns are {held} ({options[name]} names one){near}"
            )
    return {name: names.index(name) for name in wanted}


def table_document(
    where: str, document: dict[str, Any], columns: Columns, needed: Collection[str], cells: LabelCells
) -> dict[str, Any]:
    """Return the cells of a row with its labels as a list and its id as a Python value."""
    if columns.labels in needed:
        document[columns.labels] = cells.read(where, document[columns.labels])
    if columns.id in document and hasattr(document[columns.id], "item"):  # numpy scalars
        document[columns.id] = document[columns.id].item()
    return document


def _split(cell: str, separator: str) -> list[str]:
    return [name for part in cell.split(separator) if (name := part.strip())]


def _parse_list(where: str, cell: str) -> list[Any]:
    """Parse a list in JSON or Python syntax."""
    try:
        return list(parse_json(cell))
    except json.JSONDecodeError:
        pass
    except ValueError as error:
        raise InputError(f"{where}: a list of labels was expected: {error}") from error
    inside, position, labels = cell[1:-1], 0, []
    while position < len(inside):
        match = _QUOTED.match(inside, position)
        if match is None or match.end() == position:
            raise InputError(
                f"{where}: expected a list of labels in quotes, found {inside[position : position + 40]!r}"
            )
        text = match[1] if match[1] is not None else match[2]
        labels.append(int(match[3]) if text is None else _ESCAPE.sub(_unescape, text))
        position = match.end()
    return labels


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return _SHORT.get(match[4], match[4])
    return chr(min(int(code, 16), 0x10FFFF))


def _as_list(where: str, cell: Any) -> list[Any]:
    """Return a list, a set or an array of labels as a list."""
    if hasattr(cell, "tolist"):  # a numpy array
        cell = cell.tolist()
    if isinstance(cell, set | frozenset):
        cell = sorted(cell, key=str)
    if isinstance(cell, int) and not isinstance(cell, bool):
        return [cell]
    if not isinstance(cell, list | tuple):
        raise InputError(f"{where}: expected labels, found {kind_of(cell)}")
    return list(cell)


def _kind_of_cell(document: Mapping[str, Any], key: str) -> str:
    if key in document:
        return kind_of(document[key])
    others = [repr(name[:40]) for name in document if name not in (Columns.text, Columns.labels, Columns.id)]
    return f"nothing; there are {', '.join(others[:20])} (--text-column, --labels-column)" if others else "nothing"


def kind_of(value: Any) -> str:
    """Return the type of a JSON value or table cell in words, for messages."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    if isinstance(value, int | float | None) or type(value) in kinds:
        return kinds.get(type(value), "a number")
    return f"a {type(value).__name__}"
