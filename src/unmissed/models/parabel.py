"""Parabel: balanced binary trees over labels."""

from __future__ import annotations

from unmissed.models.label_clusters import Clusters, Directions, grow, in_halves, label_directions
from unmissed.models.label_tree import LabelTree
from unmissed.models.rows import Rows


class Parabel(LabelTree):
    """Balanced binary label trees with squared-hinge SVMs at their nodes (Prabhu and others, 2018).

    A label is the direction of the sum of its rows; balanced 2-means on the sphere halves the labels until a leaf has
    at most `max_leaf`. Each node is trained on the rows that have a label below it.

    Parameters
    ----------
    n_trees, max_leaf, beam, weighting, propensity : as in LabelTree
    C, tol, prune, max_sweeps, unit_rows, n_jobs, random_state : as in LabelTree
    """

    def directions(self, rows: Rows) -> Directions:
        """Return the sum of each label's rows, scaled to length 1."""
        return label_directions(rows.features, rows.Y, self.n_jobs)

    def cluster(self, directions: Directions, n_labels: int, tree: int) -> Clusters:
        """Halve the labels again and again."""
        return grow(n_labels, self.max_leaf, in_halves(directions), [self.random_state, tree])
