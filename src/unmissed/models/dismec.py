"""DiSMEC and PW-DiSMEC: one squared-hinge SVM a label, plain and with propensity costs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.models.one_vs_rest import OneVsRest
from unmissed.progress import Progress, silent
from unmissed.propensity import Costs, FromTable, Jain, Propensity, costs
from unmissed.solvers.shard import Shards


class DiSMEC(OneVsRest):
    """One-vs-rest squared-hinge SVMs with pruned weights (Babbar and Schölkopf, 2017).

    Each label minimises 1/2 |w|^2 + 1/2 b^2 + C sum_i max(0, 1 - z_i (w.x_i + b))^2, LIBLINEAR's objective, to a
    relative duality gap of `tol`.

    Parameters
    ----------
    C : the weight of the loss against the penalty
    tol : the relative duality gap at which a label is done
    prune : weights smaller than this become 0 after training
    unit_rows : scale each row to length 1 first, in training and in prediction, as the paper's features are
    fit_bias : True for a bias that is penalised like the weights, "free" for one that is not, False for none
    max_rounds : how often a label may come back before it is given up and named in a warning
    block_size : labels per shard: the unit of work, checkpoint and file; it does not change the result
    n_jobs : threads; None or -1 for all cores
    random_state : seed of the order in which rows are visited
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        tol: float = 1e-3,
        prune: float = 0.01,
        unit_rows: bool = False,
        fit_bias: bool | str = True,
        max_rounds: int = 50,
        block_size: int = 256,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.C = C
        self.tol = tol
        self.prune = prune
        self.unit_rows = unit_rows
        self.fit_bias = fit_bias
        self.max_rounds = max_rounds
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state


class PWDiSMEC(OneVsRest):
    """DiSMEC whose observed positives cost more the likelier a label is to be missing: the paper's PW-DiSMEC.

    Parameters
    ----------
    weighting : what a propensity p makes a positive cost: "tail" (1/p - 1, the paper's tables), "surrogate" (2/p - 1,
        the convex bound of the unbiased loss), "balanced" or "none"; negatives cost 1
    propensity : the model that gives p; None for Jain()
    C, tol, prune, unit_rows, fit_bias, max_rounds, block_size, n_jobs, random_state : as in DiSMEC
    """

    def __init__(
        self,
        *,
        weighting: str = "tail",
        propensity: Propensity | None = None,
        C: float = 1.0,
        tol: float = 1e-3,
        prune: float = 0.01,
        unit_rows: bool = False,
        fit_bias: bool | str = True,
        max_rounds: int = 50,
        block_size: int = 256,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.weighting = weighting
        self.propensity = propensity
        self.C = C
        self.tol = tol
        self.prune = prune
        self.unit_rows = unit_rows
        self.fit_bias = fit_bias
        self.max_rounds = max_rounds
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit_labels(self, X: Any, Y_new: Any, *, shards: Shards | None = None, progress: Progress = silent) -> Self:
        """Train further labels, the columns of Y_new, behind those that are there; the old ones stay as they are."""
        if isinstance(self.propensity, FromTable):
            raise InputError("a table of propensities has no entry for new labels; use a model such as Jain()")
        return super().fit_labels(X, Y_new, shards=shards, progress=progress)

    def _costs(self, label_counts: npt.NDArray[np.int64], n_samples: int) -> Costs:
        propensity = Jain() if self.propensity is None else self.propensity
        return costs(self.weighting, propensity.fit(label_counts, n_samples), label_counts)
