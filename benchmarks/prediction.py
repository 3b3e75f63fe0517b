"""Rank the test rows of a data set with our weights, by us and by scikit-learn's way, on one thread.

    python -m benchmarks.prediction DATA/eurlex57k [--cache DIR] [--pecos PYTHON]

The peer is LinearSVC.decision_function with the same weights (dense, float64) and argpartition; it copies its weights
into another order at each call, so its product alone, with weights in that order beforehand, is shown too. Then a run
is opened from the disk and ranks one document.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from benchmarks.corpora import load_corpus
from benchmarks.rivals.pecos_tree import pecos_tree
from unmissed.models import DiSMEC
from unmissed.ranking import Ranking
from unmissed.runs import open_run, save

MOST_WEIGHTS = 2**29  # of dense weights for scikit-learn, 4 GiB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--pecos", help="a Python that can import pecos")
    options = parser.parse_args()
    corpus = load_corpus(options.data, options.cache)
    X, Y, X_test = sp.csr_matrix(corpus.X), sp.csr_matrix(corpus.Y), sp.csr_matrix(corpus.X_test)
    DiSMEC().fit(X[:500], Y[:500, :8])  # compile
    begin = time.perf_counter()
    model = DiSMEC().fit(X, Y)
    training = time.perf_counter() - begin
    model.set_params(n_jobs=1)
    n_weights = sum(shard.weights.size for shard in model.shards_) / model.n_labels_
    print(f"{X_test.shape[0]} rows, {model.n_labels_} labels, {n_weights:.0f} weights per label after pruning")
    model.rank(X_test[:600], 5)
    ours, ranking = best_of(3, X_test.shape[0], lambda: model.rank(X_test, 5))
    print(f"rows per second, one thread: unmissed {ours:.0f}")
    if model.n_labels_ * X.shape[1] <= MOST_WEIGHTS:
        _compare_with_sklearn(model, X_test, ranking, ours)
    alone = []
    for row in range(200):
        one = sp.csr_matrix(X_test[row])
        begin = time.process_time()
        model.rank(one, 5)
        alone.append(time.process_time() - begin)
    print(f"one document in memory: {1e3 * np.median(alone):.2f} ms, median of 200")
    _time_a_run(model, X_test)
    if options.pecos:
        rows, seconds, precision = pecos_tree(options.pecos, X, Y, X_test, corpus.Y_test)
        print(f"PECOS's tree, beam 10: {rows:.0f} rows per second, P@1 {precision:.2%}, trained in {seconds:.0f} s")
        right = sp.csr_matrix(corpus.Y_test)[np.arange(X_test.shape[0]), ranking.labels[:, 0]]
        print(f"unmissed: P@1 {np.mean(np.asarray(right) > 0):.2%}, trained in {training:.0f} s, both on all cores")


def _compare_with_sklearn(model: DiSMEC, X_test: sp.csr_matrix, ranking: Ranking, ours: float) -> None:
    W, bias = model.coef_.toarray().astype(np.float64), model.intercept_.astype(np.float64)
    svc = LinearSVC()
    svc.coef_, svc.intercept_, svc.classes_ = W, bias, np.arange(len(W))
    some = X_test.astype(np.float64)
    theirs, top = best_of(2, some.shape[0], lambda: np.argpartition(-svc.decision_function(some), 5, axis=1)[:, :5])
    by_feature = np.ascontiguousarray(W.T)
    laid_out, _ = best_of(2, some.shape[0], lambda: np.argpartition(-(some @ by_feature + bias), 5, axis=1)[:, :5])
    print(f"scikit-learn {theirs:.0f}, ratio {ours / theirs:.1f}")
    print(f"scikit-learn's product with its weights laid out beforehand {laid_out:.0f}, ratio {ours / laid_out:.1f}")
    agree = np.mean(np.sort(top, axis=1) == np.sort(ranking.labels, axis=1))
    print(f"same labels: {agree:.4%}")


def best_of(times: int, n_rows: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """Return rows per second of processor time in the best of several goes, and what the work gave."""
    seconds = []
    for _ in range(times):
        begin = time.process_time()
        result = work()
        seconds.append(time.process_time() - begin)
    return n_rows / min(seconds), result


def _time_a_run(model: DiSMEC, X_test: sp.csr_matrix) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        save(model, path)
        one = X_test[:1]
        open_run(path).rank(one, 5)
        begin = time.perf_counter()
        open_run(path).rank(one, 5)
        print(f"opening a run and ranking one document: {1e3 * (time.perf_counter() - begin):.1f} ms")


if __name__ == "__main__":
    main()
