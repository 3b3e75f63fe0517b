"""The losses of the paper by name, for complete labels; `unbiased`, `convex_bound` and `naive` correct them."""

import math
from collections.abc import Callable

import numpy as np

from unmissed.errors import InputError
from unmissed.losses import margin
from unmissed.losses.half import Array, Curve, Facts, Half
from unmissed.losses.loss import Loss

CONVEX = Facts(convex=True, bounded_below=True)
STEP = Facts(convex=False, bounded_below=True)
UNTAMED = Facts(convex=False, bounded_below=False)


def squared_error() -> Loss:
    """(y - s)^2: l+ = (1 - s)^2, l- = s^2.

    Unbiased: l+ = (1 - 2s)/p + s^2, convex for every p, least at s = 1/p, where it is (1 - 1/p)/p.
    """
    return Loss(
        Half.of(Curve(lambda s: (1 - s) ** 2, lambda s: 2 * (s - 1), lambda s: np.full_like(s, 2), CONVEX)),
        Half.of(Curve(np.square, lambda s: 2 * s, lambda s: np.full_like(s, 2), CONVEX)),
        name="squared error",
        corrected=CONVEX,
    )


def zero_one() -> Loss:
    """1 where the sign of the score is wrong: l+ = [s < 0], l- = [s >= 0].

    Unbiased: l+ = 1/p for s < 0 and 1 - 1/p, which is negative, from 0 on.
    """
    return _step(0.0, "0-1")


def hamming() -> Loss:
    """1 where the decision s >= 1/2 is wrong: the 0-1 loss for scores in [0, 1]; its mean is the Hamming loss."""
    return _step(0.5, "Hamming")


def hinge() -> Loss:
    """max(0, 1 - zs) with z = 2y - 1.

    Unbiased, for p < 1: not convex (a concave kink at s = -1) and falling without bound as s grows.
    """
    return Loss.of_margin(
        Curve(margin.hinge_value, margin.hinge_slope, margin.hinge_curvature, CONVEX),
        name="hinge",
        corrected=UNTAMED,
        bounds_zero_one=True,
    )


def squared_hinge() -> Loss:
    """max(0, 1 - zs)^2 with z = 2y - 1.

    Unbiased, for p < 1: not convex and not bounded below, since the curvature is 2(1 - 1/p) < 0 beyond s = 1.
    """
    return Loss.of_margin(
        Curve(margin.squared_hinge_value, margin.squared_hinge_slope, margin.squared_hinge_curvature, CONVEX),
        name="squared hinge",
        corrected=UNTAMED,
        bounds_zero_one=True,
    )


def logistic() -> Loss:
    """log(1 + exp(-zs)) with z = 2y - 1.

    Unbiased: l+ = log(1 + exp(s)) - s/p, convex for every p because l+ - l- = -s is linear; for p < 1 it falls
    without bound, like (1 - 1/p) s, as s grows.
    """
    return _logistic("logistic")


def cross_entropy_from_logits(clip: float | None = None) -> Loss:
    """Binary cross-entropy of the probability 1/(1 + exp(-s)): the same function of s as the logistic loss.

    Parameters
    ----------
    clip
        Keep the probability inside [clip, 1 - clip], as networks that end in a sigmoid do (1e-7 is usual): the loss is
        then constant for logits beyond log(1/clip - 1), bounded below even when unbiased, and no longer convex.
    """
    if clip is None:
        return _logistic("cross-entropy (logits)")
    if not 0 < clip < 0.5:
        raise InputError(f"clip must lie between 0 and 1/2, not {clip}")
    bound = math.log1p(-clip) - math.log(clip)
    return Loss.of_margin(_SOFTPLUS.clamped(bound), name="cross-entropy (clipped logits)", corrected=STEP)


def cross_entropy() -> Loss:
    """Binary cross-entropy of a probability q in [0, 1]: l+ = -log q, l- = -log(1 - q).

    Unbiased, for p < 1: not convex in q (concave near q = 1) and falling without bound as q goes to 1.
    """
    positive = Curve(
        lambda q: -_quiet(np.log, q), lambda q: -_quiet(np.reciprocal, q), lambda q: _quiet(np.reciprocal, q**2), CONVEX
    )
    negative = Curve(
        lambda q: -_quiet(np.log1p, -q),
        lambda q: _quiet(np.reciprocal, 1 - q),
        lambda q: _quiet(np.reciprocal, (1 - q) ** 2),
        CONVEX,
    )
    return Loss(Half.of(positive), Half.of(negative), name="cross-entropy", corrected=UNTAMED, domain=(0.0, 1.0))


_SOFTPLUS = Curve(margin.logistic_value, margin.logistic_slope, margin.logistic_curvature, CONVEX)


def _logistic(name: str) -> Loss:
    return Loss.of_margin(_SOFTPLUS, name=name, corrected=Facts(convex=True, bounded_below=False))


def _step(threshold: float, name: str) -> Loss:
    def below(s: Array) -> Array:
        return (s < threshold).astype(s.dtype)

    def from_there(s: Array) -> Array:
        return (s >= threshold).astype(s.dtype)

    return Loss(
        Half.of(Curve(below, np.zeros_like, np.zeros_like, STEP)),
        Half.of(Curve(from_there, np.zeros_like, np.zeros_like, STEP)),
        name=name,
        corrected=STEP,
    )


def _quiet(function: Callable[[Array], Array], values: Array) -> Array:
    """Apply a function whose poles, at the ends of the domain, are meant to be infinite."""
    with np.errstate(divide="ignore"):
        return function(values)


NAMED: dict[str, Callable[[], Loss]] = {
    "squared-error": squared_error,
    "zero-one": zero_one,
    "hamming": hamming,
    "hinge": hinge,
    "squared-hinge": squared_hinge,
    "logistic": logistic,
    "cross-entropy": cross_entropy,
    "cross-entropy-from-logits": cross_entropy_from_logits,
}
