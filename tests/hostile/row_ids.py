"""Ids of rows: empty, twice, huge, of other types, alike in a table, and no text at all.

Rows are ranked, and the ranking is written under their ids and evaluated. Each step may refuse; otherwise the figures
must be those of the ranking itself.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from tests.hostile.campaign import Format, ViolationError
from tests.hostile.folders import WORDS, corpus
from tests.hostile.mutators import Rng, pick
from unmissed.runs import open_run, train
from unmissed.runs.measurement import Measuring, evaluate_ranking
from unmissed.runs.prediction import predict, read_rows, write_ranking

IDS: tuple[Any, ...] = (
    "", " ", "\t", "\n", "\r", "\u2028", "\x85", "\x00", "\x1b[31m", "a", "a", "a ", " a", "A", "a b", "a\tb", "a\nb",
    "0", "1", "01", "-1", 0, 1, -1, 2**63, 10**30, 1.5, float("nan"), None, True, [], {}, ["a"], "row", "id", "None",
    "nan", "é", "e\u0301", "🐟", "\ud800", "a\udfffb", "\ud83d", "x" * 10**6, '"', "'", ",", ";", "=1+1", "../x", "[1]",
)  # fmt: skip
N = 6


def prepare(workdir: Path) -> dict[str, Any]:
    """Train a run on text whose labels have names."""
    dataset, _ = corpus()
    train("dismec", dataset, workdir / "run", {"n_jobs": 1})
    run = open_run(workdir / "run")
    names = run.label_names or []
    documents = [{"text": " ".join(WORDS[n : n + 4]), "labels": names[n : n + 2]} for n in range(N)]
    seeds = {"run": run, "documents": documents}
    sound = workdir / "sound.jsonl"
    sound.write_text("".join(json.dumps({"id": n, **one}) + "\n" for n, one in enumerate(documents)))
    use(seeds, (sound, ".tsv"))  # compiles what the children will need
    return seeds


def spoil(rng: Rng, seeds: Any, folder: Path) -> tuple[Path, str]:
    """Write documents with odd ids; some rows keep sound ones."""
    ids = [pick(rng, IDS) if rng.random() < 0.5 else f"row {row}" for row in range(N)]
    documents = [{"id": name, **one} for name, one in zip(ids, seeds["documents"], strict=True)]
    write = pick(rng, (write_lines, write_table, write_parquet))
    return write(folder, documents), pick(rng, (".tsv", ".csv", ".jsonl", ".npz"))


def write_lines(folder: Path, documents: list[dict[str, Any]]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))
    return path


def write_table(folder: Path, documents: list[dict[str, Any]]) -> Path:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["id", "text", "labels"])
    writer.writerows([one["id"], one["text"], ";".join(one["labels"])] for one in documents)
    path = folder / "rows.csv"
    path.write_bytes(stream.getvalue().encode("utf-8", "surrogatepass"))
    return path


def write_parquet(folder: Path, documents: list[dict[str, Any]]) -> Path:
    """Write ids as integers if all are, else as strings that may be no UTF-8."""
    ids = [one["id"] for one in documents]
    if all(type(name) is int and abs(name) < 2**63 for name in ids):
        column = pyarrow.array(ids)
    else:
        words = [None if name is None else str(name).encode("utf-8", "surrogatepass") for name in ids]
        column = pyarrow.Array.from_buffers(pyarrow.string(), N, pyarrow.array(words, pyarrow.binary()).buffers())
    texts, labels = ([one[name] for one in documents] for name in ("text", "labels"))
    path = folder / "rows.parquet"
    parquet.write_table(pyarrow.table({"id": column, "text": texts, "labels": labels}), path)
    return path


def use(seeds: Any, made: tuple[Path, str]) -> None:
    """Rank, write and evaluate, as `unmissed predict` and `unmissed evaluate` do."""
    path, suffix = made
    run = seeds["run"]
    rows, ids = read_rows(run, path)
    ranking = predict(run, rows, 3)
    ranking.save(path.with_name("plain.npz"))
    named = ranking.of_rows(ids or None)
    (written,) = write_ranking(run, named, path.with_name(f"ranking{suffix}"), ids=ids or None)
    measuring = Measuring(k=(1, 3), n_resamples=10)
    expected, found = (
        evaluate_ranking(one, path, run.folder.path, measuring)["figures"]
        for one in (path.with_name("plain.npz"), written)
    )
    if found != expected:
        raise ViolationError(f"rows mixed up: {suffix} gives {str(found)[:60]}, the ranking {str(expected)[:60]}")


FORMATS = (Format("row ids", prepare, spoil, use),)
