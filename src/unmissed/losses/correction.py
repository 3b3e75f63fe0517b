"""Corrections of a loss for missing labels: unbiased (Theorem 1), convex bound, and naive inverse weighting."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.losses.half import UNKNOWN, Coefficient, Curve, Function
from unmissed.losses.inverse import bound_factor, check_cells, counter_factor, inverse_propensities, missing_odds
from unmissed.losses.loss import Loss
from unmissed.matrices import canonical_csr

Propensities: TypeAlias = npt.ArrayLike | sp.csr_matrix
AnyLoss = Loss | tuple[Curve | Function, Curve | Function]


def unbiased(loss: AnyLoss, p: Propensities, *, max_inverse: float | None = None) -> Loss:
    """Return the unbiased loss of Theorem 1: l+ becomes (l+ + (p - 1) l-)/p, and l- stays.

    Its expectation over observed labels Y is that of the original loss over true labels Y*:
    E[l(Y, s)] = E[l*(Y*, s)] for every score s.

    Parameters
    ----------
    loss
        A `Loss`, or your own pair of functions (l+, l-) of the score.
    p
        The probability that a true label is observed: one number, one per label (Corollary 1), or a sparse matrix with
        one for each observed positive. The loss of such a matrix takes any Y whose labels have a p in it.
    max_inverse
        Upper limit of 1/p. Clipping adds bias and reduces variance; see `loss_variance`.
    """
    plain = loss if isinstance(loss, Loss) else Loss.of_functions(*loss)
    inverse, cells = _coefficient(p, max_inverse)
    positive = inverse * plain.positive + counter_factor(inverse) * plain.negative
    return replace(
        plain,
        positive=replace(positive, mixed=plain.corrected),
        name=f"unbiased {plain.name}",
        shift=0.0,
        corrected=UNKNOWN,
        bounds_zero_one=False,
        cells=cells,
    )


def shifted_zero_one(p: Propensities, *, max_inverse: float | None = None) -> Loss:
    """Return the unbiased 0-1 loss plus 1/p - 1, which is nonnegative: l+ = (2/p - 1)[s < 0], l- = [s >= 0]."""
    from unmissed.losses.named import zero_one

    shift = missing_odds(_coefficient(p, max_inverse)[0])
    loss = unbiased(zero_one(), p, max_inverse=max_inverse)
    return replace(loss, positive=replace(loss.positive, constant=shift), shift=shift, name="unbiased 0-1, shifted")


def convex_bound(loss: Loss, p: Propensities, *, max_inverse: float | None = None) -> Loss:
    """Return the convex upper bound of the paper: l+ becomes (2/p - 1) l+, and l- stays.

    It bounds the unbiased 0-1 loss plus `shift` = 1/p - 1. (The unbiased estimate of a convex bound is not convex.) The
    loss must be a convex upper bound of the 0-1 loss: hinge or squared hinge.
    """
    if not loss.bounds_zero_one:
        raise InputError(f"the {loss.name} loss is not a convex bound of the 0-1 loss; use hinge or squared hinge")
    inverse, cells = _coefficient(p, max_inverse)
    return replace(
        loss,
        positive=bound_factor(inverse) * loss.positive,
        shift=missing_odds(inverse),
        name=f"convex {loss.name}",
        corrected=UNKNOWN,
        cells=cells,
    )


def naive(loss: Loss, p: Propensities, *, max_inverse: float | None = None) -> Loss:
    """Return the loss with l+ divided by p. It is convex if the loss is, but its bias is P(Y* = 1)(1 - p) l-."""
    inverse, cells = _coefficient(p, max_inverse)
    return replace(
        loss,
        positive=inverse * loss.positive,
        name=f"naive {loss.name}",
        corrected=UNKNOWN,
        bounds_zero_one=False,
        cells=cells,
    )


def _coefficient(p: Propensities, max_inverse: float | None) -> tuple[Coefficient, sp.csr_matrix | None]:
    """Return the clipped 1/p: a number, one per label, or one per cell; and the cells, if there are any."""
    if not sp.issparse(p):
        values = inverse_propensities(p, max_inverse)
        return values if values.ndim else float(values), None
    cells = canonical_csr(p, "propensities")
    cells = check_cells(cells, cells, "propensities")
    return inverse_propensities(cells.data, max_inverse), cells
