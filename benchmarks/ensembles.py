"""What an ensemble gains over its best member on test rows, and what it costs.

    python -m benchmarks.ensembles DATA [--sets bibtex,debtags] [--members pw-dismec,fastxml] [--rows 10000]
        [--cache DIR]

DATA is a folder of data sets. The members, method specs as `unmissed compare` takes them, are trained on all training
rows, at most --rows. Their weights are chosen on held-out training rows, as `unmissed ensemble` does. The best member
is the best one on the held-out rows, too: test rows are read for the figures only.

Printed per set: the weights; the figures of the ensemble; its differences to the best member and to the first member,
with paired 95 % intervals; the processor time of the choice of weights relative to the training of the members, and
that of ranking relative to the best member.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import Corpus, load_corpus
from unmissed.metrics import compare, evaluate
from unmissed.models import Ensemble, Model
from unmissed.propensity import Jain
from unmissed.runs.compare.method_specs import MethodSpec, read_method_specs

SETS = ("bibtex", "delicious", "debtags", "eurlex57k")
FIGURES = ("P@1", "P@5", "PSP@5")


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the processor time that it took."""
    begin = time.process_time()
    return call(), time.process_time() - begin


def report(name: str, corpus: Corpus, specs: list[MethodSpec], n_rows: int) -> None:
    """Train members and ensemble on a data set, and print a row per comparison."""
    chosen = np.sort(np.random.default_rng(0).permutation(corpus.X.shape[0])[:n_rows])
    X, Y = corpus.X[chosen], corpus.Y[chosen]
    inverse = 1 / Jain().estimate(np.asarray(Y.sum(axis=0)).ravel(), len(chosen))

    def rank(model: Model) -> tuple[Any, float]:
        ranking, seconds = timed(lambda: model.rank(corpus.X_test, 5))
        return evaluate(ranking, corpus.Y_test, inverse, (1, 5)), seconds

    for spec in specs:  # so that no time includes the compilation of kernels
        spec.model().fit(X[:200], Y[:200]).rank(corpus.X_test[:200])
    members, seconds = zip(*(timed(lambda spec=spec: spec.model().fit(X, Y)) for spec in specs), strict=True)
    ensemble, weighing = timed(lambda: Ensemble.of(members).fit(X, Y))
    found, ranking_seconds = rank(ensemble)
    single = [rank(one) for one in members]
    best = ensemble.choice_["best_member"]
    weights = ", ".join(f"{weight:.2f}" for weight in ensemble.weights_)
    costs = f"{weighing / sum(seconds):.1f} | {ranking_seconds / single[best][1]:.1f}"
    for at in dict.fromkeys((best, 0)):
        gains = compare(found, single[at][0], 1000)
        cells = [
            f"{100 * found[figure]:.2f}, {100 * gain.value:+.2f} [{100 * gain.low:+.2f}, {100 * gain.high:+.2f}]"
            for figure in FIGURES
            for gain in [gains[figure]]
        ]
        print(f"| {name} | {weights} | {specs[at].key} | {' | '.join(cells)} | {costs} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--members", nargs="+", default=["pw-dismec,fastxml"])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    specs = read_method_specs(options.members)
    print(f"members: {', '.join(spec.title for spec in specs)}\n")
    print(f"| data set | weights | against | {' | '.join(FIGURES)} | weights / training | ranking / best |")
    print("|---|---|---|" + "---:|" * (len(FIGURES) + 2))
    for name in options.sets.split(","):
        report(name, load_corpus(options.data / name, options.cache), specs, options.rows)


if __name__ == "__main__":
    main()
