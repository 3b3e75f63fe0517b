"""Training time by number of labels and threads, and peak memory.

    python -m benchmarks.scaling DATA/eurlex57k [--labels 512 1024 2048 4108] [--cache DIR]
    python -m benchmarks.scaling DATA/tibkat --weighting tail [--cache DIR]

The first prints wall seconds for growing numbers of labels on one and two threads and whether both gave the same bits.
The second trains every label once, with the given weighting, and prints wall seconds and the peak memory.
"""

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import load_corpus
from unmissed.models import PWDiSMEC


def train(X: Any, Y: Any, weighting: str, n_jobs: int) -> tuple[float, PWDiSMEC]:
    begin = time.perf_counter()
    model = PWDiSMEC(weighting=weighting, n_jobs=n_jobs).fit(X, Y)
    return time.perf_counter() - begin, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--labels", type=int, nargs="+", default=[512, 1024, 2048, 4108])
    parser.add_argument("--weighting", help="train all labels once with this weighting")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    corpus = load_corpus(options.data, options.cache)
    X, Y = corpus.X, corpus.Y.tocsc()
    train(X[:500], Y[:500, :8], "none", 1)
    if options.weighting:
        seconds, model = train(X, Y, options.weighting, options.jobs)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{options.data.name}, {options.weighting}: {Y.shape[1]} labels, {seconds:.0f} s, {options.jobs} threads")
        print(f"peak memory {peak:.2f} GiB; labels above the tolerance: {len(model.uncertified_labels())}")
        return
    order = np.random.default_rng(0).permutation(Y.shape[1])
    print(f"{'labels':>7} {'one thread, s':>14} {'ms/label':>11} {'two threads, s':>15} {'ratio':>6}  same bits")
    for n_labels in options.labels:
        part = Y[:, order[:n_labels]]
        one, first = train(X, part, "none", 1)
        two, second = train(X, part, "none", 2)
        same = all(
            all(np.array_equal(a.arrays[name], b.arrays[name]) for name in a.arrays)
            for a, b in zip(first.shards_, second.shards_, strict=True)
        )
        print(
            f"{part.shape[1]:7} {one:14.1f} {1e3 * one / n_labels:11.1f} {two:15.1f} {one / two:6.2f}  {same}",
            flush=True,
        )


if __name__ == "__main__":
    main()
