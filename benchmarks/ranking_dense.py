"""Exact top 5 with dense weights on one thread, as a ratio to the matrix product of rows and weights.

    python -m benchmarks.ranking_dense [--labels 35000] [--features 384] [--rows 2000] [--turns 5] [--sparse 0]

Rows and weights are random: L2-normalized rows, labels in random order. Both take turns; shown are the fewest seconds
of processor time of each, because the machine may be shared. The product is written to an array that is allocated
beforehand (n_samples x n_labels float32), so it pays for no page faults; ranking never has such an array.

With --sparse N, rows and labels also have N sparse features, of which a row has 1 in 100 and a label 1 in 100; both
parts of a row have the same norm. The product of rows and weights is then that of the dense parts plus that of the
sparse parts by SciPy, and times are shown as ratios to both, and to the dense product alone. Ranking by the sparse part
alone is shown, too.

One document: `rank` of a single row. Decisions: `predict` with a threshold that 1 in 1,000 scores reach.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmissed.execution import InMemory
from unmissed.execution.blas import one_blas_thread
from unmissed.features import Features
from unmissed.models import DiSMEC
from unmissed.models.linear.linear_model import shard_piece
from unmissed.models.linear.shard import Shard

BLOCK = 256  # labels per shard, the default of `block_size`


def make_model(W: Any, dense: Any, bias: Any) -> DiSMEC:
    """Return a model with sparse weights W and dense weights, None for none."""
    pieces = InMemory()
    for first in range(0, len(bias), BLOCK):
        mine = slice(first, first + BLOCK)
        columns = sp.csc_matrix(W[mine])
        features = np.flatnonzero(np.diff(columns.indptr)).astype(np.int32)
        starts = np.append(columns.indptr[features], columns.indptr[-1]).astype(np.int64)
        zeros = np.zeros(len(bias[mine]))
        sparse = features, starts, columns.indices.astype(np.uint16), columns.data
        certificate = zeros, zeros, zeros.astype(np.int32)
        of_block = None if dense is None else dense[mine]
        pieces.put(shard_piece(Shard(*sparse, bias[mine], *certificate, first, dense=of_block)))
    params, n_dense = {"n_jobs": 1, "normalize": False}, 0 if dense is None else dense.shape[1]
    return DiSMEC.open(params, pieces, W.shape[1] + n_dense, len(bias), n_dense=n_dense)


def draw_sparse(rng: np.random.Generator, n_rows: int, n_columns: int) -> sp.csr_matrix:
    """Return a matrix with about 1 in 100 entries, normally distributed."""
    n_entries = n_columns // 100
    columns, indptr = rng.integers(0, max(n_columns, 1), n_rows * n_entries), n_entries * np.arange(n_rows + 1)
    values = rng.standard_normal(n_rows * n_entries, np.float32)
    matrix = sp.csr_matrix((values, columns, indptr), shape=(n_rows, n_columns))
    matrix.sum_duplicates()
    return matrix


def timed(work: Callable[[], Any]) -> float:
    """Return the processor time that work took."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=35_000)
    parser.add_argument("--features", type=int, default=384)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--sparse", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.rows, options.features)).astype(np.float32)
    W = rng.standard_normal((options.labels, options.features)).astype(np.float32)
    bias = rng.standard_normal(options.labels).astype(np.float32) - 1
    words, weights = (draw_sparse(rng, n_rows, options.sparse) for n_rows in (options.rows, options.labels))
    rows, model = Features(words if options.sparse else None, X).normalized(), make_model(weights, W, bias)
    begin = time.process_time()
    model.prepare()
    print(f"prepare: {1e3 * (time.process_time() - begin):.0f} ms")
    product = np.empty((options.rows, options.labels), np.float32)
    threshold = float(np.quantile(model.decision_function(rows[:20]), 0.999))
    works: dict[str, Callable[[], Any]] = {
        "dense product": lambda: np.matmul(rows.dense, W.T, out=product),
        "rank": lambda: model.rank(rows, 5),
        "predict": lambda: model.predict(rows, threshold),
        "one document": lambda: model.rank(rows[:1], 5),
        "dense product, one document": lambda: np.matmul(rows.dense[:1], W.T, out=product[:1]),
    }
    if options.sparse:
        by_feature = sp.csr_matrix(weights.T)
        works["sparse product"] = lambda: rows.sparse @ by_feature
        works["sparse product, one document"] = lambda: rows.sparse[:1] @ by_feature
        of_words = make_model(weights, None, bias).prepare()
        works["rank, sparse part alone"] = lambda: of_words.rank(rows.sparse, 5)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    with one_blas_thread():
        for turn in range(options.turns + 1):
            for name, work in works.items():
                taken = timed(work)
                if turn:  # the first one compiles
                    seconds[name].append(taken)
    fewest = {name: min(taken) for name, taken in seconds.items()}
    for name, taken in fewest.items():
        of_rows = ", one document" if "one document" in name else ""
        dense, sparse = (fewest.get(f"{part} product{of_rows}", 0.0) for part in ("dense", "sparse"))
        ratios = f"{taken / dense:.2f} times the dense product"
        if sparse:
            ratios += f", {taken / (dense + sparse):.2f} times both products"
        print(f"{name}: {1e3 * taken:.1f} ms, {ratios}")


if __name__ == "__main__":
    main()
