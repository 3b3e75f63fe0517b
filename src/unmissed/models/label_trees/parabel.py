"""Parabel: balanced binary label trees."""

from __future__ import annotations

import scipy.sparse as sp

from unmissed.features import Features
from unmissed.models.label_trees.label_clusters import (
    LabelClusters,
    LabelRepresentations,
    balanced_2means,
    grow,
    label_representations,
)
from unmissed.models.label_trees.label_tree import LabelTree
from unmissed.models.label_trees.node_solver import LANE_MULTIPLE, MAX_COLUMNS
from unmissed.models.training_data import TrainingData


class Parabel(LabelTree):
    """Balanced binary label trees with squared-hinge SVMs at their nodes (Prabhu et al., 2018).

    A label is represented by the L2-normalized sum of the rows that have it. Balanced spherical 2-means halves the
    labels until a leaf has at most `max_leaf`. Each node is trained on the rows that have a label below it.
    """

    @classmethod
    def compile_kernels(cls, X: sp.csr_matrix, Y: sp.csr_matrix) -> None:
        """Train nodes of every number of lanes, since kernels are compiled for each, and nodes of mixed features."""
        for n_columns in range(LANE_MULTIPLE, MAX_COLUMNS + 1, LANE_MULTIPLE):
            cls(n_trees=1, max_leaf=n_columns).fit(X[:200, :500], Y[:200, :n_columns])
        mixed = Features(X[:200, :500], X[:200, :8].toarray())
        cls(n_trees=1, max_leaf=LANE_MULTIPLE).fit(mixed, Y[:200, : 2 * LANE_MULTIPLE]).rank(mixed, 5)

    def representations(self, rows: TrainingData) -> LabelRepresentations:
        """Return the L2-normalized sum of each label's rows."""
        return label_representations(rows.features, rows.Y, self.n_jobs)

    def cluster(self, representations: LabelRepresentations, n_labels: int, tree: int) -> LabelClusters:
        """Split the labels recursively by balanced spherical 2-means."""
        return grow(n_labels, self.max_leaf, balanced_2means(representations), [self._seed, tree])
