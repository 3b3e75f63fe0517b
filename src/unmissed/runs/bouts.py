"""Bouts: one method of a comparison, trained and asked for its ranking in a process of its own."""

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
from unmissed.runs.contenders import Contender
from unmissed.runs.folder import RunFolder, versions
from unmissed.runs.inspection import certificate
from unmissed.runs.prediction import predict
from unmissed.runs.recipe import Recipe
from unmissed.runs.training import train
from unmissed.writing import naming, scratch_folder

RECORD, RANKING = "record.json", "ranking.npz"
WARM_ROWS = 320  # rows of the training before the clock, for which kernels are compiled; ranking many rows has its own
_NOTED = 2.0  # seconds between two notes of the time that is spent
Stage = Callable[[str], AbstractContextManager[Progress]]


@contextmanager
def no_stage(description: str) -> Iterator[Progress]:
    """Show nothing: the default of what takes a stage, a place to draw one bar after another."""
    yield silent


@dataclass(frozen=True)
class Bout:
    """What a contender's process does: train on a store, rank the rows of another, and say how long that took."""

    contender: Contender
    propensity: Propensity
    data: Path
    folder: Path
    depth: int
    n_jobs: int | None

    def __call__(self, say: Callable[[Any], None]) -> dict[str, Any]:
        """Train and rank; the folder keeps the run and the ranking."""
        rows, asked = open_store(self.data / "train"), open_store(self.data / "test")
        self._warm()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            say(("training", 0, None))
            begin, processor = time.perf_counter(), time.process_time()
            run = train(self._model(), rows, self.folder / "run", progress=lambda *done: say(("training", *done)))
            seconds = {"train": time.perf_counter() - begin, "processor": time.process_time() - processor}
            peak = peak_bytes()
            begin = time.perf_counter()
            ranking = predict(run, asked.X, self.depth, progress=lambda *done: say(("ranking", *done)))
            seconds["predict"] = time.perf_counter() - begin
        ranking.save(self.folder / RANKING)
        return {
            "seconds": seconds,
            "peak_bytes": peak,
            "disk_bytes": _size(RunFolder(self.folder / "run").work),
            "certificate": certificate(run),
            "warnings": list(dict.fromkeys(" ".join(str(one.message).split()) for one in caught)),
        }

    def recipe(self, text: dict[str, Any] | None) -> dict[str, Any]:
        """Return all that decides the result, apart from the data."""
        return Recipe.of(self._model(), text).to_json()

    def _model(self) -> Any:
        return self.contender.model(self.propensity, self.n_jobs)

    def _warm(self) -> None:
        """Train and rank a few rows first, so that no compilation is on the clock; they may be refused."""
        few = open_store(self.data / "warm")
        warm = self.folder / "warm"
        with warnings.catch_warnings(), scratch_folder(warm) as aside, naming(warm, aside):
            warnings.simplefilter("ignore")
            try:
                predict(train(self._model(), few, aside / "run"), few.X, self.depth)
            except (UnmissedError, ValueError):
                return


def write_warm_rows(dataset: Dataset, path: Path) -> None:
    """Keep the first rows of a training set as a store, so that they are of the kind that the clock will see."""
    if not is_archive(path):
        remove_torn(path)
        write_store(Dataset(dataset.X[:WARM_ROWS], dataset.Y[:WARM_ROWS]), path)


def settle(bout: Bout, wanted: dict[str, Any], limits: Limits, stage: Stage) -> dict[str, Any]:
    """Return the record of a bout: the one that is there, or that of training what is missing.

    Parameters
    ----------
    bout : what to do; its folder keeps the record
    wanted : recipe and digests; a folder that was begun with others is refused
    limits : of one method, whatever was spent on it before counts; a method that was stopped goes on under larger ones
    stage : where progress is shown
    """
    bout.folder.mkdir(parents=True, exist_ok=True)
    record = _begun(bout.folder / RECORD, wanted) | {"key": bout.contender.key}
    if record["state"] == "finished" and (bout.folder / RANKING).is_file():
        return record
    if _still_stopped(record, limits):
        return record
    left = None if limits.seconds is None else max(limits.seconds - record["spent"], 1e-3)
    spent, noted = record["spent"], time.monotonic()
    began: float | None = None
    record |= {"attempts": record["attempts"] + 1, "limits": list(limits), "made_with": versions()}
    with stage(bout.contender.title) as progress:

        def hear(message: Any) -> None:
            nonlocal began, noted
            if message is not None:
                began = time.monotonic() if began is None else began
                progress(message[1], message[2])
            if began is not None and time.monotonic() - noted > _NOTED:
                noted = time.monotonic()
                write_json(bout.folder / RECORD, {**record, "state": "begun", "spent": spent + noted - began})

        write_json(bout.folder / RECORD, {**record, "state": "begun"})
        outcome = watch(bout, Limits(left, limits.memory), hear)
    record |= {"state": outcome.state, "reason": outcome.reason, "spent": spent + outcome.seconds}
    record |= {"peak_bytes": outcome.peak_bytes} if outcome.value is None else outcome.value
    if outcome.value is not None:
        record["seconds"] = {**record["seconds"], "train": record["seconds"]["train"] + spent}
    if outcome.state == "time limit":
        record["reason"] = f"stopped after {limits.seconds:g} seconds"
    write_json(bout.folder / RECORD, record)
    return record


def n_ranked(methods: Path) -> int:
    """Count the folders of methods that have ranked the test rows."""
    return sum((folder / RANKING).is_file() for folder in methods.iterdir()) if methods.is_dir() else 0


def _begun(path: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the record in a folder, or a new one; one of other data or parameters is refused."""
    fresh = {"wanted": wanted, "state": "new", "spent": 0.0, "attempts": 0, "limits": [None, None]}
    if not path.is_file():
        return fresh
    record = read_json(path)
    if not isinstance(record, dict) or not fresh.keys() <= record.keys() or not isinstance(record["wanted"], dict):
        raise InputError(f"{path}: damaged; remove its folder, and the method is trained again")
    other = sorted(name for name in wanted if record["wanted"].get(name) != wanted[name])
    if other:
        raise InputError(f"{path.parent}: was begun with another {' and another '.join(other)}; choose another --out")
    return record


def _still_stopped(record: dict[str, Any], limits: Limits) -> bool:
    """Tell whether a method was stopped by a limit that is no wider now."""
    seconds, memory = record["limits"]
    if record["state"] == "time limit":
        return limits.seconds is not None and seconds is not None and limits.seconds <= seconds
    if record["state"] == "memory limit":
        return limits.memory is not None and memory is not None and limits.memory <= memory
    return False


def _size(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file())
