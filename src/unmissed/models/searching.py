"""The best labels of rows by label trees: batches of rows over threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.kernels.beam import add_trees
from unmissed.kernels.first_levels import search_tree
from unmissed.models.label_clusters import csr_arrays
from unmissed.models.tree_file import Tree
from unmissed.ranking import Ranking
from unmissed.solvers.buffers import clean_scratch, scratch

_ROWS = 4096  # rows that go down the trees together; more share a node, and need more memory
_CELLS = 2**26  # scores of labels in leaves that a thread holds at a time; only a very wide beam needs more


def search(X: sp.csr_matrix, trees: Sequence[Tree], beam: int, k: int, n_labels: int, n_jobs: int | None) -> Ranking:
    """Return the k best labels of each row by the mean of their probabilities over the trees."""
    n_samples = X.shape[0]
    beam = min(beam, max(tree.clusters.n_nodes for tree in trees))  # a row reaches no more nodes than there are
    labels = np.full((n_samples, k), -1, np.int32)
    scores = np.full((n_samples, k), -np.inf, np.float32)
    indptr, indices, data = csr_arrays(X)
    tree_labels = np.stack([tree.clusters.labels for tree in trees])
    widest = max(tree.widest for tree in trees)
    size = max(min(_CELLS // (len(trees) * beam * max(widest, 1)), _ROWS), 1)
    tops = [tree.top for tree in trees]

    def some(first: int) -> None:
        last = min(first + size, n_samples)
        rows = (indptr[first : last + 1], indices, data)
        places = (len(trees), last - first, beam)
        table = clean_scratch("features of a node", X.shape[1], np.int32)
        begins, sizes = scratch("begins of leaves", places, np.int32), scratch("sizes of leaves", places, np.int32)
        found = scratch("scores of leaves", (*places, widest))
        tile = scratch("tile of a node", (max(tree.tile for tree in trees),))
        for at, (tree, top) in enumerate(zip(trees, tops, strict=True)):
            nodes, reached = np.empty(places[1:], np.int32), np.empty(places[1:], np.float32)
            search_tree(tree.search, top, *rows, nodes, reached, table, tile, begins[at], sizes[at], found[at])
        totals = np.full(n_labels, -1.0)
        add_trees(tree_labels, begins, sizes, found, totals, labels[first:last], scores[first:last])

    firsts = range(0, n_samples, size)
    for _ in Threads(n_jobs if len(firsts) > 1 else 1).each(some, firsts):
        pass
    return Ranking(labels, scores)
