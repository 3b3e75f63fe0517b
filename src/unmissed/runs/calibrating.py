"""Calibration of a run: probabilities from out-of-fold scores of its training rows, stored in its folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.execution import Executor, OnDisk, Work
from unmissed.progress import Progress, silent
from unmissed.runs.run import Run
from unmissed.runs.run_folder import CalibrationEntry, RunFolder
from unmissed.runs.training_sources import DatasetOrPath, join, read_old_rows, training_documents

NEARLY_EQUAL = "nearly equal rows"


def calibrate(
    path: str | os.PathLike[str],
    *,
    old_rows: Sequence[DatasetOrPath] = (),
    groups: Any = None,
    group_column: str | None = None,
    n_folds: int | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Run:
    """Calibrate a run: fit probabilities to out-of-fold scores of its training rows, and store them in its folder.

    Each fold trains the run's method again without the rows of the fold, with the parameters that were chosen. An
    interrupted call resumes. A calibrated run with the same options stays as it is; with others, the new calibration
    replaces the old one when it is complete.

    Parameters
    ----------
    path : the run's folder
    old_rows : data sets that the run was trained on, or their paths, if they moved or are in memory
    groups : one id per training row; rows of a group are held out together. By default rows with nearly equal features
    group_column : the column of the training files with these ids
    n_folds, seed : as in `Model.calibrate`
    n_jobs : number of threads
    executor, progress : as in `train`; a task is a fold
    """
    folder = RunFolder(path)
    with folder.locked():
        run = Run(path)
        dataset = training_rows(run, old_rows, progress=progress)
        what = NEARLY_EQUAL if groups is None else "given groups"
        if group_column is not None:
            if groups is not None:
                raise InputError("groups and group_column exclude each other")
            groups, what = read_groups(run, group_column, old_rows, progress), f"column {group_column}"
        entry = CalibrationEntry("", dataset.n_samples, dataset.n_labels, n_folds, seed, what)
        entry = replace(entry, name=_name(run, dataset, entry, groups))
        if run.calibration != entry:
            model = run.model.with_jobs(n_jobs)
            rows = model.check_rows(dataset, like_fitted=True)
            work = Work(OnDisk(folder.calibration(entry.name)), executor, progress)
            model.calibrate_rows(rows, groups=groups, n_folds=n_folds, seed=seed, work=work)
            folder.write(replace(folder.read(), calibration=entry))
            folder.drop_calibrations(entry.name)
    return Run(path)


def training_rows(run: Run, old_rows: Sequence[DatasetOrPath] = (), *, progress: Progress = silent) -> Dataset:
    """Return the rows that a run was trained on, read again from their sources; those of `extend`, too."""
    datasets = read_old_rows(run, old_rows, progress=progress)
    if len(datasets) == 1 and datasets[0].label_names == run.label_names and run.vocabulary is None:
        return datasets[0]
    return join(run, datasets).dataset


def read_groups(
    run: Run, column: str, old_rows: Sequence[DatasetOrPath] = (), progress: Progress = silent
) -> npt.NDArray[Any]:
    """Return the values of a column of the training file, one per row; raise InputError if it cannot be read."""
    documents = training_documents(run, old_rows)
    if documents is None:
        raise InputError(
            f"{run.folder}: was not trained on one file with columns; give one group per row in a file (--groups FILE)"
        )
    columns = replace(documents.options.columns, id=column)
    found = documents._replace(options=replace(documents.options, columns=columns)).label_lists(progress)[1]
    if found is None:
        raise InputError(f"{documents.source}: some rows have no value in the column {column!r}")
    return np.array(found)


def _name(run: Run, dataset: Dataset, entry: CalibrationEntry, groups: Any) -> str:
    """Return the name of a calibration: a digest of everything that determines it."""
    parts = [run.recipe.to_json(), [part.digest for part in run.parts], dataset.digest, asdict(entry)]
    state = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    if groups is not None:
        state.update("\0".join(map(str, np.asarray(groups).tolist())).encode())
    return state.hexdigest()[:16]
