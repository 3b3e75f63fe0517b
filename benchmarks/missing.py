"""Measure how well missing labels are found: labels of real data are dropped by known propensities, then looked for.

    python -m benchmarks.missing DATA [--sets bibtex debtags] [--cache DIR] [--rows N] [--cleanlab PYTHON]

Labels of the training rows are dropped in four ways: by Jain's model, by one p, by a p that is not monotone in the
label's frequency, and by a p that depends on the row. A model is trained on the rest, cross-fitted and calibrated.
Cells without a label are then ordered by `missing_probability` (with the default p of `unmissed missing`, with the
known p, and with Jain's), by the out-of-fold margin, and by margin minus popularity, whose weight is the best of four,
chosen on the dropped labels. `--cleanlab` names the python of an environment with cleanlab, which gets the same
probabilities as a dense matrix; the better of its two orders is shown.
Average precision counts dropped labels that are not candidates as not found. Intervals are paired, by resampling rows.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.corpora import choose_rows, corpus_parser, load_corpus
from unmissed.audit import missing_probability
from unmissed.audit.unchecked_cells import DEFAULT_PROPENSITY
from unmissed.calibration import CANDIDATES, fit_calibration, make_folds
from unmissed.matrices import check_Y
from unmissed.models import PWDiSMEC, TrainingData
from unmissed.models.out_of_fold import cross_fit
from unmissed.propensity import Jain

SETS = ("bibtex", "debtags")
POPULARITY = (0.01, 0.03, 0.1, 0.3)
MAIN = "default p"
CLEANLAB = Path(__file__).with_name("cleanlab_scores.py")


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


class Case(NamedTuple):
    """Data with dropped labels: all scored cells, out of fold, pi of each, and the candidates (no observed label)."""

    rows: Any
    cells: Any
    pi: np.ndarray
    candidates: np.ndarray


def cross_fitted(X, observed, folds=None) -> Case:
    rows = TrainingData.check(X, observed, normalize=True)
    cells = cross_fit(PWDiSMEC(), rows, make_folds(rows.X) if folds is None else folds)
    calibration = fit_calibration(cells, rows.label_counts)
    ranks = np.where(cells.ranks < 0, CANDIDATES, cells.ranks)
    pi = calibration.probability(cells.labels, cells.scores, ranks).astype(np.float64)
    return Case(rows, cells, pi, ~cells.observed & (cells.ranks >= 0))


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
        """Return figures of each order, (1 + resamples, 2); the first are those of the data.

        Resamples use the first cells of an order, five times as many as labels were dropped, to save time; they are
        moved by the difference that this makes to the figures of the data.
        """
        n, rng = len(self.n_dropped), np.random.default_rng(0)
        draws = [np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(resamples)]
        most, ones, found = 5 * int(self.n_dropped.sum()), np.ones(n), {}
        for name, order in orders.items():
            exact, short = (self.figures(one, ones) for one in (order, order[:most]))
            moved = np.subtract(exact, short)
            found[name] = np.array([exact, *(self.figures(order[:most], one) + moved for one in draws)])
        return found

    def best(self, orders: list[np.ndarray]) -> np.ndarray:
        """Return the order with the largest average precision."""
        ones = np.ones(len(self.n_dropped))
        return max(orders, key=lambda order: self.figures(order, ones)[0])


def calibration_error(p: np.ndarray, is_true: np.ndarray, n_bins: int = 10) -> tuple[float, float]:
    """Return the expected calibration error of cells in falling order, and its noise floor (mean of 100 draws)."""
    bins = np.array_split(np.arange(len(p)), n_bins)

    def error(hits: np.ndarray) -> float:
        return float(sum(len(one) / len(p) * abs(p[one].mean() - hits[one].mean()) for one in bins))

    rng = np.random.default_rng(0)
    return error(is_true), float(np.mean([error(rng.random(len(p)) < p) for _ in range(100)]))


def cleanlab_orders(python: Path, case: Case) -> list[np.ndarray]:
    """Return the orders of the candidates by cleanlab's scores of label quality, lowest quality first."""
    Y, cells = case.rows.Y, case.cells
    with tempfile.TemporaryDirectory() as folder:
        arrays = {"rows": cells.rows, "labels": cells.labels, "pi": case.pi, "candidates": case.candidates}
        np.savez(Path(folder) / "cells.npz", **arrays, indptr=Y.indptr, indices=Y.indices, shape=Y.shape)
        subprocess.run([str(python), str(CLEANLAB), folder], check=True)
        scores = np.load(Path(folder) / "scores.npz")
        return [np.lexsort((-case.pi[case.candidates], scores[name])) for name in scores.files]


