"""Clusters of labels: the shape of a label tree before its nodes are trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.features import Features
from unmissed.models.label_trees.cluster_kernels import assign_labels, split_in_half, sum_label_rows, update_means
from unmissed.numerics.csr import csr_arrays, read_only
from unmissed.numerics.workspace import workspace, zeroed_workspace

Ints = npt.NDArray[np.int32]
_LABELS_PER_TASK = 64  # labels per task of a thread
_MAX_STEPS = 50  # iterations of k-means
_MIN_GAIN = 1e-4  # k-means has converged if the mean cosine gains less


@dataclass(frozen=True)
class LabelRepresentations:
    """Sparse L2-normalized vectors of labels; label l has the entries indptr[l] to indptr[l + 1]."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float32]
    n_features: int

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The first arguments of the clustering kernels."""
        return self.indptr, self.indices, self.values


@dataclass(frozen=True)
class LabelClusters:
    """The shape of a label tree; nodes are numbered in breadth-first order from the root, 0.

    Node v has the labels labels[begins[v]:ends[v]] below it and the children children[v] to children[v] + n_children[v]
    - 1. A leaf has none, and children[v] is -1.
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
        """Return the column of each label below a node: its child, or its position in the leaf."""
        if self.children[node] < 0:
            return np.arange(self.ends[node] - self.begins[node])
        first, n = self.children[node], self.n_children[node]
        sizes = self.ends[first : first + n] - self.begins[first : first + n]
        return np.repeat(np.arange(n), sizes)

    def depths(self) -> npt.NDArray[np.int64]:
        """Return the depth of each node; the root has depth 0."""
        depths = np.zeros(self.n_nodes, np.int64)
        for node in range(self.n_nodes):
            if self.children[node] >= 0:
                depths[self.children[node] : self.children[node] + self.n_children[node]] = depths[node] + 1
        return depths


Split = Callable[[npt.NDArray[np.int64], np.random.Generator], list[npt.NDArray[np.int64]]]
"""Splits a set of labels into at least two non-empty sets."""


def grow(n_labels: int, max_leaf: int, split: Split, seed: list[int]) -> LabelClusters:
    """Return the tree that splits the labels recursively until a node has at most `max_leaf`."""
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
    return LabelClusters(*(np.array(part, np.int32) for part in (labels, begins, ends, children, n_children)))


def balanced_2means(representations: LabelRepresentations) -> Split:
    """Return the split by balanced spherical 2-means."""

    def split(labels: npt.NDArray[np.int64], rng: np.random.Generator) -> list[npt.NDArray[np.int64]]:
        sums = zeroed_workspace("sums of representations", 2 * representations.n_features, np.float32).reshape(-1, 2)
        order = np.empty(len(labels), np.int64)
        first, second = rng.choice(len(labels), 2, replace=False)
        split_in_half(*representations.arrays, labels, first, second, _MAX_STEPS, _MIN_GAIN, sums, order)
        half = (len(labels) + 1) // 2
        return [np.sort(labels[order[:half]]), np.sort(labels[order[half:]])]

    return split


def spherical_kmeans(representations: LabelRepresentations, branching: int, max_leaf: int) -> Split:
    """Return the split by spherical k-means; k makes leaves half full on average, at most `branching`."""

    def split(labels: npt.NDArray[np.int64], rng: np.random.Generator) -> list[npt.NDArray[np.int64]]:
        n_means = min(branching, max(2, -(-2 * len(labels) // max_leaf)), len(labels))
        means = workspace("means of labels", (representations.n_features, n_means))
        assignments = np.arange(n_means)
        update_means(*representations.arrays, rng.choice(labels, n_means, replace=False), assignments, means)
        assignments = np.zeros(len(labels), np.int64)
        mean_cosine = -np.inf
        for _ in range(_MAX_STEPS):
            new_mean_cosine = assign_labels(*representations.arrays, labels, means, assignments) / len(labels)
            if new_mean_cosine - mean_cosine < _MIN_GAIN:
                break
            mean_cosine = new_mean_cosine
            update_means(*representations.arrays, labels, assignments, means)
        parts = [labels[assignments == mean] for mean in range(n_means)]
        parts = [part for part in parts if len(part)]
        return parts if len(parts) > 1 else [labels[0::2], labels[1::2]]  # indistinguishable labels

    return split


def label_representations(X: Features, Y: sp.csr_matrix, n_jobs: int | None) -> LabelRepresentations:
    """Return the L2-normalized sum of each label's rows (PIFA: positive instance feature aggregation)."""
    columns = Y.tocsc()
    starts, rows = columns.indptr.astype(np.int64), columns.indices.astype(np.int32, copy=False)
    sparse, dense = X.both
    indptr, indices, data = csr_arrays(sparse)
    widths = np.diff(indptr)
    n_labels, n_features = Y.shape[1], X.shape[1]
    lengths = np.zeros(n_labels, np.int64)
    parts: dict[int, tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]] = {}

    def sum_rows(first: int) -> None:
        last = min(first + _LABELS_PER_TASK, n_labels)
        capacity = int(widths[rows[starts[first] : starts[last]]].sum()) + (last - first) * X.n_dense
        out = (
            workspace("entries of representations", (capacity,), np.uint32),
            workspace("values of representations", (capacity,)),
        )
        filled = sum_label_rows(
            starts[first : last + 1],
            rows,
            indptr,
            indices,
            data,
            read_only(dense),
            zeroed_workspace("sum of rows", n_features, np.float32),
            zeroed_workspace("features in sum", n_features, np.uint8),
            workspace("features of sum", (n_features,), np.uint32),
            lengths[first:last],
            *out,
        )
        parts[first] = out[0][:filled].copy(), out[1][:filled].copy()

    for _ in Threads(n_jobs).each(sum_rows, range(0, n_labels, _LABELS_PER_TASK)):
        pass
    ends = np.zeros(n_labels + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    ordered = [parts[first] for first in sorted(parts)]
    return LabelRepresentations(
        ends,
        np.concatenate([np.empty(0, np.uint32), *(part[0] for part in ordered)]),
        np.concatenate([np.empty(0, np.float32), *(part[1] for part in ordered)]),
        n_features,
    )
