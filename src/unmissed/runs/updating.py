"""Updating: retrains a run on old and new rows in a second folder, then replaces the old run."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from unmissed.data import Dataset
from unmissed.data.dataset import Origin
from unmissed.data.documents import Documents
from unmissed.data.formats import find_reader
from unmissed.data.readers.reader import DocumentReader
from unmissed.data.sources import load_again, origin_options
from unmissed.errors import InputError
from unmissed.execution import Executor
from unmissed.models.method_registry import make_model
from unmissed.progress import Progress, silent
from unmissed.runs.calibrating import NEARLY_EQUAL, calibrate
from unmissed.runs.replacing import next_of, replace_run
from unmissed.runs.run import Run
from unmissed.runs.run_folder import RunFolder, Source
from unmissed.runs.training import train
from unmissed.runs.training_sources import DatasetOrPath, grow_text, join, read_old_rows, sources_of


def update(
    path: str | os.PathLike[str],
    dataset: Dataset | None = None,
    *,
    old_rows: Sequence[DatasetOrPath] = (),
    vocabulary_growth: bool = False,
    remove: Collection[str] = (),
    drop_labels: Collection[str] = (),
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

    The result is that of a training on the same rows and labels.

    Parameters
    ----------
    path : the run's folder
    dataset : the new rows; None if rows or labels are only removed, or only words are added
    old_rows : data sets that the run was trained on, or their paths, if they moved or are in memory
    vocabulary_growth : fit the text features again, on all texts: new words become features. All rows must come from
        files of documents. A new text replaces an old one that is equal
    remove : ids of old rows that are withdrawn; they are left out from now on
    drop_labels : names or titles of labels that the new run does not have
    n_jobs : number of threads
    executor, progress : as in `train`
    """
    folder = RunFolder(path)
    with folder.locked():
        run = Run(path)
        known = {source.digest for source in run.parts[0].sources}
        if dataset is not None and dataset.source_digest in known:
            if not (remove or drop_labels):
                return run  # already trained on these rows
            dataset = None
        dropped = _check_dropped(run, drop_labels)
        old, sources = _old(run, old_rows, dataset, progress)
        origins: dict[int, Origin] = _without(run, old, remove, progress) if remove else {}
        grown = None
        if vocabulary_growth:
            every = [*old, *([] if dataset is None else [dataset])]
            read_from = [origins.get(number) or _origin(one) for number, one in enumerate(every)]
            grown = grow_text(run, read_from, progress)
            every = [load_again(one, text=grown.text, progress=progress) for one in read_from]
            old, dataset = (every, None) if dataset is None else (every[:-1], every[-1])
            sources = [Source.of(one) for one in old]
        elif remove:
            for number, origin in origins.items():
                old[number] = load_again(origin, text=run.text, progress=progress)
                sources[number] = Source.of(old[number])
        joined = join(run, old, dataset, dropped=dropped, grown=grown).dataset
        position = Path(path).resolve()
        aside = next_of(position)
        _check_begun(path, aside, joined)
        model = make_model(run.recipe.method, run.recipe.constructor_params()).with_jobs(n_jobs)
        added = [] if dataset is None else [dataset]
        sources += [Source.of(one) for one in added]
        train(model, joined, aside, executor=executor, progress=progress, sources=sources)
        before = run.calibration
        if before is not None and before.groups == NEARLY_EQUAL:
            options: dict[str, Any] = {"n_folds": before.n_folds, "seed": before.seed, "n_jobs": n_jobs}
            calibrate(aside, old_rows=[*old, *added], **options, executor=executor, progress=progress)
        with RunFolder(aside).locked():  # becomes the lock of the run with the rename
            replace_run(position, aside)
    return Run(path, n_trained=joined.n_labels)


def _check_dropped(run: Run, labels: Collection[str]) -> set[str]:
    """Return the names of labels that are dropped; raise InputError if one is unknown or if none would be left."""
    if labels and run.label_names is None:
        raise InputError(f"{run.folder}: its labels have no names, so none can be dropped")
    dropped = {(run.label_names or [])[run.label(label)] for label in labels}
    if labels and len(dropped) == run.n_labels:
        raise InputError(f"{run.folder}: all {run.n_labels:,} labels would be dropped")
    return dropped


def _origin(dataset: Dataset) -> Origin:
    """Return the origin of a data set of documents; raise InputError if it has none."""
    origin = dataset.origin
    if origin is None or not isinstance(find_reader(origin.path), DocumentReader):
        where = "rows in memory" if origin is None else origin.path
        raise InputError(
            f"{where}: no file of documents, so its texts and ids are not known; convert it and train again"
        )
    return origin


def _without(run: Run, old: Sequence[Dataset], ids: Collection[str], progress: Progress) -> dict[int, Origin]:
    """Return origins that leave out some ids, by the number of the data set; raise InputError if no row has one."""
    remaining = set(ids)
    changed: dict[int, Origin] = {}
    for number, dataset in enumerate(old):
        origin = _origin(dataset)
        options = origin_options(origin)
        found = remaining & set(Documents(origin.path, options).label_lists(progress)[1] or ())
        if found:
            remaining -= found
            words = {**origin.options, "without": sorted({*options.without, *found})}
            changed[number] = Origin(origin.path, words)
    if not changed:
        shown = ", ".join(sorted(remaining)[:3])
        raise InputError(f"{run.folder}: none of the {len(remaining):,} ids to remove is in its training data: {shown}")
    return changed


def _old(
    run: Run, old_rows: Sequence[DatasetOrPath], new: Dataset | None, progress: Progress
) -> tuple[list[Dataset], list[Source]]:
    """Return the old rows and their current sources.

    Rows of an earlier `extend` with the digest of the new rows are not old: only its labels were trained on them.
    """
    digest = None if new is None else new.source_digest
    if new is not None and any(source.digest == digest for source in sources_of(run)):
        old_rows = [*old_rows, new]
    every = read_old_rows(run, old_rows, progress=progress)
    known = sources_of(run) or [Source.of(dataset) for dataset in every]
    pairs = zip(every, known, strict=True)
    old = [(dataset, source) for dataset, source in pairs if dataset.source_digest != digest]
    positions = [source if dataset.origin is None else Source.of(dataset) for dataset, source in old]
    return [dataset for dataset, _ in old], positions


def _check_begun(path: str | os.PathLike[str], aside: Path, joined: Dataset) -> None:
    """Raise if an unfinished update was started with other rows."""
    folder = RunFolder(aside)
    if not folder.is_new() and folder.read().parts[0].digest != joined.digest:
        raise InputError(f"{path}: an update with other rows is unfinished; finish that one, or remove {aside}")
