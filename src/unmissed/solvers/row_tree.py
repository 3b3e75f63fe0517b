"""Growing a tree over rows on as many cores as are free; the tree depends on its rows and its seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.kernels.row_tree import child_seed, grow, split
from unmissed.matrices import rises
from unmissed.solvers.crew import Crew

SMALL = 2048  # rows below which a node's whole tree is one step of work
Array = npt.NDArray[Any]
Node = tuple[int, npt.NDArray[np.int32], np.uint64]
"""A node's name, its rows and its seed."""


@dataclass(frozen=True)
class Tree:
    """A tree as arrays: separators of inner nodes, the root first, and the labels of leaves.

    A row goes to children[node, 0] where w.x + constant > 0, else to children[node, 1]; a child ~l is leaf l. A tree
    without inner nodes is leaf 0 alone.
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
    def walked(self) -> tuple[Array, ...]:
        """The arrays as the kernel takes them that sends rows down."""
        arrays = {**self.arrays, "features": self.features.view(np.uint32)}
        del arrays["leaf_rows"]
        return tuple(frozen(array) for array in arrays.values())

    def wrong(self, n_features: int, n_labels: int) -> str:
        """Return why these arrays are no tree that kernels may follow, or nothing."""
        n_nodes, n_leaves = len(self.children), len(self.leaf_rows)
        if self.children.shape[1] != 2 or len(self.constants) != n_nodes or not n_leaves:
            return "its nodes do not fit together"
        for starts, owners, *lists in (
            (self.starts, n_nodes, self.features, self.weights),
            (self.leaf_starts, n_leaves, self.labels, self.means),
        ):
            if len(starts) != owners + 1 or starts[0] != 0 or not rises(starts):
                return "its lists do not begin where they should"
            if any(len(one) != starts[-1] for one in lists):
                return "its lists are not as long as they should be"
        # children come after their parents, so every walk ends
        below = self.children
        if (below < -n_leaves).any() or (below >= n_nodes).any() or ((below >= 0) & (below <= _column(n_nodes))).any():
            return "a child is not there"
        for numbers, end in ((self.features, n_features), (self.labels, n_labels)):
            if numbers.size and (numbers.min() < 0 or numbers.max() >= end):
                return f"it has a number not below {end}"
        return ""

    def depths(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return how many nodes stand above each inner node and above each leaf."""
        inner, leaves = np.zeros(len(self.children), np.int64), np.zeros(len(self.leaf_rows), np.int64)
        for depth, level in enumerate(self._levels()):
            below = self.children[level]
            inner[level] = depth
            leaves[~below[below < 0]] = depth + 1
        return inner, leaves

    def rows_below(self) -> npt.NDArray[np.int64]:
        """Return how many training rows went to the first and to the second child of each inner node."""
        out = np.zeros(self.children.shape, np.int64)
        for level in reversed(list(self._levels())):
            below = self.children[level]
            inner, leaf = np.maximum(below, 0), np.maximum(~below, 0)
            out[level] = np.where(below < 0, self.leaf_rows[leaf], out[inner].sum(axis=-1))
        return out

    def _levels(self) -> Iterator[npt.NDArray[np.int32]]:
        """Give the inner nodes, level by level from the root."""
        level = np.arange(min(len(self.children), 1), dtype=np.int32)
        while len(level):
            yield level
            below = self.children[level]
            level = below[below >= 0]


