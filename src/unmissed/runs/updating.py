"""Updating: a run trained again on old and new rows, beside the old run, which answers until it is replaced."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.execution import Executor
from unmissed.models.registry import make_model
from unmissed.progress import Progress, silent
from unmissed.runs.folder import RunFolder, Source
from unmissed.runs.replacing import next_of, replace_run
from unmissed.runs.run import Run
from unmissed.runs.sources import Given, join, read_old_rows, sources_of
from unmissed.runs.training import train


def update(
    path: str | os.PathLike[str],
    dataset: Dataset,
    *,
    old_rows: Sequence[Given] = (),
    n_jobs: int | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Run:
    """Train all labels of a run, and those that are new, on its old rows and new ones, by the same recipe.

    The new run is trained in a folder beside the old one, `.NAME.update`, and takes its name when it is complete; until
    then the old run answers. Stopped and started again it goes on; rows that the run was trained on already leave it as
    it is (`n_trained` is 0). A row that comes again with the same features takes
    the place of the old one. Text goes through the run's own text features (`Run.text`): words that are new in the new
    rows are not learned.

    Parameters
    ----------
    path : the run's folder
    dataset : the new rows
    old_rows : data sets that the run was trained on, or their paths, where they are not to be read again or are no
        longer where they were
    n_jobs : threads
    executor, progress : as in `train`
    """
    folder = RunFolder(path)
    with folder.locked():
        run = Run(path)
        folder.check_version(run.manifest)
        if any(source.digest == dataset.digest for source in run.parts[0].sources):
            return run  # these rows are in it already: nothing is left to do
        old, sources = _old(run, old_rows, dataset, progress)
        joined = join(run, old, dataset).dataset
        place = Path(path).resolve()
        aside = next_of(place)
        _check_begun(path, aside, joined)
        model = make_model(run.recipe.method, run.recipe.constructor_params()).with_jobs(n_jobs)
        sources.append(Source.of(dataset))
        train(model, joined, aside, executor=executor, progress=progress, sources=sources)
        with RunFolder(aside).locked():  # the lock of the run as soon as it has the run's name
            replace_run(place, aside)
    return Run(path, n_trained=joined.n_labels)


def _old(run: Run, given: Sequence[Given], new: Dataset, progress: Progress) -> tuple[list[Dataset], list[Source]]:
    """Return the old rows, and where they are now.

    New rows may be known from `extend`, which trained new labels on them and not the labels before: they stay new.
    """
    if any(source.digest == new.digest for source in sources_of(run)):
        given = [*given, new]
    every = read_old_rows(run, given, progress=progress)
    known = sources_of(run) or [Source.of(dataset) for dataset in every]
    old = [(dataset, source) for dataset, source in zip(every, known, strict=True) if dataset.digest != new.digest]
    places = [source if dataset.origin is None else Source.of(dataset) for dataset, source in old]
    return [dataset for dataset, _ in old], places


def _check_begun(path: str | os.PathLike[str], aside: Path, joined: Dataset) -> None:
    """Refuse to go on with an update that was begun with other rows."""
    folder = RunFolder(aside)
    if not folder.is_new() and folder.read().parts[0].digest != joined.digest:
        raise InputError(f"{path}: an update with other rows was begun; go on with that one, or remove {aside}")
