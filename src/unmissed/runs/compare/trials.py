"""Trials: each trains one method of a comparison and ranks the test rows, in its own process."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmissed.archive import is_archive, read_json, remove_torn, write_json
from unmissed.data import Dataset, open_store, write_store
from unmissed.errors import InputError, UnmissedError
from unmissed.execution import Limits, peak_bytes, watch
from unmissed.progress import Progress, silent
from unmissed.propensity import Propensity
from unmissed.runs.compare.method_specs import MethodSpec
from unmissed.runs.inspection import certificate
from unmissed.runs.prediction import predict
from unmissed.runs.recipe import Recipe
from unmissed.runs.run_folder import RunFolder, versions
from unmissed.runs.training import train
from unmissed.writing import naming_target, temporary_folder

RECORD, RANKING = "record.json", "ranking.npz"
WARM_ROWS = 320  # rows of the untimed warm-up, which compiles kernels; enough to also reach those for ranking many rows
_RECORD_INTERVAL = 2.0  # seconds between two writes of the time spent
Stage = Callable[[str], AbstractContextManager[Progress]]


@contextmanager
def no_stage(description: str) -> Iterator[Progress]:
    """A stage without output: the default where a progress bar per stage can be shown."""
    yield silent


@dataclass(frozen=True)
class Trial:
    """Trains a method on a store, ranks the rows of another, and returns time and memory; runs in its own process."""

    spec: MethodSpec
    propensity: Propensity
    data: Path
    folder: Path
    depth: int
    n_jobs: int | None

    def __call__(self, say: Callable[[Any], None]) -> dict[str, Any]:
        """Train and rank; write the run and the ranking into the folder."""
        rows, test_rows = open_store(self.data / "train"), open_store(self.data / "test")
        self._warm()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            say(("training", 0, None))
            begin, processor = time.perf_counter(), time.process_time()
            run = train(self._model(), rows, self.folder / "run", progress=lambda *done: say(("training", *done)))
            seconds = {"train": time.perf_counter() - begin, "processor": time.process_time() - processor}
            peak = peak_bytes()
            begin = time.perf_counter()
            ranking = predict(run, test_rows.features, self.depth, progress=lambda *done: say(("ranking", *done)))
            seconds["predict"] = time.perf_counter() - begin
        ranking.save(self.folder / RANKING)
        return {
            "seconds": seconds,
            "peak_bytes": peak,
            "disk_bytes": _size(RunFolder(self.folder / "run").work),
            "certificate": certificate(run),
            "warnings": list(dict.fromkeys(" ".join(str(one.message).split()) for one in caught)),
        }

    def recipe(self, text: dict[str, Any] | None, has_dense: bool) -> dict[str, Any]:
        """Return the recipe, which determines the result together with the data."""
        return Recipe.of(self._model(), text, has_dense=has_dense).to_json()

    def _model(self) -> Any:
        return self.spec.model(self.propensity, self.n_jobs)

    def _warm(self) -> None:
        """Train and rank a few rows, so that compilation is not timed; errors on such small data are ignored."""
        few = open_store(self.data / "warm")
        warm = self.folder / "warm"
        with warnings.catch_warnings(), temporary_folder(warm) as aside, naming_target(warm, aside):
            warnings.simplefilter("ignore")
            try:
                predict(train(self._model(), few, aside / "run"), few.features, self.depth)
            except (UnmissedError, ValueError):
                return


def write_warm_rows(dataset: Dataset, path: Path) -> None:
    """Write the first rows of a training set as the store of the warm-up."""
    if not is_archive(path):
        remove_torn(path)
        dense = None if dataset.dense is None else dataset.dense[:WARM_ROWS]
        write_store(Dataset(dataset.X[:WARM_ROWS], dataset.Y[:WARM_ROWS], trusted=True, dense=dense), path)


def run_trial(trial: Trial, wanted: dict[str, Any], limits: Limits, stage: Stage) -> dict[str, Any]:
    """Return the record of a trial: the stored one if it is finished, else that of running it.

    Parameters
    ----------
    trial : the trial; its folder holds the record
    wanted : recipe, digests and depth; a folder with others is refused
    limits : limits of the method; time spent earlier counts. A stopped method resumes if the limits are larger
    stage : opens a progress bar
    """
    trial.folder.mkdir(parents=True, exist_ok=True)
    record = _begun(trial.folder / RECORD, wanted) | {"key": trial.spec.key}
    if record["state"] == "finished" and (trial.folder / RANKING).is_file():
        return record
    if _still_stopped(record, limits):
        return record
    left = None if limits.seconds is None else max(limits.seconds - record["spent"], 1e-3)
    spent, noted = record["spent"], time.monotonic()
    began: float | None = None
    record |= {"attempts": record["attempts"] + 1, "limits": list(limits), "made_with": versions()}
    with stage(trial.spec.title) as progress:

        def hear(message: Any) -> None:
            nonlocal began, noted
            if message is not None:
                began = time.monotonic() if began is None else began
                progress(message[1], message[2])
            if began is not None and time.monotonic() - noted > _RECORD_INTERVAL:
                noted = time.monotonic()
                write_json(trial.folder / RECORD, {**record, "state": "begun", "spent": spent + noted - began})

        write_json(trial.folder / RECORD, {**record, "state": "begun"})
        outcome = watch(trial, Limits(left, limits.memory), hear)
    record |= {"state": outcome.state, "reason": outcome.reason, "spent": spent + outcome.seconds}
    record |= {"peak_bytes": outcome.peak_bytes} if outcome.value is None else outcome.value
    if outcome.value is not None:
        record["seconds"] = {**record["seconds"], "train": record["seconds"]["train"] + spent}
    if outcome.state == "time limit":
        record["reason"] = f"stopped after {limits.seconds:g} seconds"
    write_json(trial.folder / RECORD, record)
    return record


def n_ranked(methods: Path) -> int:
    """Return the number of methods that have ranked the test rows."""
    return sum((folder / RANKING).is_file() for folder in methods.iterdir()) if methods.is_dir() else 0


def _begun(path: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a folder, or a new one; raise if it has other data or parameters."""
    fresh = {"wanted": wanted, "state": "new", "spent": 0.0, "attempts": 0, "limits": [None, None]}
    if not path.is_file():
        return fresh
    record = read_json(path)
    if not isinstance(record, dict) or not fresh.keys() <= record.keys() or not isinstance(record["wanted"], dict):
        raise InputError(f"{path}: damaged; remove its folder to train the method again")
    other = sorted(name for name in wanted if record["wanted"].get(name) != wanted[name])
    if other:
        raise InputError(f"{path.parent}: was begun with another {' and another '.join(other)}; choose another --out")
    return record


def _still_stopped(record: dict[str, Any], limits: Limits) -> bool:
    """Return whether a method was stopped by a limit that is not larger now."""
    seconds, memory = record["limits"]
    if record["state"] == "time limit":
        return limits.seconds is not None and seconds is not None and limits.seconds <= seconds
    if record["state"] == "memory limit":
        return limits.memory is not None and memory is not None and limits.memory <= memory
    return False


def _size(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file())
