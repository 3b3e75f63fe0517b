"""Beam search over label trees: batches of rows, shared among threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unmissed.execution import Threads
from unmissed.features import Features
from unmissed.models.label_trees.beam_kernels import DENSE_ROWS, add_trees
from unmissed.models.label_trees.first_levels import search_tree
from unmissed.models.label_trees.tree_file import SearchTree
from unmissed.numerics.csr import csr_arrays, read_only
from unmissed.numerics.workspace import workspace, zeroed_workspace
from unmissed.ranking import Ranking

_ROWS = 4096  # rows per batch; larger batches share more nodes and need more memory
_MAX_LEAF_SCORES = 2**26  # per thread; a very wide beam gets smaller batches


class BeamSearch:
    """Label trees in the layout of the beam search."""

    def __init__(self, trees: Sequence[SearchTree]) -> None:
        self._trees = [(tree.search, tree.top) for tree in trees]
        self._labels = np.stack([tree.clusters.labels for tree in trees])
        self._n_nodes = max(tree.clusters.n_nodes for tree in trees)
        self._widest = max(tree.widest for tree in trees)
        self._tile = max(tree.tile for tree in trees)
        self._most_columns = max(int(tree.clusters.n_columns.max()) for tree in trees)

    @property
    def n_dense(self) -> int:
        """The number of dense features that have dense weights."""
        return int(self._trees[0][0].dense.shape[1])

    @property
    def n_bytes(self) -> int:
        """Size in memory, without the trees themselves."""
        return sum(int(array.nbytes) for array in (self._labels, *(array for _, top in self._trees for array in top)))

    def rank(self, X: Features, beam: int, k: int, n_jobs: int | None) -> Ranking:
        """Return the k labels of each row with the highest mean probability over the trees."""
        n_samples, (n_trees, n_labels) = X.shape[0], self._labels.shape
        beam = min(beam, self._n_nodes)  # a tree has no more nodes
        labels = np.full((n_samples, k), -1, np.int32)
        scores = np.full((n_samples, k), -np.inf, np.float32)
        sparse, values = X.both
        indptr, indices, data = csr_arrays(sparse)
        size = max(min(_MAX_LEAF_SCORES // (n_trees * beam * max(self._widest, 1)), _ROWS), 1)

        def search_rows(first: int) -> None:
            last = min(first + size, n_samples)
            dense = read_only(values[first:last].reshape(-1)), self.n_dense
            rows = (indptr[first : last + 1], indices, data, dense)
            shape = (n_trees, last - first, beam)
            table = zeroed_workspace("features of a node", sparse.shape[1], np.int32)
            begins = workspace("begins of leaves", shape, np.int32)
            sizes = workspace("sizes of leaves", shape, np.int32)
            leaf_scores = workspace("scores of leaves", (*shape, self._widest))
            tile = workspace("tile of a node", (self._tile,))
            dense_tile = workspace("dense weights of a node", (self._most_columns * self.n_dense,))
            dense_scores = workspace("dense scores of a node", (DENSE_ROWS, self._most_columns))
            tiles = table, tile, dense_tile, dense_scores
            for at, (tree, top) in enumerate(self._trees):
                nodes, node_scores = np.empty(shape[1:], np.int32), np.empty(shape[1:], np.float32)
                search_tree(tree, top, *rows, nodes, node_scores, *tiles, begins[at], sizes[at], leaf_scores[at])
            totals = np.full(n_labels, -1.0)
            add_trees(self._labels, begins, sizes, leaf_scores, totals, labels[first:last], scores[first:last])

        firsts = range(0, n_samples, size)
        for _ in Threads(n_jobs if len(firsts) > 1 else 1).each(search_rows, firsts):
            pass
        return Ranking(labels, scores)
