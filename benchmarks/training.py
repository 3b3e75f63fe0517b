"""Train the same labels with every peer on one thread, and compare time and objective.

    python -m benchmarks.training DATA/eurlex57k [--labels 128] [--repeats 3] [--pecos PYTHON] [--cache DIR]
    python -m benchmarks.training DATA/eurlex57k --loss logistic --labels 128
    python -m benchmarks.training embeddings --labels 200     20,000 drawn rows of 384 numbers, none of them 0

All systems take turns, as often as --repeats says; shown are the median and, in brackets, the range. --only NAME leaves
the other peers out. Times are processor time of one thread. Not counted: reading files, LIBLINEAR's problem, PECOS's
matrices and, in the first of our two lines, the layout of X; compiling, which a first go does. The excess is over the
best known objective: ours at a relative duality gap of 1e-6.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.corpora import load_corpus
from benchmarks.rivals import linear_svm
from unmissed.losses import margin

SLOW = {"scikit-learn LinearSVC": 32}  # labels that a slow peer trains
OURS = "unmissed"
MARGIN_LOSSES = {"squared-hinge": margin.squared_hinge_value, "logistic": margin.logistic_value}


@dataclass
class Line:
    """A system: its settings and version, and what each turn of it took in milliseconds per label."""

    name: str
    settings: str
    train: Callable[[Any, list[np.ndarray]], linear_svm.Trained]
    ms: list[float]
    with_layout: list[float]
    notes: str = ""
    certified: int | None = None


def objectives(X: Any, positives: list[np.ndarray], W: np.ndarray, loss: str) -> np.ndarray:
    """1/2 |w|^2 + 1/2 b^2 + the sum of the losses of each label, in float64."""
    X = X.astype(np.float64)
    out = np.empty(len(W))
    for at, w in enumerate(W):
        z = np.full(X.shape[0], -1.0)
        z[positives[at]] = 1.0
        out[at] = 0.5 * w @ w + np.sum(MARGIN_LOSSES[loss](z * (X @ w[:-1] + w[-1])))
    return out


def load(data: Path, cache: Path | None) -> tuple[Any, Any]:
    """The training part of a data set."""
    corpus = load_corpus(data, cache)
    return corpus.X, corpus.Y.tocsc()


def draw_embeddings(n_samples: int = 20_000, n_features: int = 384, n_labels: int = 200) -> tuple[Any, Any]:
    """Dense L2-normalized rows, each the sum of three topics and noise; the topics, long-tailed, are the labels."""
    rng = np.random.default_rng(0)
    topics = rng.zipf(1.6, (n_samples, 3)) % n_labels
    X = rng.standard_normal((n_labels, n_features))[topics].sum(axis=1)
    X += 1.5 * rng.standard_normal(X.shape)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Y = sp.lil_matrix((n_samples, n_labels))
    Y[np.repeat(np.arange(n_samples), 3), topics.ravel()] = 1
    return sp.csr_matrix(X.astype(np.float32)), Y.tocsc()


def logistic_systems() -> list[Line]:
    """The same for logistic regression; ours at two tolerances."""
    liblinear = f"LIBLINEAR {version('liblinear-official')}"
    ours = partial(linear_svm.ours, loss="logistic")
    peers = [
        (OURS, f"{version('unmissed')}, relative duality gap 0.001", partial(ours, tol=1e-3)),
        ("accurate", f"{version('unmissed')}, relative duality gap 1e-5", partial(ours, tol=1e-5)),
        ("LIBLINEAR -s 0", f"{liblinear}, -B 1 -e 0.01", partial(linear_svm.liblinear, "-s 0 -B 1 -e 0.01")),
        ("LIBLINEAR -s 7", f"{liblinear}, -B 1 -e 0.1", partial(linear_svm.liblinear, "-s 7 -B 1 -e 0.1")),
    ]
    return [Line(*peer, [], []) for peer in peers]


def systems(pecos: str | None) -> list[Line]:
    """Everyone who trains, with settings and versions."""
    liblinear = f"LIBLINEAR {version('liblinear-official')}"
    peers = [
        ("floor", "one pass over X in lanes, nothing learned", linear_svm.floor),
        (OURS, f"{version('unmissed')}, relative duality gap 0.001", partial(linear_svm.ours, tol=1e-3)),
        ("LIBLINEAR -s 2", f"{liblinear}, -B 1 -e 0.01", partial(linear_svm.liblinear, "-s 2 -B 1 -e 0.01")),
        ("LIBLINEAR -s 1", f"{liblinear}, -B 1 -e 0.1", partial(linear_svm.liblinear, "-s 1 -B 1 -e 0.1")),
        ("scikit-learn LinearSVC", f"{version('scikit-learn')}, dual, tol 1e-4", linear_svm.scikit_learn),
    ]
    if pecos:
        settings = f"libpecos {linear_svm.pecos_version(pecos)}, L2R_L2LOSS_SVC_DUAL, eps 0.1, threshold 0"
        peers.append(("PECOS one-vs-all", settings, partial(linear_svm.pecos, pecos)))
    return [Line(*peer, [], []) for peer in peers]


def take_turns(
    lines: list[Line], repeats: int, X: Any, positives: list[np.ndarray], best: np.ndarray, loss: str
) -> None:
    """Let every system train in turn; the objective is noted the first time."""
    for turn in range(repeats):
        for line in lines:
            some = positives[: SLOW.get(line.name, len(positives))]
            trained = line.train(X, some)
            line.ms.append(1e3 * trained.seconds / len(some))
            line.with_layout.append(1e3 * (trained.seconds + trained.laying_out) / len(some))
            print(f"  turn {turn + 1}, {line.name}: {line.ms[-1]:.1f} ms per label", flush=True)
            if not turn and line.name != "floor":
                reached = objectives(X, some, trained.W, loss)
                excess = 100 * (reached.sum() / best[: len(some)].sum() - 1)
                line.notes = f"{excess:.3f} %" + ("" if len(some) == len(positives) else f" ({len(some)} labels)")
                line.certified = trained.certified


def show(line: Line, mine: Line) -> None:
    """One line of the table: median and range, how many times our median that is without and with the layout of X."""
    ratios = [f"{median(line.ms) / median(reference):.0f}" for reference in (mine.ms, mine.with_layout)]
    if line is mine:
        ratios = ["1", ""]
    print(f"| {line.name}, {line.settings} | {spread(line.ms)} | {' | '.join(ratios)} | {line.notes} |")


def spread(times: list[float]) -> str:
    """Median and range."""
    return f"{median(times):.1f} ({min(times):.1f} to {max(times):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--labels", type=int, default=128)
    parser.add_argument("--loss", choices=MARGIN_LOSSES, default="squared-hinge")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", action="append", help="part of a peer's name; may be given several times")
    parser.add_argument("--pecos", help="a Python that can import pecos")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    X, Y = draw_embeddings() if str(options.data) == "embeddings" else load(options.data, options.cache)
    chosen = np.random.default_rng(7).permutation(Y.shape[1])[: options.labels]
    positives = [Y.indices[Y.indptr[label] : Y.indptr[label + 1]] for label in chosen]
    print(f"{options.data.name}: {X.shape[0]} x {X.shape[1]}, {len(chosen)} labels, {options.repeats} turns")
    wanted = [OURS, *(options.only or [""])]
    everyone = logistic_systems() if options.loss == "logistic" else systems(options.pecos)
    lines = [line for line in everyone if any(part in line.name for part in wanted)]
    best = objectives(X, positives, linear_svm.ours(X, positives, 1e-6, options.loss).W, options.loss)
    take_turns(lines, options.repeats, X, positives, best, options.loss)
    (mine,) = (line for line in lines if line.name == OURS)
    print("\n| system | ms per label | times ours | with our layout | objective above the best known, sum |")
    print("|---|---:|---:|---:|---:|")
    for line in sorted(lines, key=lambda line: median(line.ms)):
        show(line, mine)
    print(f"\nours with the layout of X: {spread(mine.with_layout)} ms per label; certified: {mine.certified}")
    if options.json:
        rows = [{"name": line.name, "settings": line.settings, "ms": line.ms, "notes": line.notes} for line in lines]
        options.json.write_text(json.dumps([*rows, {"name": "with layout", "ms": mine.with_layout}], indent=2) + "\n")


if __name__ == "__main__":
    main()
