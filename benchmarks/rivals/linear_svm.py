"""Peers that train the same one-vs-rest SVMs or logistic regressions: each takes X and the positives of some labels.

Every adapter returns the seconds of processor time it took, loading excluded, and weights with the bias last; ours
also the seconds of laying out X.
"""

import ctypes
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Trained:
    """What a peer took, and its weights with the bias last; ours: how many labels met the tolerance."""

    seconds: float
    W: np.ndarray
    laying_out: float = 0.0
    certified: int | None = None


Positives = Sequence[np.ndarray]


def liblinear(options: str, X: Any, positives: Positives) -> Trained:
    """LIBLINEAR through its own Python package; only its `train` is timed."""
    from liblinear import liblinear as lib

    n_samples, n_features = X.shape
    problem = lib.problem(np.ones(n_samples), X.astype(np.float64), bias=1)
    parameter = lib.parameter(f"{options} -q")
    targets = np.ctypeslib.as_array(problem.y, (n_samples,))
    W = np.empty((len(positives), n_features + 1))
    seconds = 0.0
    for at, rows in enumerate(positives):
        targets[:] = -1
        targets[rows] = 1
        begin = time.process_time()
        model = lib.liblinear.train(ctypes.byref(problem), ctypes.byref(parameter))
        seconds += time.process_time() - begin
        trained = lib.toPyModel(model)
        sign = 1 if trained.get_labels()[0] == 1 else -1
        W[at] = sign * np.ctypeslib.as_array(trained.w, (n_features + 1,))
    return Trained(seconds, W)


def scikit_learn(X: Any, positives: Positives) -> Trained:
    """scikit-learn's LinearSVC, dual, at its own tolerance, which is tighter than the others'."""
    from sklearn.svm import LinearSVC

    X = X.astype(np.float64)  # it would convert X for every label
    W = np.empty((len(positives), X.shape[1] + 1))
    seconds = 0.0
    for at, rows in enumerate(positives):
        y = np.zeros(X.shape[0])
        y[rows] = 1
        svc = LinearSVC(C=1.0, dual=True, random_state=0)
        begin = time.process_time()
        svc.fit(X, y)
        seconds += time.process_time() - begin
        W[at] = np.append(svc.coef_[0], svc.intercept_[0])
    return Trained(seconds, W)


_PECOS = """
import json, sys, time
import numpy as np, scipy.sparse as sp
from pecos.xmc import MLModel, MLProblem
folder = sys.argv[1]
X, Y = sp.load_npz(folder + "/X.npz").astype(np.float32), sp.load_npz(folder + "/Y.npz").tocsc().astype(np.float32)
problem = MLProblem(X, Y)
begin = time.process_time()
model = MLModel.train(problem, threshold=0.0, threads=1, bias=1.0)
seconds = time.process_time() - begin
sp.save_npz(folder + "/W.npz", sp.csc_matrix(model.W))
json.dump(seconds, open(folder + "/seconds.json", "w"))
"""


def pecos(python: str, X: Any, positives: Positives) -> Trained:
    """PECOS one-vs-all in an environment of its own, since it wants numpy < 2; its default tolerance."""
    Y = sp.lil_matrix((X.shape[0], len(positives)), dtype=np.float32)
    for at, rows in enumerate(positives):
        Y[rows, at] = 1
    with tempfile.TemporaryDirectory() as folder:
        sp.save_npz(f"{folder}/X.npz", sp.csr_matrix(X), compressed=False)
        sp.save_npz(f"{folder}/Y.npz", sp.csc_matrix(Y), compressed=False)
        subprocess.run([python, "-c", _PECOS, folder], check=True)
        W = sp.load_npz(f"{folder}/W.npz")
        return Trained(json.loads(Path(folder, "seconds.json").read_text()), W.toarray().T.astype(np.float64))


def floor(X: Any, positives: Positives) -> Trained:
    """Nothing is learned: one pass over X for all labels, in lanes, is what any method must at least do."""
    from unmissed.models.linear.design import lay_out
    from unmissed.models.linear.dismec.passes import Passes
    from unmissed.models.linear.dismec.quantized_rows import QuantizedRows
    from unmissed.numerics.simd import LANES

    design = lay_out(X, bias=True, seed=0)
    passes = Passes(design, QuantizedRows(design))
    weights = np.full((LANES, design.n_features), -1e-3, np.float32)  # written, so that each page is memory of its own
    nobody, no_h = np.empty(0, np.int32), np.empty(0, np.float32)
    labels = [
        SimpleNamespace(positives=nobody, h=no_h, w=w, bias=np.float32(-2), square=1e-6 * design.n_features)
        for w in weights
    ]
    groups = -(-len(positives) // LANES)
    for _ in range(2):
        begin = time.process_time()
        for _ in range(groups):
            list(passes.exact(labels))
        seconds = time.process_time() - begin
    return Trained(seconds, np.zeros((len(positives), X.shape[1] + 1)))


def ours(X: Any, positives: Positives, tol: float, loss: str = "squared-hinge") -> Trained:
    """Our solver of a loss on one thread, compiled; weights as they are before pruning."""
    from unmissed.models.linear.design import LabelBlock
    from unmissed.models.linear.dismec.solver import SquaredHinge
    from unmissed.models.linear.logistic.solver import Logistic

    (solver,) = (cls(tol=tol, prune=0.0) for cls in (SquaredHinge, Logistic) if cls.solvable.loss == loss)
    ones = np.ones(len(positives))
    block = LabelBlock(0, np.cumsum([0, *map(len, positives)]), np.concatenate(positives), ones, ones)
    begin = time.process_time()
    prepared = solver.prepare(X)
    laid_out = time.process_time()
    shard = prepared.solve(block)
    seconds = time.process_time() - laid_out
    W = np.zeros((len(positives), X.shape[1] + 1))
    for label in range(shard.n_labels):
        features, weights = shard.of_label(label)
        W[label, features] = weights
    if shard.dense is not None:
        W[:, -1 - shard.dense.shape[1] : -1] = shard.dense
    W[:, -1] = shard.bias
    return Trained(seconds, W, laid_out - begin, int(np.sum(shard.gap <= tol)))


def pecos_version(python: str) -> str:
    """The version of PECOS in an environment of its own."""
    script = "from importlib.metadata import version; print(version('libpecos'))"
    return subprocess.run([python, "-c", script], check=True, capture_output=True, text=True).stdout.strip()
