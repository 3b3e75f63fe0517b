"""Train all labels on all cores and predict the top 5 of the test rows on one thread, compared with PECOS's tree.

    python -m benchmarks.prediction DATA/eurlex57k [--repeats 3] [--cache DIR] [--pecos PYTHON]

Both take turns, as often as --repeats says; shown are the median and, in brackets, the range. Seconds of training are
those of the clock, from X and Y on: our layout of X and PECOS's clustering are counted, compiling is not, which a first
go does. Ranking is processor time of one thread: of all test rows, and of one document at a time (median of 200).

scikit-learn's way with the same weights (dense, float64, decision_function and argpartition) is shown once; it copies
its weights into another order at each call, so its product alone, with weights in that order beforehand, is shown too.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from benchmarks.corpora import load_corpus
from benchmarks.rivals.linear_svm import pecos_version
from benchmarks.rivals.pecos_tree import BEAM, pecos_tree
from unmissed.models import DiSMEC
from unmissed.ranking import Ranking

MOST_WEIGHTS = 2**29  # of dense weights for scikit-learn, 4 GiB


@dataclass(frozen=True)
class Turn:
    """What one turn of ours took and reached, and how many labels missed the tolerance."""

    training: float
    rows: float
    single_row: float
    precision: float
    missed: int


def ours(X: sp.csr_matrix, Y: sp.csr_matrix, X_test: sp.csr_matrix, Y_test: Any) -> tuple[Turn, DiSMEC, Ranking]:
    """Train and rank once; return what it took, and what it gave."""
    begin = time.perf_counter()
    model = DiSMEC().fit(X, Y)
    training = time.perf_counter() - begin
    model.set_params(n_jobs=1)
    model.prepare().rank(X_test[:600], 5)  # workspaces are allocated
    seconds, ranking = timed(lambda: model.rank(X_test, 5))
    single_row = [timed(lambda row=row: model.rank(row, 5))[0] for row in one_by_one(X_test)]
    right = sp.csr_matrix(Y_test)[np.arange(X_test.shape[0]), ranking.labels[:, 0]]
    precision = float(np.mean(np.asarray(right) > 0))
    missed = sum(int(np.sum(shard.gap > model.tol)) for shard in model.shards_)
    rows = X_test.shape[0] / seconds
    return Turn(training, rows, 1e3 * float(np.median(single_row)), precision, missed), model, ranking


def one_by_one(X: sp.csr_matrix) -> list[sp.csr_matrix]:
    """Return the first rows, each as a matrix."""
    return [X[row] for row in range(min(200, X.shape[0]))]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time that work took, and what it gave."""
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--pecos", help="a Python that can import pecos")
    options = parser.parse_args()
    corpus = load_corpus(options.data, options.cache)
    X, Y, X_test = sp.csr_matrix(corpus.X), sp.csr_matrix(corpus.Y), sp.csr_matrix(corpus.X_test)
    DiSMEC().fit(X[:500], Y[:500, :8]).prepare().rank(X[:600], 5)  # compile
    mine: list[Turn] = []
    theirs: list[Any] = []
    rival = pecos_tree(options.pecos, X, Y, X_test, corpus.Y_test) if options.pecos else nullcontext()
    with rival as tree:
        for turn in range(options.repeats):
            figures, model, ranking = ours(X, Y, X_test, corpus.Y_test)
            mine.append(figures)
            print(f"  turn {turn + 1}: unmissed {mine[-1].training:.1f} s, {mine[-1].rows:.0f} rows/s", flush=True)
            if tree is not None:
                theirs.append(tree())
                print(f"  turn {turn + 1}: PECOS {theirs[-1].training:.1f} s, {theirs[-1].rows:.0f} rows/s", flush=True)
    n_weights = sum(shard.weights.size for shard in model.shards_) / model.n_labels_
    sizes = f"{X_test.shape[0]} rows, {model.n_labels_} labels, {n_weights:.0f} weights per label after pruning"
    print(f"\n{options.data.name}: {sizes}; {options.repeats} turns\n")
    print(f"| {'system':34} | {'training, s':>22} | {'rows per second':>24} | {'one document, ms':>22} |  P@1  |")
    print(f"|{'-' * 36}|{'-' * 23}:|{'-' * 25}:|{'-' * 23}:|------:|")
    show(f"unmissed {version('unmissed')}, exact", mine)
    if theirs:
        show(f"PECOS {pecos_version(options.pecos)}, one tree, beam {BEAM}", theirs)
        clustering = median(turn.clustering for turn in theirs)
        seconds = [median(turn.training for turn in turns) for turns in (mine, theirs)]
        rows = [median(turn.rows for turn in turns) for turns in (mine, theirs)]
        print(
            f"\ntraining takes {seconds[0] / seconds[1]:.2f} times as long as PECOS's tree, which clusters for", end=" "
        )
        print(f"{clustering:.1f} s of its time; ranking does {rows[0] / rows[1]:.2f} times as many rows")
    print(f"labels that missed the tolerance: {max(turn.missed for turn in mine)}")
    if model.n_labels_ * X.shape[1] <= MOST_WEIGHTS:
        _compare_with_sklearn(model, X_test, ranking, median(turn.rows for turn in mine))


def show(name: str, turns: list[Any]) -> None:
    """One line of the table: medians, and ranges in brackets."""
    cells = [
        f"{median(numbers):{form}} ({min(numbers):{form}} to {max(numbers):{form}})"
        for numbers, form in (
            ([turn.training for turn in turns], ".1f"),
            ([turn.rows for turn in turns], ".0f"),
            ([turn.single_row for turn in turns], ".2f"),
        )
    ]
    print(f"| {name:34} | {cells[0]:>22} | {cells[1]:>24} | {cells[2]:>22} | {100 * turns[0].precision:.2f} |")


def _compare_with_sklearn(model: DiSMEC, X_test: sp.csr_matrix, ranking: Ranking, ours: float) -> None:
    W, bias = model.coef_.toarray().astype(np.float64), model.intercept_.astype(np.float64)
    svc = LinearSVC()
    svc.coef_, svc.intercept_, svc.classes_ = W, bias, np.arange(len(W))
    some = X_test.astype(np.float64)
    seconds, top = timed(lambda: np.argpartition(-svc.decision_function(some), 5, axis=1)[:, :5])
    by_feature = np.ascontiguousarray(W.T)
    again, _ = timed(lambda: np.argpartition(-(some @ by_feature + bias), 5, axis=1)[:, :5])
    theirs, laid_out = some.shape[0] / seconds, some.shape[0] / again
    print(f"scikit-learn {theirs:.0f} rows per second, ratio {ours / theirs:.1f}", end="; ")
    print(f"its product with weights laid out beforehand {laid_out:.0f}, ratio {ours / laid_out:.1f}", end="; ")
    agree = np.mean(np.sort(top, axis=1) == np.sort(ranking.labels, axis=1))
    print(f"same labels: {agree:.4%}")


if __name__ == "__main__":
    main()
