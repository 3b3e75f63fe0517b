"""The mathematics of the paper: pointwise losses, and Theorem 1 that makes any of them unbiased.

A loss is its two halves l+ and l- of the score. `unbiased(loss, p)` corrects any of them for labels that are written
down with probability p only; `convex_bound` and `naive` are the paper's other two corrections. `unmissed.losses.torch`
has the same losses as modules for networks, and is imported only when asked for.
"""

from unmissed.losses.correction import convex_bound, naive, shifted_zero_one, unbiased
from unmissed.losses.half import Curve, Facts, Half
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
    "Facts",
    "Half",
    "Loss",
    "LossVariance",
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
