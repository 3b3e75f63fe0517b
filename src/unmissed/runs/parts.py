"""Prediction by tasks: blocks of rows of a store are ranked in parallel, here or on a cluster, and joined."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unmissed.archive import MANIFEST
from unmissed.data import open_store
from unmissed.errors import InputError
from unmissed.execution import Executor, OnDisk, Piece, Work
from unmissed.models.training_data import TrainingData, check_k
from unmissed.progress import Progress, silent
from unmissed.ranking import Ranking
from unmissed.runs.prediction import check_features, predict
from unmissed.runs.run import Run, open_run
from unmissed.settings import SETTINGS


@dataclass(frozen=True)
class PartTask:
    """Rank the rows from `begin` to `end` - 1."""

    begin: int
    end: int
    k: int
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key of the ranking."""
        return f"rows/{self.begin:012d}"

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.end - self.begin

    def run(self, shared: tuple[Run, Any]) -> Piece:
        """Return the ranking of the rows."""
        run, X = shared
        found = predict(run, X[self.begin : self.end], self.k, params=self.params)
        arrays: dict[str, Any] = {"labels": found.labels, "scores": found.scores}
        if found.probabilities is not None:
            arrays["probabilities"] = found.probabilities
        return Piece(self.key, arrays)


@dataclass(frozen=True)
class RunAndRows:
    """Shared state of `PartTask`: the opened run and the rows of a store."""

    run: str
    rows: TrainingData
    seal: str

    def __call__(self) -> tuple[Run, Any]:
        """Return run and rows; each task ranks with one thread."""
        run = open_run(self.run)
        if _seal(run) != self.seal:
            raise InputError(f"{self.run}: is not the run that the prediction was started with")
        run.model.with_jobs(1)
        return run, self.rows.X


def predict_parts(
    run: Run,
    store: str | os.PathLike[str],
    k: int,
    out: str | os.PathLike[str],
    *,
    params: Mapping[str, Any] | None = None,
    executor: Executor,
    progress: Progress = silent,
) -> Ranking:
    """Return the k highest-scoring labels of each row of a store; finished parts are stored next to `out` meanwhile.

    The ranking is identical to that of `predict`, bit for bit. An interrupted prediction resumes.
    """
    dataset = open_store(store)
    check_features(run, store, dataset.features, dataset.feature_names)
    rows = TrainingData.of(dataset)
    seal = _seal(run)
    k = check_k(k, rows.n_samples, run.n_labels)
    name = hashlib.sha256(f"{seal} {dataset.digest} {k} {sorted((params or {}).items())}".encode()).hexdigest()[:12]
    parts = Path(out).absolute().parent / f".{Path(out).name}.{name}.parts"
    tasks = [
        PartTask(begin, min(begin + SETTINGS.task_rows, rows.n_samples), k, params or {})
        for begin in range(0, rows.n_samples, SETTINGS.task_rows)
    ]
    layout: dict[str, tuple[Any, int]] = {"labels": (np.int32, 2), "scores": (np.float32, 2)}
    if run.calibration is not None:
        layout["probabilities"] = (np.float32, 2)
    arrays: dict[str, Any] = {name: np.empty((rows.n_samples, k), dtype) for name, (dtype, _) in layout.items()}
    ends = {task.key: (task.begin, task.end) for task in tasks}
    shared = RunAndRows(str(run.folder.path.absolute()), rows, seal)
    for piece in Work(OnDisk(parts), executor, progress).map(tasks, shared):
        begin, end = ends[piece.key]
        for name, values in piece.expect(layout).items():
            arrays[name][begin:end] = values
    shutil.rmtree(parts, ignore_errors=True)
    return Ranking(**arrays).of_names(run.label_names)


def _seal(run: Run) -> str:
    """Return the digest of a run's manifest, which identifies the run."""
    return hashlib.sha256((run.folder.path / MANIFEST).read_bytes()).hexdigest()
