"""Training into a folder, resumed after interruptions, and extension by new labels."""

from __future__ import annotations

import hashlib
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
from unmissed.execution import Executor, OnDisk, Partition, Unfinished, Work
from unmissed.models.base import Model
from unmissed.models.dual_variables import DualVariables
from unmissed.models.method_registry import make_model
from unmissed.models.parameters import seeded
from unmissed.progress import Progress, silent
from unmissed.runs.recipe import Recipe
from unmissed.runs.run import Run
from unmissed.runs.run_folder import (
    FEATURES_KIND,
    LABELS_KIND,
    VERSION,
    CalibrationEntry,
    Manifest,
    RunFolder,
    RunPart,
    Source,
    versions,
)
from unmissed.runs.training_sources import DatasetOrPath, check_parts, join, read_old_rows


def train(
    method: str | Model,
    dataset: Dataset,
    path: str | os.PathLike[str],
    params: Mapping[str, Any] | None = None,
    *,
    executor: Executor | None = None,
    progress: Progress = silent,
    partition: Partition | None = None,
    sources: Sequence[Source] = (),
    initial: DualVariables | None = None,
) -> Run:
    """Train a method on a data set into a folder; finished pieces there are not trained again.

    Parameters
    ----------
    method : a registered name, or an unfitted model
    dataset : the training rows
    path : the run's folder: a new one, or one with the same training, finished or not. Another recipe or other data is
        refused. A training that is interrupted and started again gives the same bytes.
    params : the model's parameters if `method` is a name; missing ones have their defaults
    executor : runs the tasks; threads by default
    progress : progress callback, in the unit of the model (`Model.unit`)
    partition : the tasks to run and the time limit; all tasks by default. Several partitions can train into one folder
        at the same time. The one that finds all pieces finished completes the run; the others raise
        `unmissed.execution.Unfinished`, which lists the missing pieces
    sources : where to read the rows again; by default the origin of the data set
    initial : dual variables of an earlier solution, from which DiSMEC and PW-DiSMEC start
    """
    partition = Partition() if partition is None else partition
    model = make_model(method, params or {}) if isinstance(method, str) else method
    folder = RunFolder(path)
    is_new = folder.is_new()  # raises for a folder that is not a run, before anything is written
    model = seeded(model, None if is_new else folder.read().recipe.params.get("random_state"))
    text = None if dataset.text is None else dataset.text.options
    recipe = Recipe.of(model, text, has_dense=dataset.n_dense > 0)
    if not dataset.n_samples or not dataset.n_labels:
        raise InputError(f"nothing to train on: {dataset.n_samples} rows and {dataset.n_labels} labels")
    check_dataset(dataset)
    rows = replace(model.check_rows(dataset), initial=initial)
    with folder.locked(shared=not partition.is_all):
        known = list(sources) or [Source.of(dataset)]
        part = RunPart(0, dataset.n_labels, dataset.n_samples, dataset.digest, sources=known)
        with _manifest_lock(folder, partition):
            if folder.is_new():
                folder.write(Manifest(recipe, dataset.n_features, [part.joined_by(versions())], dataset.n_dense))
            part = _resume(folder, recipe, part)
        if part.is_complete:
            return Run(path)
        with _rolled_back_on_error(folder, None, part, 0, exclusive=partition.is_all):
            with _manifest_lock(folder, partition):
                _write_features(folder, dataset.text, dataset.feature_names)
                if dataset.vocabulary is not None:
                    remove_torn(folder.vocabulary)
                    dataset.vocabulary.save(folder.vocabulary)
                _write_labels(folder, 0, dataset.label_names, dataset.label_titles, dataset.label_counts)
            model.fit_rows(rows, Work(OnDisk(folder.work), executor, progress, partition))
        if partition.is_all:
            folder.clean()  # a lost worker may have left temporary files
        with _manifest_lock(folder, partition):
            manifest = folder.read()
            folder.write(manifest.with_last(manifest.parts[-1].completed()))
    return Run(path, model=model, n_trained=part.n_labels)


