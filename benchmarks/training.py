"""Train the same labels with every peer on one thread, and compare time and objective.

    python -m benchmarks.training DATA/eurlex57k [--labels 128] [--pecos PYTHON] [--cache DIR] [--json FILE]
    python -m benchmarks.training embeddings --labels 200     20,000 drawn rows of 384 numbers, none of them 0

Times are processor time of one thread, loading excluded (LIBLINEAR's problem, PECOS's matrices, our layout of X). The
excess is over the best known objective: ours at a relative duality gap of 1e-5.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.corpora import load_corpus
from benchmarks.rivals import linear_svm

SLOW = {"scikit-learn LinearSVC, dual": 32}  # labels that a slow peer trains


def objectives(X: Any, positives: list[np.ndarray], W: np.ndarray) -> np.ndarray:
    """1/2 |w|^2 + 1/2 b^2 + the sum of squared hinges of each label, in float64."""
    X = X.astype(np.float64)
    out = np.empty(len(W))
    for at, w in enumerate(W):
        z = np.full(X.shape[0], -1.0)
        z[positives[at]] = 1.0
        out[at] = 0.5 * w @ w + np.sum(np.maximum(0.0, 1.0 - z * (X @ w[:-1] + w[-1])) ** 2)
    return out


def load(data: Path, cache: Path | None) -> tuple[Any, Any]:
    """The training part of a data set."""
    corpus = load_corpus(data, cache)
    return corpus.X, corpus.Y.tocsc()


def draw_embeddings(n_samples: int = 20_000, n_features: int = 384, n_labels: int = 200) -> tuple[Any, Any]:
    """Dense rows of length 1, each the sum of three topics and noise; the topics, long-tailed, are the labels."""
    rng = np.random.default_rng(0)
    topics = rng.zipf(1.6, (n_samples, 3)) % n_labels
    X = rng.standard_normal((n_labels, n_features))[topics].sum(axis=1)
    X += 1.5 * rng.standard_normal(X.shape)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Y = sp.lil_matrix((n_samples, n_labels))
    Y[np.repeat(np.arange(n_samples), 3), topics.ravel()] = 1
    return sp.csr_matrix(X.astype(np.float32)), Y.tocsc()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--labels", type=int, default=128)
    parser.add_argument("--pecos", help="a Python that can import pecos")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    X, Y = draw_embeddings() if str(options.data) == "embeddings" else load(options.data, options.cache)
    chosen = np.random.default_rng(7).permutation(Y.shape[1])[: options.labels]
    positives = [Y.indices[Y.indptr[label] : Y.indptr[label + 1]] for label in chosen]
    print(f"{options.data.name}: {X.shape[0]} x {X.shape[1]}, {len(chosen)} labels")
    rivals = {
        "floor: one pass in lanes": linear_svm.floor,
        "unmissed, gap 1e-3": partial(linear_svm.ours, tol=1e-3),
        "  the same, laying out X included": partial(linear_svm.ours, tol=1e-3, whole=True),
        "LIBLINEAR -s 2 -e 0.01": partial(linear_svm.liblinear, "-s 2 -B 1 -e 0.01"),
        "LIBLINEAR -s 1 -e 0.1": partial(linear_svm.liblinear, "-s 1 -B 1 -e 0.1"),
        "scikit-learn LinearSVC, dual": linear_svm.scikit_learn,
    }
    if options.pecos:
        rivals["PECOS one-vs-all, dual"] = partial(linear_svm.pecos, options.pecos)
    _, W = linear_svm.ours(X, positives, tol=1e-5)
    best = objectives(X, positives, W)
    rows = []
    for name, train in rivals.items():
        some = positives[: SLOW.get(name, len(positives))]
        seconds, W = train(X, some)
        reached = objectives(X, some, W)
        excess = 100 * (reached / best[: len(some)] - 1)
        total = 100 * (reached.sum() / best[: len(some)].sum() - 1)
        rows.append((name, 1e3 * seconds / len(some), reached.sum(), total, float(np.median(excess))))
        print(f"  {name}: {rows[-1][1]:.1f} ms per label, {len(some)} labels", flush=True)
    reference = next(row[1] for row in rows if row[0].startswith("unmissed"))
    print(f"\n{'system':32} {'ms/label':>10} {'ratio':>8} {'objective':>11} {'excess %: sum':>14} {'median':>9}")
    for name, ms, total, excess, median in rows:
        print(f"{name:32} {ms:10.1f} {ms / reference:8.1f} {total:11.2f} {excess:14.4f} {median:9.4f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
