"""Train DiSMEC and PW-DiSMEC on real data and print the metrics of the test rows: the README's table.

    python -m benchmarks.quality DATA [--sets bibtex delicious debtags eurlex57k] [--cache DIR]

DATA holds a folder a data set. Labels unknown to the training rows are dropped; inverse propensities come from the
training counts with A = 0.55, B = 1.5; PSP and PSnDCG follow pyxclib.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.corpora import load_corpus
from unmissed.metrics import evaluate
from unmissed.models import DiSMEC, Popularity, PWDiSMEC
from unmissed.propensity import Jain

COLUMNS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "PSnDCG@3", "PSnDCG@5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["bibtex", "delicious", "debtags", "eurlex57k"])
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    print("| data | model | " + " | ".join(COLUMNS) + " | training, s |")
    print("|---|---|" + "---:|" * (len(COLUMNS) + 1))
    for name in options.sets:
        corpus = load_corpus(options.data / name, options.cache)
        counts = np.asarray(corpus.Y.sum(axis=0)).ravel()
        inverse = 1 / Jain().fit(counts, corpus.Y.shape[0])
        models = {
            "popularity": Popularity(),
            "DiSMEC": DiSMEC(),
            "PW-DiSMEC, surrogate": PWDiSMEC(weighting="surrogate"),
            "PW-DiSMEC, tail": PWDiSMEC(weighting="tail"),
        }
        for title, model in models.items():
            begin = time.perf_counter()
            model.fit(corpus.X, corpus.Y)
            seconds = time.perf_counter() - begin
            figures = evaluate(model.rank(corpus.X_test, 5), corpus.Y_test, inverse).figures
            shown = " | ".join(f"{100 * figures[column]:.2f}" for column in COLUMNS)
            print(f"| {name} | {title} | {shown} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
