"""FastXML: a forest of trees over rows that split by nDCG."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unmissed.models.row_tree import RowForest
from unmissed.models.rows import Rows
from unmissed.solvers.parameters import Count, Positive, Seed, Tolerance


class FastXML(RowForest):
    """Trees over rows, each node split so that both sides rank their rows' labels well (Prabhu and Varma, 2014).

    A node chooses sides d_i and both sides' label orders, turn by turn from random sides, so that the sum of the rows'
    nDCG rises. A separator then minimises |w|_1 + |b| + C sum_i c_i ln(1 + exp(-d_i (w.x_i + b))), where c_i is 1 / the
    share of rows on i's side, and sends the rows on. A leaf has the mean of its rows' labels; a label's score is its
    mean over the trees.

    Parameters
    ----------
    n_trees, max_leaf, leaf_labels, C, tol, max_steps, unit_rows, n_jobs, random_state : as in RowForest
    """

    def __init__(
        self,
        *,
        n_trees: Count = 50,
        max_leaf: Count = 10,
        leaf_labels: Count = 10,
        C: Positive = 1.0,
        tol: Tolerance = 0.01,
        max_steps: Count = 10,
        unit_rows: bool = True,
        n_jobs: int | None = None,
        random_state: Seed = 0,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaf = max_leaf
        self.leaf_labels = leaf_labels
        self.C = C
        self.tol = tol
        self.max_steps = max_steps
        self.unit_rows = unit_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _gains(self, rows: Rows) -> npt.NDArray[np.float64]:
        return np.ones(rows.n_labels)
