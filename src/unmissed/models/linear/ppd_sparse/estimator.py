"""PPD-Sparse: one sparse classifier with hinge or squared hinge loss per label."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from unmissed.models.linear.one_vs_rest import OneVsRest
from unmissed.models.linear.ppd_sparse.solver import HingeLoss, SparseHinge
from unmissed.models.parameters import (
    L1,
    BlockSize,
    Cost,
    DenseWeight,
    FitBias,
    Help,
    Jobs,
    MaxRounds,
    Normalize,
    Prune,
    RandomSeed,
    Tolerance,
)
from unmissed.models.training_data import TrainingData
from unmissed.propensity import Costs

L2Bias = Annotated[FitBias, Help("fit a bias per label, with an l2 penalty only")]


class PPDSparse(OneVsRest):
    """One-vs-rest hinge-loss classifiers with an l1 penalty (Yen, Huang, Dai, Ravikumar, Dhillon and Xing, 2017).

    Each label minimizes 1/2 |w|^2 + l1 |w|_1 + 1/2 b^2 + C sum_i max(0, 1 - z_i (w.x_i + b))^2 to a relative duality
    gap of `tol`. The paper's problem has the hinge without the square and no bias: `loss="hinge"`, `fit_bias=False`.
    The squared hinge ranks better. With a bias most negatives have no loss, which makes training fast.
    """

    def __init__(
        self,
        *,
        l1: L1 = 0.2,
        C: Cost = 0.5,
        loss: HingeLoss = "squared-hinge",
        tol: Tolerance = 1e-3,
        prune: Prune = 0.01,
        normalize: Normalize = True,
        dense_weight: DenseWeight = 1.0,
        fit_bias: L2Bias = True,
        max_rounds: MaxRounds = 100,
        block_size: BlockSize = 256,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        self.l1 = l1
        self.C = C
        self.loss = loss
        self.tol = tol
        self.prune = prune
        self.normalize = normalize
        self.dense_weight = dense_weight
        self.fit_bias = fit_bias
        self.max_rounds = max_rounds
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _solver(self) -> SparseHinge:
        return SparseHinge(
            l1=self.l1,
            loss=self.loss,
            tol=self.tol,
            prune=self.prune,
            fit_bias=self.fit_bias,
            max_rounds=self.max_rounds,
            random_state=self._seed,
        )

    def _costs(self, rows: TrainingData) -> Costs:
        costs = np.full(rows.n_labels, float(self.C))
        return Costs(costs, np.zeros_like(costs), costs)
