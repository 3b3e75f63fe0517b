"""ProXML, PPD-Sparse and PD-Sparse compared with LIBLINEAR, scikit-learn and our DiSMEC.

    python -m benchmarks.sparse_linear labels DATA/eurlex57k [--labels 128] [--l1 1] [--cache DIR]
    python -m benchmarks.sparse_linear models DATA/bibtex [--methods dismec ppd-sparse ...] [--linear-svc] [--cache DIR]
    python -m benchmarks.sparse_linear proximal DATA/bibtex [--labels 16] [--seconds 60] [--cache DIR]

`labels` trains the same labels with ProXML's solver and with LIBLINEAR -s 5 on one thread: processor time, loading
excluded (LIBLINEAR's problem, our layout of X), and the summed objective in float64. `models` trains models on all
labels with all cores and prints test metrics, wall seconds, weights and the bytes of the saved model, with the
settings of a search on held-out rows (SETTINGS). `--linear-svc` adds the wall seconds of scikit-learn's one-vs-rest
LinearSVC, a process per core. `proximal` checks the paper's claim that PW-DiSMEC trains two orders of magnitude faster
than ProXML, whose authors use a proximal gradient method: accelerated proximal gradient (scipy's products, float32)
until its objective is within 0.1 % of that of our solver, or for --seconds per label, beside our ProXML and PW-DiSMEC.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from benchmarks.corpora import load_corpus
from benchmarks.rivals import linear_svm
from unmissed.metrics import evaluate
from unmissed.models import make_model
from unmissed.propensity import Jain

COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
SETTINGS: dict[str, dict[str, Any]] = {
    "pd-sparse": {"l1": 1.0, "C": 100.0, "early_stopping": True},
}
"""Parameters by method, where they are not the defaults."""


def objectives(X: Any, positives: list[np.ndarray], W: np.ndarray, l1: float) -> np.ndarray:
    """l1 |w|_1 + l1 |b| + the sum of squared hinges of each label, in float64."""
    X = X.astype(np.float64)
    out = np.empty(len(W))
    for at, w in enumerate(W):
        z = np.full(X.shape[0], -1.0)
        z[positives[at]] = 1.0
        out[at] = l1 * np.abs(w).sum() + np.sum(np.maximum(0.0, 1.0 - z * (X @ w[:-1] + w[-1])) ** 2)
    return out


def ours(X: Any, positives: list[np.ndarray], l1: float) -> tuple[float, np.ndarray]:
    """ProXML's solver on one thread, compiled before; the layout of X is not in the time."""
    from unmissed.models.linear.design import LabelBlock
    from unmissed.models.linear.proxml.solver import L1SquaredHinge

    prepared = L1SquaredHinge(l1=l1).prepare(X)
    for some in (positives[:16], positives):  # the first few call every kernel once
        ones = np.ones(len(some))
        block = LabelBlock(0, np.cumsum([0, *map(len, some)]), np.concatenate(some).astype(np.int32), ones, ones)
        begin = time.process_time()
        shard = prepared.solve(block)
        seconds = time.process_time() - begin
    W = np.zeros((len(positives), X.shape[1] + 1))
    for label in range(shard.n_labels):
        features, weights = shard.of_label(label)
        W[label, features] = weights
    W[:, -1] = shard.bias
    return seconds, W


def compare_labels(options: Any) -> None:
    corpus = load_corpus(options.data, options.cache)
    X, Y = corpus.X, corpus.Y.tocsc()
    chosen = np.random.default_rng(7).permutation(Y.shape[1])[: options.labels]
    positives = [Y.indices[Y.indptr[label] : Y.indptr[label + 1]] for label in chosen]
    print(f"{options.data.name}: {X.shape[0]} x {X.shape[1]}, {len(chosen)} labels, l1 = {options.l1:g}")
    seconds, W = ours(X, positives, options.l1)
    reached = objectives(X, positives, W, options.l1)
    print(
        f"  ProXML, gap 1e-3:         {1e3 * seconds / len(W):9.1f} ms per label, objective {reached.sum():.4f}",
        flush=True,
    )
    trained = linear_svm.liblinear(f"-s 5 -B 1 -c {1 / options.l1:g} -e 0.01", X, positives)
    rival, W = trained.seconds, trained.W
    theirs = objectives(X, positives, W, options.l1)
    print(f"  LIBLINEAR -s 5 -e 0.01:   {1e3 * rival / len(W):9.1f} ms per label, objective {theirs.sum():.4f}")
    above = int((reached > theirs * (1 + 1e-9)).sum())
    print(
        f"  {rival / seconds:.1f} times as fast; objective of {above} labels above LIBLINEAR's, at most by "
        f"{100 * (reached / theirs - 1).max():.4f} %"
    )


