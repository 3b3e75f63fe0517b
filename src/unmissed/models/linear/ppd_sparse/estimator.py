"""PPD-Sparse: one sparse classifier with hinge or squared hinge loss per label."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.one_vs_rest import OneVsRest
from unmissed.models.linear.ppd_sparse.solver import SparseHinge
from unmissed.models.ranges import BlockSize, Count, NotNegative, Positive, Seed, Tolerance
from unmissed.propensity import Costs


class PPDSparse(OneVsRest):
    """One-vs-rest hinge-loss classifiers with an l1 penalty (Yen, Huang, Dai, Ravikumar, Dhillon and Xing, 2017).

    Each label minimizes 1/2 |w|^2 + l1 |w|_1 + 1/2 b^2 + C sum_i max(0, 1 - z_i (w.x_i + b))^2 to a relative duality
    gap of `tol`. The paper's problem has the hinge without the square and no bias: `loss="hinge"`, `fit_bias=False`.
    The squared hinge ranks better. With a bias most negatives have no loss, which makes training fast.

    Parameters
    ----------
    l1 : the l1 penalty; larger values give fewer weights
    C : weight of the loss relative to the penalties
    loss : squared-hinge, or hinge as in the paper (use C of about 1 then)
    tol : relative duality gap at which the solver of a label stops
    prune : weights below this absolute value become 0 after training
    normalize : L2-normalize rows, in training and in prediction
    fit_bias : fit a bias per label, with an l2 penalty only
    max_rounds : maximum number of working sets per label; labels that do not converge are named in a warning
    block_size : labels per task and per file; it does not change the ranking
    n_jobs : number of threads; all cores by default
    random_state : seed of the order of dual coordinate ascent
    """

    def __init__(
        self,
        *,
        l1: NotNegative = 0.2,
        C: Positive = 0.5,
        loss: Literal["squared-hinge", "hinge"] = "squared-hinge",
        tol: Tolerance = 1e-3,
        prune: NotNegative = 0.01,
        normalize: bool = True,
        fit_bias: bool = True,
        max_rounds: Count = 100,
        block_size: BlockSize = 256,
        n_jobs: int | None = None,
        random_state: Seed = 0,
    ) -> None:
        self.l1 = l1
        self.C = C
        self.loss = loss
        self.tol = tol
        self.prune = prune
        self.normalize = normalize
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
            random_state=self.random_state,
        )

    def _costs(self, label_counts: npt.NDArray[np.int64], n_samples: int) -> Costs:
        costs = np.full(len(label_counts), float(self.C))
        return Costs(costs, np.zeros_like(costs), costs)
