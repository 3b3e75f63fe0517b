"""ProXML: one l1-regularized squared-hinge classifier per label, with or without propensity-weighted costs."""

from __future__ import annotations

from unmissed.execution import Work
from unmissed.models.linear.one_vs_rest import OneVsRest, check_new_labels
from unmissed.models.linear.proxml.solver import L1SquaredHinge, PositiveL1
from unmissed.models.parameters import (
    BlockSize,
    DenseWeight,
    FitBias,
    Jobs,
    MaxRounds,
    Normalize,
    PropensityModel,
    Prune,
    RandomSeed,
    Tolerance,
    Weighting,
)
from unmissed.models.training_data import TrainingData
from unmissed.propensity import Costs, as_propensity, costs


class ProXML(OneVsRest):
    """One-vs-rest squared-hinge classifiers with an l1 penalty (Babbar and Schölkopf, 2019).

    Each label minimizes l1 |w|_1 + l1 |b| + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 to a relative duality gap of
    `tol`. The paper derives the l1 penalty from robustness to perturbations of up to `l1` per feature. There all c_i
    are 1; `weighting` derives the costs of positives from propensities.
    """

    def __init__(
        self,
        *,
        l1: PositiveL1 = 1.0,
        weighting: Weighting = "none",
        propensity: PropensityModel = None,
        tol: Tolerance = 1e-3,
        prune: Prune = 0.0,
        normalize: Normalize = True,
        dense_weight: DenseWeight = 1.0,
        fit_bias: FitBias = True,
        max_rounds: MaxRounds = 200,
        block_size: BlockSize = 256,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        self.l1 = l1
        self.weighting = weighting
        self.propensity = propensity
        self.tol = tol
        self.prune = prune
        self.normalize = normalize
        self.dense_weight = dense_weight
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
            random_state=self._seed,
        )

    def _fit_labels(self, rows: TrainingData, work: Work) -> None:
        check_new_labels(self.propensity)
        super()._fit_labels(rows, work)

    def _costs(self, rows: TrainingData) -> Costs:
        p = as_propensity(self.propensity).estimate(rows.label_counts, rows.total_weight)
        return costs(self.weighting, p, rows.label_counts)
