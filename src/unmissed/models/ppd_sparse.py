"""PPD-Sparse: one sparse hinge-loss classifier per label."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from unmissed.models.one_vs_rest import OneVsRest
from unmissed.propensity import Costs
from unmissed.solvers.parameters import BlockSize, Count, NotNegative, Positive, Seed, Tolerance
from unmissed.solvers.sparse_hinge import SparseHinge


class PPDSparse(OneVsRest):
    """One-vs-rest hinge-loss classifiers with an l1 penalty (Yen, Huang, Dai, Ravikumar, Dhillon and Xing, 2017).

    Each label minimises 1/2 |w|^2 + l1 |w|_1 + 1/2 b^2 + C sum_i max(0, 1 - z_i (w.x_i + b))^2 to a relative duality
    gap of `tol`. The paper's problem has the hinge without the square and no bias: `loss="hinge"`, `fit_bias=False`.
    With the square it ranks better, and with a bias most negatives cost nothing, which is what keeps a label cheap.

    Parameters
    ----------
    l1 : the l1 penalty: the larger, the fewer weights
    C : the weight of the loss against the penalties
    loss : squared-hinge, or hinge as in the paper (C about 1 then)
    tol : the relative duality gap at which a label is solved
    prune : weights smaller than this become 0 after training
    unit_rows : scale each row to length 1 first, in training and in prediction
    fit_bias : give each label a constant whose square is penalised
    max_rounds : how often a label may come back before it is given up and named in a warning
    block_size : labels per piece, the unit of work and of file; it does not change the ranking
    n_jobs : threads; all cores by default
    random_state : seed of the order in which rows are visited
    """

    def __init__(
        self,
        *,
        l1: NotNegative = 0.2,
        C: Positive = 0.5,
        loss: Literal["squared-hinge", "hinge"] = "squared-hinge",
        tol: Tolerance = 1e-3,
        prune: NotNegative = 0.01,
        unit_rows: bool = True,
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
        self.unit_rows = unit_rows
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
