"""Bonsai: shallow label trees with many children per node."""

from __future__ import annotations

from typing import Annotated, Literal

import scipy.sparse as sp

from unmissed.features import Features, scale_rows
from unmissed.models.label_trees.label_clusters import (
    LabelClusters,
    LabelRepresentations,
    grow,
    label_representations,
    spherical_kmeans,
)
from unmissed.models.label_trees.label_tree import Beam, LabelTree, LeafSize, Trees, TreeWeighting
from unmissed.models.label_trees.node_solver import MAX_COLUMNS, MaxSweeps
from unmissed.models.parameters import (
    Cost,
    DenseWeight,
    Help,
    Jobs,
    Normalize,
    PropensityModel,
    Prune,
    RandomSeed,
    Tolerance,
)
from unmissed.models.ranges import IntegerRange
from unmissed.models.training_data import TrainingData

LabelSpace = Annotated[
    Literal["rows", "labels", "both"],
    Help("what a label is represented by: rows (sum of its rows), labels (sum of their label vectors) or both"),
]
Branching = Annotated[int, IntegerRange(2, MAX_COLUMNS), Help("maximum number of children of a node")]


class Bonsai(LabelTree):
    """Shallow, unbalanced label trees with many children per node (Khandagale et al., 2020).

    Spherical k-means splits a node's labels until a part has at most `max_leaf`. k is chosen such that leaves are half
    full on average, at most `branching`. Nodes and scores are those of Parabel.
    """

    def __init__(
        self,
        *,
        n_trees: Trees = 3,
        label_space: LabelSpace = "rows",
        branching: Branching = 100,
        max_leaf: LeafSize = 100,
        beam: Beam = 10,
        weighting: TreeWeighting = "none",
        propensity: PropensityModel = None,
        C: Cost = 1.0,
        tol: Tolerance = 0.01,
        prune: Prune = 0.01,
        max_sweeps: MaxSweeps = 100,
        normalize: Normalize = True,
        dense_weight: DenseWeight = 1.0,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        super().__init__(
            n_trees=n_trees,
            max_leaf=max_leaf,
            beam=beam,
            weighting=weighting,
            propensity=propensity,
            C=C,
            tol=tol,
            prune=prune,
            max_sweeps=max_sweeps,
            normalize=normalize,
            dense_weight=dense_weight,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.label_space = label_space
        self.branching = branching

    def representations(self, rows: TrainingData) -> LabelRepresentations:
        """Return the L2-normalized sum of each label's rows, of their label vectors, or of both."""
        X, labels = rows.features, rows.Y
        if self.label_space == "labels":
            X = Features(labels, trusted=True)
        elif self.label_space == "both":
            parts = [part for part in (X.sparse, scale_rows(labels)) if part is not None]
            X = Features(sp.csr_matrix(sp.hstack(parts, format="csr")), X.dense, trusted=True)
        return label_representations(X, labels, self.n_jobs)

    def cluster(self, representations: LabelRepresentations, n_labels: int, tree: int) -> LabelClusters:
        """Split the labels recursively by spherical k-means."""
        split = spherical_kmeans(representations, self.branching, self.max_leaf)
        return grow(n_labels, self.max_leaf, split, [self._seed, tree])
