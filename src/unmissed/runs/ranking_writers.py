"""Rankings as tables and JSON lines, with label names, and the formats of ranking files."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy.typing as npt

from unmissed.data.streams import write_stream
from unmissed.ranking import Ranking
from unmissed.registry import Registry
from unmissed.runs.cells import guard, one_line

if TYPE_CHECKING:
    from unmissed.runs.run import Run

Ranked = Ranking | Iterable[Ranking]
"""A ranking, or an iterable of its parts."""


def table_lines(run: Run, ranking: Ranked, ids: Sequence[str] | None = None, *, guarded: bool = False) -> Iterator[str]:
    """Yield the lines of a tab-separated table: row or id, rank (from 1), label, title, notation, score.

    Titles and notations have columns if labels have such.
    Columns with probabilities follow if the ranking has them.

    With `guarded`, cells that a spreadsheet would run as formulas start with an apostrophe.
    """

    def cell(text: str) -> str:
        return guard(one_line(text)) if guarded else one_line(text)

    for fields in _fields(run, ranking, ids, cell):
        yield "\t".join(map(str, fields))


def comma_lines(run: Run, ranking: Ranked, ids: Sequence[str] | None = None, *, guarded: bool = False) -> Iterator[str]:
    """Yield the lines of the same table as CSV."""
    for fields in _fields(run, ranking, ids, guard if guarded else str):
        line = io.StringIO()
        csv.writer(line).writerow(fields)  # quotes line breaks only if they are in its own line end
        yield line.getvalue().removesuffix("\r\n")


def json_lines(run: Run, ranking: Ranked, ids: Sequence[str] | None = None) -> Iterator[str]:
    """Yield one JSON object per row: number or id, and labels with names and scores in falling order."""
    for entry in row_entries(run, ranking, ids):
        yield json.dumps(entry, ensure_ascii=False)


def row_entries(run: Run, ranking: Ranked, ids: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield each row as a dict: `row` or `id`, `labels`, and `no_known_words` for a text without known words."""
    names, notations = run.label_names, run.notations
    for row, one in enumerate(_rows(ranking)):
        listed = [
            {
                "label": names[label] if names else label,
                "name": run.name_of(label),
                **({"notation": notations[label] or None} if notations else {}),
                **values,
            }
            for label, values in one.entries
        ]
        name: dict[str, Any] = {"row": row} if ids is None else {"id": ids[row]}
        yield {**name, "labels": listed, **({"no_known_words": True} if one.no_known_words else {})}


def known_words_note(n_without: int, n_samples: int) -> str | None:
    """Return the note about texts without a known word; None if there are none."""
    if not n_without:
        return None
    if n_samples == 1:
        return "no known words: the run knows no word of this text, so there is nothing to rank"
    return f"no known words in {n_without:,} of {n_samples:,} texts; they get no labels"


class RankingWriter(ABC):
    """A file format of rankings; `in_parts` says that it can be written part by part."""

    in_parts: ClassVar[bool] = False

    @abstractmethod
    def write(self, path: Path, run: Run, ranking: Ranked, ids: Sequence[str] | None = None, raw: bool = False) -> None:
        """Write a ranking; table cells are guarded against spreadsheets unless `raw` is set."""


class RankingLines(RankingWriter):
    """A text format of rankings."""

    in_parts = True

    @abstractmethod
    def lines(self, run: Run, ranking: Ranked, ids: Sequence[str] | None, raw: bool) -> Iterator[str]:
        """Yield the lines of the file."""

    def write(self, path: Path, run: Run, ranking: Ranked, ids: Sequence[str] | None = None, raw: bool = False) -> None:
        """Write the lines, atomically."""
        with write_stream(path) as stream:
            for line in self.lines(run, ranking, ids, raw):
                stream.write(f"{line}\n".encode())


class RankingArrays(RankingWriter):
    """A ranking as `.npz`, for `unmissed evaluate`."""

    def write(self, path: Path, run: Run, ranking: Ranked, ids: Sequence[str] | None = None, raw: bool = False) -> None:
        """Write the arrays."""
        assert isinstance(ranking, Ranking)
        ranking.save(path)


class TabLines(RankingLines):
    """A ranking as `.tsv`."""

    def lines(self, run: Run, ranking: Ranked, ids: Sequence[str] | None, raw: bool) -> Iterator[str]:
        """Yield the lines of the table."""
        return table_lines(run, ranking, ids, guarded=not raw)


class CommaLines(RankingLines):
    """A ranking as `.csv`."""

    def lines(self, run: Run, ranking: Ranked, ids: Sequence[str] | None, raw: bool) -> Iterator[str]:
        """Yield the lines of the table."""
        return comma_lines(run, ranking, ids, guarded=not raw)


class ObjectLines(RankingLines):
    """A ranking as `.jsonl`."""

    def lines(self, run: Run, ranking: Ranked, ids: Sequence[str] | None, raw: bool) -> Iterator[str]:
        """Yield one object per row."""
        return json_lines(run, ranking, ids)


WRITERS: Registry[type[RankingWriter]] = Registry(
    "unmissed.ranking_writers",
    "ranking format",
    {
        ".npz": f"{__name__}:RankingArrays",
        ".tsv": f"{__name__}:TabLines",
        ".csv": f"{__name__}:CommaLines",
        ".jsonl": f"{__name__}:ObjectLines",
    },
)
"""The formats of rankings by suffix; an installed package adds its own by an entry point in this group."""


class _Row(NamedTuple):
    """The labels of a row with their values by column name, and whether it is a text without a known word."""

    entries: list[tuple[int, dict[str, float]]]
    no_known_words: bool


def _columns(part: Ranking) -> dict[str, npt.NDArray[Any]]:
    """Return the values of ranked labels by column name: score, and probabilities if there are any."""
    columns = {
        "score": part.scores,
        "probability": part.probabilities,
        "true_probability": part.true_probabilities,
    }
    return {name: values for name, values in columns.items() if values is not None}


def _rows(ranking: Ranked) -> Iterator[_Row]:
    """Yield the rows of a ranking."""
    for part in [ranking] if isinstance(ranking, Ranking) else ranking:
        flags = repeat(False, part.n_samples) if part.no_known_words is None else part.no_known_words.tolist()
        columns = _columns(part)
        values = zip(*(one.tolist() for one in columns.values()), strict=True)
        for labels, row, flag in zip(part.labels.tolist(), values, flags, strict=True):
            cells = [dict(zip(columns, cell, strict=True)) for cell in zip(*row, strict=True)]
            yield _Row([(label, cell) for label, cell in zip(labels, cells, strict=True) if label >= 0], flag)


def _fields(
    run: Run, ranking: Ranked, ids: Sequence[str] | None, cell: Callable[[str], str]
) -> Iterator[list[str | int]]:
    """Yield the fields of each line, with `cell` applied to strings."""
    names, further = run.label_names, {"name": run.label_titles, "notation": run.notations}
    shown_names = {column: strings for column, strings in further.items() if strings}
    parts = iter([ranking] if isinstance(ranking, Ranking) else ranking)
    first = next(parts, None)
    columns = ["score"] if first is None else list(_columns(first))
    yield ["row" if ids is None else "id", "rank", "label", *shown_names, *columns]
    for row, one in enumerate(_rows(chain([] if first is None else [first], parts))):
        for rank, (label, values) in enumerate(one.entries, start=1):
            title = [cell(strings[label]) for strings in shown_names.values()]
            name = cell(names[label]) if names else str(label)
            shown = [f"{values[column]:.6g}" for column in columns]
            yield [row if ids is None else cell(ids[row]), rank, name, *title, *shown]
