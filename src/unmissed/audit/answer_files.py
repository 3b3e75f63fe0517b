"""Reads answers of people: tables, Label Studio exports, Prodigy examples, Argilla records, or a folder of them."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from unmissed.audit.answers import Answer, Verdict
from unmissed.data.readers.json_lines import JsonLines
from unmissed.data.streams import bare_suffix, lines
from unmissed.data.table_columns import kind_of
from unmissed.errors import InputError
from unmissed.files import no_such, read_json
from unmissed.runs.cells import unguard
from unmissed.settings import SETTINGS

PathLike = str | os.PathLike[str]
_VERDICTS: dict[str, Verdict] = {"yes": "yes", "no": "no", "unsure": "unsure"}
_VERDICTS |= {"y": "yes", "n": "no", "u": "unsure", "1": "yes", "0": "no", "true": "yes", "false": "no", "?": "unsure"}
_VERDICTS |= {"accept": "yes", "reject": "no", "ignore": "unsure"}  # Prodigy's words
_EXPECTED = "a file of answers is .csv, .json (Label Studio, Argilla) or .jsonl (Prodigy), or a folder of such files"


def read_answers(path: PathLike) -> list[Answer]:
    """Return the answers in a file or in all files of a folder, in the order of file names and lines.

    Cells without an answer are left out. A CSV table has the columns `row` or `id`, `label`, `answer` (yes, no or
    unsure; empty if not answered) and possibly `annotator` and the stated `probability` (or `missing_probability`);
    other columns are ignored. JSON is an export of Label
    Studio or records of Argilla, JSON lines are Prodigy's examples or objects with the keys of the table. Raise
    InputError with the file and the line or item if something cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if bare_suffix(one) in _READERS and not one.name.startswith("."))
        if not files:
            raise InputError(f"{path}: has no files of answers; {_EXPECTED}")
        return [answer for file in files for answer in read_answers(file)]
    if not path.exists():
        raise no_such(path)
    read = _READERS.get(bare_suffix(path))
    if read is None:
        raise InputError(f"{path}: cannot tell the format by the suffix; {_EXPECTED}")
    return [answer for where, record in read(path) for answer in [_answer(where, record)] if answer is not None]


def _answer(where: str, record: Mapping[str, Any]) -> Answer | None:
    """Return the answer of a record with row or id, label, answer and annotator; None if there is no answer."""
    given = record.get("answer")
    word = "" if given is None else str(given).strip().lower()
    if not word:
        return None
    if word not in _VERDICTS:
        raise InputError(f"{where}: the answer is {word[:40]!r}; expected yes, no or unsure")
    has_id = record.get("id") not in (None, "") and "annotation_id" not in record  # that is Label Studio's own number
    row = record.get("id") if has_id else record.get("row")
    texts = {"row": row, "label": record.get("label"), "annotator": record.get("annotator") or ""}
    for name, value in texts.items():
        if not isinstance(value, str | int) or isinstance(value, bool) or (name != "annotator" and value == ""):
            raise InputError(f"{where}: expected a {name} for the answer {word!r}, found {kind_of(value)}")
    return Answer(str(row), str(record["label"]), _VERDICTS[word], str(texts["annotator"]), _probability(where, record))


def _probability(where: str, record: Mapping[str, Any]) -> float | None:
    """Return the probability that was stated with a question: that of a service, or of a list of missing labels."""
    name = "probability" if record.get("probability") not in (None, "") else "missing_probability"
    given = record.get(name)
    if given in (None, ""):
        return None
    try:
        value = float(given) if isinstance(given, str | int | float) and not isinstance(given, bool) else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError(f"{where}: expected a {name} between 0 and 1, found {str(given)[:40]!r}")
    return value


