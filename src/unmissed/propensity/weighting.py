"""Weightings: the costs of observed positives and negatives of a label, from its propensity p."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.errors import InputError
from unmissed.losses.inverse import bound_factor, check_propensities, counter_factor, missing_odds

WeightingName = Literal["none", "surrogate", "tail", "floored-tail", "balanced", "unbiased"]
"""The names of the weightings, for annotations and for choices on the command line."""
CONVEX: tuple[WeightingName, ...] = ("none", "surrogate", "tail", "floored-tail", "balanced")
"""The weightings whose problems are convex for every loss; tuning tries them."""
Floats = npt.NDArray[np.float64]
BALANCE = 0.9  # b of the class-balanced costs


class Costs(NamedTuple):
    """Costs per label: factors of the loss of its rows, one float64 per label each.

    The loss of an observed positive is `positive * phi(m) + counter * phi(-m)`, that of any other row is
    `negative * phi(-m)`, where phi is the margin loss and m the score. `cell_costs` gives one `positive` per observed
    positive.
    """

    positive: Floats
    counter: Floats
    negative: Floats


def _none(inverse: Floats, counts: Floats | None) -> Floats:
    """Return 1: unweighted DiSMEC."""
    return np.ones_like(inverse)


def _surrogate(inverse: Floats, counts: Floats | None) -> Floats:
    """Return 2/p - 1: the paper's convex upper bound of the unbiased loss."""
    factor: Floats = bound_factor(inverse)
    return factor


def _tail(inverse: Floats, counts: Floats | None) -> Floats:
    """Return 1/p - 1: favors tail labels; used in the paper's tables. The positives of a label with p = 1 cost 0."""
    odds: Floats = missing_odds(inverse)
    return odds


def _floored_tail(inverse: Floats, counts: Floats | None) -> Floats:
    """Return max(1, 1/p - 1): favors tail labels, but a positive never costs less than a negative."""
    return np.maximum(1.0, _tail(inverse, counts))


def _balanced(inverse: Floats, counts: Floats | None) -> Floats:
    """Return (1 - b)/(1 - b^n) (2/p - 1), b = 0.9, for a label with n positives; n = 0 is treated as 1."""
    if counts is None:
        raise InputError("the balanced weighting needs label counts; pass label_counts")
    return (1.0 - BALANCE) / (1.0 - BALANCE ** np.maximum(counts, 1.0)) * _surrogate(inverse, counts)


def _unbiased(inverse: Floats, counts: Floats | None) -> Floats:
    """Return 1/p, with the counter cost 1 - 1/p: Theorem 1, unbiased; convex for the logistic loss."""
    return inverse


WEIGHTINGS: dict[WeightingName, Callable[[Floats, Floats | None], Floats]] = {
    "none": _none,
    "surrogate": _surrogate,
    "tail": _tail,
    "floored-tail": _floored_tail,
    "balanced": _balanced,
    "unbiased": _unbiased,
}
"""The function of each weighting, by name: from 1/p and label counts to the costs of positives."""


def costs(weighting: str, p: npt.ArrayLike, label_counts: npt.ArrayLike | None = None) -> Costs:
    """Return the costs of a weighting, per label, for the propensities `p`.

    ============ ============================== =========== ========
    weighting    positive                       counter     negative
    ============ ============================== =========== ========
    none         1                              0           1
    surrogate    2/p - 1                        0           1
    tail         1/p - 1                        0           1
    floored-tail max(1, 1/p - 1)                0           1
    balanced     (1-b)/(1-b^n) (2/p - 1), b=0.9 0           1
    unbiased     1/p                            1 - 1/p     1
    ============ ============================== =========== ========

    With p = 1, `none`, `surrogate`, `floored-tail` and `unbiased` are (1, 0, 1). `tail` is (0, 0, 1), so the positives
    of a label that is never missing are ignored. `balanced` is ((1-b)/(1-b^n), 0, 1). Only `balanced` uses
    `label_counts`.
    """
    if weighting not in WEIGHTINGS:
        raise InputError(f"unknown weighting {weighting!r}; known: {', '.join(WEIGHTINGS)}")
    propensities = check_propensities(p)
    if propensities.ndim != 1:
        raise InputError(f"propensities must be one number per label, not {propensities}")
    inverse = 1.0 / propensities
    counts = None if label_counts is None else np.asarray(label_counts, dtype=np.float64)
    if counts is not None and (counts.shape != inverse.shape or not (counts >= 0).all()):
        raise InputError(f"label counts must be {inverse.size} numbers of at least 0, one for each propensity")
    counter = np.asarray(counter_factor(inverse)) if weighting == "unbiased" else np.zeros_like(inverse)
    return Costs(WEIGHTINGS[weighting](inverse, counts), counter, np.ones_like(inverse))


def cell_costs(weighting: WeightingName, p: sparse.csr_matrix, label_counts: npt.ArrayLike) -> Costs:
    """Return the costs of a weighting with one propensity per observed positive, `p` with the pattern of Y.

    `positive` has one number per entry of Y, what `costs` gives for a label of that propensity. The counter cost of
    `unbiased` would also depend on the cell: no solver takes that.
    """
    counts = np.asarray(label_counts, dtype=np.float64)
    if weighting == "unbiased":
        raise InputError("the unbiased weighting takes one propensity per label; choose another weighting for cells")
    of_labels = costs(weighting, np.ones(len(counts)), counts)
    return of_labels._replace(positive=WEIGHTINGS[weighting](1.0 / p.data, counts[p.indices]))
