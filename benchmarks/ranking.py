"""Exact ranking when many labels have nearly the same score: a slope, and no step.

    python -m benchmarks.ranking [--labels 40000] [--features 40000] [--rows 2000] [--weights 900] [-k 5] [--repeats 3]
        [--spreads 1 0.1 0]

Weights are made, not trained, with the statistics of recommendation data: rows of 28 items with equal values, a
long-tailed popularity of items, 900 weights per label. Labels come in families of 1,000. The labels of a family differ
by `spread` times their weights: with spread 1 they are independent, with spread 0 all their scores are equal. The
smaller the spread, the closer is the 100th score of a row to the 5th, and the more labels remain after the quantized
scan. Shown are rows per second of processor time on one thread, in turns (median), beside scipy's sparse product of
rows and weights with argpartition, and the median difference between the 5th and the 100th score of a row. The first
labels of both are compared: scores must agree to float32 precision.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.matrices import check_X
from unmissed.models.linear.ranking.ranker import Ranker
from unmissed.models.linear.shard import Shard

FAMILY = 1000
ITEMS_PER_ROW = 28
SPREADS = 1.0, 0.5, 0.3, 0.2, 0.1, 0.03, 0.01, 0.001, 0.0
SCIPY_ROWS = 200  # the product of all rows would not fit into memory


def draw_features(rng: np.random.Generator, n_features: int, size: int) -> npt.NDArray[np.int64]:
    """Return about `size` different features, the popular ones more often; ascending."""
    popularity = np.cumsum(np.arange(1.0, n_features + 1) ** -0.7)
    drawn = np.searchsorted(popularity, rng.random(2 * size) * popularity[-1]).clip(max=n_features - 1)
    return np.sort(rng.permutation(np.unique(drawn))[:size])


def make_shards(n_labels: int, n_features: int, n_weights: int, spread: float, seed: int) -> list[Shard]:
    """Return a shard per family of labels: common weights plus `spread` times weights of their own."""
    rng, shards = np.random.default_rng(seed), []
    for first in range(0, n_labels, FAMILY):
        size = min(FAMILY, n_labels - first)
        features = draw_features(rng, n_features, n_weights).astype(np.int32)
        common = rng.laplace(0.0, 0.1, len(features))
        own = rng.laplace(0.0, 0.1, (len(features), size))
        weights = (common[:, None] * np.sqrt(1 - spread**2) + spread * own).astype(np.float32).ravel()
        starts = size * np.arange(len(features) + 1)
        labels = np.tile(np.arange(size, dtype=np.uint16), len(features))
        bias = np.full(size, -1.1, np.float32) + np.float32(0.05 * spread) * rng.random(size, dtype=np.float32)
        zeros = np.zeros(size)
        shards.append(Shard(features, starts, labels, weights, bias, zeros, zeros, np.zeros(size, np.int32), first))
    return shards


def make_rows(n_rows: int, n_features: int, seed: int) -> sp.csr_matrix:
    """Return L2-normalized rows with equal values."""
    rng = np.random.default_rng(seed)
    rows = [draw_features(rng, n_features, ITEMS_PER_ROW) for _ in range(n_rows)]
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    values = np.concatenate([np.full(len(row), len(row) ** -0.5, np.float32) for row in rows])
    return check_X(sp.csr_matrix((values, np.concatenate(rows), indptr), shape=(n_rows, n_features)))


def by_product(X: sp.csr_matrix, weights: sp.csr_matrix, bias: npt.NDArray[np.float32], k: int) -> Any:
    """Return scipy's product and the k best scores of each row."""
    scores = (X @ weights).toarray() + bias
    top = np.argpartition(-scores, k, axis=1)[:, :k]
    return scores, -np.sort(-np.take_along_axis(scores, top, axis=1), axis=1)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time that work took, and what it gave."""
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def compare(X: sp.csr_matrix, shards: list[Shard], k: int, repeats: int) -> tuple[float, float, float]:
    """Return rows per second of ours and of scipy, and the median difference of the 5th and the 100th score."""
    weights = sp.hstack([by_feature(shard, X.shape[1]) for shard in shards], format="csr")
    bias = np.concatenate([shard.bias for shard in shards])
    ranker = Ranker(shards, X.shape[1])
    ranker.scan.get()
    ranker.rank(X[:50], k, 1)
    ours, theirs = [], []
    for _ in range(repeats):
        seconds, ranking = timed(lambda: ranker.rank(X, k, 1))
        ours.append(X.shape[0] / seconds)
        some = X[:SCIPY_ROWS]
        seconds, (scores, best) = timed(lambda some=some: by_product(some, weights, bias, k))
        theirs.append(some.shape[0] / seconds)
    assert np.allclose(ranking.scores[:SCIPY_ROWS], best, atol=1e-5), "the rankings differ"
    ordered = -np.sort(-scores, axis=1)
    return median(ours), median(theirs), float(np.median(ordered[:, 4] - ordered[:, 99]))


def by_feature(shard: Shard, n_features: int) -> sp.csr_matrix:
    """Return the weights of a shard as a matrix, (n_features, n_labels)."""
    counts = np.zeros(n_features + 1, np.int64)
    counts[1 + shard.features] = np.diff(shard.starts)
    return sp.csr_matrix((shard.weights, shard.labels, np.cumsum(counts)), shape=(n_features, shard.n_labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in (("labels", 40_000), ("features", 40_000), ("rows", 2_000), ("weights", 900), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("-k", type=int, default=5)
    parser.add_argument("--spreads", type=float, nargs="+", default=SPREADS)
    options = parser.parse_args()
    X = make_rows(options.rows, options.features, seed=1)
    print(f"{options.rows} rows, {options.labels} labels, {options.weights} weights per label, k = {options.k}\n")
    print("| spread | 5th - 100th score | rows per second | scipy product | ratio |")
    print("|-------:|------------------:|----------------:|--------------:|------:|")
    for spread in options.spreads:
        shards = make_shards(options.labels, options.features, options.weights, spread, seed=2)
        ours, theirs, gap = compare(X, shards, options.k, options.repeats)
        print(f"| {spread:6} | {gap:17.5f} | {ours:15.0f} | {theirs:13.0f} | {ours / theirs:5.1f} |", flush=True)


if __name__ == "__main__":
    main()
