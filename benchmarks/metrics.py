"""Time of the metrics, compared with pyxclib's algorithm (scipy sparse products), on the same synthetic ranking.

Run `python -m benchmarks.metrics`, or with `--rows 100000` for a short look. Both use one core and are timed in turn.
"""

import argparse
import time

import numpy as np
import scipy.sparse as sp

from benchmarks.rivals import pyxclib_way
from unmissed.metrics import evaluate, intervals
from unmissed.ranking import Ranking


def make(n_samples, n_labels, per_row, k, seed=0):
    """Return a ranking about half of which is right, a truth with a long tail of labels, and inverse propensities."""
    rng = np.random.default_rng(seed)
    positions = per_row + k
    names = rng.permutation(n_labels).astype(np.int32)
    # each place draws from labels of its own, so that no row has a label twice; the last k places are never true
    common = (n_labels // positions * rng.random((n_samples, positions)) ** 3).astype(np.int32)
    drawn = names[common * positions + np.arange(positions, dtype=np.int32)]
    true, wrong = drawn[:, :per_row], drawn[:, per_row:]
    Y = sp.csr_matrix(
        (np.ones(true.size, dtype=np.float32), true.ravel(), np.arange(n_samples + 1) * per_row),
        shape=(n_samples, n_labels),
    )
    Y.sort_indices()
    listed = np.where(rng.random((n_samples, k)) < 0.5, true[:, :k], wrong)
    ranking = Ranking.sort(listed, rng.random((n_samples, k), dtype=np.float32))
    return ranking, Y, 1 + 10 * rng.random(n_labels)


def best_of(times, work):
    """Return the shortest wall time of several, and what the work gave."""
    shortest, result = float("inf"), None
    for _ in range(times):
        begin = time.perf_counter()
        result = work()
        shortest = min(shortest, time.perf_counter() - begin)
    return shortest, result


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--labels", type=int, default=100_000)
    options.add_argument("--per-row", type=int, default=10)
    options.add_argument("-k", type=int, default=5)
    options.add_argument("--times", type=int, default=3)
    chosen = options.parse_args()
    k = chosen.k
    ranking, Y, inverse = make(chosen.rows, chosen.labels, chosen.per_row, k)
    cuts = tuple(range(1, k + 1))

    evaluate(ranking.top(k), Y, inverse, cuts)  # compiles, or loads what was compiled before
    ours, found = best_of(chosen.times, lambda: evaluate(ranking, Y, inverse, cuts).figures)
    usual, _ = best_of(chosen.times, lambda: evaluate(ranking, Y, inverse, (1, 3, 5)).figures) if k >= 5 else (ours, 0)
    theirs, expected = best_of(chosen.times, lambda: pyxclib_way.measure(ranking.labels, Y, inverse, k))
    apart = max(abs(found[f"{name}@{cut}"] - values[cut - 1]) for name, values in expected.items() for cut in cuts)

    small = evaluate(
        Ranking(ranking.labels[:20_000], ranking.scores[:20_000]), Y[:20_000], inverse, (1, 3, 5)[: k // 2 + 1]
    )
    intervals(small, 2)
    resampling, _ = best_of(1, lambda: intervals(small, 1000))

    print(f"{chosen.rows:,} rows, {chosen.per_row} true labels per row, {chosen.labels:,} labels, one core")
    print(f"ours, every metric at 1 to {k}            {ours:8.3f} s")
    print(f"ours, every metric at 1, 3 and 5        {usual:8.3f} s")
    print(f"pyxclib's way, four metrics at 1 to {k}   {theirs:8.3f} s")
    print(f"ratio (both at 1 to {k})                  {theirs / ours:8.1f}")
    print(f"largest difference of a figure          {apart:8.1e}")
    print(f"1,000 resamples of {small.n_samples:,} rows            {resampling:8.3f} s")


if __name__ == "__main__":
    main()