def proximal_gradient(
    X: Any, X_t: Any, positives: np.ndarray, l1: float, goal: float, limit: float
) -> tuple[float, float, int]:
    """Accelerated proximal gradient with backtracking; returns processor seconds, the objective and iterations."""
    z = np.full(X.shape[0], -1.0, np.float32)
    z[positives] = 1.0
    begin = time.process_time()
    w = momentum = np.zeros(X.shape[1], np.float32)
    margins = at_momentum = X @ momentum
    lipschitz, t, n_steps = 1.0, 1.0, 0

    def smooth(scores: np.ndarray) -> float:
        return float(np.sum(np.maximum(0.0, 1.0 - z * scores).astype(np.float64) ** 2))

    while True:
        hinge = np.maximum(0.0, 1.0 - z * at_momentum)
        gradient, value = X_t @ (-2.0 * z * hinge), smooth(at_momentum)
        while True:
            step = momentum - gradient / np.float32(lipschitz)
            found = np.sign(step) * np.maximum(np.abs(step) - np.float32(l1 / lipschitz), 0)
            scores, change = X @ found, found - momentum
            bound = value + float(gradient @ change) + 0.5 * lipschitz * float(change @ change)
            if smooth(scores) <= bound * (1 + 1e-6):
                break
            lipschitz *= 2.0
        following = 0.5 * (1 + np.sqrt(1 + 4 * t * t))
        ratio = np.float32((t - 1) / following)
        momentum, at_momentum = found + ratio * (found - w), scores + ratio * (scores - margins)
        w, margins, t, n_steps = found, scores, following, n_steps + 1
        objective = l1 * float(np.abs(w).sum(dtype=np.float64)) + smooth(margins)
        seconds = time.process_time() - begin
        if objective <= goal or seconds > limit:
            return seconds, objective, n_steps


def compare_proximal(options: Any) -> None:
    from scipy import sparse

    from unmissed.models import PWDiSMEC

    corpus = load_corpus(options.data, options.cache)
    Y = corpus.Y.tocsc()
    chosen = np.random.default_rng(7).permutation(Y.shape[1])[: options.labels]
    positives = [Y.indices[Y.indptr[label] : Y.indptr[label + 1]] for label in chosen]
    seconds, W = ours(corpus.X, positives, options.l1)
    reached = objectives(corpus.X, positives, W, options.l1)
    X = sparse.hstack([corpus.X, np.ones((corpus.X.shape[0], 1))], format="csr", dtype=np.float32)
    X_t, found = X.T.tocsr(), []
    for label, goal in zip(positives, reached, strict=True):
        found.append(proximal_gradient(X, X_t, label, options.l1, 1.001 * goal, options.seconds))
    weighted, n_labels = Y[:, chosen].tocsr(), len(positives)
    model = PWDiSMEC(weighting="tail", C=0.5, n_jobs=1)
    model.fit(corpus.X, weighted[:, : min(4, n_labels)])  # compiled before
    begin = time.process_time()
    model.fit(corpus.X, weighted)
    own = time.process_time() - begin
    theirs = np.array([one[0] for one in found])
    short = sum(one[1] > 1.001 * goal for one, goal in zip(found, reached, strict=True))
    print(f"{options.data.name}: {X.shape[0]} x {corpus.X.shape[1]}, {n_labels} labels, l1 = {options.l1:g}")
    print(
        f"  proximal gradient: {1e3 * theirs.mean():.1f} ms per label, {np.mean([one[2] for one in found]):.0f} steps"
    )
    print(f"    {short} labels stopped after {options.seconds:g} s, above the goal")
    print(
        f"  our ProXML:        {1e3 * seconds / n_labels:.1f} ms per label, {theirs.sum() / seconds:.0f} times as fast"
    )
    print(f"  PW-DiSMEC (layout of X included): {1e3 * own / n_labels:.1f} ms, {theirs.sum() / own:.0f} times as fast")


def compare_models(options: Any) -> None:
    corpus = load_corpus(options.data, options.cache)
    inverse = 1 / Jain().estimate(np.asarray(corpus.Y.sum(axis=0)).ravel(), corpus.Y.shape[0])
    print(
        "| data | model | settings | "
        + " | ".join(COLUMNS)
        + " | training, s | weights per label | MB on disk | worst gap |"
    )
    print("|---|---|---|" + "---:|" * (len(COLUMNS) + 4))
    if options.linear_svc:
        begin = time.perf_counter()
        OneVsRestClassifier(LinearSVC(random_state=0), n_jobs=-1).fit(corpus.X.astype(np.float64), corpus.Y)
        seconds = time.perf_counter() - begin
        print(
            f"| {options.data.name} | scikit-learn's LinearSVC |"
            + " |" * (len(COLUMNS) + 1)
            + f" {seconds:.1f} | | | |"
        )
    for method in options.methods:
        settings = SETTINGS.get(method, {})
        begin = time.perf_counter()
        model = make_model(method, settings).fit(corpus.X, corpus.Y)
        seconds = time.perf_counter() - begin
        figures = evaluate(model.rank(corpus.X_test, 5), corpus.Y_test, inverse).figures
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model")
            size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        shown = " | ".join(f"{100 * figures[column]:.2f}" for column in COLUMNS)
        said = ", ".join(f"{name} {value:g}" for name, value in settings.items()) or "defaults"
        certificate = model.certificate()
        gap = "none" if certificate is None else f"{certificate.gap.max():.1e}"
        print(
            f"| {options.data.name} | {method} | {said} | {shown} | {seconds:.1f} | "
            f"{model.metadata()['weights per label']} | {size / 1e6:.1f} | {gap} |",
            flush=True,
        )


MODES = {"labels": compare_labels, "models": compare_models, "proximal": compare_proximal}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(MODES))
    parser.add_argument("data", type=Path)
    parser.add_argument("--labels", type=int, default=128)
    parser.add_argument("--l1", type=float, default=1.0)
    parser.add_argument("--methods", nargs="+", default=["dismec", "proxml", "ppd-sparse", "pd-sparse"])
    parser.add_argument("--linear-svc", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    MODES[options.what](options)


if __name__ == "__main__":
    main()
