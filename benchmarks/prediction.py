"""Rank the test rows of a data set with our weights, by us and by scikit-learn's way, on one thread.

    python -m benchmarks.prediction DATA/eurlex57k [--cache DIR]

The peer is what LinearSVC's decision_function does, a sparse by dense product with the same weights, and argpartition.
Then a run is opened from the disk and ranks one document.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.corpora import load_corpus
from unmissed.models import DiSMEC


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    corpus = load_corpus(options.data, options.cache)
    X, Y, X_test = sp.csr_matrix(corpus.X), sp.csr_matrix(corpus.Y), sp.csr_matrix(corpus.X_test)
    model = DiSMEC().fit(X, Y)
    model.set_params(n_jobs=1)
    W = sp.vstack(
        [sp.csr_matrix((s.weights, s.features, s.indptr), shape=(s.n_labels, X.shape[1])) for s in model.shards_]
    )
    print(f"{X_test.shape[0]} rows, {W.shape[0]} labels, {W.nnz / W.shape[0]:.0f} weights a label after pruning")
    model.rank(X_test[:64], 5)
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        ranking = model.rank(X_test, 5)
        seconds.append(time.process_time() - begin)
    ours = X_test.shape[0] / min(seconds)
    coefficients = np.ascontiguousarray(W.T.toarray(), dtype=np.float64)
    bias = np.concatenate([shard.bias for shard in model.shards_]).astype(np.float64)
    some = X_test[:1000].astype(np.float64)
    begin = time.process_time()
    scores = some @ coefficients + bias
    top = np.argpartition(-scores, 5, axis=1)[:, :5]
    theirs = some.shape[0] / (time.process_time() - begin)
    agree = np.mean(np.sort(top, axis=1) == np.sort(ranking.labels[:1000], axis=1))
    print(f"rows a second: unmissed {ours:.0f}, scikit-learn's way {theirs:.0f}, ratio {ours / theirs:.1f}")
    print(f"same labels: {agree:.4%}")
    begin = time.perf_counter()
    model.rank(X_test[:1], 5)
    print(f"one document in memory: {1e3 * (time.perf_counter() - begin):.1f} ms")
    _time_a_run(model, X, Y, X_test)


def _time_a_run(model: DiSMEC, X: sp.csr_matrix, Y: sp.csr_matrix, X_test: sp.csr_matrix) -> None:
    from unmissed.data import Dataset
    from unmissed.runs import open_run, save_run

    with tempfile.TemporaryDirectory() as folder:
        save_run(Path(folder) / "run", model, Dataset(X=X, Y=Y))
        one = X_test[:1]
        open_run(Path(folder) / "run").rank(one, 5)
        begin = time.perf_counter()
        run = open_run(Path(folder) / "run")
        run.rank(one, 5)
        print(f"opening a run and ranking one document: {1e3 * (time.perf_counter() - begin):.1f} ms")


if __name__ == "__main__":
    main()
