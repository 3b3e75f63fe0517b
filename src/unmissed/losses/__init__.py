"""Pointwise losses and their corrections for missing labels.

A loss is a pair of functions of the score: l+ for a present label, l- for an absent one. `unbiased(loss, p)` applies
Theorem 1: the corrected loss is unbiased when a true label is observed with probability p. `convex_bound` and `naive`
are the paper's other two corrections. Start with `loss.py` (`Loss`) and `correction.py`; `margin.py` has the formulas
that the solvers compile. `unmissed.losses.torch` has the same losses as PyTorch modules; import it explicitly.
"""

from unmissed.losses.correction import convex_bound, naive, shifted_zero_one, unbiased
from unmissed.losses.half import Curve, Half, Metadata
from unmissed.losses.inverse import inverse_propensities
from unmissed.losses.loss import Loss
from unmissed.losses.named import (
    NAMED,
    cross_entropy,
    cross_entropy_from_logits,
    hamming,
    hinge,
    logistic,
    squared_error,
    squared_hinge,
    zero_one,
)
from unmissed.losses.variance import LossVariance, Moments, loss_variance, moments

__all__ = [
    "NAMED",
    "Curve",
    "Half",
    "Loss",
    "LossVariance",
    "Metadata",
    "Moments",
    "convex_bound",
    "cross_entropy",
    "cross_entropy_from_logits",
    "hamming",
    "hinge",
    "inverse_propensities",
    "logistic",
    "loss_variance",
    "moments",
    "naive",
    "shifted_zero_one",
    "squared_error",
    "squared_hinge",
    "unbiased",
    "zero_one",
]
