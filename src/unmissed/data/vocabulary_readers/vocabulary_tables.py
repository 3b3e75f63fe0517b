"""Vocabularies as tables: Annif's TSV (identifier, label, notation) and CSV (a column of labels per language)."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from unmissed.data.encodings import not_utf8
from unmissed.data.readers.annif_corpora import strip_brackets
from unmissed.data.streams import lines
from unmissed.data.vocabulary import Concept
from unmissed.data.vocabulary_readers.vocabulary_registry import VocabularyReader
from unmissed.errors import InputError

_TRUE, _FALSE = ("true", "1", "yes"), ("", "false", "0", "no")


class TabVocabulary(VocabularyReader):
    """Reads lines of an identifier, a tab, a label and possibly a tab and a notation; there is no header.

    A further line with the same identifier adds an alternative label.
    """

    suffixes = (".tsv", ".tab")

    def concepts(self, path: str) -> Iterator[Concept]:
        """Yield the concept of each identifier."""
        found: dict[str, tuple[list[str], str]] = {}
        for where, line in _texts(path):
            if not line.strip():
                continue
            uri, tab, rest = line.partition("\t")
            label, _, notation = rest.partition("\t")
            if not tab or not label.strip() or not uri.strip():
                raise InputError(f"{where}: expected an identifier, a tab and a label")
            labels, known = found.get(strip_brackets(uri.strip()), ([], ""))
            found[strip_brackets(uri.strip())] = [*labels, label], notation.strip() or known
        for uri, (labels, notation) in found.items():
            yield Concept(uri, {"": labels[0]}, [("", label) for label in labels[1:]], notation)


class CommaVocabulary(VocabularyReader):
    """Reads CSV with the columns `uri`, and `label` or one column such as `label_de` per language.

    Other columns may be `notation`, `alt_label` or `alt_label_de` (labels separated by `|`), `broader` (identifiers
    separated by spaces) and `deprecated` (true or false).
    """

    suffixes = (".csv",)

    def concepts(self, path: str) -> Iterator[Concept]:
        """Yield the concept of each record."""
        records = csv.reader((f"{line}\n" for _, line in _texts(path)), strict=True)
        try:
            names = [name.strip() for name in next(records, [])]
            labels = _by_language(names, "label")
            if "uri" not in names or not labels:
                raise InputError(f"{path}:1: expected the columns uri and label, or label_de and the like, in {names}")
            for record in records:
                if record:
                    yield _concept(f"{path}:{records.line_num}", names, record, labels)
        except csv.Error as error:
            raise InputError(f"{path}:{records.line_num}: a record cannot be read: {error}") from error


def _concept(where: str, names: list[str], record: list[str], labels: dict[str, str]) -> Concept:
    if len(record) != len(names):
        raise InputError(f"{where}: {len(record)} fields; the first line has {len(names)}")
    cell = dict(zip(names, record, strict=True))
    deprecated = cell.get("deprecated", "").strip().lower()
    if deprecated not in _TRUE + _FALSE:
        raise InputError(f"{where}: deprecated is {deprecated[:40]!r}; expected true or false")
    uri = strip_brackets(cell["uri"].strip())
    preferred = {tag: cell[name] for tag, name in labels.items() if cell[name].strip()}
    if not uri or not preferred:
        raise InputError(f"{where}: expected an identifier and a label")
    alternative = [
        (tag, text) for tag, name in _by_language(names, "alt_label").items() for text in cell[name].split("|")
    ]
    broader = [strip_brackets(one) for one in cell.get("broader", "").split()]
    return Concept(uri, preferred, alternative, cell.get("notation", ""), broader, deprecated=deprecated in _TRUE)


def _by_language(names: list[str], what: str) -> dict[str, str]:
    """Return the columns of labels by language tag: `label` has none, `label_de` has `de`."""
    columns = {name.removeprefix(what).removeprefix("_"): name for name in names if name.startswith(f"{what}_")}
    return {**({"": what} if what in names else {}), **columns}


def _texts(path: str) -> Iterator[tuple[str, str]]:
    """Yield `file:line` and the text of each line."""
    for number, line in lines(path):
        try:
            yield f"{path}:{number}", line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(f"{path}:{number}:{error.start + 1}", line, error) from None