def measure(name: str, corpus, options: argparse.Namespace) -> None:
    chosen = choose_rows(corpus.X.shape[0], options.rows)
    X, truth = corpus.X[chosen], check_Y(corpus.Y[chosen])
    folds = None
    for way, dropping in droppings(truth, X).items():
        if options.ways and way not in options.ways:
            continue
        observed = drop(truth, dropping.cells, options.seed)
        folds = folds or make_folds(TrainingData.check(X, observed, normalize=True).X)
        case = cross_fitted(X, observed, folds)
        report(name, way, case, truth, dropping.labels, options)


def report(name: str, way: str, case: Case, truth, known: np.ndarray, options: argparse.Namespace) -> None:
    rows, cells, pi = case.rows, case.cells.select(case.candidates), case.pi[case.candidates]
    judge, counts = Judge(cells, truth, rows.Y), rows.label_counts
    models = {MAIN: DEFAULT_PROPENSITY.estimate(counts, rows.n_samples), "known p": known}
    models["Jain's p"] = Jain().estimate(counts, rows.n_samples)
    probabilities = {one: missing_probability(pi, p[cells.labels]) for one, p in models.items()}
    orders = {one: np.lexsort((-pi, -p)) for one, (p, _) in probabilities.items()}
    orders["margin"] = np.argsort(-cells.scores, kind="stable")
    popular = np.log1p(counts[cells.labels])
    less = [np.argsort(weight * popular - cells.scores, kind="stable") for weight in POPULARITY]
    orders["margin minus popularity"] = judge.best(less)
    if options.cleanlab:
        orders["cleanlab"] = judge.best(cleanlab_orders(options.cleanlab, case))
    found = judge.compare(orders, options.resamples)
    n_dropped = int(judge.n_dropped.sum())
    listed = int(judge.is_true.sum())
    print(f"{name}, {way}: {n_dropped} dropped labels, {listed} among {len(cells)} candidate cells", flush=True)
    for one, figures in found.items():
        text = f"  {one:24s} AP {figures[0, 0]:.4f}  P@dropped {figures[0, 1]:.4f}"
        for other in (MAIN, "known p"):
            gaps = found[other] - figures
            if one not in (MAIN, "known p"):
                (low_ap, low_p), (high_ap, high_p) = np.quantile(gaps[1:], [0.025, 0.975], axis=0)
                text += f"  {other}: {gaps[0, 0]:+.4f} [{low_ap:+.4f}, {high_ap:+.4f}]"
                text += f" and {gaps[0, 1]:+.4f} [{low_p:+.4f}, {high_p:+.4f}]"
        if one in probabilities:
            p, clipped = (values[orders[one][:n_dropped]] for values in probabilities[one])
            error, floor = calibration_error(p, judge.is_true[orders[one][:n_dropped]])
            text += f"  ECE {error:.4f} (floor {floor:.4f}), clipped {clipped.mean():.3f}"
        print(text, flush=True)


def main() -> None:
    parser = corpus_parser(__doc__, SETS)
    parser.add_argument("--resamples", type=int, default=200)
    parser.add_argument("--ways", nargs="+", help="some of the four ways to drop labels")
    parser.add_argument("--cleanlab", type=Path, metavar="PYTHON", help="python of an environment with cleanlab")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.sets:
        measure(name, load_corpus(options.data / name, options.cache), options)


if __name__ == "__main__":
    main()
