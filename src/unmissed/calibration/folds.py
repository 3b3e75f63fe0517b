"""Folds of rows that keep groups together: given groups, or rows with equal or nearly equal features."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse as sp
from scipy.sparse.csgraph import connected_components

from unmissed.errors import InputError
from unmissed.features import Features

Indices = npt.NDArray[np.int64]
Sketches = npt.NDArray[np.uint32]
LARGE = 200_000  # rows from which one tenth is held out once
_N_FOLDS = 3
_N_HASHES, _BAND = 64, 4  # 16 bands of 4 hashes: two rows of similarity 0.8 share a band with probability 0.9998
_SIMILARITY = 0.8  # chosen on held-out training rows of two kinds (docs/notes/calibration.md)
_CELLS = 2**22  # non-zero values of a block of rows, whose hashes are held at a time


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold in which each row is held out.

    Parameters
    ----------
    fold : int64 array of shape (n_samples,): 0 to n_folds - 1, or -1 for rows that are never held out
    group : int64 array of shape (n_samples,): the group of each row, from 0; no group is split
    n_folds : number of folds
    """

    fold: Indices
    group: Indices
    n_folds: int

    @property
    def n_groups(self) -> int:
        """The number of groups; equal to the number of rows if all rows differ."""
        return int(self.group.max(initial=-1)) + 1

    def held_out(self, fold: int) -> Indices:
        """Return the rows that are held out in a fold."""
        return np.flatnonzero(self.fold == fold)

    def training(self, fold: int) -> Indices:
        """Return the rows on which the model of a fold is trained."""
        return np.flatnonzero(self.fold != fold)


def make_folds(X: Features, groups: Any = None, *, n_folds: int | None = None, seed: int = 0) -> Folds:
    """Return folds of about equal size in which no group is split.

    Parameters
    ----------
    X : the rows
    groups : one id per row, numbers or strings; None groups rows by `group_similar_rows`
    n_folds : number of folds; None takes 3, and from 200,000 rows on a single held-out tenth of the rows
    seed : seed of the sketches and of the folds
    """
    n_samples = X.shape[0]
    if n_folds is not None and not 2 <= n_folds <= n_samples:
        raise InputError(f"n_folds is {n_folds}; expected 2 to {n_samples}, the number of rows")
    group = group_similar_rows(X, seed) if groups is None else _check_groups(groups, n_samples)
    n_groups = int(group.max(initial=-1)) + 1
    single = n_folds is None and n_samples >= LARGE
    parts = 10 if single else (n_folds or _N_FOLDS)
    if n_groups < parts:
        raise InputError(f"the rows form {n_groups} groups; {parts} folds need at least as many")
    fold = _balance(np.bincount(group), parts, seed)[group]
    return Folds(np.where(fold == 0, 0, -1), group, 1) if single else Folds(fold, group, parts)