def _read_table(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the lines of a CSV table; the delimiter is a comma or a semicolon."""
    decoded = (line.decode("utf-8", errors="replace") + "\n" for _, line in lines(path))
    header = next(decoded, "")
    delimiter = ";" if header.count(";") > header.count(",") else ","
    first = _next_cells(csv.reader([header], delimiter=delimiter), f"{path}:1: the header")
    names = [name.strip().lower() for name in first or []]
    if not {"label", "answer"} <= set(names) or not {"row", "id"} & set(names):
        found = ", ".join(names)[:60]
        raise InputError(f"{path}:1: expected the columns row (or id), label and answer, found {found}")
    csv.field_size_limit(max(csv.field_size_limit(), SETTINGS.cell_bytes))  # a column may have long texts
    reader = csv.reader(decoded, delimiter=delimiter, strict=True)
    while True:
        where = f"{path}:{reader.line_num + 2}"
        cells = _next_cells(reader, f"{where}: a record")
        if cells is None:
            return
        if cells and len(cells) != len(names):
            raise InputError(f"{where}: {len(cells)} fields; the first line has {len(names)}")
        if cells:
            yield where, dict(zip(names, map(unguard, cells), strict=True))


def _next_cells(reader: Iterator[list[str]], what: str) -> list[str] | None:
    """Return the cells of the next record, None at the end; raise InputError if `what` cannot be read."""
    try:
        return next(reader, None)
    except csv.Error as error:
        raise InputError(f"{what} cannot be read: {error}") from error


def _read_lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield JSON lines; Prodigy has row and label in `meta`, and the annotator in a field of its own."""
    for where, record in JsonLines().parse(str(path), lines(path)):
        meta = record.get("meta")
        annotator = record.get("annotator") or record.get("_annotator_id") or record.get("_session_id")
        named = meta if isinstance(meta, dict) else record
        yield where, {**named, "answer": record.get("answer"), "annotator": annotator}


def _read_items(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the answers in a JSON list of Label Studio tasks or Argilla records."""
    items = read_json(path)
    if not isinstance(items, list):
        raise InputError(f"{path}: expected a list of tasks or records, found {kind_of(items)}")
    for number, item in enumerate(items, start=1):
        where = f"{path}, item {number}"
        if isinstance(item, dict) and isinstance(item.get("data"), dict):
            yield from _of_task(where, item)
        elif isinstance(item, dict) and isinstance(item.get("metadata"), dict):
            yield from _of_record(where, item)
        elif isinstance(item, dict) and "annotation_id" in item:
            yield where, item  # Label Studio's JSON-MIN
        else:
            raise InputError(f"{where}: expected a task of Label Studio (data) or a record of Argilla (metadata)")


def _of_task(where: str, task: dict[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the answers of a Label Studio task; canceled annotations are skipped."""
    for annotation in _list(where, task, "annotations"):
        if annotation.get("was_cancelled"):
            continue
        annotator = annotation.get("completed_by")
        if isinstance(annotator, dict):
            annotator = annotator.get("email") or annotator.get("id")
        for result in _list(where, annotation, "result"):
            choices = (result.get("value") or {}).get("choices") if isinstance(result.get("value"), dict) else None
            if result.get("from_name") == "answer" and isinstance(choices, list) and choices:
                answer = choices[0] if len(choices) == 1 else "+".join(map(str, choices))
                yield where, {**task["data"], "answer": answer, "annotator": annotator}


def _of_record(where: str, record: dict[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the answers of an Argilla record; drafts and discarded responses are skipped if the status is known."""
    responses = record.get("responses") or {}
    if not isinstance(responses, dict):
        raise InputError(f"{where}: expected responses by question, found {kind_of(responses)}")
    for response in _list(where, responses, "answer"):
        if response.get("status") not in ("draft", "discarded"):
            yield where, {**record["metadata"], "answer": response.get("value"), "annotator": response.get("user_id")}


def _list(where: str, holder: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of objects; an absent one is empty."""
    found = holder.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InputError(f"{where}: expected {name!r} to be a list of objects")
    return cast(list[dict[str, Any]], found)


_READERS: dict[str, Callable[[Path], Iterator[tuple[str, Mapping[str, Any]]]]] = {
    ".csv": _read_table,
    ".json": _read_items,
    ".jsonl": _read_lines,
}
