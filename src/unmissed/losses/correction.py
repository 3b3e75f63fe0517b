"""What missing labels ask of a loss: Theorem 1, the convex bound, and the naive re-weighting it is compared with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.losses.half import UNKNOWN, Array, Coefficient, Curve, Function
from unmissed.losses.loss import Loss

AnyLoss = Loss | tuple[Curve | Function, Curve | Function]


def inverse_propensities(p: npt.ArrayLike, max_inverse: float | None = None) -> Array:
    """Return 1/p, at most `max_inverse`; a p outside (0, 1] is refused.

    Parameters
    ----------
    p
        One propensity, or an array with one a label.
    max_inverse
        Clip 1/p here. Labels with a smaller p than 1/max_inverse get a biased loss of less variance.
    """
    p = np.asarray(p, dtype=np.float64)
    if p.ndim > 1:
        raise InputError(f"propensities must be one number or one a label, not of shape {p.shape}")
    wrong = ~((p > 0) & (p <= 1))
    if wrong.any():
        where = f" (label {int(np.flatnonzero(wrong)[0])})" if p.ndim else ""
        raise InputError(f"a propensity must lie in (0, 1], not {p[wrong][0]:g}{where}")
    if max_inverse is None:
        return np.asarray(1.0 / p)
    if not max_inverse >= 1:
        raise InputError(f"max_inverse must be at least 1, not {max_inverse}")
    return np.asarray(np.minimum(1.0 / p, max_inverse))


def unbiased(loss: AnyLoss, p: npt.ArrayLike, *, max_inverse: float | None = None) -> Loss:
    """Theorem 1: l+ becomes (l+ + (p - 1) l-)/p and l- stays, so that E[l(Y, s)] = E[l*(Y*, s)] for every s.

    Parameters
    ----------
    loss
        A `Loss`, or your own pair of functions (l+, l-) of the score.
    p
        The chance that a true label was written down: one number, or one a label (Corollary 1).
    max_inverse
        Clip 1/p, which trades some bias for variance; see `loss_variance`.
    """
    plain = loss if isinstance(loss, Loss) else Loss.of_functions(*loss)
    inverse = _coefficient(inverse_propensities(p, max_inverse))
    positive = inverse * plain.positive + (1 - inverse) * plain.negative
    return replace(
        plain,
        positive=replace(positive, mixed=plain.corrected),
        name=f"unbiased {plain.name}",
        shift=0.0,
        corrected=UNKNOWN,
        bounds_zero_one=False,
    )


def shifted_zero_one(p: npt.ArrayLike, *, max_inverse: float | None = None) -> Loss:
    """The unbiased 0-1 loss lifted by 1/p - 1 to be nowhere negative: l+ = (2/p - 1)[s < 0], l- = [s >= 0]."""
    from unmissed.losses.named import zero_one

    lift = _coefficient(inverse_propensities(p, max_inverse) - 1)
    loss = unbiased(zero_one(), p, max_inverse=max_inverse)
    return replace(loss, positive=replace(loss.positive, constant=lift), shift=lift, name="unbiased 0-1, shifted")


def convex_bound(loss: Loss, p: npt.ArrayLike, *, max_inverse: float | None = None) -> Loss:
    """The convex bound of the paper: l+ becomes (2/p - 1) l+ and l- stays.

    Instead of estimating a convex bound of the 0-1 loss without bias (not convex), it bounds the unbiased estimate of
    the 0-1 loss, lifted by `shift` = 1/p - 1. It takes losses that lie nowhere below the 0-1 loss: hinge and squared
    hinge.
    """
    if not loss.bounds_zero_one:
        raise InputError(f"the {loss.name} loss is not a convex bound of the 0-1 loss; hinge and squared hinge are")
    inverse = _coefficient(inverse_propensities(p, max_inverse))
    return replace(
        loss,
        positive=(2 * inverse - 1) * loss.positive,
        shift=inverse - 1,
        name=f"convex {loss.name}",
        corrected=UNKNOWN,
    )


def naive(loss: Loss, p: npt.ArrayLike, *, max_inverse: float | None = None) -> Loss:
    """Only l+ divided by p: convex where the loss is, but biased upwards by P(Y* = 1)(1 - p) l-."""
    inverse = _coefficient(inverse_propensities(p, max_inverse))
    return replace(
        loss,
        positive=inverse * loss.positive,
        name=f"naive {loss.name}",
        corrected=UNKNOWN,
        bounds_zero_one=False,
    )


def _coefficient(values: Array) -> Coefficient:
    return values if values.ndim else float(values)
