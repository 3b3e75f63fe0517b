"""Weightings: what a propensity p means for the costs of a label's observed positives and negatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError

Floats = npt.NDArray[np.float64]
BALANCE = 0.9  # the b of class-balanced costs


class Costs(NamedTuple):
    """What the loss of a label's rows is multiplied by.

    An observed positive costs `positive * phi(m) + counter * phi(-m)`, any other row `negative * phi(-m)`, where phi is
    the loss of a margin m. One float64 per label each.
    """

    positive: Floats
    counter: Floats
    negative: Floats


def _none(p: Floats, counts: Floats | None) -> Floats:
    """Every row costs 1: plain DiSMEC."""
    return np.ones_like(p)


def _surrogate(p: Floats, counts: Floats | None) -> Floats:
    """2/p - 1: the paper's convex upper bound of the unbiased loss."""
    return 2.0 / p - 1.0


def _tail(p: Floats, counts: Floats | None) -> Floats:
    """1/p - 1: leans to the tail; the paper's tables use it. A label with p = 1 loses its positives: cost 0."""
    return 1.0 / p - 1.0


def _balanced(p: Floats, counts: Floats | None) -> Floats:
    """(1 - b)/(1 - b^n) (2/p - 1), b = 0.9, for a label with n positives; n = 0 counts as 1 (no row pays it)."""
    if counts is None:
        raise InputError("the balanced weighting needs label counts")
    return (1.0 - BALANCE) / (1.0 - BALANCE ** np.maximum(counts, 1.0)) * (2.0 / p - 1.0)


def _unbiased(p: Floats, counts: Floats | None) -> Floats:
    """1/p, with the counter cost 1 - 1/p: Theorem 1, exactly unbiased and in general not convex."""
    return 1.0 / p


WEIGHTINGS: dict[str, Callable[[Floats, Floats | None], Floats]] = {
    "none": _none,
    "surrogate": _surrogate,
    "tail": _tail,
    "balanced": _balanced,
    "unbiased": _unbiased,
}
"""The positive cost of each weighting, by name."""


def costs(weighting: str, p: npt.ArrayLike, label_counts: npt.ArrayLike | None = None) -> Costs:
    """Return Costs(positive, counter, negative) per label for the propensities `p`.

    ========== ============================== =========== ========
    weighting  positive                       counter     negative
    ========== ============================== =========== ========
    none       1                              0           1
    surrogate  2/p - 1                        0           1
    tail       1/p - 1                        0           1
    balanced   (1-b)/(1-b^n) (2/p - 1), b=0.9 0           1
    unbiased   1/p                            1 - 1/p     1
    ========== ============================== =========== ========

    With p = 1, `none`, `surrogate` and `unbiased` are (1, 0, 1); `tail` is (0, 0, 1), so a label that is never missing
    is not learned from; `balanced` is ((1-b)/(1-b^n), 0, 1). Only `balanced` reads `label_counts`.
    """
    if weighting not in WEIGHTINGS:
        raise InputError(f"unknown weighting {weighting!r}; known: {', '.join(WEIGHTINGS)}")
    p = check_propensities(p)
    counts = None if label_counts is None else np.asarray(label_counts, dtype=np.float64)
    if counts is not None and (counts.shape != p.shape or not (counts >= 0).all()):
        raise InputError(f"label counts must be {p.size} numbers of at least 0, one for each propensity")
    counter = 1.0 - 1.0 / p if weighting == "unbiased" else np.zeros_like(p)
    return Costs(WEIGHTINGS[weighting](p, counts), counter, np.ones_like(p))


def check_propensities(p: npt.ArrayLike) -> Floats:
    """Return propensities as a float64 array, or say which label's is not above 0 and at most 1."""
    held = np.asarray(p, dtype=np.float64)
    if held.ndim != 1:
        raise InputError(f"propensities must be one number per label, not an array of shape {held.shape}")
    wrong = np.flatnonzero(~((held > 0) & (held <= 1)))
    if wrong.size:
        raise InputError(f"label {wrong[0]} has the propensity {held[wrong[0]]}; above 0 and at most 1 was expected")
    return held
