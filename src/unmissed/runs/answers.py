"""Rankings as tables and JSON lines, with label names, and the formats of ranking files."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from unmissed.data.streams import write_stream
from unmissed.ranking import Ranking
from unmissed.registry import Registry
from unmissed.runs.cells import guard, one_line

if TYPE_CHECKING:
    from unmissed.runs.run import Run

Ranked = Ranking | Iterable[Ranking]
"""A ranking, or an iterable of its parts."""


def table_lines(run: Run, ranking: Ranked, ids: Sequence[str] | None = None, *, guarded: bool = False) -> Iterator[str]:
    """Yield the lines of a tab-separated table: row or id, rank (from 1), label, title if there is one, score.

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
    for row, (labels, scores, no_known_words) in enumerate(_rows(ranking)):
        listed = [_label_entry(run, label, score) for label, score in zip(labels, scores, strict=True) if label >= 0]
        name: dict[str, Any] = {"row": row} if ids is None else {"id": ids[row]}
        yield {**name, "labels": listed, **({"no_known_words": True} if no_known_words else {})}


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


def _label_entry(run: Run, label: int, score: float) -> dict[str, Any]:
    """Return the JSON entry of a ranked label."""
    names = run.label_names
    return {"label": names[label] if names else label, "name": run.name_of(label), "score": score}


def cut(ranking: Ranking, threshold: float | None) -> Ranking:
    """Return a ranking without labels whose score is below a threshold; removed ones become -1."""
    return ranking if threshold is None else ranking.keep(ranking.scores >= threshold)


def _rows(ranking: Ranked) -> Iterator[tuple[list[int], list[float], bool]]:
    """Yield labels and scores of each row, and whether it is a text without a known word."""
    for part in [ranking] if isinstance(ranking, Ranking) else ranking:
        flags = repeat(False, part.n_samples) if part.no_known_words is None else part.no_known_words.tolist()
        yield from zip(part.labels.tolist(), part.scores.tolist(), flags, strict=True)


def _fields(
    run: Run, ranking: Ranked, ids: Sequence[str] | None, cell: Callable[[str], str]
) -> Iterator[list[str | int]]:
    """Yield the fields of each line, with `cell` applied to strings."""
    names, titles = run.label_names, run.label_titles
    yield ["row" if ids is None else "id", "rank", "label", *(["name"] if titles else []), "score"]
    for row, (labels, scores, _) in enumerate(_rows(ranking)):
        for rank, (label, score) in enumerate(zip(labels, scores, strict=True), start=1):
            if label < 0:
                break
            title = [cell(titles[label])] if titles else []
            name = cell(names[label]) if names else str(label)
            yield [row if ids is None else cell(ids[row]), rank, name, *title, f"{score:.6g}"]
