"""Updating: retrains a run on old and new rows in a second folder, then replaces the old run."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.execution import Executor
from unmissed.models.method_registry import make_model
from unmissed.progress import Progress, silent
from unmissed.runs.calibrating import NEARLY_EQUAL, calibrate
from unmissed.runs.kept_rows import keeps_rows
from unmissed.runs.replacing import next_of, replace_run
from unmissed.runs.run import Run
from unmissed.runs.run_folder import RunFolder
from unmissed.runs.training import train
from unmissed.runs.training_sources import DatasetOrPath
from unmissed.runs.update_rows import UpdateReader, UpdateRows


def update(
    path: str | os.PathLike[str],
    dataset: Dataset | None = None,
    *,
    old_rows: Sequence[DatasetOrPath] = (),
    vocabulary_growth: bool = False,
    remove: Collection[str] = (),
    drop_labels: Collection[str] = (),
    keep_rows: bool = False,
    n_jobs: int | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Run:
    """Retrain all labels of a run, and new ones, on its old rows and new rows, with the same recipe.

    The new run is trained in the folder `.NAME.update` next to the old one and replaces it when it is complete; until
    then the old run is available. An interrupted update resumes. Updating with the same rows again changes nothing
    (`n_trained` is 0). A new row replaces an old one with the same features. Text is transformed by the run's own text
    features (`Run.text`), unless `vocabulary_growth` is set. A calibrated run is calibrated again, unless its
    calibration has groups of rows, which are not known of new rows: then the new run has no probabilities.

    The result is that of a training on the same rows and labels, bit for bit. A run with dual variables (`keep_dual`)
    starts from them instead: its labels have certificates of the same tolerance on all rows, but other bytes.

    Parameters
    ----------
    path : the run's folder
    dataset : the new rows; None if rows or labels are only removed, or only words are added
    old_rows : data sets that the run was trained on, or their paths, if they moved or are in memory
    vocabulary_growth : fit the text features again, on all texts: new words become features. All rows must come from
        files of documents. A new text replaces an old one that is equal
    remove : ids of old rows that are withdrawn; they are left out from now on
    drop_labels : names or titles of labels that the new run does not have
    keep_rows : keep the counts of the words of all texts in the run, so that later updates read new texts only; a run
        that keeps them goes on doing so
    n_jobs : number of threads
    executor, progress : as in `train`
    """
    folder = RunFolder(path)
    with folder.locked():
        run = Run(path)
        if dataset is not None and has_rows(run, dataset):
            dataset = None
            if not (remove or drop_labels or vocabulary_growth or (keep_rows and not keeps_rows(run))):
                return run  # already trained on these rows
        dropped = _check_dropped(run, drop_labels)
        keeps = keep_rows or keeps_rows(run)
        reader = UpdateReader(run, grows=vocabulary_growth, keeps=keeps, progress=progress)
        rows = reader.read(dataset, old_rows, remove=remove, dropped=dropped)
        if rows.joined.digest == run.parts[0].digest and len(run.parts) == 1:  # no row, word or label changed
            if keeps:
                rows.save(folder)
            return run
        words: dict[str, Any] = {"n_jobs": n_jobs, "executor": executor, "progress": progress}
        _replace(path, run, rows, keeps=keeps, **words)
    return Run(path, n_trained=rows.joined.n_labels)


def _replace(
    path: str | os.PathLike[str],
    run: Run,
    rows: UpdateRows,
    *,
    keeps: bool,
    n_jobs: int | None,
    executor: Executor | None,
    progress: Progress,
) -> None:
    """Train on the rows of an update in the folder next to the run, calibrate if it was, and replace the run."""
    position = Path(path).resolve()
    aside = next_of(position)
    _check_begun(path, aside, rows.joined)
    initial = rows.initial(run)
    model = make_model(run.recipe.method, run.recipe.constructor_params()).with_jobs(n_jobs)
    if initial is not None:
        model.set_params(keep_dual=True)
    words: dict[str, Any] = {"executor": executor, "progress": progress}
    train(model, rows.joined, aside, sources=rows.sources, initial=initial, **words)
    if keeps:
        rows.save(RunFolder(aside))
    before = run.calibration
    if before is not None and before.groups == NEARLY_EQUAL:
        folds: dict[str, Any] = {"n_folds": before.n_folds, "seed": before.seed, "n_jobs": n_jobs}
        calibrate(aside, old_rows=rows.every, **folds, **words)
    with RunFolder(aside).locked():  # becomes the lock of the run with the rename
        replace_run(position, aside)


def has_rows(run: Run, dataset: Dataset) -> bool:
    """Return whether all labels of a run were trained on the rows of a data set."""
    return any(source.digest == dataset.source_digest for source in run.parts[0].sources)


def _check_dropped(run: Run, labels: Collection[str]) -> set[str]:
    """Return the names of labels that are dropped; raise InputError if one is unknown or if none would be left."""
    if labels and run.label_names is None:
        raise InputError(f"{run.folder}: its labels have no names, so none can be dropped")
    dropped = {(run.label_names or [])[run.label(label)] for label in labels}
    if labels and len(dropped) == run.n_labels:
        raise InputError(f"{run.folder}: all {run.n_labels:,} labels would be dropped")
    return dropped


def _check_begun(path: str | os.PathLike[str], aside: Path, joined: Dataset) -> None:
    """Raise if an unfinished update was started with other rows."""
    folder = RunFolder(aside)
    if not folder.is_new() and folder.read().parts[0].digest != joined.digest:
        raise InputError(f"{path}: an update with other rows is unfinished; finish that one, or remove {aside}")
