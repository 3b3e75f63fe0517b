"""Measure what found labels are worth: drop labels, have a simulated annotator check cells, train again with the rest.

    python -m benchmarks.retraining DATA [--sets bibtex debtags eurlex57k] [--cache DIR] [--figure FILE.svg]

Training labels are dropped by one of the ways of `benchmarks.missing`. The annotator checks N cells without a label,
N a multiple of the number of dropped labels, and answers rightly 95 % of the time. Accepted labels are added, and
PW-DiSMEC is trained again. Printed: P@5 on the complete labels of the test rows, with the N best cells of
`unmissed missing` (default propensities), with N random cells, and without checks; differences with paired 95 %
intervals over test rows. Random cells are drawn among all cells without a label, or among the 50 best of each row.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.corpora import load_corpus
from benchmarks.missing import cross_fitted, drop, droppings
from unmissed.audit import missing_probability
from unmissed.audit.unchecked_cells import DEFAULT_PROPENSITY
from unmissed.matrices import check_Y
from unmissed.models import PWDiSMEC
from unmissed.reports.drawing import dress, new_figure, styled, write_figure

SETS = ("bibtex", "debtags", "eurlex57k")
FINDER, ANYWHERE, RANKED = "finder", "random", "random among the 50 best"


class Point(NamedTuple):
    """P@5 with the checks of a strategy: the number of checks, and the hits among the best 5 of each test row."""

    n_checks: int
    hits: np.ndarray


def hits_at_5(corpus, X, Y) -> np.ndarray:
    found = PWDiSMEC().fit(X, Y).rank(corpus.X_test, 5).labels
    rows = np.repeat(np.arange(len(found)), found.shape[1])
    return np.asarray(corpus.Y_test[rows, found.ravel()]).reshape(found.shape).sum(axis=1)


def checked(observed, truth, rows, labels, rng, right: float):
    """Return the observed labels and those that the annotator accepts, and how many were accepted."""
    is_true = np.asarray(truth[rows, labels]).ravel() > 0
    accepted = is_true == (rng.random(len(rows)) < right)
    new = sp.csr_matrix((np.ones(int(accepted.sum()), np.float32), (rows[accepted], labels[accepted])), truth.shape)
    return check_Y(sp.csr_matrix(observed + new)), int(accepted.sum()), int((accepted & is_true).sum())


def strategies(case, observed, rng) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the cells without a label in the order in which each strategy checks them."""
    cells, pi = case.cells.select(case.candidates), case.pi[case.candidates]
    p = DEFAULT_PROPENSITY.estimate(case.rows.label_counts, case.rows.n_samples)
    best = np.lexsort((-pi, -missing_probability(pi, p[cells.labels])[0]))
    mixed = rng.permutation(len(cells.rows))
    n_samples, n_labels = observed.shape
    keys = np.unique(rng.integers(0, n_samples * n_labels, 2 * observed.nnz + 1000))
    keys = rng.permutation(keys)
    keys = keys[np.asarray(observed[keys // n_labels, keys % n_labels]).ravel() == 0]
    return {
        FINDER: (cells.rows[best], cells.labels[best]),
        ANYWHERE: (keys // n_labels, keys % n_labels),
        RANKED: (cells.rows[mixed], cells.labels[mixed]),
    }


def difference(one: np.ndarray, other: np.ndarray) -> str:
    """Return the mean difference of P@5 in percent with its paired bootstrap interval."""
    gap, rng = (one - other) * 20.0, np.random.default_rng(0)
    means = [gap[rng.integers(0, len(gap), len(gap))].mean() for _ in range(1000)]
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{gap.mean():+.2f} [{low:+.2f}, {high:+.2f}]"


def study(name: str, options: argparse.Namespace) -> dict[str, list[Point]]:
    corpus = load_corpus(options.data / name, options.cache)
    truth = check_Y(corpus.Y)
    observed = drop(truth, droppings(truth, corpus.X)[options.way].cells, options.seed)
    n_dropped = truth.nnz - observed.nnz
    none, complete = hits_at_5(corpus, corpus.X, observed), hits_at_5(corpus, corpus.X, truth)
    print(f"{name}, {options.way}: {n_dropped} of {truth.nnz} labels dropped; P@5 {20 * none.mean():.2f}, ", end="")
    print(f"trained on complete labels {20 * complete.mean():.2f}", flush=True)
    rng = np.random.default_rng(options.seed)
    orders = strategies(cross_fitted(corpus.X, observed), observed, rng)
    found = {one: [Point(0, none)] for one in orders} | {"complete": [Point(0, complete)]}
    for share in options.checks:
        n_checks = int(share * n_dropped)
        for one, (rows, labels) in orders.items():
            Y, n_accepted, n_right = checked(observed, truth, rows[:n_checks], labels[:n_checks], rng, options.right)
            found[one].append(Point(n_checks, hits_at_5(corpus, corpus.X, Y)))
            hits = found[one][-1].hits
            text = f"  {n_checks} checks, {one}: {n_accepted} accepted, {n_right} of them right; P@5 "
            text += f"{20 * hits.mean():.2f}; above no checks by {difference(hits, none)}"
            if one != FINDER:
                text += f"; {FINDER} above it by {difference(found[FINDER][-1].hits, hits)}"
            print(text, flush=True)
    return found


@styled
def draw(results: dict[str, dict[str, list[Point]]]):
    """Return a figure with a panel per data set: P@5 over the number of checks."""
    figure = new_figure(2.9)
    for axes, (name, found) in zip(np.ravel(figure.subplots(1, len(results))), results.items(), strict=True):
        for one, color in ((FINDER, "#0b6e4f"), (RANKED, "#b35900"), (ANYWHERE, "#777777")):
            points = found[one]
            values = [20 * point.hits.mean() for point in points]
            axes.plot([point.n_checks / 1000 for point in points], values, marker="o", ms=4, color=color, label=one)
        complete = 20 * found["complete"][0].hits.mean()
        axes.axhline(complete, color="#999999", lw=1, ls="--", label="all labels known")
        axes.set_title(name)
        axes.set_xlabel("checks, thousands")
        dress(axes, "y")
    figure.axes[0].set_ylabel("P@5, percent")
    figure.axes[0].legend(fontsize=7, loc="upper left", bbox_to_anchor=(0, 0.9))
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--way", default="Jain's p", help="the way to drop labels")
    parser.add_argument("--checks", nargs="+", type=float, default=[0.25, 0.5, 1.0], help="times the dropped labels")
    parser.add_argument("--right", type=float, default=0.95, help="how often the annotator is right")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    results = {name: study(name, options) for name in options.sets}
    if options.figure is not None:
        write_figure(draw(results), options.figure, metadata={"Date": None})


if __name__ == "__main__":
    main()
