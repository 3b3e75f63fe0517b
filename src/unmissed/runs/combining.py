"""Combining: an ensemble of trained runs, as a new run that contains them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.execution import Executor
from unmissed.models import Ensemble
from unmissed.progress import Progress, silent
from unmissed.runs.run import Run
from unmissed.runs.run_folder import RunFolder
from unmissed.runs.training import train


def combine(
    runs: Sequence[Run],
    dataset: Dataset,
    path: str | os.PathLike[str],
    params: Mapping[str, Any] | None = None,
    *,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Run:
    """Make an ensemble of trained runs: their models are copied, and weights are chosen on held-out rows.

    To choose weights, each method is trained again on part of the rows, so that the others are new to it. The result is
    a run of its own: it does not need the runs that it was made of.

    Parameters
    ----------
    runs : at least two runs that were trained on `dataset`, with the same labels and features
    dataset : the training rows of the runs
    path : the folder of the new run; an interrupted call is resumed by the same call
    params : parameters of `Ensemble` other than its members
    executor, progress : as in `train`
    """
    if len({os.path.realpath(run.folder.path) for run in runs}) < max(len(runs), 2):
        raise InputError("an ensemble needs at least 2 different runs")
    RunFolder(path).is_new()  # raises for a folder that is not a run, before models are opened
    if dataset.vocabulary is None and runs[0].vocabulary is not None:
        unseen = runs[0].n_labels > dataset.n_labels
        dataset = dataset.with_vocabulary(runs[0].vocabulary, unseen=unseen)
    for run in runs:
        _check_alike(run, dataset)
    model = Ensemble.of([run.model for run in runs], **(params or {}))
    return train(model, dataset, path, executor=executor, progress=progress)


def _check_alike(run: Run, dataset: Dataset) -> None:
    """Raise unless a run has the features and labels of a data set."""
    for what, there, here in (
        ("features", run.n_features, dataset.n_features),
        ("labels", run.n_labels, dataset.n_labels),
    ):
        if there != here:
            also = ", with --all-concepts or without" if dataset.vocabulary is not None else ""
            raise InputError(
                f"{run.folder}: has {there:,} {what}; the data has {here:,}; train all runs on the data{also}"
            )
    text = None if dataset.text is None else dataset.text.options
    if run.recipe.text != text:
        raise InputError(f"{run.folder}: has other text features than the first run; train all runs with the same ones")
    for what, names, others in (
        ("features", run.feature_names, dataset.feature_names),
        ("labels", run.label_names, dataset.label_names),
    ):
        if names is not None and others is not None and list(names) != list(others):
            raise InputError(f"{run.folder}: its {what} have other names than those of the data")
    counts = run.label_counts
    if counts is not None and (counts != dataset.label_counts).any():
        raise InputError(f"{run.folder}: was trained on other rows: its labels have other numbers of positives")
