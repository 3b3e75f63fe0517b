"""Inverse propensities: the check that p lies in (0, 1], and what corrections and weightings make of 1/p.

Each formula is written here and nowhere else. The factors are functions of the inverse 1/p, clipped or not, in
arithmetic that Python numbers, numpy arrays and PyTorch tensors all take.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.losses.half import Array


def bound_factor(inverse: Any) -> Any:
    """Return 2/p - 1: what the convex bound of the unbiased loss multiplies l+ by."""
    return 2 * inverse - 1


def missing_odds(inverse: Any) -> Any:
    """Return 1/p - 1: the odds that a true label is missing; also by how much the unbiased 0-1 loss is lifted."""
    return inverse - 1


def counter_factor(inverse: Any) -> Any:
    """Return 1 - 1/p, never above 0: what Theorem 1 multiplies the l- of a present label by."""
    return 1 - inverse


def check_propensities(p: npt.ArrayLike, source: str = "") -> Array:
    """Return propensities in float64, one number or one per label, or say which does not lie in (0, 1].

    Parameters
    ----------
    p
        One propensity, or an array with one per label.
    source
        Where they come from, for the complaint.
    """
    held = np.asarray(p, dtype=np.float64)
    origin = f"{source}: " if source else ""
    if held.ndim > 1:
        raise InputError(f"{origin}propensities must be one number or one number per label, not of shape {held.shape}")
    wrong = ~((held > 0) & (held <= 1))
    if wrong.any():
        value = float(held[wrong][0])
        whose = f"label {np.flatnonzero(wrong)[0]} has the propensity" if held.ndim else "the propensity is"
        hint = " (for an inverse propensity give 1 / value)" if value > 1 else ""
        raise InputError(f"{origin}{whose} {value:g}; it must lie in (0, 1]{hint}")
    return held


def inverse_propensities(p: npt.ArrayLike, max_inverse: float | None = None) -> Array:
    """Return 1/p, at most `max_inverse`; a p outside (0, 1] is refused.

    Parameters
    ----------
    p
        One propensity, or an array with one per label.
    max_inverse
        Clip 1/p here. Labels with a smaller p than 1/max_inverse get a biased loss of less variance.
    """
    inverse = np.asarray(1.0 / check_propensities(p))
    if max_inverse is None:
        return inverse
    if not max_inverse >= 1:
        raise InputError(f"max_inverse must be at least 1, not {max_inverse}")
    return np.asarray(np.minimum(inverse, max_inverse))


def check_inverse_propensities(inverse: npt.ArrayLike, n_labels: int) -> Array:
    """Return inverse propensities in float64, or say which is not finite and at least 1, as 1/p of a p in (0, 1] is."""
    try:
        held = np.asarray(inverse, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"inverse propensities are {repr(inverse)[:60]}; expected one number per label, such as "
            "1 / Jain().fit(label_counts, n_samples)"
        ) from error
    if held.shape != (n_labels,):
        raise InputError(f"inverse propensities have the shape {held.shape}; {n_labels} of them were expected")
    wrong = np.flatnonzero(~((held >= 1) & np.isfinite(held)))
    if wrong.size:
        hint = " (for a propensity give 1 / value)" if 0 < held[wrong[0]] < 1 else ""
        raise InputError(
            f"label {wrong[0]} has the inverse propensity {held[wrong[0]]:g}; expected at least 1 and finite{hint}"
        )
    return held
