"""Measure decisions beside xCOLUMNs on the same probabilities of the test rows: macro-F1@5, coverage@5 and time.

    python -m benchmarks.decisions DATA [--sets bibtex debtags eurlex57k] [--cache DIR] [--seeds 3]

Probabilities are those of the 50 best labels of each row by PW-DiSMEC, calibrated on out-of-fold cells of the training
rows. Both systems get the same probabilities and the same seeds, and run once before they are timed. `expected` is the
objective under the probabilities, `reached` the figure on the test labels; both in percent, means over the labels with
a test row. Times are processor time, in seconds.
xCOLUMNs is the extra `bench`. Without it only our figures are printed.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse as sp

from benchmarks.corpora import load_corpus
from unmissed.calibration import (
    as_matrix,
    choose_above,
    choose_coverage,
    choose_f1,
    choose_macro_f1,
    choose_top,
    fit_calibration,
    make_folds,
)
from unmissed.models import PWDiSMEC, TrainingData
from unmissed.models.out_of_fold import cross_fit

SETS = ("bibtex", "debtags", "eurlex57k")
K, M = 5, 50


def probabilities(folder: Path, cache: Path | None) -> tuple[np.ndarray, np.ndarray, sp.csr_matrix]:
    """Return the 50 best labels of each test row, their probabilities, and the test labels."""
    kept = None if cache is None else cache / f"{folder.name}-probabilities.npz"
    corpus = load_corpus(folder, cache)
    if kept is not None and kept.is_file():
        stored = np.load(kept)
        return stored["labels"], stored["p"], sp.csr_matrix(corpus.Y_test)
    model, rows = PWDiSMEC(), TrainingData.check(corpus.X, corpus.Y, normalize=True)
    model.fit_rows(rows)
    calibration = fit_calibration(cross_fit(model, rows, make_folds(rows.X)), rows.label_counts)
    ranking = model.rank(corpus.X_test, M)
    p = calibration.probability(ranking.labels, ranking.scores, np.arange(ranking.k))
    if kept is not None:
        np.savez(kept, labels=ranking.labels, p=p)
    return ranking.labels, p, sp.csr_matrix(corpus.Y_test)


def macro_f1(true: np.ndarray, listed: np.ndarray, positives: np.ndarray) -> float:
    return float((2 * true / np.maximum(listed + positives, 1e-12)).mean())


def figures(chosen: sp.csr_matrix, P: sp.csr_matrix, Y: sp.csr_matrix) -> dict[str, float]:
    """Return macro-F1 and coverage under the probabilities and on the test labels; sample and micro-F1."""
    occurs = np.asarray(Y.sum(axis=0)).ravel() > 0
    found = {}
    for name, truth in (("expected", P), ("reached", Y)):
        true, listed, positives = (
            np.asarray(one.sum(axis=0)).ravel()[occurs] for one in (chosen.multiply(truth), chosen, truth)
        )
        found[f"macro-F1 {name}"] = macro_f1(true, listed, positives)
        misses = sp.csr_matrix(chosen.multiply(truth))
        misses.data = np.log1p(-np.minimum(misses.data.astype(np.float64), 1 - 1e-9))
        found[f"coverage {name}"] = float(-np.expm1(np.asarray(misses.sum(axis=0)).ravel()[occurs]).mean())
    hits, both = (np.asarray(one.sum(axis=1)).ravel() for one in (chosen.multiply(Y), chosen + Y))
    found["sample F1"] = float((2 * hits / np.maximum(both, 1)).mean())
    found["micro F1"] = float(2 * hits.sum() / both.sum())
    return {name: 100 * value for name, value in found.items()}


def rivals(P: sp.csr_matrix) -> dict[str, Callable[[int], sp.csr_matrix]]:
    try:
        from xcolumns.block_coordinate import predict_optimizing_coverage_using_bc as coverage
        from xcolumns.block_coordinate import predict_optimizing_macro_f1_score_using_bc as macro
    except ImportError:
        return {}
    return {
        f"xcolumns {name}, {start}": lambda seed, call=call, start=start: call(P, K, seed=seed, init_y_pred=start)
        for name, call, starts in (
            ("macro-f1@5", macro, ("top", "greedy", "random")),
            ("coverage@5", coverage, ("top", "random")),
        )
        for start in starts
    }


def show(name: str, decide: Callable[[int], sp.csr_matrix], seeds: int, P: sp.csr_matrix, Y: sp.csr_matrix) -> None:
    decide(0)  # compiles
    found, seconds = [], []
    for seed in range(seeds):
        begin = time.process_time()
        chosen = sp.csr_matrix(decide(seed))
        seconds.append(time.process_time() - begin)
        found.append(figures(chosen, P, Y))
    means = {figure: np.mean([one[figure] for one in found]) for figure in found[0]}
    words = "  ".join(f"{figure} {value:.3f}" for figure, value in means.items())
    print(f"  {name:28s} {np.median(seconds):8.3f} s  {words}", flush=True)


def measure(folder: Path, options: argparse.Namespace) -> None:
    labels, p, Y = probabilities(folder, options.cache)
    n_labels = Y.shape[1]
    kept = labels >= 0
    cells = p[kept].astype(np.float32), (np.nonzero(kept)[0], labels[kept])
    P = sp.csr_matrix(cells, shape=Y.shape)
    P.sort_indices()
    print(f"{folder.name}: {Y.shape[0]} rows, {n_labels} labels, {P.nnz} probabilities")
    ours = {
        "top 5": lambda seed: choose_top(labels, p, K),
        "p>=0.5": lambda seed: choose_above(labels, p, 0.5),
        "f1": lambda seed: choose_f1(labels, p),
        "macro-f1@5": lambda seed: choose_macro_f1(labels, p, K, seed=seed),
        "coverage@5": lambda seed: choose_coverage(labels, p, K, seed=seed),
    }
    for name, choose in ours.items():
        show(name, lambda seed, choose=choose: as_matrix(labels, choose(seed), n_labels), options.seeds, P, Y)
    for name, decide in rivals(P).items():
        show(name, decide, options.seeds, P, Y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for name in options.sets:
        measure(options.data / name, options)


if __name__ == "__main__":
    main()
