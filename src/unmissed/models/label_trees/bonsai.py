"""Bonsai: shallow label trees with many children per node."""

from __future__ import annotations

from typing import Annotated, Literal

import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Work
from unmissed.features import scale_rows
from unmissed.models.label_trees.label_clusters import (
    LabelClusters,
    LabelRepresentations,
    grow,
    label_representations,
    spherical_kmeans,
)
from unmissed.models.label_trees.label_tree import LabelTree
from unmissed.models.label_trees.node_solver import MAX_COLUMNS
from unmissed.models.ranges import Count, IntegerRange, NotNegative, Positive, Seed, Tolerance
from unmissed.models.training_data import TrainingData
from unmissed.propensity import PropensityLike
from unmissed.propensity.weighting import WeightingName

LabelSpace = Literal["rows", "labels", "both"]
_SPACES = ("rows", "labels", "both")


class Bonsai(LabelTree):
    """Shallow, unbalanced label trees with many children per node (Khandagale et al., 2020).

    Spherical k-means splits a node's labels until a part has at most `max_leaf`. k is chosen such that leaves are half
    full on average, at most `branching`. Nodes and scores are those of Parabel.

    Parameters
    ----------
    label_space : what a label is represented by: rows (sum of its rows), labels (sum of their label vectors) or both
    branching : maximum number of children of a node, up to 112
    n_trees, max_leaf, beam, weighting, propensity : as in LabelTree
    C, tol, prune, max_sweeps, normalize, n_jobs, random_state : as in LabelTree
    """

    def __init__(
        self,
        *,
        n_trees: Count = 3,
        label_space: LabelSpace = "rows",
        branching: Annotated[int, IntegerRange(2, MAX_COLUMNS)] = 100,
        max_leaf: Annotated[int, IntegerRange(1, MAX_COLUMNS)] = 100,
        beam: Count = 10,
        weighting: WeightingName = "none",
        propensity: PropensityLike | None = None,
        C: Positive = 1.0,
        tol: Tolerance = 0.01,
        prune: NotNegative = 0.01,
        max_sweeps: Count = 100,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: Seed = 0,
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
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.label_space = label_space
        self.branching = branching

    def _fit(self, rows: TrainingData, work: Work) -> None:
        if self.label_space not in _SPACES:
            raise InputError(f"label_space must be one of {', '.join(_SPACES)}; got {self.label_space!r}")
        super()._fit(rows, work)

    def representations(self, rows: TrainingData) -> LabelRepresentations:
        """Return the L2-normalized sum of each label's rows, of their label vectors, or of both."""
        spaces = {"rows": rows.features.csr, "labels": rows.Y}
        if self.label_space in spaces:
            space = spaces[self.label_space]
        else:
            space = sp.csr_matrix(sp.hstack([rows.features.csr, scale_rows(rows.Y)], format="csr"))
        return label_representations(space, rows.Y, self.n_jobs)

    def cluster(self, representations: LabelRepresentations, n_labels: int, tree: int) -> LabelClusters:
        """Split the labels recursively by spherical k-means."""
        split = spherical_kmeans(representations, self.branching, self.max_leaf)
        return grow(n_labels, self.max_leaf, split, [self.random_state, tree])