def group_similar_rows(X: Features, seed: int = 0) -> Indices:
    """Return the group of each row, numbered from 0: rows with equal or nearly equal features share one.

    Two rows are similar if their estimated weighted Jaccard similarity, the idf of the common features over the idf of
    all features of both, is at least 0.8; the estimate compares two sketches of 64 MinHash values. Groups are connected
    components of similar rows, found by comparing rows that agree in one of 16 bands. Components of more than a
    twentieth of all rows are split again: equal sketches are required there. Dense rows (more than half of the values
    are not 0) are compared by the signs of random projections instead. Rows without features are not similar to any
    other.
    """
    sketches, empty = _sketch(X, seed)
    n_samples = len(sketches)
    group, open_rows = np.arange(n_samples), np.flatnonzero(~empty)
    for similarity in (_SIMILARITY, 1.0):
        if open_rows.size:
            group[open_rows] = n_samples + _connect(sketches[open_rows], similarity)
            group = np.unique(group, return_inverse=True)[1].reshape(-1)
            open_rows = np.flatnonzero(np.bincount(group)[group] > max(n_samples // 20, 1))
    return np.asarray(group, dtype=np.int64)


def _connect(sketches: Sketches, similarity: float) -> Indices:
    """Return the connected component of each row; rows that agree in a band are compared with its first row."""
    n_samples = len(sketches)
    begins: list[Indices] = []
    ends: list[Indices] = []
    for first in range(0, _N_HASHES, _BAND):
        band = np.ascontiguousarray(sketches[:, first : first + _BAND])
        keys = band.view(np.dtype((np.void, band.itemsize * _BAND))).reshape(-1)
        _, representative, bucket = np.unique(keys, return_index=True, return_inverse=True)
        others = np.flatnonzero(representative[bucket.reshape(-1)] != np.arange(n_samples))
        firsts = representative[bucket.reshape(-1)[others]]
        for part in np.array_split(np.arange(len(others)), len(others) * _N_HASHES // _CELLS + 1):
            agreement = (sketches[others[part]] == sketches[firsts[part]]).mean(axis=1)
            begins.append(others[part][agreement >= similarity])
            ends.append(firsts[part][agreement >= similarity])
    begin, end = np.concatenate(begins), np.concatenate(ends)
    graph = sp.coo_matrix((np.ones(len(begin), np.int8), (begin, end)), shape=(n_samples, n_samples))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _sketch(X: Features, seed: int) -> tuple[Sketches, npt.NDArray[np.bool_]]:
    """Return 64 hashes of each row, and which rows have no features."""
    rng = np.random.default_rng(seed)
    n_samples = X.shape[0]
    sparse = X.sparse
    if sparse is None or 2 * sparse.nnz > n_samples * sparse.shape[1]:
        values: Any = X.dense if sparse is None else sparse
        assert values is not None  # Features have one of the two parts
        return _sign_sketch(values, rng), np.zeros(n_samples, np.bool_)
    return _min_sketch(sparse, rng), np.diff(sparse.indptr) == 0


def _min_sketch(X: sp.csr_matrix, rng: np.random.Generator) -> Sketches:
    """Return MinHash values: the feature f of a row with the smallest e_f / idf_f, where e_f is exponential.

    Two rows agree in a hash with the probability of their Jaccard similarity, features weighted by idf.
    """
    n_samples, n_features = X.shape
    counts = np.bincount(X.indices, minlength=n_features)
    idf = np.log1p(n_samples / np.maximum(counts, 1))
    sketches = np.zeros((n_samples, _N_HASHES), np.uint32)
    filled = np.flatnonzero(np.diff(X.indptr))
    blocks = list(_row_blocks(X.indptr, filled))
    for at in range(_N_HASHES):
        order = np.argsort(rng.standard_exponential(n_features) / idf)
        rank = np.empty(n_features, np.uint32)
        rank[order] = np.arange(n_features, dtype=np.uint32)
        for rows in blocks:
            first, last = X.indptr[rows[0]], X.indptr[rows[-1] + 1]
            sketches[rows, at] = np.minimum.reduceat(rank[X.indices[first:last]], X.indptr[rows] - first)
    return sketches


def _sign_sketch(X: Any, rng: np.random.Generator) -> Sketches:
    """Return 64 hashes of each row, each of 8 signs of random projections of the centered row."""
    n_samples, n_features = X.shape
    directions = rng.standard_normal((n_features, 8 * _N_HASHES)).astype(np.float32)
    center = np.asarray(X.mean(axis=0), dtype=np.float32).reshape(-1) @ directions
    sketches = np.empty((n_samples, _N_HASHES), np.uint32)
    height = max(_CELLS // directions.shape[1], 1)
    for first in range(0, n_samples, height):
        signs = X[first : first + height] @ directions > center
        sketches[first : first + height] = np.packbits(signs, axis=1)
    return sketches


def _row_blocks(indptr: npt.NDArray[Any], rows: Indices) -> Iterator[Indices]:
    """Yield blocks of consecutive filled rows with at most about 4 million non-zero values."""
    ends = indptr[rows + 1].astype(np.int64)
    cuts = np.flatnonzero(np.diff(ends // _CELLS)) + 1
    yield from (part for part in np.split(rows, cuts) if part.size)


def _balance(sizes: Indices, n_folds: int, seed: int) -> Indices:
    """Return the fold of each group: large groups first, in random order, each to the smallest fold."""
    order = np.random.default_rng([seed, 1]).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold = np.empty(len(sizes), np.int64)
    heap = [(0, number) for number in range(n_folds)]
    for group, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        filled, number = heap[0]
        fold[group] = number
        heapq.heapreplace(heap, (filled + size, number))
    return fold


def _check_groups(groups: Any, n_samples: int) -> Indices:
    """Return given groups, numbered from 0; raise unless there is one id per row."""
    ids = np.asarray(groups)
    if ids.shape != (n_samples,):
        raise InputError(f"groups have shape {ids.shape}; expected one id for each of {n_samples} rows")
    if ids.dtype.kind == "f" and not np.isfinite(ids).all():
        raise InputError(f"the group of row {np.flatnonzero(~np.isfinite(ids))[0]} is not a number")
    if ids.dtype.kind == "O":
        ids = np.array([str(one) for one in ids])
    return np.unique(ids, return_inverse=True)[1].reshape(-1).astype(np.int64)
