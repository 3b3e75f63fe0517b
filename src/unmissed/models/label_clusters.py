"""Clusters of labels: what a label tree is before its nodes are trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.kernels.label_trees import add_up, nearest_means, split_in_half, sum_means
from unmissed.solvers.buffers import clean_scratch, scratch

Ints = npt.NDArray[np.int32]
_LABELS = 64  # labels whose directions are summed at a time
_STEPS = 50  # of k-means at most
_GAIN = 1e-4  # of the mean cosine, below which k-means ends


@dataclass(frozen=True)
class Directions:
    """The direction of each label, length 1, sparse: label l has the entries indptr[l] to indptr[l + 1]."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float32]
    n_features: int

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels begin with."""
        return self.indptr, self.indices, self.values


@dataclass(frozen=True)
class Clusters:
    """The shape of a tree over labels; nodes are numbered level by level from the root, 0.

    Node v has the labels labels[begins[v]:ends[v]] below it and the children children[v] to
    children[v] + n_children[v] - 1; a leaf has none, and children[v] is -1.
    """

    labels: Ints
    begins: Ints
    ends: Ints
    children: Ints
    n_children: Ints

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self.begins)

    @property
    def n_columns(self) -> npt.NDArray[np.int64]:
        """The number of classifiers of each node: one per child, or per label of a leaf."""
        return np.where(self.children < 0, self.ends - self.begins, self.n_children).astype(np.int64)

    def below(self, node: int) -> Ints:
        """Return the labels below a node."""
        return self.labels[self.begins[node] : self.ends[node]]

    def columns(self, node: int) -> npt.NDArray[np.int64]:
        """Return the column, child or place in the leaf, of each label below a node."""
        if self.children[node] < 0:
            return np.arange(self.ends[node] - self.begins[node])
        first, n = self.children[node], self.n_children[node]
        sizes = self.ends[first : first + n] - self.begins[first : first + n]
        return np.repeat(np.arange(n), sizes)

    def depths(self) -> npt.NDArray[np.int64]:
        """Return how far each node is from the root."""
        depths = np.zeros(self.n_nodes, np.int64)
        for node in range(self.n_nodes):
            if self.children[node] >= 0:
                depths[self.children[node] : self.children[node] + self.n_children[node]] = depths[node] + 1
        return depths


Split = Callable[[npt.NDArray[np.int64], np.random.Generator], list[npt.NDArray[np.int64]]]
"""Cuts a set of labels into sets of at least one label each, at least two of them."""


def grow(n_labels: int, max_leaf: int, split: Split, seed: list[int]) -> Clusters:
    """Split all labels, and what comes of it, until a node has at most `max_leaf` of them."""
    labels = np.arange(n_labels)
    begins, ends, children, n_children = [0], [n_labels], [-1], [0]
    node = 0
    while node < len(begins):
        begin, end = begins[node], ends[node]
        if end - begin > max_leaf:
            parts = split(np.sort(labels[begin:end]), np.random.default_rng([*seed, node]))
            children[node], n_children[node] = len(begins), len(parts)
            labels[begin:end] = np.concatenate(parts)
            bounds = begin + np.cumsum([0, *(len(part) for part in parts)])
            begins += bounds[:-1].tolist()
            ends += bounds[1:].tolist()
            children += [-1] * len(parts)
            n_children += [0] * len(parts)
        node += 1
    return Clusters(*(np.array(part, np.int32) for part in (labels, begins, ends, children, n_children)))


def in_halves(directions: Directions) -> Split:
    """Return the split by balanced 2-means on the sphere."""

    def split(labels: npt.NDArray[np.int64], rng: np.random.Generator) -> list[npt.NDArray[np.int64]]:
        sums = clean_scratch("sums of directions", 2 * directions.n_features, np.float32).reshape(-1, 2)
        order = np.empty(len(labels), np.int64)
        first, second = rng.choice(len(labels), 2, replace=False)
        split_in_half(*directions.arrays, labels, first, second, _STEPS, _GAIN, sums, order)
        half = (len(labels) + 1) // 2
        return [np.sort(labels[order[:half]]), np.sort(labels[order[half:]])]

    return split


def by_means(directions: Directions, branching: int, max_leaf: int) -> Split:
    """Return the split by k-means on the sphere, into as many parts as make leaves half full, at most `branching`."""

    def split(labels: npt.NDArray[np.int64], rng: np.random.Generator) -> list[npt.NDArray[np.int64]]:
        n_means = min(branching, max(2, -(-2 * len(labels) // max_leaf)), len(labels))
        means = scratch("means of labels", (directions.n_features, n_means))
        which = np.arange(n_means)
        sum_means(*directions.arrays, rng.choice(labels, n_means, replace=False), which, means)
        which = np.zeros(len(labels), np.int64)
        fit = -np.inf
        for _ in range(_STEPS):
            reached = nearest_means(*directions.arrays, labels, means, which) / len(labels)
            if reached - fit < _GAIN:
                break
            fit = reached
            sum_means(*directions.arrays, labels, which, means)
        parts = [labels[which == mean] for mean in range(n_means)]
        parts = [part for part in parts if len(part)]
        return parts if len(parts) > 1 else [labels[0::2], labels[1::2]]  # labels that nothing tells apart

    return split


def csr_arrays(X: sp.csr_matrix) -> tuple[npt.NDArray[Any], ...]:
    """Return the arrays of a matrix as kernels take them: 64-bit starts, unsigned indices, all read-only."""
    arrays = X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False).view(np.uint32), X.data
    return tuple(read_only(array) for array in arrays)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view that cannot be written to: memory-mapped or not, kernels are compiled for one kind of array."""
    view: npt.NDArray[Any] = np.asarray(array).view()
    view.flags.writeable = False
    return view


def label_directions(X: sp.csr_matrix, Y: sp.csr_matrix, n_jobs: int | None) -> Directions:
    """Return the direction of the sum of each label's rows."""
    columns = Y.tocsc()
    starts, rows = columns.indptr.astype(np.int64), columns.indices.astype(np.int32, copy=False)
    indptr, indices, data = csr_arrays(X)
    widths = np.diff(indptr)
    n_labels, n_features = Y.shape[1], X.shape[1]
    lengths = np.zeros(n_labels, np.int64)
    parts: dict[int, tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]] = {}

    def add(first: int) -> None:
        last = min(first + _LABELS, n_labels)
        most = int(widths[rows[starts[first] : starts[last]]].sum())
        out = scratch("entries of directions", (most,), np.uint32), scratch("values of directions", (most,))
        filled = add_up(
            starts[first : last + 1],
            rows,
            indptr,
            indices,
            data,
            clean_scratch("sum of rows", n_features, np.float32),
            clean_scratch("features in sum", n_features, np.uint8),
            scratch("features of sum", (n_features,), np.uint32),
            lengths[first:last],
            *out,
        )
        parts[first] = out[0][:filled].copy(), out[1][:filled].copy()

    for _ in Threads(n_jobs).each(add, range(0, n_labels, _LABELS)):
        pass
    ends = np.zeros(n_labels + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    ordered = [parts[first] for first in sorted(parts)]
    return Directions(
        ends,
        np.concatenate([np.empty(0, np.uint32), *(part[0] for part in ordered)]),
        np.concatenate([np.empty(0, np.float32), *(part[1] for part in ordered)]),
        n_features,
    )
