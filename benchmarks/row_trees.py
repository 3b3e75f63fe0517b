"""Train FastXML, PfastXML and PfastreXML on real data: quality, time, growth.

    python -m benchmarks.row_trees DATA [--sets bibtex delicious debtags] [--trees 50] [--cache DIR]
    python -m benchmarks.row_trees DATA --sets tibkat --labels 2000 8000 35116 --trees 2 [--cache DIR]
    python -m benchmarks.row_trees DATA --sets eurlex57k --rows 5000 15000 45000 --trees 2 [--cache DIR]

The first prints P@k and PSP@k on the test rows, what is missing to the authors' programs, seconds of training on all
cores, and milliseconds per row of prediction on one thread, batched and one row at a time. The others train
PfastreXML on the first labels or rows of a data set and print seconds and the exponent of growth between the ends.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import Corpus, load_corpus
from unmissed.metrics import evaluate
from unmissed.models import FastXML, PfastreXML, PfastXML
from unmissed.propensity import Jain

COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
AUTHORS = {  # the authors' programs on the same features, 50 trees
    ("debtags", "FastXML"): (83.53, 58.85, 44.32, 50.12, 55.68, 57.38),
    ("debtags", "PfastreXML"): (82.94, 59.24, 45.06, 56.71, 61.25, 62.34),
    ("bibtex", "FastXML"): (59.96, 36.47, 26.79, 45.00, 47.76, 53.01),
    ("bibtex", "PfastreXML"): (62.27, 37.85, 28.07, 49.21, 50.90, 56.94),
    ("delicious", "FastXML"): (69.51, 63.17, 58.01, 32.55, 34.32, 34.97),
    ("delicious", "PfastreXML"): (64.08, 59.39, 55.32, 35.66, 36.18, 36.49),
}


def seconds(work: Any) -> tuple[float, float]:
    """Return wall and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def compile_kernels(corpus: Corpus) -> None:
    PfastreXML(n_trees=1).fit(corpus.X[:3000], corpus.Y[:3000]).rank(corpus.X_test[:3])


def quality(name: str, corpus: Corpus, n_trees: int) -> None:
    counts = np.asarray(corpus.Y.sum(axis=0)).ravel()
    inverse = 1 / Jain().estimate(counts, corpus.Y.shape[0])
    X_test = corpus.X_test
    for cls in (FastXML, PfastXML, PfastreXML):
        model = cls(n_trees=n_trees)
        wall, processor = seconds(lambda model=model: model.fit(corpus.X, corpus.Y))
        figures = evaluate(model.rank(X_test, 5), corpus.Y_test, inverse).figures
        reached = [100 * figures[column] for column in COLUMNS]
        model.set_params(n_jobs=1)
        _, batched = seconds(lambda model=model: model.rank(X_test, 5))
        _, single = seconds(lambda model=model: [model.rank(X_test[row], 5) for row in range(200)])
        missing = AUTHORS.get((name, cls.__name__))
        behind = "" if missing is None else f"{max(a - b for a, b in zip(missing, reached, strict=True)):.2f}"
        shown = " | ".join(f"{value:.2f}" for value in reached)
        times = f"{wall:.1f} | {processor:.1f} | {1e3 * batched / X_test.shape[0]:.3f} | {1e3 * single / 200:.2f}"
        print(f"| {name} | {cls.__name__} | {shown} | {behind} | {times} |", flush=True)


def growth(corpus: Corpus, sizes: list[int], by_rows: bool, n_trees: int) -> None:
    taken = []
    order = np.random.default_rng(0).permutation(corpus.X.shape[0]) if by_rows else None
    for size in sizes:
        X, Y = corpus.X, corpus.Y.tocsc()[:, :size].tocsr()
        if order is not None:
            X, Y = X[np.sort(order[:size])], corpus.Y[np.sort(order[:size])]
        wall, processor = seconds(lambda X=X, Y=Y: PfastreXML(n_trees=n_trees).fit(X, Y))
        taken.append(processor)
        print(f"{size:8} {'rows' if by_rows else 'labels'}: {wall:7.1f} s, processor {processor:7.1f} s", flush=True)
    exponent = np.log(taken[-1] / taken[0]) / np.log(sizes[-1] / sizes[0])
    print(f"processor time grows as the power {exponent:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["bibtex", "delicious", "debtags"])
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--labels", type=int, nargs="+")
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    if not options.labels and not options.rows:
        heads = ("data", "model", *COLUMNS, "most behind the authors")
        print("| " + " | ".join(heads) + " | training, s | processor, s | ms per row | ms, one row |")
        print("|---|---|" + "---:|" * (len(heads) + 2))
    for name in options.sets:
        corpus = load_corpus(options.data / name, options.cache)
        compile_kernels(corpus)
        if options.labels or options.rows:
            growth(corpus, options.labels or options.rows, not options.labels, options.trees)
        else:
            quality(name, corpus, options.trees)


if __name__ == "__main__":
    main()
