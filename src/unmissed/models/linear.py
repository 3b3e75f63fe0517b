"""Ranking by sparse linear classifiers that are kept in shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.kernels.ranking import (
    count_by_feature,
    insert_best,
    rank_rows,
    score_row,
    score_rows,
    turn_by_feature,
)
from unmissed.ranking import Ranking
from unmissed.solvers.shard import Shard

FEW = 16  # up to this many rows are scored without laying the weights out by feature
_ROWS = 1024  # rows that one thread takes at a time
_DENSE = 0.2  # a feature with weights for more than this share of a shard's labels is laid out densely


@dataclass(frozen=True)
class ByFeature:
    """A shard's weights laid out feature by feature, the way many rows want them."""

    arrays: tuple[npt.NDArray[Any], ...]
    first: int

    @classmethod
    def of(cls, shard: Shard, n_features: int) -> ByFeature:
        """Lay out a shard; features that most labels use become dense lines."""
        counts = np.zeros(n_features, np.int64)
        count_by_feature(shard.features, counts)
        is_dense = counts > _DENSE * shard.n_labels
        dense_at = np.full(n_features, -1, np.int32)
        dense_at[is_dense] = np.arange(is_dense.sum(), dtype=np.int32)
        starts = np.zeros(n_features + 1, np.int64)
        np.cumsum(np.where(is_dense, 0, counts), out=starts[1:])
        labels = np.empty(starts[-1], np.uint32)
        values = np.empty(starts[-1], np.float32)
        dense = np.zeros((is_dense.sum(), shard.n_labels), np.float32)
        turn_by_feature(shard.indptr, shard.features, shard.weights, starts, dense_at, labels, values, dense)
        return cls((starts, dense_at, labels, values, dense, np.asarray(shard.bias)), shard.first)


def rank(X: sp.csr_matrix, shards: Sequence[Shard], n_labels: int, k: int, n_jobs: int | None) -> Ranking:
    """Return the k best labels of each row, exactly, never holding more than a shard's scores of a row."""
    n_samples = X.shape[0]
    labels = np.full((n_samples, k), -1, np.int32)
    scores = np.full((n_samples, k), -np.inf, np.float32)
    if n_samples <= FEW:
        buffer = np.empty(max((shard.n_labels for shard in shards), default=0), np.float32)
        for row in range(n_samples):
            x = X[row].toarray().ravel()
            for shard in shards:
                part = buffer[: shard.n_labels]
                score_row(x, shard.indptr, shard.features, shard.weights, shard.bias, part)
                insert_best(part, shard.first, labels[row], scores[row])
        return Ranking(labels, scores)

    def work(layout: ByFeature, rows: slice, matrix: tuple[npt.NDArray[Any], ...]) -> None:
        rank_rows(*matrix, *layout.arrays, layout.first, labels[rows], scores[rows])

    _for_each(X, shards, work, n_jobs)
    return Ranking(labels, scores)


def decide(X: sp.csr_matrix, shards: Sequence[Shard], n_labels: int, threshold: float, n_jobs: int | None) -> Any:
    """Return the sparse 0/1 matrix of the labels whose score exceeds the threshold."""
    hits: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []

    def work(layout: ByFeature, rows: slice, matrix: tuple[npt.NDArray[Any], ...]) -> None:
        scores = np.empty((rows.stop - rows.start, len(layout.arrays[-1])), np.float32)
        score_rows(*matrix, *layout.arrays, scores)
        row, label = np.nonzero(scores > threshold)
        hits.append((row + rows.start, label + layout.first))

    _for_each(X, shards, work, n_jobs)
    rows, columns = (np.concatenate(part) for part in zip(*hits, strict=True)) if hits else (np.empty(0, int),) * 2
    return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(X.shape[0], n_labels))


def scores_of(X: sp.csr_matrix, shards: Sequence[Shard], labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Return the scores of chosen labels, (n_samples, len(labels))."""
    firsts = np.array([shard.first for shard in shards])
    out = np.empty((X.shape[0], len(labels)), np.float32)
    for column, label in enumerate(labels):
        shard = shards[int(np.searchsorted(firsts, label, side="right")) - 1]
        at = label - shard.first
        begin, end = shard.indptr[at], shard.indptr[at + 1]
        one = Shard(
            indptr=np.array([0, end - begin], np.int64),
            features=np.asarray(shard.features[begin:end]),
            weights=np.asarray(shard.weights[begin:end]),
            bias=np.asarray(shard.bias[at : at + 1]),
            objective=shard.objective[at : at + 1],
            gap=shard.gap[at : at + 1],
            epochs=shard.epochs[at : at + 1],
        )
        layout = ByFeature.of(one, X.shape[1])
        score_rows(*_arrays(X), *layout.arrays, out[:, column : column + 1])
    return out


def _for_each(
    X: sp.csr_matrix,
    shards: Sequence[Shard],
    work: Callable[[ByFeature, slice, tuple[npt.NDArray[Any], ...]], None],
    n_jobs: int | None,
) -> None:
    """Lay out one shard after the other and let threads share the rows."""
    indptr, indices, data = _arrays(X)
    threads = Threads(n_jobs)

    def pieces() -> Iterator[slice]:
        for begin in range(0, X.shape[0], _ROWS):
            yield slice(begin, min(begin + _ROWS, X.shape[0]))

    for shard in shards:
        layout = ByFeature.of(shard, X.shape[1])

        def one(rows: slice, layout: ByFeature = layout) -> None:
            work(layout, rows, (indptr[rows.start : rows.stop + 1], indices, data))

        for _ in threads.map(one, pieces()):
            pass


def _arrays(X: sp.csr_matrix) -> tuple[npt.NDArray[Any], ...]:
    return X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False), X.data
