"""Bonsai: shallow trees over labels with many children per node."""

from __future__ import annotations

from typing import Literal

import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.models.label_clusters import Clusters, Directions, by_means, grow, label_directions
from unmissed.models.label_tree import LabelTree
from unmissed.models.rows import Rows, scale_rows
from unmissed.propensity import PropensityLike
from unmissed.propensity.weighting import WeightingName
from unmissed.solvers.node import MOST_COLUMNS
from unmissed.solvers.parameters import check_whole

LabelSpace = Literal["rows", "labels", "both"]
_SPACES = ("rows", "labels", "both")


class Bonsai(LabelTree):
    """Shallow label trees with many children per node and no balance between them (Khandagale and others, 2020).

    k-means on the sphere splits labels into as many parts as would leave leaves half full, at most `branching`, and
    parts of more than `max_leaf` labels again. Nodes and scores are those of Parabel.

    Parameters
    ----------
    label_space : what labels are compared by: rows (the sum of a label's rows), labels (of the labels of those rows)
        or both
    branching : children of a node at most, up to 112
    n_trees, max_leaf, beam, weighting, propensity : as in LabelTree
    C, tol, prune, max_sweeps, unit_rows, n_jobs, random_state : as in LabelTree
    """

    def __init__(
        self,
        *,
        n_trees: int = 3,
        label_space: LabelSpace = "rows",
        branching: int = 100,
        max_leaf: int = 100,
        beam: int = 10,
        weighting: WeightingName = "none",
        propensity: PropensityLike | None = None,
        C: float = 1.0,
        tol: float = 0.01,
        prune: float = 0.01,
        max_sweeps: int = 100,
        unit_rows: bool = True,
        n_jobs: int | None = None,
        random_state: int = 0,
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
            unit_rows=unit_rows,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.label_space = label_space
        self.branching = branching

    def _check(self) -> None:
        super()._check()
        check_whole("branching", self.branching, 2, MOST_COLUMNS)
        if self.label_space not in _SPACES:
            raise InputError(f"label_space must be one of {', '.join(_SPACES)}; got {self.label_space!r}")

    def directions(self, rows: Rows) -> Directions:
        """Return the sum of each label's rows, of their labels or of both, scaled to length 1."""
        spaces = {"rows": rows.features, "labels": rows.Y}
        if self.label_space in spaces:
            space = spaces[self.label_space]
        else:
            space = sp.csr_matrix(sp.hstack([rows.features, scale_rows(rows.Y)], format="csr"))
        return label_directions(space, rows.Y, self.n_jobs)

    def cluster(self, directions: Directions, n_labels: int, tree: int) -> Clusters:
        """Split the labels by k-means."""
        split = by_means(directions, self.branching, self.max_leaf)
        return grow(n_labels, self.max_leaf, split, [self.random_state, tree])
