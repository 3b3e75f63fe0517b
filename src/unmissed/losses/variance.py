"""Exact bias and variance of an estimated loss, over the two outcomes of one observed label."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.errors import InputError
from unmissed.losses.correction import AnyLoss, unbiased
from unmissed.losses.half import Array, as_scores
from unmissed.losses.loss import Loss


class Moments(NamedTuple):
    """Mean, bias and variance of a loss estimated from one observed label, per score."""

    mean: Array
    bias: Array
    variance: Array

    @property
    def squared_error(self) -> Array:
        """The mean squared error of the estimate: bias^2 + variance."""
        return self.bias**2 + self.variance


class LossVariance(NamedTuple):
    """The true risk, and the moments of the uncorrected, the unbiased and the clipped loss as its estimates."""

    risk: Array
    plain: Moments
    unbiased: Moments
    clipped: Moments | None


def moments(estimate: Loss, truth: Loss, scores: npt.ArrayLike, p: npt.ArrayLike, relevance: npt.ArrayLike) -> Moments:
    """Return mean, bias and variance of `estimate`, the loss of an observed label, relative to the risk of `truth`.

    The observed label is 1 with probability q = p * relevance. The estimate has the mean
    q l+ + (1 - q) l- and the variance q (1 - q) (l+ - l-)^2; the risk is relevance l*+ + (1 - relevance) l*-.
    """
    s = as_scores(scores)
    r = _probability(relevance, "relevance")
    q = _probability(p, "p") * r
    present, absent = estimate.positive.value(s), estimate.negative.value(s)
    mean = q * present + (1 - q) * absent
    risk = r * truth.positive.value(s) + (1 - r) * truth.negative.value(s)
    return Moments(mean, mean - risk, q * (1 - q) * (present - absent) ** 2)


def loss_variance(
    loss: AnyLoss,
    p: npt.ArrayLike,
    *,
    scores: npt.ArrayLike,
    relevance: npt.ArrayLike = 1.0,
    max_inverse: float | None = None,
) -> LossVariance:
    """Return bias and variance per score of the uncorrected, the unbiased and the clipped loss.

    With d = l*+ - l*-, r = relevance and the weight c (1/p if unbiased, 1 if uncorrected), the bias is r (c p - 1) d
    and the variance is r p (1 - r p) c^2 d^2. At c = 1/p the bias is 0 and the variance is r (1/p - r) d^2.
    The mean over n independent labels has the same bias and 1/n of the variance.

    Parameters
    ----------
    loss
        A `Loss` for complete labels, or a pair of functions (l+, l-).
    p
        Propensity, a number or one per label (along the last axis of the scores).
    scores
        The scores at which the moments are computed.
    relevance
        P(Y* = 1), a number or an array that broadcasts with the scores. The default 1 is a true label.
    max_inverse
        Upper limit of 1/p in the third estimate. If None, `clipped` is None.

    Examples
    --------
    >>> from unmissed.losses import hinge, loss_variance
    >>> result = loss_variance(hinge(), 0.1, scores=[2.0], max_inverse=4)
    >>> [float(m.bias[0].round(3)) for m in (result.plain, result.unbiased, result.clipped)]
    [2.7, 0.0, 1.8]
    >>> [float(m.variance[0].round(3)) for m in (result.plain, result.unbiased, result.clipped)]
    [0.81, 81.0, 12.96]
    """
    truth = loss if isinstance(loss, Loss) else Loss.of_functions(*loss)
    s = as_scores(scores)
    r, p = _probability(relevance, "relevance"), _probability(p, "p")
    exact = moments(unbiased(truth, p), truth, s, p, r)
    clipped = None
    if max_inverse is not None:
        clipped = moments(unbiased(truth, p, max_inverse=max_inverse), truth, s, p, r)
    risk = r * truth.positive.value(s) + (1 - r) * truth.negative.value(s)
    return LossVariance(risk, moments(truth, truth, s, p, r), exact, clipped)


def _probability(values: npt.ArrayLike, name: str) -> Array:
    if sparse.issparse(values):
        raise InputError(f"{name} is a sparse matrix; expected one number, or one per label")
    array = np.asarray(values, dtype=np.float64)
    if not np.all((array >= 0) & (array <= 1)):
        raise InputError(f"{name} must lie in [0, 1]")
    return array
