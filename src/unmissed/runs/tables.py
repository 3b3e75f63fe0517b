"""Reads tables of `unmissed predict` (.tsv, .csv, .jsonl) as a ranking of the rows of the truth."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.data.readers.json_lines import JsonLines
from unmissed.data.streams import bare_suffix, lines
from unmissed.data.unicode import find_name, index_names
from unmissed.errors import InputError
from unmissed.progress import Progress
from unmissed.ranking import Ranking
from unmissed.runs.cells import one_line, unguard

PathLike = str | os.PathLike[str]
SHOWN = 5  # number of rows listed in messages
NO_ROWS: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)


class Wanted(NamedTuple):
    """Expected numbers of rows and labels of a score file, label names (or None) and row ids (read on request)."""

    n_samples: int
    n_labels: int
    names: Sequence[str] | None
    ids: Callable[[], Sequence[str] | None] = lambda: None


class RankedRows(NamedTuple):
    """A ranking of all rows of the truth, and the sorted rows that its file lacks; these have no labels."""

    ranking: Ranking
    missing: npt.NDArray[np.int64] = NO_ROWS


class _Entry(NamedTuple):
    """A ranked label of a row: position (from 0), label, score, and its probability (NaN if the table has none)."""

    row: int
    position: int
    label: int
    score: float
    probability: float


def read_table(path: PathLike, wanted: Wanted, needed: int, progress: Progress) -> RankedRows:
    """Return the ranking in a table with row or id, rank, label, optional title and score; rows in any order."""
    reader = _Reader(path, wanted)
    for where, found in TABLES[bare_suffix(path)](path, progress):
        reader.take(where, found)
    reader.check()
    entries = reader.entries
    depth = 1 + max((one.position for one in entries), default=0)
    if depth > wanted.n_labels:
        raise InputError(f"{path}: has rank {depth}, and there are {wanted.n_labels} labels")
    if depth == wanted.n_labels:  # all labels are ranked: pad to the required depth
        depth = max(depth, needed)
    labels = np.full((wanted.n_samples, depth), -1, dtype=np.int32)
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    probabilities = np.zeros(labels.shape, dtype=np.float32)
    for row, position, label, score, probability in entries:
        if labels[row, position] >= 0:
            raise InputError(f"{path}: {reader.name_of(row)} has rank {position + 1} twice")
        labels[row, position], scores[row, position] = label, score
        probabilities[row, position] = probability
    has_probabilities = bool(entries) and not np.isnan(probabilities).all(where=labels >= 0)
    try:
        ranking = Ranking.as_listed(labels, scores)
        ranking = replace(ranking, probabilities=probabilities) if has_probabilities else ranking
        return RankedRows(ranking, np.flatnonzero(~reader.present))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


class _Reader:
    """Collects the entries of a table and the rows that occur in it."""

    def __init__(self, path: PathLike, wanted: Wanted) -> None:
        self.path, self.wanted = path, wanted
        self.entries: list[_Entry] = []
        self.present = np.zeros(wanted.n_samples, dtype=np.bool_)
        self._undo = (lambda cell: cell) if bare_suffix(path) == ".jsonl" else unguard
        self._labels = _label_numbers(path, wanted)
        self._rows: dict[str, int] | None = None
        self._unknown: dict[str, str] = {}  # rows that the truth does not have, with their first line

    def take(self, where: str, found: dict[str, str]) -> None:
        """Add a line; without rank, label and score it only records that its row occurs."""
        if "id" in found and self._rows is None:
            self._rows = _rows_by_id(self.path, self.wanted.ids())
        try:
            row = int(found["row"]) if self._rows is None else self._find(self._rows, found["id"])
        except (KeyError, ValueError):
            raise _unreadable(where, found) from None
        if not 0 <= row < self.wanted.n_samples:
            self._unknown.setdefault(found["row"] if self._rows is None else repr(found["id"]), where)
            return
        self.present[row] = True
        if any(found.get(name) != "" for name in ("rank", "label", "score")):
            self.entries.append(self._entry(where, row, found))

    def _entry(self, where: str, row: int, found: dict[str, str]) -> _Entry:
        try:
            rank, score = int(found["rank"]), float(found["score"])
            probability = float(found.get("probability", "nan"))
            label = int(found["label"]) if self._labels is None else self._find(self._labels, found["label"])
        except (KeyError, ValueError):
            raise _unreadable(where, found) from None
        if not (0 <= label < self.wanted.n_labels and rank >= 1):
            raise InputError(
                f"{where}: {self.name_of(row)}, rank {rank}, label {found['label']!r}: expected a rank from 1 on and a "
                "label of the training set"
            )
        return _Entry(row, rank - 1, label, score, probability)

    def _find(self, known: dict[str, int], cell: str) -> int:
        """Return the index of a name, escaped as `predict` writes it or not; -1 if it is unknown."""
        number = find_name(known, one_line(self._undo(cell)))
        return find_name(known, one_line(cell)) if number < 0 else number

    def name_of(self, row: int) -> str:
        """Return the name of a row for messages."""
        ids = None if self._rows is None else self.wanted.ids()
        return f"row {row}" if ids is None else f"id {ids[row]!r}"

    def check(self) -> None:
        """Raise if the table has rows that the truth does not have."""
        if not self._unknown:
            return
        names, where = list(self._unknown), next(iter(self._unknown.values()))
        kind = f"rows (it has rows 0 to {self.wanted.n_samples - 1})" if self._rows is None else "ids"
        raise InputError(
            f"{where}: the truth does not have {len(names):,} of the {kind} of this ranking, first {listed(names)}; "
            "give the truth of the ranked documents, or leave these out"
        )


def listed(names: Sequence[str]) -> str:
    """Return the first names, with an ellipsis if there are more."""
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def _unreadable(where: str, found: dict[str, str]) -> InputError:
    text = "\t".join(map(str, found.values())).encode("utf-8", "replace")
    return InputError(f"{where}: expected row, rank, label and score, found {shown(text)}")


def _rows_by_id(path: PathLike, ids: Sequence[str] | None) -> dict[str, int]:
    if ids is None:
        raise InputError(
            f"{path}: names rows by their ids, and the rows of the truth have none; evaluate the .npz file"
        )
    rows = {one_line(name): row for row, name in enumerate(ids)}
    if len(rows) != len(ids):
        raise InputError(
            f"{path}: names rows by their ids, and two rows of the truth share one; evaluate the .npz file"
        )
    return rows


def _label_numbers(path: PathLike, wanted: Wanted) -> dict[str, int] | None:
    """Return the column of each label name as tables write it; None if labels have no names."""
    if wanted.names is None:
        return None
    shown_names = [one_line(name) for name in wanted.names]
    if len(set(shown_names)) != len(shown_names):
        raise InputError(f"{path}: two labels of the training set look alike in a table; evaluate the .npz file")
    return index_names(shown_names)


def _tabbed(path: PathLike, progress: Progress) -> Iterator[tuple[str, dict[str, str]]]:
    numbered = ((number, line.decode("utf-8", errors="replace").split("\t")) for number, line in lines(path, progress))
    return _named(path, numbered)


def _commas(path: PathLike, progress: Progress) -> Iterator[tuple[str, dict[str, str]]]:
    texts = (line.decode("utf-8", errors="replace") + "\n" for _, line in lines(path, progress))
    reader = csv.reader(texts)
    try:
        yield from _named(path, ((reader.line_num, words) for words in reader if words))
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not a table with commas: {error}") from error


def _named(path: PathLike, numbered: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield `file:line` and the fields of each line by column name; the first line is the header."""
    _, names = next(numbered, (1, []))
    if not {"rank", "label", "score"} <= set(names) or not {"row", "id"} & set(names):
        found = shown(" ".join(names).encode("utf-8", "replace"))
        raise InputError(f"{path}:1: expected the columns row, rank, label and score, found {found}")
    for number, words in numbered:
        yield f"{path}:{number}", dict(zip(names, words, strict=False))


def _objects(path: PathLike, progress: Progress) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each label of JSON lines as a table line; a row without labels gives one line with empty fields."""
    for where, document in JsonLines().parse(str(path), lines(path, progress)):
        row: dict[str, str] = {name: str(document[name]) for name in ("id", "row") if name in document}
        labels = document.get("labels")
        if not isinstance(labels, list) or not all(isinstance(one, dict) for one in labels):
            raise InputError(f"{where}: expected 'labels' to be a list of objects with label and score")
        if not labels:
            yield where, {**row, "rank": "", "label": "", "score": ""}
        for rank, one in enumerate(labels, start=1):
            names = ("label", "score", *(("probability",) if "probability" in one else ()))
            yield where, {**row, "rank": str(rank), **{name: str(one.get(name)) for name in names}}


TABLES = {".tsv": _tabbed, ".csv": _commas, ".jsonl": _objects}


def shown(line: bytes) -> str:
    """Return a line for messages: quoted and truncated."""
    text = line.decode("utf-8", errors="replace")
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
