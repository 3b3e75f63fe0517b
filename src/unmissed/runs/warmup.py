"""Ahead-of-time compilation of all kernels, for example in a container image, by training on tiny data.

Numba compiles a kernel at its first call with each combination of argument types. Calling every method needs no list of
these types.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, get_args, get_origin

import numpy as np
import scipy.sparse as sp

from unmissed import _jit
from unmissed.data import load, make_corpus, open_store, write_store, write_xmc
from unmissed.data.text import TextFeatures
from unmissed.errors import InputError, UnmissedError
from unmissed.models import LEML, DiSMEC, Parabel, PDSparse, PWDiSMEC
from unmissed.models.label_trees.node_solver import LANE_MULTIPLE, MAX_COLUMNS
from unmissed.models.parameters import parameters_of
from unmissed.models.registry import METHODS, find_model
from unmissed.progress import Progress, silent
from unmissed.runs.inspection import summarize
from unmissed.runs.measurement import Measuring, evaluate_ranking
from unmissed.runs.prediction import predict
from unmissed.runs.run import open_run
from unmissed.runs.training import train

HARD = {"C": 1e6, "normalize": False, "fit_bias": "free"}  # ill-conditioned: solved by Newton's method
SMALL = {"n_trees": 2, "n_learners": 2, "n_components": 4, "max_leaf": 4, "block_size": 16}


class Warmup(NamedTuple):
    """Number of compilations that were not cached, total seconds, and folder of the cache."""

    compiled: int
    seconds: float
    folder: Path | None


def compile_kernels(progress: Progress = silent) -> Warmup:
    """Compile every kernel for all argument types that training, ranking and evaluation use."""
    if _jit.interpreted():
        raise InputError("NUMBA_DISABLE_JIT is set, so kernels are not compiled; unset it")
    begin, before = time.perf_counter(), _jit.compilations()
    settings = list(_settings())
    with TemporaryDirectory(prefix="unmissed-compile-") as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # tiny problems are not always solved to the tolerance
        data = _Data(Path(scratch))
        for number, (method, params) in enumerate(settings):
            _use(method, params, data, Path(scratch) / f"run-{number}")
            progress(number + 1, len(settings))
        _use_large()
    return Warmup(_jit.compilations() - before, time.perf_counter() - begin, _jit.cache_folder())


class _Data:
    """A tiny data set in every format that a kernel parses."""

    def __init__(self, position: Path) -> None:
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


def _settings() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each method with default parameters, then with each other value of its string and bool parameters."""
    for method, one in METHODS.items():
        if not one.import_path.startswith("unmissed."):
            continue
        known = parameters_of(find_model(method))
        small = {name: value for name, value in SMALL.items() if name in {each.name for each in known}}
        yield method, small
        for parameter in known:
            for choice in _choices(parameter.annotation):
                if choice != parameter.default:
                    yield method, {**small, parameter.name: choice}
    yield "dismec", {"block_size": 16, **HARD}


def _choices(annotation: Any) -> list[Any]:
    if annotation is bool:
        return [True, False]
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [choice for one in get_args(annotation) for choice in _choices(one)]


def _use(method: str, params: dict[str, Any], data: _Data, folder: Path) -> None:
    """Train, open, rank and evaluate; skip values that need another parameter or package."""
    try:
        train(method, data.train, folder, params)
    except UnmissedError:
        if params.keys() <= SMALL.keys():
            raise
        return
    run = open_run(folder)
    few = data.test.X[:3]
    for rows in (few[:1], few, data.test.X):
        run.rank(rows, 3)
    ranking = folder.with_suffix(".npz")
    predict(run, data.test.X, 3).save(ranking)
    summarize(run)
    evaluate_ranking(ranking, data.truth, folder, Measuring(k=(1, 3), n_resamples=10))
    for rows in (few, data.test.X):
        if hasattr(run.model, "decision_function"):
            run.model.predict(rows)
            run.model.decision_function(rows)


def _use_large() -> None:
    """Call kernels that only larger data reaches, and those that only the Python interface uses."""
    rng = np.random.default_rng(0)
    X = sp.random(1200, 24_000, 40 / 24_000, format="csr", dtype=np.float32, random_state=rng)  # > 2^14 features occur
    Y = sp.random(1200, MAX_COLUMNS, 0.03, format="csr", dtype=np.float32, random_state=rng)
    Y.data[:] = 1
    for model in (DiSMEC(), PWDiSMEC(), PDSparse(max_epochs=5)):
        candidates = model.fit(X, Y).rank(X[:300], 3)
    model.rank(X[:300], 2, candidates=candidates)
    for columns in (24_000, 500):
        DiSMEC().fit(X[:, :columns], Y[:, :1])  # a single label takes no lanes
    LEML(n_components=4, max_alternations=1).fit(X[:50], Y[:50], observed=sp.csr_matrix(np.ones((50, MAX_COLUMNS))))
    for n_columns in range(
        LANE_MULTIPLE, MAX_COLUMNS + 1, LANE_MULTIPLE
    ):  # kernels of a node are compiled for each number of lanes
        Parabel(n_trees=1, max_leaf=n_columns).fit(X[:200, :500], Y[:200, :n_columns])
