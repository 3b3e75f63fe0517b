"""Updating: retrains a run on old and new rows in a second folder, then replaces the old run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.execution import Executor
from unmissed.models.method_registry import make_model
from unmissed.progress import Progress, silent
from unmissed.runs.calibrating import NEARLY_EQUAL, calibrate
from unmissed.runs.replacing import next_of, replace_run
from unmissed.runs.run import Run
from unmissed.runs.run_folder import RunFolder, Source
from unmissed.runs.training import train
from unmissed.runs.training_sources import DatasetOrPath, join, read_old_rows, sources_of


def update(
    path: str | os.PathLike[str],
    dataset: Dataset,
    *,
    old_rows: Sequence[DatasetOrPath] = (),
    n_jobs: int | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Run:
    """Retrain all labels of a run, and new ones, on its old rows and new rows, with the same recipe.

    The new run is trained in the folder `.NAME.update` next to the old one and replaces it when it is complete; until
    then the old run is available. An interrupted update resumes. Updating with the same rows again changes nothing
    (`n_trained` is 0). A new row replaces an old one with the same features. Text is transformed by the run's own text
    features (`Run.text`): the vocabulary does not grow. A calibrated run is calibrated again, unless its calibration
    has groups of rows, which are not known of new rows: then the new run has no probabilities.

    Parameters
    ----------
    path : the run's folder
    dataset : the new rows
    old_rows : data sets that the run was trained on, or their paths, if they moved or are in memory
    n_jobs : number of threads
    executor, progress : as in `train`
    """
    folder = RunFolder(path)
    with folder.locked():
        run = Run(path)
        if any(source.digest == dataset.source_digest for source in run.parts[0].sources):
            return run  # already trained on these rows
        old, sources = _old(run, old_rows, dataset, progress)
        joined = join(run, old, dataset).dataset
        position = Path(path).resolve()
        aside = next_of(position)
        _check_begun(path, aside, joined)
        model = make_model(run.recipe.method, run.recipe.constructor_params()).with_jobs(n_jobs)
        sources.append(Source.of(dataset))
        train(model, joined, aside, executor=executor, progress=progress, sources=sources)
        before = run.calibration
        if before is not None and before.groups == NEARLY_EQUAL:
            options: dict[str, Any] = {"n_folds": before.n_folds, "seed": before.seed, "n_jobs": n_jobs}
            calibrate(aside, old_rows=[*old, dataset], **options, executor=executor, progress=progress)
        with RunFolder(aside).locked():  # becomes the lock of the run with the rename
            replace_run(position, aside)
    return Run(path, n_trained=joined.n_labels)


def _old(
    run: Run, old_rows: Sequence[DatasetOrPath], new: Dataset, progress: Progress
) -> tuple[list[Dataset], list[Source]]:
    """Return the old rows and their current sources.

    Rows of an earlier `extend` with the digest of the new rows are not old: only its labels were trained on them.
    """
    if any(source.digest == new.source_digest for source in sources_of(run)):
        old_rows = [*old_rows, new]
    every = read_old_rows(run, old_rows, progress=progress)
    known = sources_of(run) or [Source.of(dataset) for dataset in every]
    pairs = zip(every, known, strict=True)
    old = [(dataset, source) for dataset, source in pairs if dataset.source_digest != new.source_digest]
    positions = [source if dataset.origin is None else Source.of(dataset) for dataset, source in old]
    return [dataset for dataset, _ in old], positions


def _check_begun(path: str | os.PathLike[str], aside: Path, joined: Dataset) -> None:
    """Raise if an unfinished update was started with other rows."""
    folder = RunFolder(aside)
    if not folder.is_new() and folder.read().parts[0].digest != joined.digest:
        raise InputError(f"{path}: an update with other rows is unfinished; finish that one, or remove {aside}")
