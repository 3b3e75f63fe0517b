"""Label trees compared with other systems: metrics, training time, prediction rate and size on disk.

    python -m benchmarks.trees DATA/eurlex57k [--cache DIR] [--pecos PYTHON] [--omikuji PYTHON] [--napkinxc PYTHON]
    python -m benchmarks.trees DATA/tibkat --models parabel tail surrogate
    python -m benchmarks.trees DATA/tibkat --growth

All train on two threads, clustering included, and rank on one with a beam of 10. Seconds of processor time are shown
beside wall seconds, for machines that do other things too. --growth trains Parabel on the first labels and rows.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.corpora import load_corpus
from benchmarks.rivals.label_trees import run_rival
from unmissed.metrics import evaluate
from unmissed.models import Bonsai, DiSMEC, Model, Parabel
from unmissed.propensity import Jain
from unmissed.ranking import Ranking

COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
MODELS = {
    "parabel": ("Parabel, 3 trees", lambda: Parabel(n_jobs=2)),
    "one": ("Parabel, 1 tree", lambda: Parabel(n_trees=1, n_jobs=2)),
    "bonsai": ("Bonsai, 3 trees", lambda: Bonsai(n_jobs=2)),
    "tail": ("Parabel, 3 trees, tail", lambda: Parabel(weighting="tail", n_jobs=2)),
    "surrogate": ("Parabel, 3 trees, surrogate", lambda: Parabel(weighting="surrogate", n_jobs=2)),
}
RIVALS = {"pecos": "PECOS, 1 tree", "omikuji": "omikuji, 3 trees", "napkinxc": "napkinXC PLT, 1 tree"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", nargs="*", default=["parabel", "one", "bonsai"], choices=MODELS)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--rescore", action="store_true", help="rank with DiSMEC, all labels and what Parabel proposes")
    for rival in RIVALS:
        parser.add_argument(f"--{rival}", metavar="PYTHON")
    options = parser.parse_args()
    corpus = load_corpus(options.data, options.cache)
    X, Y = sp.csr_matrix(corpus.X, dtype=np.float32), sp.csr_matrix(corpus.Y)
    if options.models or options.growth:
        compile_kernels(X, Y)
    if options.growth:
        grow(X, Y)
        return
    inverse = 1 / Jain().estimate(np.asarray(Y.sum(axis=0)).ravel(), Y.shape[0])
    print(
        f"| {options.data.name} | "
        + " | ".join(COLUMNS)
        + " | training, s | processor, s | rows/s | MB | one row, ms |"
    )
    print("|---|" + "---:|" * (len(COLUMNS) + 5))

    def show(title: str, ranking: Ranking, *figures: str) -> None:
        found = evaluate(ranking, corpus.Y_test, inverse).figures
        shown = [f"{100 * found[column]:.2f}" for column in COLUMNS]
        print(f"| {title} | " + " | ".join([*shown, *figures]) + " |", flush=True)

    for key in options.models:
        title, make = MODELS[key]
        model, seconds, processor = fit(make(), X, Y)
        speed, ranking, one = rank(model, corpus.X_test)
        n_bytes = sum(array.nbytes for tree in model.trees_ for array in tree.saved.values())
        show(title, ranking, f"{seconds:.1f}", f"{processor:.1f}", f"{speed:.0f}", f"{n_bytes / 1e6:.1f}", f"{one:.2f}")
    for key, title in RIVALS.items():
        if (python := getattr(options, key)) is not None:
            found = run_rival(title, python, X, Y, corpus.X_test)
            scores = np.where(found.top < 0, -np.inf, -np.arange(5, dtype=np.float32))
            times = f"{found.seconds:.1f}", f"{found.processor:.1f}", f"{found.rows:.0f}"
            show(title, Ranking(found.top, scores.astype(np.float32)), *times, f"{found.bytes / 1e6:.1f}", "")
    if options.rescore:
        rescore(X, Y, corpus.X_test, show)


def compile_kernels(X: Any, Y: Any) -> None:
    """Have everything compiled before the clock runs: nodes of every width that the data will have."""
    for model in (Parabel(n_trees=1, max_leaf=3), Bonsai(n_trees=1)):
        model.fit(X[:300], Y[:300]).rank(X[:600], 5)
        model.rank(X[0], 5)
    widths = {16 * -(-(Y.shape[1] >> depth) // 16) for depth in range(20) if (Y.shape[1] >> depth) <= 100}
    for width in {*range(16, 112, 16), *widths} & set(range(16, 113)):
        Parabel(n_trees=1, max_leaf=112).fit(X[:300], Y[:300, :width])


def fit(model: Any, X: Any, Y: Any) -> tuple[Any, float, float]:
    begin, processor = time.perf_counter(), time.process_time()
    model.fit(X, Y)
    return model, time.perf_counter() - begin, time.process_time() - processor


def rank(model: Model, X_test: Any) -> tuple[float, Ranking, float]:
    """Return rows per second of CPU time on one thread, the ranking, and the median time of a single row, in ms."""
    model.set_params(n_jobs=1)
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        ranking = model.rank(X_test, 5)
        seconds.append(time.process_time() - begin)
    single_row = []
    for row in range(min(200, X_test.shape[0])):
        one = sp.csr_matrix(X_test[row])
        begin = time.process_time()
        model.rank(one, 5)
        single_row.append(time.process_time() - begin)
    return X_test.shape[0] / min(seconds), ranking, 1e3 * float(np.median(single_row))


def rescore(X: Any, Y: Any, X_test: Any, show: Any) -> None:
    """Rank with one-vs-rest weights: all labels, and those alone that three trees propose."""
    tree, exact = Parabel(n_jobs=2).fit(X, Y), DiSMEC(n_jobs=2).fit(X, Y)
    for model in (tree, exact):
        model.set_params(n_jobs=1)
    exact.rank(X_test[:600], 5, candidates=tree)
    goes = {"DiSMEC, all labels": {}, "DiSMEC, 100 candidates": {"candidates": tree}}
    for title, options in goes.items():
        begin = time.process_time()
        ranking = exact.rank(X_test, 5, **options)
        speed = X_test.shape[0] / (time.process_time() - begin)
        show(title, ranking, "", "", f"{speed:.0f}", "", "")


def grow(X: Any, Y: Any) -> None:
    """Print how the time of one tree grows with labels and with rows, and the exponents."""
    n_labels = [n for n in (2_000, 8_000, Y.shape[1]) if n <= Y.shape[1]]
    n_rows = [Y.shape[0] // 4, Y.shape[0] // 2, Y.shape[0]]
    for what, sizes in (("labels", n_labels), ("rows", n_rows)):
        spent = []
        for size in sizes:
            x, y = (X, Y[:, :size]) if what == "labels" else (X[:size], Y[:size])
            model, seconds, processor = fit(Parabel(n_trees=1, n_jobs=2), x, y)
            spent.append(processor)
            nodes = model.metadata()["nodes"]
            print(f"{what:>7} {size:8,}: {seconds:7.1f} s, {processor:7.1f} s of processor, {nodes} nodes", flush=True)
        slope = np.polyfit(np.log(sizes), np.log(spent), 1)[0]
        print(f"time grows with {what} to the power of {slope:.2f}", flush=True)


if __name__ == "__main__":
    main()
