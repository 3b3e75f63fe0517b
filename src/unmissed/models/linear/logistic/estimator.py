"""LogisticOVR: one logistic regression per label, with the unbiased loss for missing labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from unmissed.execution import Work
from unmissed.models.linear.logistic.solver import Logistic
from unmissed.models.linear.one_vs_rest import OneVsRest, check_new_labels, weighted_costs
from unmissed.models.parameters import (
    WEIGHTING,
    BlockSize,
    Cost,
    DenseWeight,
    FitBias,
    Help,
    Jobs,
    MaxRounds,
    Normalize,
    PropensityModel,
    Prune,
    Tolerance,
)
from unmissed.models.training_data import TrainingData
from unmissed.propensity import Costs, WeightingName

ProbabilityWeighting = Annotated[
    WeightingName,
    Help(f"{WEIGHTING}. Only none and unbiased give probabilities: of being observed, and of being relevant"),
]


class LogisticOVR(OneVsRest):
    """One-vs-rest logistic regression with probabilities; the unbiased loss of missing labels stays convex.

    Each label minimizes 1/2 |w|^2 + 1/2 b^2 + C sum_i log(1 + exp(-z_i (w.x_i + b))), LIBLINEAR's objective, to a
    relative duality gap of `tol`. With the weighting `unbiased`, the loss of an observed positive of propensity p is
    C (log(1 + exp(m)) - m/p), m = w.x + b: its mean over the missing labels is the loss of complete labels.
    """

    baseline_params: ClassVar[Mapping[str, Any]] = {"weighting": "none"}
    fast_params: ClassVar[Mapping[str, Any]] = {"tol": 0.01}

    def __init__(
        self,
        *,
        C: Cost = 10.0,
        weighting: ProbabilityWeighting = "none",
        propensity: PropensityModel = None,
        tol: Tolerance = 1e-3,
        prune: Prune = 0.01,
        normalize: Normalize = True,
        dense_weight: DenseWeight = 1.0,
        fit_bias: FitBias = True,
        max_rounds: MaxRounds = 50,
        block_size: BlockSize = 256,
        n_jobs: Jobs = None,
    ) -> None:
        self.C = C
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

    def predict_proba(self, X: Any, labels: npt.ArrayLike | None = None) -> npt.NDArray[np.float32]:
        """Return the probabilities 1 / (1 + exp(-score)) of all labels, or of chosen ones: (n_samples, len(labels)).

        `rank` returns the scores of the best labels only; the same function turns them into probabilities.
        """
        scores = self.decision_function(X, labels)
        decay = np.exp(-np.abs(scores))
        probabilities: npt.NDArray[np.float32] = np.where(scores >= 0, np.float32(1), decay) / (1 + decay)
        return probabilities

    def _solver(self) -> Logistic:
        return Logistic(self.tol, self.prune, self.fit_bias, self.max_rounds)

    def _fit_labels(self, rows: TrainingData, work: Work) -> None:
        check_new_labels(self.propensity)
        super()._fit_labels(rows, work)

    def _costs(self, rows: TrainingData) -> Costs:
        return self._scaled(weighted_costs(self.weighting, self.propensity, rows))
