"""Select parameters of a method on held-out training rows; the test rows are not used.

    python -m benchmarks.choose DATA/bibtex --method leml --grid penalty=1,2,3 n_components=100,159
        [--set weighting=unbiased] [--by P] [--share 0.1] [--splits 1] [--rows N] [--cache DIR]

Trains every combination of the grid on nine tenths of the training rows (a seeded split) and prints P@1,3,5 and
PSP@1,3,5 of the tenth that was held out; the best has the highest mean of the three figures of `--by`, P or PSP.
Inverse propensities come from the counts of the nine tenths. `--splits` averages over several splits, which small sets
need: a tenth of bibtex has 488 rows. `--rows` takes part of the training rows, for sets that would take long. Without
`--grid`, the method's own grid below.
"""

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import Corpus, load_corpus
from unmissed.metrics import evaluate
from unmissed.models import make_model
from unmissed.propensity import Jain

GRIDS: dict[str, dict[str, list[Any]]] = {
    "pd-sparse": {"early_stopping": [True], "C": [10.0, 100.0], "l1": [0.3, 1.0]},
    "proxml": {"l1": [0.03, 0.1, 0.3, 1.0]},
    "ppd-sparse": {"l1": [0.03, 0.1, 0.2], "C": [0.3, 0.5, 1.0]},
    "leml": {"penalty": [0.3, 1.0, 2.0, 3.0, 5.0]},
    "sleec": {"penalty": [0.3, 1.0, 3.0], "votes": [15, 25, 50]},
}
COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")


def value_of(word: str) -> Any:
    """Read a number, true, false, null, or else a word."""
    try:
        return json.loads(word)
    except json.JSONDecodeError:
        return word


def held_out(corpus: Corpus, method: str, settings: dict[str, Any], options: Any, seed: int) -> list[float]:
    """Train on a part of the training rows and return the figures of the rest."""
    order = np.random.default_rng(seed).permutation(corpus.X.shape[0])[: options.rows]
    cut = int(len(order) * options.share)
    held, kept = np.sort(order[:cut]), np.sort(order[cut:])
    inverse = 1 / Jain().estimate(np.asarray(corpus.Y[kept].sum(axis=0)).ravel(), len(kept))
    model = make_model(method, settings).fit(corpus.X[kept], corpus.Y[kept])
    figures = evaluate(model.rank(corpus.X[held], 5), corpus.Y[held], inverse).figures
    return [figures[column] for column in COLUMNS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--method", required=True)
    parser.add_argument("--grid", nargs="+", default=[], metavar="NAME=VALUE,VALUE")
    parser.add_argument("--set", dest="more", nargs="+", default=[], metavar="NAME=VALUE", help="other parameters")
    parser.add_argument("--by", choices=["P", "PSP"], default="P")
    parser.add_argument("--share", type=float, default=0.1, help="of the training rows held out")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    grid = {
        name: [value_of(word) for word in words.split(",")] for name, words in (one.split("=") for one in options.grid)
    }
    grid = grid or GRIDS[options.method]
    more = {name: value_of(word) for name, word in (one.split("=") for one in options.more)}
    corpus = load_corpus(options.data, options.cache)
    means = {}
    print(" ".join(f"{title:>8}" for title in (*grid, *COLUMNS, "CPU s")))
    for values in itertools.product(*grid.values()):
        begin = time.process_time()
        settings = {**more, **dict(zip(grid, values, strict=True))}
        figures = np.mean(
            [held_out(corpus, options.method, settings, options, seed) for seed in range(options.splits)], axis=0
        )
        seconds = time.process_time() - begin
        means[values] = figures[[column.startswith(f"{options.by}@") for column in COLUMNS]].mean()
        shown = [*map(str, values), *(f"{100 * figure:.2f}" for figure in figures), f"{seconds:.1f}"]
        print(" ".join(f"{word:>8}" for word in shown), flush=True)
    best = max(means, key=lambda values: means[values])
    print("best: " + ", ".join(f"{name} = {value}" for name, value in zip(grid, best, strict=True)))


if __name__ == "__main__":
    main()
