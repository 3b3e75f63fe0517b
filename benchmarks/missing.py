"""Measure how well missing labels are found: labels of real data are dropped by known propensities, then looked for.

    python -m benchmarks.missing DATA [--sets bibtex debtags] [--cache DIR] [--rows N] [--resamples 200]

Labels of the training rows are dropped in four ways: by Jain's model, by one p, by a p that is not monotone in the
label's frequency, and by a p that depends on the row. A model is trained on the rest, cross-fitted and calibrated.
Cells without a label are then ordered by `missing_probability` (with the known p, and with the default p), by the
out-of-fold margin, and by margin minus popularity, whose weight is the best of four, chosen on the dropped labels.
Average precision counts dropped labels that are not candidates as not found. Intervals are paired, by resampling rows.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.corpora import load_corpus
from unmissed.audit import missing_probability
from unmissed.calibration import fit_calibration, make_folds
from unmissed.matrices import check_Y
from unmissed.models import PWDiSMEC, TrainingData
from unmissed.models.out_of_fold import cross_fit
from unmissed.propensity import Jain

SETS = ("bibtex", "debtags")
POPULARITY = (0.01, 0.03, 0.1, 0.3)
MAIN = "missing_probability"


class Dropping(NamedTuple):
    """A way to drop labels: p of each true label, and p per label as the finder knows it."""

    cells: np.ndarray
    labels: np.ndarray


def droppings(truth, X) -> dict[str, Dropping]:
    counts = np.bincount(truth.indices, minlength=truth.shape[1])
    jain = Jain().estimate(counts, truth.shape[0])
    constant = np.full(truth.shape[1], 0.6)
    quantile = np.argsort(np.argsort(counts, kind="stable"), kind="stable") / max(len(counts) - 1, 1)
    valley = 0.35 + 0.55 * (2 * quantile - 1) ** 2
    lengths = np.diff(X.indptr)
    of_row = np.where(lengths > np.median(lengths), 0.4, 0.8)  # more is missing in long rows
    rows = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
    by_label = {"Jain's p": jain, "p = 0.6": constant, "p not monotone": valley}
    found = {name: Dropping(p[truth.indices], p) for name, p in by_label.items()}
    return {**found, "p depends on x": Dropping(of_row[rows], constant)}  # the finder knows the mean only


def drop(truth, p: np.ndarray, seed: int):
    observed = truth.copy()
    observed.data = (np.random.default_rng(seed).random(truth.nnz) < p).astype(np.float32)
    observed.eliminate_zeros()
    return check_Y(observed)


class Judge:
    """Orders of the cells, judged by the dropped labels, with bootstrap weights of rows."""

    def __init__(self, cells, truth, observed) -> None:
        self.rows, self.is_true = cells.rows, np.asarray(truth[cells.rows, cells.labels]).ravel() > 0
        self.n_dropped = np.diff(truth.indptr) - np.diff(observed.indptr)  # per row

    def figures(self, order: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
        """Return average precision, and precision at the number of dropped labels, with weighted rows."""
        weight = weights[self.rows[order]].astype(np.float64)
        total, hits = float(weights @ self.n_dropped), weight * self.is_true[order]
        ahead, right = np.cumsum(weight), np.cumsum(hits)
        precision = float((hits * right / np.maximum(ahead, 1)).sum()) / total
        return precision, float(hits[ahead <= total].sum()) / total

    def compare(self, orders: dict[str, np.ndarray], resamples: int) -> dict[str, np.ndarray]:
        """Return figures of each order, (1 + resamples, 2); the first are those of the data."""
        n, rng = len(self.n_dropped), np.random.default_rng(0)
        draws = [np.ones(n), *(np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(resamples))]
        return {name: np.array([self.figures(order, one) for one in draws]) for name, order in orders.items()}


def calibration_error(p: np.ndarray, is_true: np.ndarray, n_bins: int = 10) -> tuple[float, float]:
    """Return the expected calibration error of cells in falling order, and its noise floor (mean of 100 draws)."""
    bins = np.array_split(np.arange(len(p)), n_bins)

    def error(hits: np.ndarray) -> float:
        return float(sum(len(one) / len(p) * abs(p[one].mean() - hits[one].mean()) for one in bins))

    rng = np.random.default_rng(0)
    return error(is_true), float(np.mean([error(rng.random(len(p)) < p) for _ in range(100)]))


def measure(name: str, corpus, options: argparse.Namespace) -> None:
    X, truth = corpus.X, check_Y(corpus.Y)
    if options.rows and options.rows < X.shape[0]:
        chosen = np.sort(np.random.default_rng(0).choice(X.shape[0], options.rows, replace=False))
        X, truth = X[chosen], check_Y(truth[chosen])
    folds = None
    for way, dropping in droppings(truth, X).items():
        if options.ways and way not in options.ways:
            continue
        observed = drop(truth, dropping.cells, options.seed)
        rows = TrainingData.check(X, observed, normalize=True)
        folds = folds or make_folds(rows.X)
        cells = cross_fit(PWDiSMEC(), rows, folds)
        calibration = fit_calibration(cells, rows.label_counts)
        cells = cells.select(~cells.observed & (cells.ranks >= 0))
        report(name, way, cells, calibration, rows, truth, dropping.labels, options.resamples)


def report(name, way, cells, calibration, rows, truth, known, resamples: int) -> None:
    judge, counts = Judge(cells, truth, rows.Y), rows.label_counts
    pi = calibration.probability(cells.labels, cells.scores).astype(np.float64)
    default = Jain().estimate(counts, rows.n_samples)
    probabilities = {MAIN: missing_probability(pi, known[cells.labels])}
    probabilities["with the default p"] = missing_probability(pi, default[cells.labels])
    orders = {one: np.lexsort((-pi, -p)) for one, (p, _) in probabilities.items()}
    orders["margin"] = np.argsort(-cells.scores, kind="stable")
    popular = np.log1p(counts[cells.labels])
    less = [np.argsort(weight * popular - cells.scores, kind="stable") for weight in POPULARITY]
    ones = np.ones(rows.n_samples)
    orders["margin minus popularity"] = max(less, key=lambda order: judge.figures(order, ones)[0])
    found = judge.compare(orders, resamples)
    n_dropped = int(judge.n_dropped.sum())
    listed = int(judge.is_true.sum())
    print(f"{name}, {way}: {n_dropped} dropped labels, {listed} among {len(cells)} candidate cells", flush=True)
    for one, figures in found.items():
        gaps = found[MAIN] - figures
        (low_ap, low_p), (high_ap, high_p) = np.quantile(gaps[1:], [0.025, 0.975], axis=0)
        text = f"  {one:24s} AP {figures[0, 0]:.4f}  P@dropped {figures[0, 1]:.4f}"
        if one != MAIN:
            text += f"  {MAIN} is above by {gaps[0, 0]:+.4f} [{low_ap:+.4f}, {high_ap:+.4f}]"
            text += f" and {gaps[0, 1]:+.4f} [{low_p:+.4f}, {high_p:+.4f}]"
        if one in probabilities:
            p, clipped = (values[orders[one][:n_dropped]] for values in probabilities[one])
            error, floor = calibration_error(p, judge.is_true[orders[one][:n_dropped]])
            text += f"  ECE {error:.4f} (floor {floor:.4f}), clipped {clipped.mean():.3f}"
        print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--resamples", type=int, default=200)
    parser.add_argument("--ways", nargs="+", help="some of the four ways to drop labels")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.sets:
        measure(name, load_corpus(options.data / name, options.cache), options)


if __name__ == "__main__":
    main()
