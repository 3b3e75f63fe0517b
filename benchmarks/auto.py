"""What `weighting="auto"` and the defaults gain over plain one-vs-rest (C = 1) on many small data sets.

    python -m benchmarks.auto DATA [--sets bibtex debtags] [--cache DIR] [--seeds 3]

Each data set is a random sample of the rows and labels of a set in DATA: 20 to 400 labels, 700 to 12,000 training rows.
All its rows are training rows of that set, of which a quarter is held out for the figures; test rows are never read.
Labels are sampled with probability proportional to a power of their counts, so that sets of frequent and of rare labels
occur.

Printed per set: the figures of C = 1 without weighting and the differences to it of the default, of `auto` (with its
choice and its time in trainings) and of floored-tail with C = 0.3; then mean, worst and best difference of each.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.corpora import corpus_parser, load_corpus
from unmissed.metrics import compare, evaluate
from unmissed.models import PWDiSMEC
from unmissed.propensity import Jain

SETS = ("bibtex", "delicious", "debtags", "eurlex57k", "tibkat")
FIGURES = ("P@1", "P@5", "PSP@5")
PLAIN = "none, C 1"
TRIED: dict[str, dict[str, Any]] = {
    PLAIN: {"weighting": "none", "C": 1.0},
    "default": {},
    "floored-tail, C 0.3": {"weighting": "floored-tail", "C": 0.3},
    "auto": {"weighting": "auto"},
}


@dataclass(frozen=True)
class SmallSet:
    """Training and held-out rows of a sample of rows and labels."""

    name: str
    X: Any
    Y: Any
    X_held: Any
    Y_held: Any

    @classmethod
    def sample(cls, name: str, X: Any, Y: Any, seed: int) -> "SmallSet":
        rng = np.random.default_rng([seed, *name.encode()])
        n_labels = int(np.exp(rng.uniform(np.log(20), np.log(400))))
        n_rows = int(np.exp(rng.uniform(np.log(700), np.log(12_000))) * 4 / 3)
        counts = np.asarray(Y.sum(axis=0), dtype=np.float64).ravel()
        chance = np.where(counts >= 3, counts, 0) ** rng.uniform(0.3, 1.2)
        n_labels = min(n_labels, np.count_nonzero(chance))
        labels = np.sort(rng.choice(len(counts), n_labels, replace=False, p=chance / chance.sum()))
        Y = Y[:, labels]
        labeled = np.flatnonzero(np.diff(Y.indptr))
        rows = rng.permutation(labeled)[:n_rows]
        held, fit = np.sort(rows[: len(rows) // 4]), np.sort(rows[len(rows) // 4 :])
        seen = np.asarray(Y[fit].sum(axis=0)).ravel() > 0
        Y = Y[:, seen]
        return cls(f"{name} {seed}", X[fit], Y[fit], X[held], Y[held])


def measure(one: SmallSet) -> dict[str, np.ndarray]:
    """Print a row per set; return the differences to the plain model, in points."""
    inverse = 1 / Jain().estimate(np.asarray(one.Y.sum(axis=0)).ravel(), one.Y.shape[0])
    evaluations, seconds, chosen = {}, {}, ""
    for name, params in TRIED.items():
        begin = time.process_time()
        model = PWDiSMEC(**params).fit(one.X, one.Y)
        seconds[name] = time.process_time() - begin
        evaluations[name] = evaluate(model.rank(one.X_held, 5), one.Y_held, inverse, (1, 5))
        if name == "auto":
            chosen = f"{model.weighting_}, C {model.C_:g}"
    plain = evaluations[PLAIN]
    gains, cells = {}, [" / ".join(f"{100 * plain[figure]:.1f}" for figure in FIGURES)]
    for name in list(TRIED)[1:]:
        found = compare(evaluations[name], plain, 1000)
        gains[name] = np.array([100 * found[figure].value for figure in FIGURES])
        shown = any(found[figure].high < 0 for figure in FIGURES)
        cells.append(" / ".join(f"{gain:+.2f}" for gain in gains[name]) + (" (shown loss)" if shown else ""))
    shape = f"{one.X.shape[0]:,} x {one.Y.shape[1]}"
    cost = f"{seconds['auto'] / seconds[PLAIN]:.1f}"
    print(f"| {one.name} | {shape} | {' | '.join(cells)} | {chosen} | {cost} |", flush=True)
    return gains


def main() -> None:
    parser = corpus_parser(__doc__, SETS)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    PWDiSMEC().fit(np.eye(200), np.eye(200)[:, :20])  # so that no time includes the loading of kernels
    print(f"{' / '.join(FIGURES)}; differences to {PLAIN}\n")
    print(f"| set | rows x labels | {' | '.join(TRIED)} | chosen | auto / plain, time |")
    print("|---|---|" + "---|" * (len(TRIED) + 2))
    found = []
    for name in options.sets:
        corpus = load_corpus(options.data / name, options.cache)
        found += [measure(SmallSet.sample(name, corpus.X, corpus.Y, seed)) for seed in range(options.seeds)]
    print("\n| | mean | worst | best |\n|---|---|---|---|")
    for name in list(TRIED)[1:]:
        gains = np.array([one[name] for one in found])
        parts = (gains.mean(axis=0), gains.min(axis=0), gains.max(axis=0))
        print(f"| {name} | " + " | ".join(" / ".join(f"{gain:+.2f}" for gain in part) for part in parts) + " |")


if __name__ == "__main__":
    main()
