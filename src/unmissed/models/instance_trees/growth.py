"""Training of one instance tree by a work-stealing pool; the tree depends only on the data and the seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution.work_stealing import WorkStealingPool
from unmissed.matrices import rises
from unmissed.models.instance_trees.kernels import child_seed, grow, split
from unmissed.numerics.csr import csr_arrays, read_only
from unmissed.settings import SETTINGS

Array = npt.NDArray[Any]
Node = tuple[int, npt.NDArray[np.int32], np.uint64]
"""The number, the rows and the seed of a node. The root has number 1, the children of node p have 2p and 2p + 1."""


@dataclass(frozen=True)
class InstanceTree:
    """A tree as arrays: the separators of inner nodes, root first, and the labels of leaves.

    A row goes to children[node, 0] if w.x + constant > 0, else to children[node, 1]; a child ~l is leaf l. A tree
    without inner nodes consists of leaf 0.
    """

    children: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    features: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    constants: npt.NDArray[np.float32]
    leaf_starts: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    means: npt.NDArray[np.float32]
    leaf_rows: npt.NDArray[np.int32]

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays by name."""
        return dict(vars(self))

    @property
    def traversal_arrays(self) -> tuple[Array, ...]:
        """The read-only arrays that the kernel `traverse` takes."""
        arrays = {**self.arrays, "features": self.features.view(np.uint32)}
        del arrays["leaf_rows"]
        return tuple(read_only(array) for array in arrays.values())

    def find_damage(self, n_features: int, n_labels: int) -> str:
        """Return why the arrays are not a valid tree, or an empty string."""
        n_nodes, n_leaves = len(self.children), len(self.leaf_rows)
        if self.children.shape[1] != 2 or len(self.constants) != n_nodes or not n_leaves:
            return "its arrays of nodes have inconsistent shapes"
        for starts, n_owners, *arrays in (
            (self.starts, n_nodes, self.features, self.weights),
            (self.leaf_starts, n_leaves, self.labels, self.means),
        ):
            if len(starts) != n_owners + 1 or starts[0] != 0 or not rises(starts):
                return "starts is not a valid index pointer"
            if any(len(array) != starts[-1] for array in arrays):
                return "its arrays have inconsistent lengths"
        # a child comes after its parent, so every traversal ends
        below = self.children
        if (below < -n_leaves).any() or (below >= n_nodes).any() or ((below >= 0) & (below <= _column(n_nodes))).any():
            return "a child does not exist or comes before its parent"
        for numbers, end in ((self.features, n_features), (self.labels, n_labels)):
            if numbers.size and (numbers.min() < 0 or numbers.max() >= end):
                return f"a feature or label is outside 0 to {end - 1}"
        return ""

    def depths(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the depth of each inner node and of each leaf."""
        inner, leaves = np.zeros(len(self.children), np.int64), np.zeros(len(self.leaf_rows), np.int64)
        for depth, level in enumerate(self._levels()):
            below = self.children[level]
            inner[level] = depth
            leaves[~below[below < 0]] = depth + 1
        return inner, leaves

    def rows_below(self) -> npt.NDArray[np.int64]:
        """Return the number of training rows in the first and the second child of each inner node."""
        out = np.zeros(self.children.shape, np.int64)
        for level in reversed(list(self._levels())):
            below = self.children[level]
            inner, leaf = np.maximum(below, 0), np.maximum(~below, 0)
            out[level] = np.where(below < 0, self.leaf_rows[leaf], out[inner].sum(axis=-1))
        return out

    def _levels(self) -> Iterator[npt.NDArray[np.int32]]:
        """Yield the inner nodes of each level, from the root down."""
        level = np.arange(min(len(self.children), 1), dtype=np.int32)
        while len(level):
            yield level
            below = self.children[level]
            level = below[below >= 0]


@dataclass(frozen=True)
class TreeGrower:
    """Grows instance trees on one training set.

    Parameters
    ----------
    X : features, canonical float32 CSR
    Y : labels, canonical CSR of ones
    gains : gain of each label, used in rankings, nDCG and leaves
    max_leaf : a node of at most max_leaf rows is a leaf
    leaf_labels : maximum number of labels that a leaf keeps
    C : weight of the loss of a separator, relative to its L1 penalty
    max_steps : maximum number of Newton steps of a separator
    tol : a separator has converged when its violation of optimality is at most tol times the initial one
    pool : the threads that all trees share
    """

    X: sp.csr_matrix
    Y: sp.csr_matrix
    gains: npt.NDArray[np.float32]
    max_leaf: int
    leaf_labels: int
    C: float
    max_steps: int
    tol: float
    pool: WorkStealingPool
    _arrays: tuple[Array, ...] = field(init=False)
    _workspaces: list[tuple[Array, ...]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        n_labels = self.Y.shape[1]
        discounts = 1.0 / np.log(2.0 + np.arange(n_labels))
        best_dcg = np.cumsum(np.concatenate([[0.0], discounts]))[np.diff(self.Y.indptr)]
        inverse_dcg = np.divide(1.0, best_dcg, out=np.zeros_like(best_dcg), where=best_dcg > 0)
        arrays = (
            *csr_arrays(self.X),
            *csr_arrays(self.Y)[:2],
            read_only(self.gains),
            read_only(inverse_dcg.astype(np.float32)),
            read_only(discounts.astype(np.float32)),
        )
        object.__setattr__(self, "_arrays", arrays)

    def grow_tree(self, seed: int) -> InstanceTree:
        """Return the tree of a seed; idle threads of the pool steal subtrees."""
        parts: dict[int, InstanceTree] = {}
        rows = np.arange(self.X.shape[0], dtype=np.int32)
        self.pool.run(lambda node: self._step(node, parts), (1, rows, np.uint64(seed)))
        return _join(parts)

    def _step(self, node: Node, parts: dict[int, InstanceTree]) -> list[tuple[int, Node]]:
        """Split a large node, or grow the subtree of a small one; return the child tasks with their sizes."""
        number, rows, seed = node
        workspace = self._borrow_workspace()
        arrays, max_leaf, solver_arguments = self._arrays, self.max_leaf, (self.C, self.max_steps, self.tol, workspace)
        try:
            if len(rows) > max(SETTINGS.small_node, self.max_leaf):
                n_first, *separator = split(*arrays, rows, seed, *solver_arguments)
                if 0 < n_first < len(rows):
                    parts[number] = _node(*separator)
                    below = (rows[:n_first], rows[n_first:])
                    return [
                        (len(child_rows), (2 * number + side, child_rows, np.uint64(child_seed(seed, side))))
                        for side, child_rows in enumerate(below)
                    ]
                max_leaf = len(rows)
            parts[number] = InstanceTree(*grow(*arrays, rows, seed, max_leaf, self.leaf_labels, *solver_arguments))
            return []
        finally:
            self._workspaces.append(workspace)

    def _borrow_workspace(self) -> tuple[Array, ...]:
        """Return a zeroed workspace of arrays with one entry per label or feature, from the free list or new."""
        try:
            return self._workspaces.pop()
        except IndexError:  # pop, not a check: another thread may take the last one in between
            n_features = self.X.shape[1]
            return (
                np.zeros(self.Y.shape[1], np.int32),
                np.zeros((n_features, 2), np.float32),
                np.zeros(n_features, np.int64),
                np.zeros(n_features, np.float32),
            )


def _node(features: Array, weights: Array, constant: np.float32) -> InstanceTree:
    """Return a part of one inner node; `_join` sets its children."""
    none = np.empty(0, np.int32)
    starts, constants = np.array([0, len(features)]), np.array([constant], np.float32)
    return InstanceTree(
        np.zeros((1, 2), np.int32), starts, features, weights, constants, np.zeros(1, np.int64), none, weights[:0], none
    )


def _join(parts: Mapping[int, InstanceTree]) -> InstanceTree:
    """Return the tree that consists of the parts, in the order of their node numbers, root first."""
    names = sorted(parts)
    first_node, first_leaf = {}, {}
    n_nodes = n_leaves = 0
    for name in names:
        first_node[name], first_leaf[name] = n_nodes, n_leaves
        n_nodes += len(parts[name].children)
        n_leaves += len(parts[name].leaf_rows)
    children = []
    for name in names:
        part = parts[name]
        if 2 * name in parts:
            below = [first_node[c] if len(parts[c].children) else ~first_leaf[c] for c in (2 * name, 2 * name + 1)]
            children.append(np.array([below]))
        else:
            moved = np.where(part.children < 0, part.children - first_leaf[name], part.children + first_node[name])
            children.append(moved)
    joined = {
        field: np.concatenate([getattr(parts[name], field) for name in names])
        for field in ("features", "weights", "constants", "labels", "means", "leaf_rows")
    }
    return InstanceTree(
        children=np.concatenate(children).astype(np.int32).reshape(-1, 2),
        starts=_starts([parts[name].starts for name in names]),
        leaf_starts=_starts([parts[name].leaf_starts for name in names]),
        **joined,
    )


def _column(n_nodes: int) -> npt.NDArray[np.int64]:
    return np.arange(n_nodes)[:, None]


def _starts(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part) for part in parts]))]).astype(np.int64)
