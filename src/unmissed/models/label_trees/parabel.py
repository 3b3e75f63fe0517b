"""Parabel: balanced binary label trees."""

from __future__ import annotations

from unmissed.models.label_trees.label_clusters import (
    LabelClusters,
    LabelRepresentations,
    balanced_2means,
    grow,
    label_representations,
)
from unmissed.models.label_trees.label_tree import LabelTree
from unmissed.models.training_data import TrainingData


class Parabel(LabelTree):
    """Balanced binary label trees with squared-hinge SVMs at their nodes (Prabhu et al., 2018).

    A label is represented by the L2-normalized sum of the rows that have it. Balanced spherical 2-means halves the
    labels until a leaf has at most `max_leaf`. Each node is trained on the rows that have a label below it.

    Parameters
    ----------
    n_trees, max_leaf, beam, weighting, propensity : as in LabelTree
    C, tol, prune, max_sweeps, normalize, n_jobs, random_state : as in LabelTree
    """

    def representations(self, rows: TrainingData) -> LabelRepresentations:
        """Return the L2-normalized sum of each label's rows."""
        return label_representations(rows.features.csr, rows.Y, self.n_jobs)

    def cluster(self, representations: LabelRepresentations, n_labels: int, tree: int) -> LabelClusters:
        """Split the labels recursively by balanced spherical 2-means."""
        return grow(n_labels, self.max_leaf, balanced_2means(representations), [self.random_state, tree])
