"""Training into a folder: begun, resumed after any interruption, and extended by new labels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.archive import is_archive, remove_torn, write_archive
from unmissed.data import Dataset, TextFeatures, check_dataset
from unmissed.data.names import pack_names
from unmissed.data.unicode import check_strings, find_name, index_names
from unmissed.data.vectorizers import is_vectorizer
from unmissed.errors import InputError, UnmissedError
from unmissed.execution import Executor, OnDisk, Share, Unfinished, Work
from unmissed.models.base import Model
from unmissed.models.registry import make_model
from unmissed.models.rows import Stored
from unmissed.progress import Progress, silent
from unmissed.runs.folder import FEATURES_KIND, LABELS_KIND, VERSION, Manifest, Part, RunFolder, Source, versions
from unmissed.runs.recipe import Recipe
from unmissed.runs.run import Run
from unmissed.runs.sources import Given, join, read_old_rows


def train(
    method: str | Model,
    dataset: Dataset,
    path: str | os.PathLike[str],
    params: Mapping[str, Any] | None = None,
    *,
    executor: Executor | None = None,
    progress: Progress = silent,
    share: Share | None = None,
    sources: Sequence[Source] = (),
) -> Run:
    """Train a method on a data set into a folder; what is finished there already is not done again.

    Parameters
    ----------
    method : a name in the registry, or a model that is not fitted yet
    dataset : the training rows
    path : the run's folder: a new one, or one where the same training was begun. Another recipe or other data is
        refused. Interrupted at any moment and begun again, training leaves the same bytes as if it had not been.
    params : the model's parameters where `method` is a name; those left out have their defaults
    executor : where tasks run; threads by default
    progress : told how much is done, in the model's own unit
    share : the part of all tasks that is done here, and for how long; all by default. Any number of shares may train
        into one folder at once. The one that finds everything finished completes the run; the others raise
        `unmissed.execution.Unfinished`, which says what is missing
    sources : where the rows can be found again; by default where the data set was read
    """
    share = Share() if share is None else share
    model = make_model(method, params or {}) if isinstance(method, str) else method
    recipe = Recipe.of(model, None if dataset.text is None else dataset.text.options)
    folder = RunFolder(path)
    folder.is_new()  # refuses a folder of something else before anything is written there
    if not dataset.n_samples or not dataset.n_labels:
        raise InputError(f"nothing to train on: {dataset.n_samples} rows and {dataset.n_labels} labels")
    check_dataset(dataset)
    rows = replace(model.check_rows(dataset.X, dataset.Y), store=Stored.of(dataset))
    with folder.locked(together=not share.is_all):
        known = list(sources) or [Source.of(dataset)]
        part = Part(0, dataset.n_labels, dataset.n_samples, dataset.digest, sources=known)
        with _changing(folder, share):
            if folder.is_new():
                folder.write(Manifest(recipe, dataset.n_features, [part.joined_by(versions())]))
            part = _go_on(folder, recipe, part)
        if part.is_complete:
            return Run(path)
        with _taken_back(folder, None, part, 0, alone=share.is_all):
            with _changing(folder, share):
                _write_features(folder, dataset.text, dataset.feature_names)
                _write_labels(folder, 0, dataset.label_names, dataset.label_titles, dataset.label_counts)
            model.fit_rows(rows, Work(OnDisk(folder.work), executor, progress, share))
        if share.is_all:
            folder.clean()  # a worker that was lost on the way may have left a piece half written
        with _changing(folder, share):
            manifest = folder.read()
            folder.write(manifest.with_last(manifest.parts[-1].completed()))
    return Run(path, model=model, n_trained=part.n_labels)


def extend(
    path: str | os.PathLike[str],
    dataset: Dataset,
    *,
    old_rows: Sequence[Given] = (),
    without_old_rows: bool = False,
    n_jobs: int | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Run:
    """Train the labels of a data set that a run does not have yet; the run's other labels are not touched.

    Labels are the same if their names are; where there are no names, columns from the run's number of labels on are
    new. The data set must have the run's features (text: through the run's own text features, see `Run.text`).

    Rows that the run was extended by already leave it as it is (`n_trained` is 0).

    A new label needs rows that do not have it: the rows that the run was trained on, read again where they were. A row
    that comes again with the same features takes the place of the old one.

    Parameters
    ----------
    path : the run's folder
    dataset : rows with new labels
    old_rows : data sets that the run was trained on, or their paths, where they are not to be read again or are no
        longer where they were
    without_old_rows : train on the new rows alone. Labels that all these rows have are then given to everything
    n_jobs : threads
    executor, progress : as in `train`
    """
    folder = RunFolder(path)
    with folder.locked():
        run = Run(path)
        folder.check_version(run.manifest)
        if was_extended_by(run, dataset):
            return run
        columns = new_columns(run, dataset)
        if without_old_rows:
            if old_rows:
                raise InputError("old rows are given, and are not to be used")
            fresh = _only(dataset, columns)
        else:
            joined = join(run, _old_rows(run, old_rows, progress), dataset).dataset
            fresh = _only(joined, range(run.n_labels, joined.n_labels))
        model = run.model.with_jobs(n_jobs)
        rows = model.check_rows(fresh.X, fresh.Y, run.n_features)
        part = Part(run.n_labels, fresh.n_labels, fresh.n_samples, fresh.digest, sources=[Source.of(dataset)])
        part = part.joined_by(versions())
        before = Manifest(run.recipe, run.n_features, run.parts, run.manifest.version)
        if run.manifest == before:
            folder.write(replace(before, parts=[*run.parts, part]))
        part = _go_on(folder, run.recipe, part)
        with _taken_back(folder, before, part, len(model.pieces_.listed())):
            _write_labels(folder, part.first, fresh.label_names, fresh.label_titles, fresh.label_counts)
            model.fit_more(rows, Work(OnDisk(folder.work), executor, progress))
        folder.clean()
        folder.write(folder.read().with_last(part.completed()))
    return Run(path, model=model, n_trained=part.n_labels)


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    label_names: list[str] | None = None,
    label_titles: list[str] | None = None,
    label_counts: npt.ArrayLike | None = None,
    feature_names: list[str] | None = None,
    text: TextFeatures | None = None,
    n_samples: int | None = None,
) -> Run:
    """Write a model that was fitted in memory as a new run; opened again, it ranks bit for bit the same.

    `model` may also be a scikit-learn pipeline of `TextFeatures`, or a `TfidfVectorizer`, and a model: the run
    then takes text.
    """
    if hasattr(model, "steps"):
        text, model = _steps_of(model)
    label_names = _names(label_names, model, "classes_")
    feature_names = None if text is not None else _names(feature_names, model, "feature_names_in_")
    if label_counts is None and n_samples is None and hasattr(model, "n_samples_"):
        label_counts, n_samples = model.label_counts_, model.n_samples_
    recipe = Recipe.of(model, None if text is None else text.options)
    folder = RunFolder(path)
    if not folder.is_new():
        raise InputError(f"{path}: exists already; remove it or choose another name")
    counts = None if label_counts is None else np.asarray(label_counts, dtype=np.int64)
    if counts is not None and (n_samples is None or n_samples < 1):
        raise InputError("label_counts need n_samples, the number of training rows that they were counted in")
    for what, strings in (
        ("label_names", label_names),
        ("label_titles", label_titles),
        ("feature_names", feature_names),
    ):
        check_strings(what, strings)
    for what, names in (("label_names", label_names), ("label_titles", label_titles), ("label_counts", counts)):
        if names is not None and len(names) != model.n_labels_:
            raise InputError(f"{what} has {len(names)} entries; expected {model.n_labels_}")
    with folder.locked():
        part = Part(0, model.n_labels_, n_samples or 0, None).joined_by(versions())
        folder.write(Manifest(recipe, model.n_features_in_, [part]))
        _write_features(folder, text, feature_names)
        _write_labels(folder, 0, label_names, label_titles, counts)
        target = OnDisk(folder.work)
        for key in model.pieces_.listed():
            piece = model.pieces_.get(key)
            assert piece is not None  # it was listed
            target.put(piece)
        folder.write(folder.read().with_last(part.completed()))
    return Run(path)


def _changing(folder: RunFolder, share: Share) -> AbstractContextManager[None]:
    """Keep other shares from the manifest; whoever is alone need not wait."""
    return nullcontext() if share.is_all else folder.changing()


def _steps_of(pipeline: Any) -> tuple[TextFeatures, Model]:
    """Return the two steps of a pipeline that a run can hold, or say why it cannot."""
    steps = [step for _, step in pipeline.steps]
    if len(steps) == 2 and is_vectorizer(steps[0]):
        steps[0] = TextFeatures.from_vectorizer(steps[0])
    if len(steps) == 2 and isinstance(steps[0], TextFeatures) and isinstance(steps[1], Model):
        return steps[0], steps[1]
    kinds = ", ".join(type(step).__name__ for step in steps)
    raise InputError(f"a run can hold a pipeline of TextFeatures and a model, not of {kinds}")


def _names(given: list[str] | None, model: Model, kept: str) -> list[str] | None:
    """Return the names that were given, else those that the model was fitted with, if there were any."""
    found = getattr(model, kept, None)
    if given is not None or found is None or found.dtype != object:
        return given
    return [str(name) for name in found]


def _go_on(folder: RunFolder, recipe: Recipe, part: Part) -> Part:
    """Return the part that was begun, now with our versions; refuse if it was begun with something else."""
    manifest = folder.read()
    begun = manifest.parts[-1] if part.first else manifest.parts[0]
    different = manifest.recipe.differences(recipe)
    if different:
        raise InputError(f"{folder}: was trained by another recipe: {'; '.join(different)}; choose another folder")
    if (begun.first, begun.n_labels, begun.n_samples, begun.digest) != (
        part.first,
        part.n_labels,
        part.n_samples,
        part.digest,
    ):
        raise InputError(
            f"{folder}: was begun with other data: {begun.n_samples} rows, {begun.n_labels} labels, digest "
            f"{str(begun.digest)[:12]} there; {part.n_samples} rows, {part.n_labels} labels, digest "
            f"{str(part.digest)[:12]} here; choose another folder"
        )
    if not begun.is_complete and begun.joined_by(versions()) != begun:
        begun = begun.joined_by(versions())
        folder.write(manifest.with_last(begun))
    return begun


@contextmanager
def _taken_back(
    folder: RunFolder, before: Manifest | None, part: Part, n_pieces: int, *, alone: bool = True
) -> Iterator[None]:
    """Leave no trace of a part that is refused before it has added to the `n_pieces` that there were."""
    try:
        yield
    except Unfinished:
        raise
    except UnmissedError:
        if alone and folder.n_finished() <= n_pieces:
            folder.forget(before, part)
        raise


def _old_rows(run: Run, given: Sequence[Given], progress: Progress) -> list[Dataset]:
    try:
        return read_old_rows(run, given, progress=progress)
    except InputError as error:
        raise InputError(f"{error}, or go on without old rows (--without-old-rows)") from error


def was_extended_by(run: Run, dataset: Dataset) -> bool:
    """Tell whether the labels of a data set were added to a run, all of them, by an `extend` before."""
    return any(source.digest == dataset.digest for part in run.parts[1:] for source in part.sources)


def new_columns(run: Run, dataset: Dataset) -> list[int]:
    """Return the columns of a data set whose labels the run does not have; if there are none, refuse it."""
    if dataset.n_features != run.n_features:
        raise InputError(f"the data has {dataset.n_features} features; the run has {run.n_features}")
    if run.label_names is not None and dataset.label_names is not None:
        known = index_names(run.label_names)
        columns = [label for label, name in enumerate(dataset.label_names) if find_name(known, name) < 0]
    elif run.label_names is None and dataset.label_names is None:
        columns = list(range(run.n_labels, dataset.n_labels))
    else:
        who = "the run" if run.label_names is None else "the data"
        raise InputError(f"{who} has no label names, so old and new labels cannot be told apart")
    if not columns:
        raise InputError(f"{run.folder}: has all {dataset.n_labels} labels of the data already")
    return columns


def _only(dataset: Dataset, columns: Sequence[int]) -> Dataset:
    """Return a data set with some of its labels."""
    names, titles = dataset.label_names, dataset.label_titles
    return Dataset(
        dataset.X,
        dataset.Y[:, list(columns)],
        label_names=None if names is None else [names[label] for label in columns],
        label_titles=None if titles is None else [titles[label] for label in columns],
        feature_names=dataset.feature_names,
        text=dataset.text,
    )


def _write_features(folder: RunFolder, text: TextFeatures | None, names: list[str] | None) -> None:
    """Write how features come about, unless it is there."""
    if text is not None and not is_archive(folder.text):
        remove_torn(folder.text)
        text.save(folder.text)
    if text is None and names is not None and not is_archive(folder.features):
        remove_torn(folder.features)
        write_archive(folder.features, pack_names("feature_names", names), kind=FEATURES_KIND, version=VERSION)


def _write_labels(
    folder: RunFolder,
    first: int,
    names: list[str] | None,
    titles: list[str] | None,
    counts: npt.NDArray[np.int64] | None,
) -> None:
    """Write names and counts of a part's labels, unless they are there."""
    target = folder.labels(first)
    if is_archive(target):
        return
    remove_torn(target)
    arrays = {**pack_names("label_names", names), **pack_names("label_titles", titles)}
    if counts is not None:
        arrays["counts"] = counts
    write_archive(target, arrays, kind=LABELS_KIND, version=VERSION)
