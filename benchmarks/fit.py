"""Measure how well linear classifiers fit their training labels, without weighting and with `tail`.

    python -m benchmarks.fit DIR/bibtex DIR/delicious ... [--rows 4000]

DIR is the output of `unmissed compare` for each data set. Prints the fraction of the observed positives of randomly
sampled training rows with a score below 0: of all, and of labels that are more, or less, frequent than the median.
"""

import argparse
from pathlib import Path

import numpy as np

from unmissed.data import open_store
from unmissed.runs import load_model

METHODS = {"none": "dismec", "tail": "pw-dismec_weighting=tail"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--rows", type=int, default=4000)
    options = parser.parse_args()
    print("| data | weighting | positives below 0, % | of frequent labels, % | of rare labels, % |")
    print("|---|---|---:|---:|---:|")
    for folder in options.folders:
        data = open_store(folder / "data" / "train")
        rows = np.sort(np.random.default_rng(0).permutation(data.X.shape[0])[: options.rows])
        assignments = data.Y[rows].tocoo()
        counts = np.asarray(data.Y.sum(axis=0)).ravel()[assignments.col]
        frequent = counts > np.median(counts)
        for weighting, method in METHODS.items():
            scores = load_model(folder / "methods" / method / "run").decision_function(data.X[rows])
            below = np.asarray(scores)[assignments.row, assignments.col] < 0
            shares = (below.mean(), below[frequent].mean(), below[~frequent].mean())
            print(f"| {folder.name} | {weighting} | " + " | ".join(f"{100 * share:.1f}" for share in shares) + " |")


if __name__ == "__main__":
    main()
