"""Files of missing labels: tables, and one yes-or-no question per cell for Label Studio, Prodigy and Argilla."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import IO, Any

from unmissed.audit.missing_cells import MissingLabels
from unmissed.data.streams import bare_suffix, write_stream
from unmissed.errors import InputError, UnmissedError
from unmissed.runs.cells import guard

PathLike = str | os.PathLike[str]
Record = dict[str, Any]
_BATCH = 65_536  # rows of a Parquet file that are written at a time


def find_format(path: PathLike, name: str | None = None) -> str:
    """Return the name of the format of a file of missing labels: the given one, or that of the suffix."""
    known = ", ".join((*FORMATS, PAGE))
    if name is not None:
        if name not in FORMATS and name != PAGE:
            raise InputError(f"unknown format {name!r}; formats are {known}")
        return name
    suffix = bare_suffix(path).removeprefix(".")
    if suffix not in FORMATS and suffix != PAGE:
        raise InputError(f"{path}: cannot tell the format by the suffix; formats are {known} (--format names one)")
    return suffix


def write_missing(found: MissingLabels, path: PathLike, format: str | None = None) -> None:
    """Write missing labels to a file, atomically, in a named format or in that of the suffix.

    Parameters
    ----------
    found : the missing labels
    path : the file; `.gz` and `.xz` compress it, except Parquet
    format : csv, jsonl, parquet, label-studio, prodigy or argilla
    """
    name = find_format(path, format)
    if name == PAGE:
        raise InputError(f"{path}: pages are written by unmissed.reports.annotation_page.write_annotation_page")
    FORMATS[name](found, path)


def questions(found: MissingLabels) -> Iterator[Record]:
    """Yield each cell as a question to a person, with the id of the row or its number, title, words and text."""
    for cell, text in zip(found, found.texts(), strict=True):
        yield {
            "row": str(cell.get("id", cell["row"])),
            "label": cell["label"],
            "title": cell.get("title", cell["label"]),
            "missing_probability": round(cell["missing_probability"], 6),
            "words": [name for name, _ in cell["words"]],
            "text": text,
        }


def table_columns(found: MissingLabels) -> list[str]:
    """Return the columns of a table of missing labels."""
    has_ids, has_titles = found.training_rows.ids is not None, found.run.label_titles is not None
    return [
        *("row", *(["id"] if has_ids else []), "label", *(["title"] if has_titles else [])),
        *("missing_probability", "observed_probability", "count", "words"),
    ]


def _write_csv(found: MissingLabels, path: PathLike) -> None:
    """Write a table; cells that a spreadsheet would run as formulas start with an apostrophe."""
    with write_stream(path) as stream:
        stream.write(csv_line(table_columns(found)))
        for cell in found:
            cell["words"] = " ".join(name for name, _ in cell["words"])
            stream.write(csv_line([_cell(value) for value in cell.values()]))


def csv_line(cells: Sequence[str]) -> bytes:
    """Return a line of a CSV file."""
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue().encode()


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return guard(value) if isinstance(value, str) else "" if value is None else str(value)


def _write_json_lines(found: MissingLabels, path: PathLike) -> None:
    with write_stream(path) as stream:
        _write_lines(stream, ({**cell, "words": dict(cell["words"])} for cell in found))


def _write_lines(stream: IO[bytes], records: Iterator[Record]) -> None:
    for record in records:
        stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


def _write_parquet(found: MissingLabels, path: PathLike) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UnmissedError("Parquet is written by pyarrow; pip install 'unmissed[parquet]'") from error
    kinds = {"row": pa.int64(), "count": pa.int64(), "words": pa.list_(pa.string())}
    kinds |= dict.fromkeys(("missing_probability", "observed_probability"), pa.float64())
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in table_columns(found)])
    cells = ({**cell, "words": [name for name, _ in cell["words"]]} for cell in found)
    with write_stream(path) as stream, pq.ParquetWriter(stream, schema) as writer:
        while batch := list(islice(cells, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema))


def _write_prodigy(found: MissingLabels, path: PathLike) -> None:
    """Write examples for Prodigy's `mark` recipe with `--view-id classification`."""
    with write_stream(path) as stream:
        for one in questions(found):
            meta = {name: one[name] for name in ("row", "label", "missing_probability")}
            meta["words"] = ", ".join(one["words"])
            _write_lines(stream, iter([{"text": _shown_text(one), "label": one["title"], "meta": meta}]))


def _label_studio(one: Record) -> Record:
    data = {**one, "text": _shown_text(one), "words": ", ".join(one["words"])}
    choice = {"from_name": "answer", "to_name": "text", "type": "choices", "value": {"choices": ["yes"]}}
    prediction = {"model_version": "unmissed", "score": one["missing_probability"], "result": [choice]}
    return {"data": data, "predictions": [prediction]}


def _argilla(one: Record) -> Record:
    words = ", ".join(one["words"])
    suggestion = {"value": "yes", "score": one["missing_probability"], "agent": "unmissed"}
    return {
        "id": json.dumps([one["row"], one["label"]], ensure_ascii=False),
        "fields": {"text": _shown_text(one), "label": one["title"]},
        "metadata": {**{name: one[name] for name in ("row", "label", "missing_probability")}, "words": words},
        "suggestions": {"answer": suggestion},
        "responses": {},
        "vectors": {},
    }


def _shown_text(one: Record) -> str:
    """Return the text of a question, or the row's name if its text is not known."""
    return f"row {one['row']}" if one["text"] is None else str(one["text"])


def _json_list(convert: Callable[[Record], Record]) -> Callable[[MissingLabels, PathLike], None]:
    """Return a writer of a JSON list with one object per question and line."""

    def write(found: MissingLabels, path: PathLike) -> None:
        with write_stream(path) as stream:
            for begin, one in zip(chain([b"[\n"], iter(lambda: b",\n", None)), questions(found), strict=False):
                stream.write(begin + json.dumps(convert(one), ensure_ascii=False).encode())
            stream.write(b"\n]\n" if len(found) else b"[]\n")

    return write


FORMATS: dict[str, Callable[[MissingLabels, PathLike], None]] = {
    "csv": _write_csv,
    "jsonl": _write_json_lines,
    "parquet": _write_parquet,
    "label-studio": _json_list(_label_studio),
    "prodigy": _write_prodigy,
    "argilla": _json_list(_argilla),
}
"""Writers of missing labels by the name of their format."""
PAGE = "html"
"""The format of a page on which a person answers; `unmissed.reports` renders it."""
WITH_TEXTS = ("label-studio", "prodigy", "argilla", PAGE)
"""Formats that show the text of each row."""
