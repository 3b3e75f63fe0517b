"""Compare the parameters of every method on held-out training rows of several data sets; test rows are never read.

    python -m benchmarks.defaults DATA [--sets bibtex,debtags] [--methods dismec,fastxml] [--rows 20000] [--held 5000]
        [--results FILE] [--cache DIR]

DATA is a folder of data sets. Every combination of a method's grid is trained on four fifths of the training rows, at
most --rows, and measured on the fifth that is held out, at most --held rows. Inverse propensities come from the counts
of all training rows. Differences are to the first combination of the grid. On n of N training rows, C of a method whose
best C falls with the number of rows (`Model.row_exponents`) is multiplied by sqrt(N / n), as `tune` does.

Printed per method: the figures of each combination on each set; the mean and the worst difference over the sets; and
which combinations are never worse (no figure falls by more than its paired 95 % interval). --results keeps each
measurement as a JSON line: a benchmark that was stopped continues there.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import Corpus, load_corpus
from unmissed.metrics import compare, evaluate
from unmissed.metrics.evaluation import Evaluation
from unmissed.models.method_registry import find_model, make_model
from unmissed.propensity import FromTable, Jain
from unmissed.propensity.weighting import CONVEX

SETS = ("bibtex", "delicious", "debtags", "eurlex57k", "tibkat")
FIGURES = ("P@1", "P@5", "PSP@5")
COSTS = (1.0, 0.1, 0.3, 0.5, 3.0)
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "dismec": {"C": COSTS},
    "pw-dismec": {"weighting": CONVEX, "C": COSTS},
    "logistic": {"C": (1.0, 3.0, 10.0, 30.0), "weighting": ("none", "unbiased")},
    "parabel": {"C": COSTS, "weighting": ("none", "floored-tail")},
    "bonsai": {"C": COSTS, "weighting": ("none", "floored-tail")},
    "fastxml": {"C": (1.0, 0.3, 2.0, 4.0)},
    "pfastxml": {"C": (1.0, 0.3, 2.0, 4.0)},
    "pfastrexml": {"C": (1.0, 0.3, 2.0, 4.0)},
    "leml": {"penalty": (1.0, 0.3, 2.0, 3.0, 5.0)},
    "sleec": {"penalty": (1.0, 0.3, 3.0)},
    "proxml": {"l1": (0.1, 0.03, 0.3, 1.0)},
    "ppd-sparse": {"C": (1.0, 0.3, 0.5, 3.0), "l1": (0.1, 0.03, 0.2)},
    "pd-sparse": {"early_stopping": (False, True), "l1": (0.3, 1.0), "C": (10.0, 100.0)},
}
"""The first value of each parameter is compared with the others."""


class Split:
    """Training rows and held-out rows of a data set."""

    def __init__(self, corpus: Corpus, n_rows: int, n_held: int) -> None:
        order = np.random.default_rng(0).permutation(corpus.X.shape[0])
        cut = len(order) // 5
        fit, held = np.sort(order[cut:][:n_rows]), np.sort(order[:cut][:n_held])
        self.X, self.Y = corpus.X[fit], corpus.Y[fit]
        self.X_held, self.Y_held = corpus.X[held], corpus.Y[held]
        self.p = Jain().estimate(np.asarray(corpus.Y.sum(axis=0)).ravel(), corpus.X.shape[0])
        self.sampled = len(fit) / (len(order) - cut)

    def measure(self, method: str, params: dict[str, Any]) -> Evaluation:
        """Train on the training rows and evaluate on the held-out rows."""
        known, exponents = find_model(method)._get_param_names(), find_model(method).row_exponents
        params = {
            name: value * self.sampled ** -exponents.get(name, 0) if name in exponents else value
            for name, value in params.items()
        }
        model = make_model(method, params | ({"propensity": FromTable(self.p)} if "propensity" in known else {}))
        return evaluate(model.fit(self.X, self.Y).rank(self.X_held, 5), self.Y_held, 1 / self.p, (1, 5))


def combinations(method: str) -> Iterator[dict[str, Any]]:
    grid = GRIDS[method]
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def measure_set(name: str, split: Split, methods: list[str], known: dict[str, Any], results: Path | None) -> None:
    """Measure what is not known yet, and append it to the results."""
    for method in methods:
        first = None
        for params in combinations(method):
            key = json.dumps([name, method, params])
            if key in known:
                continue
            if first is None:
                first = split.measure(method, next(combinations(method)))
            begin = time.process_time()
            found = split.measure(method, params)
            seconds = time.process_time() - begin
            gains = compare(found, first, 1000)
            known[key] = {
                "seconds": round(seconds, 1),
                "figures": {figure: found[figure] for figure in FIGURES},
                "gains": {figure: list(gains[figure])[:3] for figure in FIGURES},
            }
            shown = " ".join(f"{figure} {100 * found[figure]:.2f}" for figure in FIGURES)
            print(f"{name} {method} {params}: {shown}, {seconds:.0f} s", flush=True)
            if results is not None:
                with results.open("a") as stream:
                    stream.write(json.dumps({"key": key, **known[key]}) + "\n")


def report(method: str, sets: list[str], known: dict[str, Any]) -> None:
    """Print the mean and the worst difference of each combination over the sets."""
    print(f"\n{method}: percentage points against {next(combinations(method))}, over {', '.join(sets)}\n")
    columns = [f"{figure}, {what}" for what in ("mean", "worst") for figure in FIGURES]
    print(f"| parameters | {' | '.join(columns)} | never worse |")
    print("|---" + "|---:" * len(columns) + "|---|")
    for params in combinations(method):
        found = [known[key] for name in sets if (key := json.dumps([name, method, params])) in known]
        if len(found) < len(sets):
            continue
        values = 100 * np.array([[one["gains"][figure][0] for figure in FIGURES] for one in found])
        lost = any(one["gains"][figure][2] < 0 for one in found for figure in FIGURES)
        cells = [f"{value:+.2f}" for value in (*values.mean(axis=0), *values.min(axis=0))]
        words = ", ".join(f"{name} {value}" for name, value in params.items())
        print(f"| {words} | {' | '.join(cells)} | {'' if lost else 'yes'} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--methods", default=",".join(GRIDS))
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--held", type=int, default=5_000)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    sets, methods = options.sets.split(","), options.methods.split(",")
    known: dict[str, Any] = {}
    if options.results is not None and options.results.is_file():
        known = {one.pop("key"): one for one in map(json.loads, options.results.read_text().splitlines())}
    for name in sets:
        split = Split(load_corpus(options.data / name, options.cache), options.rows, options.held)
        measure_set(name, split, methods, known, options.results)
    for method in methods:
        report(method, sets, known)


if __name__ == "__main__":
    main()
