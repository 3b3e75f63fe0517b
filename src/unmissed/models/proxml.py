"""ProXML: one l1-regularised squared-hinge classifier per label, plain or with propensity costs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unmissed.execution import Work
from unmissed.models.one_vs_rest import OneVsRest, check_new_labels
from unmissed.models.rows import Rows
from unmissed.propensity import Costs, PropensityLike, WeightingName, as_propensity, costs
from unmissed.solvers.l1_squared_hinge import L1SquaredHinge


class ProXML(OneVsRest):
    """One-vs-rest squared-hinge classifiers with an l1 penalty (Babbar and Schölkopf, 2019).

    Each label minimises l1 |w|_1 + l1 |b| + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 to a relative duality gap of
    `tol`: what robustness against features that are each wrong by up to `l1` makes of the squared hinge. All c_i are 1
    in the paper; `weighting` makes positives cost what their propensities say.

    Parameters
    ----------
    l1 : the l1 penalty: the larger, the fewer weights
    weighting : what a propensity p makes a positive cost: none (1, the paper's ProXML), tail (1/p - 1), surrogate
        (2/p - 1) and others as in PWDiSMEC; negatives cost 1
    propensity : how p comes from label counts: jain (the default), jain:A,B, constant:P or table:FILE; in Python also a
        model such as Jain(), one p for all labels, or an array with one per label
    tol : the relative duality gap at which a label is solved
    prune : weights smaller than this become 0 after training
    unit_rows : scale each row to length 1 first, in training and in prediction
    fit_bias : give each label a constant that is penalised like a weight
    max_rounds : how often a label may come back before it is given up and named in a warning
    block_size : labels per piece, the unit of work and of file; it does not change the ranking
    n_jobs : threads; all cores by default
    random_state : seed of the order in which weights are visited
    """

    def __init__(
        self,
        *,
        l1: float = 1.0,
        weighting: WeightingName = "none",
        propensity: PropensityLike | None = None,
        tol: float = 1e-3,
        prune: float = 0.0,
        unit_rows: bool = True,
        fit_bias: bool = True,
        max_rounds: int = 200,
        block_size: int = 256,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.l1 = l1
        self.weighting = weighting
        self.propensity = propensity
        self.tol = tol
        self.prune = prune
        self.unit_rows = unit_rows
        self.fit_bias = fit_bias
        self.max_rounds = max_rounds
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _solver(self) -> L1SquaredHinge:
        return L1SquaredHinge(
            l1=self.l1,
            tol=self.tol,
            prune=self.prune,
            fit_bias=self.fit_bias,
            max_rounds=self.max_rounds,
            random_state=self.random_state,
        )

    def _fit_labels(self, rows: Rows, work: Work) -> None:
        check_new_labels(self.propensity)
        super()._fit_labels(rows, work)

    def _costs(self, label_counts: npt.NDArray[np.int64], n_samples: int) -> Costs:
        propensity = as_propensity(self.propensity)
        return costs(self.weighting, propensity.fit(label_counts, n_samples), label_counts)
