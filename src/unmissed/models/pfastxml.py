"""PfastXML: FastXML whose labels count for more the likelier they are to be missing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unmissed.models.fastxml import FastXML
from unmissed.models.rows import Rows
from unmissed.propensity import PropensityLike, as_propensity


class PfastXML(FastXML):
    """FastXML with a label's gain 1/p in place of 1: in orders, in nDCG and in leaves (Jain, Prabhu and Varma, 2016).

    Parameters
    ----------
    propensity : how p comes from label counts: jain (the default), jain:A,B, constant:P or table:FILE; in Python also a
        model such as Jain(), one p for all labels, or an array with one per label
    n_trees, max_leaf, leaf_labels, C, tol, max_steps, unit_rows, n_jobs, random_state : as in RowForest
    """

    def __init__(
        self,
        *,
        propensity: PropensityLike | None = None,
        n_trees: int = 50,
        max_leaf: int = 10,
        leaf_labels: int = 10,
        C: float = 1.0,
        tol: float = 0.01,
        max_steps: int = 10,
        unit_rows: bool = True,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            n_trees=n_trees,
            max_leaf=max_leaf,
            leaf_labels=leaf_labels,
            C=C,
            tol=tol,
            max_steps=max_steps,
            unit_rows=unit_rows,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.propensity = propensity

    def _gains(self, rows: Rows) -> npt.NDArray[np.float64]:
        return 1.0 / as_propensity(self.propensity).fit(rows.label_counts, rows.n_samples)
