"""Ahead-of-time compilation of all kernels, for example in a container image, by training on tiny data.

Numba compiles a kernel at its first call with each combination of argument types. Calling every method needs no list of
these types.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmissed import _jit
from unmissed.calibration import DecisionRule
from unmissed.data import load, make_corpus, open_store, write_store, write_xmc
from unmissed.data.text import TextFeatures
from unmissed.errors import InputError, UnmissedError
from unmissed.execution import Piece, Processes
from unmissed.models.method_registry import METHODS, find_model
from unmissed.models.parameters import parameters_of
from unmissed.progress import Progress, silent
from unmissed.runs.calibrating import calibrate
from unmissed.runs.inspection import summarize
from unmissed.runs.measurement import Measuring, evaluate_ranking
from unmissed.runs.prediction import predict
from unmissed.runs.run import open_run
from unmissed.runs.training import train

SMALL = {"n_trees": 2, "n_learners": 2, "n_components": 4, "max_leaf": 4, "block_size": 16, "max_epochs": 2}


class Warmup(NamedTuple):
    """Number of compilations that were not cached, total seconds, and folder of the cache."""

    compiled: int
    seconds: float
    folder: Path | None


def compile_kernels(progress: Progress = silent, n_jobs: int | None = 1) -> Warmup:
    """Compile every kernel for all argument types that training, ranking and evaluation use, in `n_jobs` processes."""
    if _jit.interpreted():
        raise InputError("NUMBA_DISABLE_JIT is set, so kernels are not compiled; unset it")
    begin, compiled = time.perf_counter(), 0
    with TemporaryDirectory(prefix="unmissed-compile-", ignore_cleanup_errors=True) as scratch:
        # after an error, other processes still write: the error counts, not what they leave
        tasks = [_MethodKernels(method, Path(scratch) / method) for method in _own_methods()]
        for number, piece in enumerate(Processes(n_jobs).map(tasks, _large_data), 1):
            compiled += piece.metadata["compiled"]
            progress(number, len(tasks))
    return Warmup(compiled, time.perf_counter() - begin, _jit.cache_folder())


@dataclass(frozen=True)
class _MethodKernels:
    """Compiles the kernels of one method; its piece has the number of compilations."""

    key: str
    folder: Path
    size: int = 1

    def run(self, shared: tuple[sp.csr_matrix, sp.csr_matrix]) -> Piece:
        before = _jit.compilations()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # tiny problems are not always solved to the tolerance
            data = _Data(self.folder)
            for number, params in enumerate(_settings(self.key)):
                _use(self.key, params, data, self.folder / f"run-{number}")
            find_model(self.key).compile_kernels(*shared)
        return Piece(self.key, metadata={"compiled": _jit.compilations() - before})


class _Data:
    """A tiny data set in every format that a kernel parses."""

    def __init__(self, position: Path) -> None:
        position.mkdir()
        corpus = make_corpus(80, 300, 30, 60, words_per_row=8, rng=0)
        self.position = position
        write_store(corpus.train, position / "train")
        self.train = open_store(position / "train")
        self.test, self.truth = corpus.test, position / "test.txt"
        write_xmc(corpus.train, position / "train.txt")
        write_xmc(corpus.test, self.truth)
        for header in (True, False):
            lines = (position / "train.txt").read_text().splitlines(keepends=True)
            (position / "lines.txt").write_text("".join(lines if header else lines[1:]))
            load(position / "lines.txt", header=header)
        (position / "unsorted.txt").write_text("1 9 3\n2,0 7:1 3:0.5\n")
        load(position / "unsorted.txt")
        TextFeatures().fit(["one two three", "two four"]).transform(["one two", "four"])


def _settings(method: str) -> Iterator[dict[str, Any]]:
    """Yield the default parameters, then other values, one by one or as `compile_params` says."""
    cls = find_model(method)
    known = parameters_of(cls)
    small = {name: value for name, value in SMALL.items() if name in {each.name for each in known}}
    yield small
    for parameter in known:
        for choice in parameter.choices:
            if choice != parameter.default:
                yield {**small, parameter.name: choice}
    for params in cls.compile_params:
        yield {**small, **params}


def _own_methods() -> list[str]:
    """Return the methods of this package that can be trained here, on data without names of labels."""
    return [
        name
        for name, one in METHODS.items()
        if one.import_path.startswith("unmissed.") and one.can_train and not find_model(name).uses_label_terms
    ]


def _use(method: str, params: dict[str, Any], data: _Data, folder: Path) -> None:
    """Train, calibrate, rank, decide and evaluate; skip values that need another parameter or package."""
    try:
        train(method, data.train, folder, params)
    except UnmissedError:
        if params.keys() <= SMALL.keys():
            raise
        return
    run = calibrate(folder, old_rows=[data.train]) if params.keys() <= SMALL.keys() else open_run(folder)
    few = data.test.X[:3]
    for rows in (few[:1], few, data.test.X):
        run.rank(rows, 3)
    run.prepare().rank(few, 3)
    ranking = folder.with_suffix(".npz")
    found = predict(run, data.test.X, 3)
    found.save(ranking)
    if found.probabilities is not None:
        for rule in ("macro-f1@1", "coverage@1"):
            DecisionRule.parse(rule).decide(found)
    summarize(run)
    evaluate_ranking(ranking, data.truth, folder, Measuring(k=(1, 3), n_resamples=10))
    for rows in (few, data.test.X):
        if hasattr(run.model, "decision_function"):
            run.model.predict(rows)
            run.model.decision_function(rows)


def _large_data() -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Return data with more than 2^14 features and with enough labels for every number of lanes."""
    rng = np.random.default_rng(0)
    X = sp.random(1200, 24_000, 40 / 24_000, format="csr", dtype=np.float32, random_state=rng)
    Y = sp.random(1200, 128, 0.03, format="csr", dtype=np.float32, random_state=rng)
    Y.data[:] = 1
    return X, Y
