"""A ranking in words: tables and JSON lines, with the names that a run has for its labels."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from unmissed.ranking import Ranking

if TYPE_CHECKING:
    from unmissed.runs.run import Run

BREAKS = dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"), " ")  # what would end a field or a line
Ranked = Ranking | Iterable[Ranking]
"""A ranking, or its parts one after the other."""


def table_lines(run: Run, ranking: Ranked, ids: Sequence[str] | None = None) -> Iterator[str]:
    """Give a tab-separated table: row (or id), rank (from 1), label, its readable name where there is one, score."""
    for fields in _fields(run, ranking, ids):
        yield "\t".join(str(field).translate(BREAKS) for field in fields)


def comma_lines(run: Run, ranking: Ranked, ids: Sequence[str] | None = None) -> Iterator[str]:
    """Give the same table with commas between, quoted where a field needs it."""
    for fields in _fields(run, ranking, ids):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(fields)
        yield line.getvalue()


def json_lines(run: Run, ranking: Ranked, ids: Sequence[str] | None = None) -> Iterator[str]:
    """Give one JSON object per row: its number or id, and its labels with names and scores, best first."""
    for entry in row_entries(run, ranking, ids):
        yield json.dumps(entry, ensure_ascii=False)


def row_entries(run: Run, ranking: Ranked, ids: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Give each row as JSON shows it: `row` or `id`, `labels`, and `no_known_words` for a text without any."""
    for row, (labels, scores, no_known_words) in enumerate(_rows(ranking)):
        listed = [_label_entry(run, label, score) for label, score in zip(labels, scores, strict=True) if label >= 0]
        name: dict[str, Any] = {"row": row} if ids is None else {"id": ids[row]}
        yield {**name, "labels": listed, **({"no_known_words": True} if no_known_words else {})}


def known_words_note(n_without: int, n_samples: int) -> str | None:
    """Return what to say of texts without a known word, or None if there are none."""
    if not n_without:
        return None
    if n_samples == 1:
        return "no known words: the run knows no word of this text, so there is nothing to rank"
    return f"no known words in {n_without:,} of {n_samples:,} texts; they get no labels"


WRITERS = {".tsv": table_lines, ".csv": comma_lines, ".jsonl": json_lines}


def _label_entry(run: Run, label: int, score: float) -> dict[str, Any]:
    """Return a ranked label as JSON shows it."""
    names = run.label_names
    return {"label": names[label] if names else label, "name": run.name_of(label), "score": score}


def cut(ranking: Ranking, threshold: float | None) -> Ranking:
    """Empty the places whose score is below a threshold."""
    if threshold is None:
        return ranking
    kept = ranking.scores >= threshold
    scores = np.where(kept, ranking.scores, np.float32(-np.inf))
    return replace(ranking, labels=np.where(kept, ranking.labels, -1), scores=scores)


def _rows(ranking: Ranked) -> Iterator[tuple[list[int], list[float], bool]]:
    """Give labels and scores of each row, and whether it is a text without a known word."""
    for part in [ranking] if isinstance(ranking, Ranking) else ranking:
        flags = repeat(False, part.n_samples) if part.no_known_words is None else part.no_known_words.tolist()
        yield from zip(part.labels.tolist(), part.scores.tolist(), flags, strict=True)


def _fields(run: Run, ranking: Ranked, ids: Sequence[str] | None) -> Iterator[list[Any]]:
    names, titles = run.label_names, run.label_titles
    yield ["row" if ids is None else "id", "rank", "label", *(["name"] if titles else []), "score"]
    for row, (labels, scores, _) in enumerate(_rows(ranking)):
        for rank, (label, score) in enumerate(zip(labels, scores, strict=True), start=1):
            if label < 0:
                break
            title = [titles[label]] if titles else []
            name = names[label] if names else str(label)
            yield [row if ids is None else ids[row], rank, name, *title, f"{score:.6g}"]
