"""Data sets with the labels that people confirmed, written beside the original, and a log of what was added."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmissed.audit.answers import Answer
from unmissed.audit.exports import csv_line
from unmissed.audit.training_documents import check_documents, is_observed, training_documents
from unmissed.data import Dataset, save
from unmissed.data.documents import Documents
from unmissed.data.formats import find_writer
from unmissed.data.readers.reader import DocumentWriter
from unmissed.data.unicode import find_name, index_names
from unmissed.errors import InputError, did_you_mean
from unmissed.matrices import check_Y
from unmissed.progress import Progress, silent
from unmissed.runs.calibrating import training_rows
from unmissed.runs.cells import guard
from unmissed.runs.run import Run
from unmissed.runs.training_sources import DatasetOrPath
from unmissed.writing import atomic_file

Cell = tuple[int, int]
LOG_COLUMNS = ("row", "label", "added", "n_yes", "n_no", "n_unsure", "annotators_yes", "annotators_no")


@dataclass(frozen=True)
class Corrections:
    """Answers by cell, and what they change.

    Parameters
    ----------
    answers : the answers to each cell (row, label), by their numbers
    observed : cells whose label the data has already
    """

    answers: Mapping[Cell, Sequence[Answer]]
    observed: frozenset[Cell] = frozenset()

    @property
    def added(self) -> list[Cell]:
        """The cells whose label is added: more people said yes than no, and the data does not have it."""
        return [
            cell
            for cell, answers in self.answers.items()
            if _count(answers, "yes") > _count(answers, "no") and cell not in self.observed
        ]

    @property
    def contradicted(self) -> list[Cell]:
        """The cells to which some people said yes and others no."""
        return [cell for cell, answers in self.answers.items() if {"yes", "no"} <= {one.verdict for one in answers}]

    def summary(self) -> dict[str, Any]:
        """Return numbers that describe the corrections, ready for JSON."""
        added = set(self.added)
        return {
            "n_answers": sum(map(len, self.answers.values())),
            "n_cells": len(self.answers),
            "n_added": len(added),
            "n_already_observed": len(self.observed),
            "n_contradicted": len(self.contradicted),
            "n_contradicted_added": len(added.intersection(self.contradicted)),
        }


def apply_answers(
    run: Run,
    answers: Sequence[Answer],
    out: str | os.PathLike[str],
    *,
    old_rows: Sequence[DatasetOrPath] = (),
    progress: Progress = silent,
) -> tuple[Corrections, Path]:
    """Write the training data with confirmed labels added, and a log; return the corrections and the log's path.

    A label is added to a row if more answers say yes than no. Existing files are never overwritten. Documents are
    written as JSON lines with the columns that were read, features in the format of the path. The log, `OUT.log.csv`,
    has a line for each cell with an answer.

    Parameters
    ----------
    run : the calibrated run whose missing labels were checked
    answers : the answers of people
    out : the new file, or the folder of a store
    old_rows : the data that the run was trained on, or its path, if it moved or is in memory
    progress : progress callback of reading the training data
    """
    out = Path(out)
    log = out.with_name(f"{out.name}.log.csv")
    documents = training_documents(run, old_rows)
    writer = find_writer(out)
    if documents is None:
        dataset = training_rows(run, old_rows, progress=progress)
        found = _match(run, answers, None, dataset.n_samples)
        corrections = Corrections(found, _observed(dataset.Y, found))
        save(_with_labels(dataset, corrections.added), out, progress=progress)
    else:
        if not isinstance(writer, DocumentWriter):
            raise InputError(f"{out}: {documents.source} holds texts; write them as JSON lines (.jsonl)")
        label_lists, ids = check_documents(run, documents, run.held_out_cells(), progress)
        found = _match(run, answers, ids, len(label_lists))
        names = run.label_names or []
        held = frozenset((row, label) for row, label in found if names[label] in label_lists[row])
        corrections = Corrections(found, held)
        writer.write_documents(_corrected(run, documents, corrections.added, progress), out)
    _write_log(corrections, log)
    return corrections, log


def _match(run: Run, answers: Sequence[Answer], ids: list[str] | None, n_samples: int) -> dict[Cell, list[Answer]]:
    """Return the answers by the numbers of row and label; raise InputError for a row or label that is not there."""
    if not answers:
        raise InputError("there are no answers; fill in the answers first")
    rows = None if ids is None else {name: row for row, name in enumerate(ids)}
    labels = None if run.label_names is None else index_names(run.label_names)
    found: dict[Cell, list[Answer]] = {}
    for answer in answers:
        row = _number(answer.row, n_samples) if rows is None else rows.get(answer.row, -1)
        label = _number(answer.label, run.n_labels) if labels is None else find_name(labels, answer.label)
        if row < 0:
            what = f"has no row {answer.row!r}{_say_rows(answer.row, ids, n_samples)}"
            raise InputError(f"{run.folder}: its training data {what}; are these answers to its questions?")
        if label < 0:
            near = did_you_mean(answer.label, run.label_names or [])
            raise InputError(f"{run.folder}: has no label {answer.label!r}{near}; are these answers to its questions?")
        found.setdefault((row, label), []).append(answer)
    return found


def _say_rows(row: str, ids: list[str] | None, n_samples: int) -> str:
    """Return how rows are called in answers, for a message about one that is not there."""
    if ids is None:
        return f" (rows are numbers below {n_samples:,})"
    is_number = _number(row, n_samples) >= 0
    return f" (rows have ids, such as {ids[int(row)]!r} for this number)" if is_number else did_you_mean(row, ids)


def _number(text: str, end: int) -> int:
    """Return a number below `end`, or -1."""
    is_number = text.isascii() and text.isdigit() and len(text) < 12
    return int(text) if is_number and int(text) < end else -1


def _observed(Y: sp.csr_matrix, cells: Mapping[Cell, Any]) -> frozenset[Cell]:
    listed = list(cells)
    pairs = np.array(listed, dtype=np.int64).reshape(-1, 2)
    held = is_observed(Y, pairs[:, 0], pairs[:, 1])
    return frozenset(cell for cell, one in zip(listed, held.tolist(), strict=True) if one)


def _with_labels(dataset: Dataset, added: Sequence[Cell]) -> Dataset:
    """Return a data set with labels added."""
    pairs = np.array(added, dtype=np.int64).reshape(-1, 2)
    more = sp.csr_matrix((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), shape=dataset.Y.shape)
    return Dataset(
        dataset.X,
        check_Y(sp.csr_matrix(dataset.Y + more)),
        label_names=dataset.label_names,
        label_titles=dataset.label_titles,
        feature_names=dataset.feature_names,
        dense=dataset.dense,
    )


def _corrected(run: Run, documents: Documents, added: Sequence[Cell], progress: Progress) -> Iterator[dict[str, Any]]:
    """Yield all documents, with the added labels after those that they have."""
    names, columns = run.label_names or [], documents.options.columns
    more: dict[int, list[str]] = {}
    for row, label in added:
        more.setdefault(row, []).append(names[label])
    for row, (where, document) in enumerate(documents.read([columns.text, columns.labels], progress)):
        yield {**document, columns.labels: [*columns.labels_of(where, document), *more.get(row, [])]}


def _write_log(corrections: Corrections, log: Path) -> None:
    """Write a table with a line for each cell with an answer."""
    added = set(corrections.added)
    with atomic_file(log, keep_same=True) as stream:
        stream.write(csv_line(LOG_COLUMNS))
        for cell, answers in corrections.answers.items():
            state = "yes" if cell in added else "already observed" if cell in corrections.observed else "no"
            counts = [str(_count(answers, verdict)) for verdict in ("yes", "no", "unsure")]
            people = [
                "; ".join(one.annotator for one in answers if one.verdict == verdict and one.annotator)
                for verdict in ("yes", "no")
            ]
            names = guard(answers[0].row), guard(answers[0].label)
            stream.write(csv_line([*names, state, *counts, *map(guard, people)]))


def _count(answers: Sequence[Answer], verdict: str) -> int:
    return sum(one.verdict == verdict for one in answers)