def extend(
    path: str | os.PathLike[str],
    dataset: Dataset,
    *,
    old_rows: Sequence[DatasetOrPath] = (),
    without_old_rows: bool = False,
    n_jobs: int | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Run:
    """Train the labels of a data set that a run does not have; its other labels do not change.

    Labels are matched by name; without names, columns from the run's number of labels on are new. The data set must
    have the run's features (for text: made by the run's own text features, see `Run.text`).

    Extending by the same rows again changes nothing (`n_trained` is 0).

    New labels need negative rows: the training rows of the run, which are read again from their sources. A new row
    replaces an old one with the same features.

    Parameters
    ----------
    path : the run's folder
    dataset : rows with new labels
    old_rows : data sets that the run was trained on, or their paths, if they moved or are in memory
    without_old_rows : train on the new rows only. A label that all new rows have is then predicted for every row
    n_jobs : number of threads
    executor, progress : as in `train`
    """
    folder = RunFolder(path)
    with folder.locked():
        run = Run(path)
        if was_extended_by(run, dataset):
            return run
        columns = new_columns(run, dataset)
        if without_old_rows:
            if old_rows:
                raise InputError("old_rows and without_old_rows exclude each other")
            fresh = _select_labels(dataset, columns)
        else:
            joined = join(run, _old_rows(run, old_rows, progress), dataset).dataset
            fresh = _select_labels(joined, range(run.n_labels, joined.n_labels))
        model = run.model.with_jobs(n_jobs)
        if not hasattr(model, "fit_labels"):
            raise InputError(f"{type(model).__name__} cannot add labels; train it again on all labels")
        rows = model.check_rows(fresh, like_fitted=True)
        part = RunPart(run.n_labels, fresh.n_labels, fresh.n_samples, fresh.digest, sources=[Source.of(dataset)])
        part = part.joined_by(versions())
        before = replace(run.manifest, parts=run.parts)
        if run.manifest == before:
            folder.write(replace(before, parts=[*run.parts, part]))
        part = _resume(folder, run.recipe, part)
        with _rolled_back_on_error(folder, before, part, len(model.pieces_.listed())):
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
    """Write a fitted model as a new run; when opened, it ranks identically, bit for bit.

    `model` may also be a scikit-learn pipeline of `TextFeatures`, or a `TfidfVectorizer`, and a model: the run
    then accepts text.
    """
    if hasattr(model, "steps"):
        text, model = _steps_of(model)
    label_names = _names(label_names, model, "classes_")
    feature_names = None if text is not None else _names(feature_names, model, "feature_names_in_")
    if label_counts is None and n_samples is None and hasattr(model, "n_samples_"):
        label_counts, n_samples = model.label_counts_, model.n_samples_
    trained = seeded(model, getattr(model, "random_state_", None))
    cells = getattr(model, "cell_propensity_", None)
    recipe = Recipe.of(trained, None if text is None else text.options, has_dense=model.n_dense_in_ > 0, cells=cells)
    if text is not None and text.identity is not None and text.identity.n_dense != model.n_dense_in_:
        raise InputError(
            f"the encoder returns {text.identity.n_dense} numbers; the model was fitted on {model.n_dense_in_} dense "
            "features"
        )
    folder = RunFolder(path)
    if not folder.is_new():
        raise InputError(f"{path}: exists already; remove it or choose another name")
    counts = None if label_counts is None else np.rint(label_counts).astype(np.int64)
    if counts is not None and (n_samples is None or n_samples < 1):
        raise InputError("label_counts need n_samples, the number of training rows")
    for what, strings in (
        ("label_names", label_names),
        ("label_titles", label_titles),
        ("feature_names", feature_names),
    ):
        check_strings(what, strings)
    for what, names, expected in (
        ("label_names", label_names, model.n_labels_),
        ("label_titles", label_titles, model.n_labels_),
        ("label_counts", counts, model.n_labels_),
        ("feature_names", feature_names, model.n_features_in_ - model.n_dense_in_),
    ):
        if names is not None and len(names) != expected:
            raise InputError(f"{what} has {len(names)} entries; expected {expected}")
    with folder.locked():
        part = RunPart(0, model.n_labels_, round(n_samples or 0), None).joined_by(versions())
        folder.write(Manifest(recipe, model.n_features_in_, [part], model.n_dense_in_))
        _write_features(folder, text, feature_names)
        _write_labels(folder, 0, label_names, label_titles, counts)
        target = OnDisk(folder.work)
        for key in model.pieces_.listed():
            piece = model.pieces_.get(key)
            assert piece is not None  # it was listed
            target.put(piece)
        calibration = _save_calibration(folder, model)
        folder.write(replace(folder.read().with_last(part.completed()), calibration=calibration))
    return Run(path)


def _save_calibration(folder: RunFolder, model: Model) -> CalibrationEntry | None:
    """Write the calibration of a model, if it has one, and return its entry of the manifest."""
    if not hasattr(model, "calibration_"):
        return None
    piece = model.calibration_.to_piece()
    name = hashlib.sha256(b"".join(array.tobytes() for array in piece.arrays.values())).hexdigest()[:16]
    OnDisk(folder.calibration(name)).put(piece)
    return CalibrationEntry(name, round(getattr(model, "n_samples_", 0)), model.n_labels_, groups="given groups")


def _manifest_lock(folder: RunFolder, partition: Partition) -> AbstractContextManager[None]:
    """Lock the manifest against other partitions; not needed if this process has the folder to itself."""
    return nullcontext() if partition.is_all else folder.manifest_lock()


def _steps_of(pipeline: Any) -> tuple[TextFeatures, Model]:
    """Return text features and model of a pipeline; raise if it has other steps."""
    steps = [step for _, step in pipeline.steps]
    if len(steps) == 2 and is_vectorizer(steps[0]):
        steps[0] = TextFeatures.from_vectorizer(steps[0])
    if len(steps) == 2 and isinstance(steps[0], TextFeatures) and isinstance(steps[1], Model):
        return steps[0], steps[1]
    kinds = ", ".join(type(step).__name__ for step in steps)
    raise InputError(f"cannot save a pipeline of {kinds}; expected TextFeatures and a model")


def _names(names: list[str] | None, model: Model, attribute: str) -> list[str] | None:
    """Return the names, by default those in a fitted attribute of the model; None if there are none."""
    fitted = getattr(model, attribute, None)
    if names is not None or fitted is None or fitted.dtype != object:
        return names
    return [str(name) for name in fitted]


def _resume(folder: RunFolder, recipe: Recipe, part: RunPart) -> RunPart:
    """Return the part to resume, with the current versions; raise if recipe or data differ."""
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
def _rolled_back_on_error(
    folder: RunFolder, before: Manifest | None, part: RunPart, n_pieces: int, *, exclusive: bool = True
) -> Iterator[None]:
    """Remove a part from the folder if training fails before it has added to the `n_pieces` existing pieces."""
    try:
        yield
    except Unfinished:
        raise
    except UnmissedError:
        if exclusive and folder.n_finished() <= n_pieces:
            folder.roll_back(before, part)
        raise


def _old_rows(run: Run, old_rows: Sequence[DatasetOrPath], progress: Progress) -> list[Dataset]:
    try:
        return read_old_rows(run, old_rows, progress=progress)
    except InputError as error:
        raise InputError(f"{error}, or train without old rows (--without-old-rows)") from error


def was_extended_by(run: Run, dataset: Dataset) -> bool:
    """Return whether a run was extended by this data set."""
    return any(source.digest == dataset.source_digest for part in run.parts[1:] for source in part.sources)


def new_columns(run: Run, dataset: Dataset) -> list[int]:
    """Return the columns of the labels that the run does not have; raise if there are none."""
    check_parts(run, dataset)
    if run.label_names is not None and dataset.label_names is not None:
        known = index_names(run.label_names)
        columns = [label for label, name in enumerate(dataset.label_names) if find_name(known, name) < 0]
    elif run.label_names is None and dataset.label_names is None:
        columns = list(range(run.n_labels, dataset.n_labels))
    else:
        who = "the run" if run.label_names is None else "the data"
        raise InputError(f"{who} has no label names, so old and new labels cannot be matched")
    if not columns:
        raise InputError(f"{run.folder}: already has all {dataset.n_labels} labels of the data")
    return columns


def _select_labels(dataset: Dataset, columns: Sequence[int]) -> Dataset:
    """Return a data set with the labels in `columns` only."""
    names, titles = dataset.label_names, dataset.label_titles
    return Dataset(
        dataset.X,
        dataset.Y[:, list(columns)],
        dense=dataset.dense,
        label_names=None if names is None else [names[label] for label in columns],
        label_titles=None if titles is None else [titles[label] for label in columns],
        feature_names=dataset.feature_names,
        text=dataset.text,
        trusted=True,
        vocabulary=dataset.vocabulary,
    )


def _write_features(folder: RunFolder, text: TextFeatures | None, names: list[str] | None) -> None:
    """Write the text features or the feature names, unless they exist."""
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
    """Write names and counts of a part's labels, unless they exist."""
    target = folder.labels(first)
    if is_archive(target):
        return
    remove_torn(target)
    arrays = {**pack_names("label_names", names), **pack_names("label_titles", titles)}
    if counts is not None:
        arrays["counts"] = counts
    write_archive(target, arrays, kind=LABELS_KIND, version=VERSION)
