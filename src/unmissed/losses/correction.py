"""What missing labels ask of a loss: Theorem 1, the convex bound, and the naive re-weighting it is compared with."""

from __future__ import annotations

from dataclasses import replace

import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.losses.half import UNKNOWN, Array, Coefficient, Curve, Function
from unmissed.losses.inverse import bound_factor, counter_factor, inverse_propensities, missing_odds
from unmissed.losses.loss import Loss

AnyLoss = Loss | tuple[Curve | Function, Curve | Function]


def unbiased(loss: AnyLoss, p: npt.ArrayLike, *, max_inverse: float | None = None) -> Loss:
    """Theorem 1: l+ becomes (l+ + (p - 1) l-)/p and l- stays, so that E[l(Y, s)] = E[l*(Y*, s)] for every s.

    Parameters
    ----------
    loss
        A `Loss`, or your own pair of functions (l+, l-) of the score.
    p
        The chance that a true label was written down: one number, or one per label (Corollary 1).
    max_inverse
        Clip 1/p, which trades some bias for variance; see `loss_variance`.
    """
    plain = loss if isinstance(loss, Loss) else Loss.of_functions(*loss)
    inverse = _coefficient(inverse_propensities(p, max_inverse))
    positive = inverse * plain.positive + counter_factor(inverse) * plain.negative
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

    lift = missing_odds(_coefficient(inverse_propensities(p, max_inverse)))
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
        positive=bound_factor(inverse) * loss.positive,
        shift=missing_odds(inverse),
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
