"""Sheets of an audit: the sampled cells as a table that people fill in, the plan beside it, and the answers."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from unmissed.audit.answers import Answer, Verdict
from unmissed.audit.audit_estimates import CellAnswers
from unmissed.audit.sampling import AuditPopulation, AuditSample, Band, Stratum
from unmissed.audit.training_documents import training_documents
from unmissed.calibration import CANDIDATES
from unmissed.data.documents import Documents
from unmissed.data.text_fields import plain
from unmissed.errors import InputError
from unmissed.files import read_json, reading
from unmissed.progress import Progress, silent
from unmissed.propensity import PropensityLike
from unmissed.runs.calibrating import training_rows
from unmissed.runs.cells import guard, one_line
from unmissed.runs.run import Run
from unmissed.runs.training_sources import DatasetOrPath
from unmissed.writing import atomic_file

PathLike = str | os.PathLike[str]
_CHECKS_PER_BAND = 650  # give half-widths below 0.07 in benchmarks.audit
_FORMAT = "unmissed audit plan 1"


@dataclass(frozen=True, eq=False)
class AuditSheet:
    """A sample with the names of its cells.

    Parameters
    ----------
    sample : the sampled cells
    rows : the id of the row of each cell, or its number if rows have no ids
    labels : the name of the label of each cell, or its number if labels have no names
    calibration : the name of the run's calibration
    """

    sample: AuditSample
    rows: list[str]
    labels: list[str]
    calibration: str

    def match(self, answers: Sequence[Answer]) -> tuple[CellAnswers, int]:
        """Return the answers to each cell, and the number of answers to cells that are not in the sheet."""
        at = {cell: position for position, cell in enumerate(zip(self.rows, self.labels, strict=True))}
        counts = np.zeros((3, len(self.sample)), dtype=np.int64)
        n_others = 0
        for answer in answers:
            position = at.get((answer.row, answer.label))
            if position is None:
                n_others += 1
            else:
                counts[get_args(Verdict).index(answer.verdict), position] += 1
        return CellAnswers(*counts), n_others


def audit_population(
    run: Run, Y: Any, propensity: PropensityLike | None = None, *, n_bands: int = 3
) -> AuditPopulation:
    """Return the cells of a calibrated run, by stratum.

    Parameters
    ----------
    run : a calibrated run
    Y : CSR matrix of the observed labels of its training rows
    propensity : assumed propensities; None takes those of the recipe, or the default ones
    n_bands : number of frequency bands
    """
    cells = run.held_out_cells()
    ranks = np.where(cells.ranks < 0, CANDIDATES, cells.ranks)
    probability = run.model.calibration_.probability(cells.labels, cells.scores, ranks).astype(np.float64)
    return AuditPopulation(cells, probability, run.propensities(propensity), Y, n_bands)


def plan_audit(
    run: Run,
    path: PathLike,
    n_checks: int = 2000,
    *,
    propensity: PropensityLike | None = None,
    n_bands: int | None = None,
    seed: int = 0,
    old_rows: Sequence[DatasetOrPath] = (),
    progress: Progress = silent,
) -> AuditSheet:
    """Draw a sample of cells without a label, and write the sheet for people to fill in, and its plan beside it.

    The sheet has the columns row (or id), label, name, text if the training file has it, answer, stratum and
    inclusion_probability. Its order is random, so the first part of a sheet is a sample, too.

    Parameters
    ----------
    run : a calibrated run
    path : the sheet, a CSV file; the plan is `path` with `.plan.json` appended
    n_checks : number of cells at most
    propensity, n_bands : as in `audit_population`; by default one band per 650 checks, 2 to 8
    seed : of the sample
    old_rows : the run's training data, if its path has changed
    """
    dataset = training_rows(run, old_rows, progress=progress)
    bands = min(8, max(2, n_checks // _CHECKS_PER_BAND)) if n_bands is None else n_bands
    sample = audit_population(run, dataset.Y, propensity, n_bands=bands).sample(n_checks, seed)
    documents = training_documents(run, old_rows)
    ids, texts = _read_rows(documents, {int(row) for row in sample.rows}, progress)
    rows = [str(row) if ids is None else ids[row] for row in sample.rows.tolist()]
    names = run.label_names
    labels = [names[label] if names else str(label) for label in sample.labels.tolist()]
    assert run.calibration is not None  # the population was made of its cells
    sheet = AuditSheet(sample, rows, labels, run.calibration.name)
    _write_sheet(path, sheet, run, texts, "row" if ids is None else "id")
    _write_plan(plan_path(path), sheet)
    return sheet


def plan_path(sheet: PathLike) -> Path:
    """Return the path of the plan of a sheet."""
    return Path(f"{os.fspath(sheet)}.plan.json")


def read_plan(path: PathLike) -> AuditSheet:
    """Read the plan that `plan_audit` wrote; raise InputError if it is damaged."""
    plan = read_json(path)
    if not isinstance(plan, dict) or plan.get("format") != _FORMAT:
        raise InputError(f"{path}: not the plan of an audit; `unmissed audit plan` writes it beside the sheet")
    with reading(path, "the plan of an audit"):
        bands = [Band(**one) for one in plan["bands"]]
        strata = [Stratum(**one) for one in plan["strata"]]
        cells = plan["cells"]
        names = ("row_numbers", "label_numbers", "stratum")
        numbers, labels_of, stratum = (np.array(cells[name], dtype=np.int64) for name in names)
        probability = np.array(cells["missing_probability"], dtype=np.float64)
        sample = AuditSample(bands, strata, numbers, labels_of, stratum, probability, int(plan["n_samples"]))
        rows, labels = [str(row) for row in cells["rows"]], [str(label) for label in cells["labels"]]
        if len({len(numbers), len(labels_of), len(stratum), len(probability), len(rows), len(labels)}) != 1:
            raise InputError(f"{path}: damaged: its cells have different numbers of rows, labels and strata")
        if len(sample) and not 0 <= sample.stratum.min() <= sample.stratum.max() < len(strata):
            raise InputError(f"{path}: damaged: it has a cell without a stratum")
        return AuditSheet(sample, rows, labels, str(plan["calibration"]))


def _read_rows(
    documents: Documents | None, wanted: set[int], progress: Progress
) -> tuple[list[str] | None, dict[int, str]]:
    """Return the ids of all training rows (None unless each has its own) and the texts of the wanted ones."""
    if documents is None:
        return None, {}
    texts, ids = documents.texts_and_ids(progress)
    kept = {number: plain(text) for number, text in enumerate(texts) if number in wanted}
    return ids if ids and len(set(ids)) == len(ids) else None, kept


def _write_sheet(path: PathLike, sheet: AuditSheet, run: Run, texts: dict[int, str], row_column: str) -> None:
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    text_column = ["text"] if texts else []
    table.writerow([row_column, "label", "name", *text_column, "answer", "stratum", "inclusion_probability"])
    sample = sheet.sample
    numbers = zip(sample.rows.tolist(), sample.labels.tolist(), strict=True)
    sampled = zip(sample.stratum.tolist(), sample.inclusion_probability.tolist(), strict=True)
    for row, label, (at, name), (stratum, inclusion) in zip(sheet.rows, sheet.labels, numbers, sampled, strict=True):
        text = [guard(one_line(texts[at]))] if texts else []
        table.writerow([guard(row), guard(label), guard(run.name_of(name)), *text, "", stratum, f"{inclusion:.6g}"])
    with atomic_file(path) as stream:
        stream.write(lines.getvalue().encode())


def _write_plan(path: PathLike, sheet: AuditSheet) -> None:
    sample = sheet.sample
    plan = {
        "format": _FORMAT,
        "calibration": sheet.calibration,
        "n_samples": sample.n_samples,
        "bands": [one._asdict() for one in sample.bands],
        "strata": [one._asdict() for one in sample.strata],
        "cells": {
            "rows": sheet.rows,
            "labels": sheet.labels,
            "row_numbers": sample.rows.tolist(),
            "label_numbers": sample.labels.tolist(),
            "stratum": sample.stratum.tolist(),
            "missing_probability": sample.missing_probability.tolist(),
        },
    }
    with atomic_file(path) as stream:
        stream.write(json.dumps(plan, ensure_ascii=False).encode())
