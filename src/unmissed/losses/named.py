"""The losses of the paper for complete labels, by name. `unbiased`, `convex_bound` and `naive` correct them."""

import math
from collections.abc import Callable

import numpy as np

from unmissed.errors import InputError
from unmissed.losses import margin
from unmissed.losses.half import Array, Curve, Half, Metadata
from unmissed.losses.loss import Loss

CONVEX = Metadata(convex=True, bounded_below=True)
STEP = Metadata(convex=False, bounded_below=True)
UNBOUNDED = Metadata(convex=False, bounded_below=False)


def squared_error() -> Loss:
    """Return the squared error (y - s)^2: l+ = (1 - s)^2, l- = s^2.

    Unbiased: l+ = (1 - 2s)/p + s^2, convex for every p, with minimum (1 - 1/p)/p at s = 1/p.
    """
    return Loss(
        Half.of(Curve(lambda s: (1 - s) ** 2, lambda s: 2 * (s - 1), lambda s: np.full_like(s, 2), CONVEX)),
        Half.of(Curve(np.square, lambda s: 2 * s, lambda s: np.full_like(s, 2), CONVEX)),
        name="squared error",
        corrected=CONVEX,
    )


def zero_one() -> Loss:
    """Return the 0-1 loss of the sign of the score: l+ = [s < 0], l- = [s >= 0].

    Unbiased: l+ = 1/p for s < 0, else 1 - 1/p <= 0.
    """
    return _step(0.0, "0-1")


def hamming() -> Loss:
    """Return the 0-1 loss of the decision s >= 1/2, for scores in [0, 1]. Its mean is the Hamming loss."""
    return _step(0.5, "Hamming")


def hinge() -> Loss:
    """Return the hinge loss max(0, 1 - zs) with z = 2y - 1.

    Unbiased, for p < 1: not convex (concave kink at s = -1) and unbounded below as s grows.
    """
    return Loss.of_margin(
        Curve(margin.hinge_value, margin.hinge_derivative, margin.hinge_curvature, CONVEX),
        name="hinge",
        corrected=UNBOUNDED,
        bounds_zero_one=True,
    )


def squared_hinge() -> Loss:
    """Return the squared hinge loss max(0, 1 - zs)^2 with z = 2y - 1.

    Unbiased, for p < 1: not convex and unbounded below, since the curvature is 2(1 - 1/p) < 0 for s > 1.
    """
    return Loss.of_margin(
        Curve(margin.squared_hinge_value, margin.squared_hinge_derivative, margin.squared_hinge_curvature, CONVEX),
        name="squared hinge",
        corrected=UNBOUNDED,
        bounds_zero_one=True,
    )


def logistic() -> Loss:
    """Return the logistic loss log(1 + exp(-zs)) with z = 2y - 1.

    Unbiased: l+ = log(1 + exp(s)) - s/p, convex for every p because l+ - l- = -s is linear. For p < 1 it is
    unbounded below: it behaves like (1 - 1/p) s as s grows.
    """
    return _logistic("logistic")


def cross_entropy_from_logits(clip: float | None = None) -> Loss:
    """Return the binary cross-entropy of the probability 1/(1 + exp(-s)), which equals the logistic loss of s.

    Parameters
    ----------
    clip
        Clip the probability to [clip, 1 - clip], as networks with a sigmoid output do (usually 1e-7). The loss is then
        constant for |s| > log(1/clip - 1), bounded below even when unbiased, and not convex.
    """
    if clip is None:
        return _logistic("cross-entropy (logits)")
    if not 0 < clip < 0.5:
        raise InputError(f"clip is {clip}; it must lie between 0 and 1/2")
    bound = math.log1p(-clip) - math.log(clip)
    return Loss.of_margin(_SOFTPLUS.clamped(bound), name="cross-entropy (clipped logits)", corrected=STEP)


def cross_entropy() -> Loss:
    """Return the binary cross-entropy of a probability q in [0, 1]: l+ = -log q, l- = -log(1 - q).

    Unbiased, for p < 1: not convex in q (concave near q = 1) and unbounded below as q goes to 1.
    """
    positive = Curve(
        lambda q: -_without_warning(np.log, q),
        lambda q: -_without_warning(np.reciprocal, q),
        lambda q: _without_warning(np.reciprocal, q**2),
        CONVEX,
    )
    negative = Curve(
        lambda q: -_without_warning(np.log1p, -q),
        lambda q: _without_warning(np.reciprocal, 1 - q),
        lambda q: _without_warning(np.reciprocal, (1 - q) ** 2),
        CONVEX,
    )
    return Loss(Half.of(positive), Half.of(negative), name="cross-entropy", corrected=UNBOUNDED, domain=(0.0, 1.0))


_SOFTPLUS = Curve(margin.logistic_value, margin.logistic_derivative, margin.logistic_curvature, CONVEX)


def _logistic(name: str) -> Loss:
    return Loss.of_margin(_SOFTPLUS, name=name, corrected=Metadata(convex=True, bounded_below=False))


def _step(threshold: float, name: str) -> Loss:
    def below(s: Array) -> Array:
        return (s < threshold).astype(s.dtype)

    def at_or_above(s: Array) -> Array:
        return (s >= threshold).astype(s.dtype)

    return Loss(
        Half.of(Curve(below, np.zeros_like, np.zeros_like, STEP)),
        Half.of(Curve(at_or_above, np.zeros_like, np.zeros_like, STEP)),
        name=name,
        corrected=STEP,
    )


def _without_warning(function: Callable[[Array], Array], values: Array) -> Array:
    """Apply a function without a warning at its poles, where it returns infinity."""
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