@dataclass(frozen=True)
class Growth:
    """Rows laid out for growing trees, and how they are grown.

    Parameters
    ----------
    X : features, canonical float32 CSR
    Y : labels, canonical CSR of ones
    gains : what each label counts for in orders, nDCG and leaves
    max_leaf : a node of at most so many rows is a leaf
    leaf_labels : the most labels that a leaf keeps
    C : the weight of a separator's loss against its penalty
    max_steps : the most Newton steps of a separator
    tol : a separator is done when it violates optimality by this share of what it did at first
    crew : the cores of all trees that grow at the same time
    """

    X: sp.csr_matrix
    Y: sp.csr_matrix
    gains: npt.NDArray[np.float32]
    max_leaf: int
    leaf_labels: int
    C: float
    max_steps: int
    tol: float
    crew: Crew
    _arrays: tuple[Array, ...] = field(init=False)
    _desks: list[tuple[Array, ...]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        n_labels = self.Y.shape[1]
        discounts = 1.0 / np.log(2.0 + np.arange(n_labels))
        best = np.cumsum(np.concatenate([[0.0], discounts]))[np.diff(self.Y.indptr)]
        ideal = np.divide(1.0, best, out=np.zeros_like(best), where=best > 0)
        arrays = (
            *csr_arrays(self.X),
            *csr_arrays(self.Y)[:2],
            frozen(self.gains),
            frozen(ideal.astype(np.float32)),
            frozen(discounts.astype(np.float32)),
        )
        object.__setattr__(self, "_arrays", arrays)

    def tree(self, seed: int) -> Tree:
        """Grow a tree; idle cores take over parts of it."""
        parts: dict[int, Tree] = {}
        rows = np.arange(self.X.shape[0], dtype=np.int32)
        self.crew.run(lambda node: self._step(node, parts), (1, rows, np.uint64(seed)))
        return _join(parts)

    def _step(self, node: Node, parts: dict[int, Tree]) -> list[tuple[int, Node]]:
        """Split a large node, or grow all of a small one; the children of node p are nodes 2p and 2p + 1."""
        name, rows, seed = node
        desk = self._take_desk()
        arrays, max_leaf, separating = self._arrays, self.max_leaf, (self.C, self.max_steps, self.tol, desk)
        try:
            if len(rows) > max(SMALL, self.max_leaf):
                n_first, *separator = split(*arrays, rows, seed, *separating)
                if 0 < n_first < len(rows):
                    parts[name] = _node(*separator)
                    below = (rows[:n_first], rows[n_first:])
                    return [
                        (len(some), (2 * name + side, some, np.uint64(child_seed(seed, side))))
                        for side, some in enumerate(below)
                    ]
                max_leaf = len(rows)
            parts[name] = Tree(*grow(*arrays, rows, seed, max_leaf, self.leaf_labels, *separating))
            return []
        finally:
            self._desks.append(desk)

    def _take_desk(self) -> tuple[Array, ...]:
        """Return what a thread needs that is as long as there are labels or features: zeros, used before or new."""
        try:
            return self._desks.pop()
        except IndexError:  # asking first whether there is one would leave time for another thread to take it
            n_features = self.X.shape[1]
            return (
                np.zeros(self.Y.shape[1], np.int32),
                np.zeros((n_features, 2), np.float32),
                np.zeros(n_features, np.int64),
                np.zeros(n_features, np.float32),
            )


def frozen(array: Array) -> Array:
    """Return a read-only view: a kernel compiles once for arrays in memory and for files."""
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


def csr_arrays(matrix: sp.csr_matrix) -> tuple[Array, ...]:
    """Return a matrix as kernels take it: where rows begin, the columns of their entries (unsigned), and the values."""
    columns = matrix.indices.astype(np.int32, copy=False).view(np.uint32)
    return frozen(matrix.indptr.astype(np.int64)), frozen(columns), frozen(matrix.data)


def _node(features: Array, weights: Array, constant: np.float32) -> Tree:
    """Return a part that is one inner node; its children are told when parts are joined."""
    none = np.empty(0, np.int32)
    starts, constants = np.array([0, len(features)]), np.array([constant], np.float32)
    return Tree(
        np.zeros((1, 2), np.int32), starts, features, weights, constants, np.zeros(1, np.int64), none, weights[:0], none
    )


def _join(parts: Mapping[int, Tree]) -> Tree:
    """Put the parts of a tree together: in the order of their nodes' names, the root first."""
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
    return Tree(
        children=np.concatenate(children).astype(np.int32).reshape(-1, 2),
        starts=_starts([parts[name].starts for name in names]),
        leaf_starts=_starts([parts[name].leaf_starts for name in names]),
        **joined,
    )


def _column(n_nodes: int) -> npt.NDArray[np.int64]:
    return np.arange(n_nodes)[:, None]


def _starts(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part) for part in parts]))]).astype(np.int64)
