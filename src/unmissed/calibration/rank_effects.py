"""Rank effects: how the probability of a label depends on its position in the ranking of its row.

Two labels with the same score are not equally likely if one is the best of its row and the other the fifth. With z the
logit of a label that has n positives, under the slope and intercept of the label, its logit at rank r is

    h(a z + b),    (a, b) = A_r (1, log n),

where ranks 0 to 4 have a matrix A_r each, and so have ranks 5 to 9 together and those from 10 on. h is monotone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from unmissed.calibration.monotone_map import MonotoneMap, fit_monotone_map
from unmissed.errors import InputError

Floats = npt.NDArray[np.float64]
FIRST_RANKS = (0, 1, 2, 3, 4, 5, 10)  # first rank of each class of ranks
LAST_RANK = FIRST_RANKS[-1]  # ranks from here on share one class, so the order of further labels does not matter
N_RANKS = 20  # best cells of a row to which rank effects are fitted
LEAST_SLOPE = 0.05
_FEWEST_ROWS = 500  # with fewer, rank effects had a higher log loss than none (docs/notes/calibration.md)
_RIDGE = 10.0  # precision of A_r around the identity, chosen on held-out training rows (docs/notes/calibration.md)
_MOST_STEPS, _LARGEST_STEP, _TOLERANCE = 50, 1.0, 1e-6
_IDENTITY = np.array([[1.0, 0.0], [0.0, 0.0]])
_LARGEST_LOGIT = 100.0


@dataclass(frozen=True, eq=False)
class RankEffects:
    """Maps from the logit of a label without regard to its rank to the logit at its rank.

    Parameters
    ----------
    coefficients : float64 array of shape (7, 2, 2): A_r of each class of ranks, rows for slope and intercept, columns
        for 1 and log n
    pooled : the map h from logits to logits
    """

    coefficients: Floats
    pooled: MonotoneMap

    def __post_init__(self) -> None:
        if self.coefficients.shape != (len(FIRST_RANKS), 2, 2) or not np.isfinite(self.coefficients).all():
            raise InputError(f"rank effects are not {len(FIRST_RANKS)} x 2 x 2 finite numbers")

    @classmethod
    def none(cls) -> RankEffects:
        """Return effects that change nothing at any rank."""
        edges = np.array([-_LARGEST_LOGIT, _LARGEST_LOGIT])
        return cls(np.tile(_IDENTITY, (len(FIRST_RANKS), 1, 1)), MonotoneMap(edges, edges))

    def __call__(self, logits: npt.NDArray[Any], log_counts: npt.NDArray[Any], ranks: npt.NDArray[Any]) -> Floats:
        """Return the logits of labels with these log counts at these ranks, from 0; arrays are broadcast."""
        table = self.coefficients[_class_of(ranks)]
        slopes = np.maximum(table[..., 0, 0] + table[..., 0, 1] * log_counts, LEAST_SLOPE)
        return self.pooled(slopes * logits + table[..., 1, 0] + table[..., 1, 1] * log_counts)


def fit_rank_effects(
    logits: Floats, observed: npt.NDArray[np.bool_], log_counts: Floats, ranks: npt.NDArray[Any], n_rows: int
) -> RankEffects:
    """Fit A_r by logistic regression with a ridge penalty around the identity, then h to all cells.

    Parameters
    ----------
    logits, observed, log_counts, ranks : of each cell: logit without regard to the rank, whether the label is observed,
        log n of the label, and rank
    n_rows : number of rows that have cells; with fewer than 500, ranks change nothing
    """
    linear = RankEffects.none()
    if n_rows < _FEWEST_ROWS:
        return linear
    of_cell = _class_of(ranks)
    for at, coefficients in enumerate(linear.coefficients):
        mine = of_cell == at
        coefficients[:] = _fit_class(logits[mine], observed[mine], log_counts[mine])
    adjusted = linear(logits, log_counts, ranks)
    return RankEffects(linear.coefficients, fit_monotone_map(adjusted, observed, np.ones(len(adjusted))))


def _class_of(ranks: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.asarray(np.searchsorted(np.array(FIRST_RANKS), ranks, side="right") - 1, dtype=np.int64)


def _fit_class(logits: Floats, observed: npt.NDArray[np.bool_], log_counts: Floats) -> Floats:
    """Return A_r (2, 2) by Newton steps. log n is centered, so that the penalty does not depend on its mean."""
    center = float(log_counts.mean()) if log_counts.size else 0.0
    centered = log_counts - center
    terms = np.stack([logits, logits * centered, np.ones_like(logits), centered], axis=1)
    start = _IDENTITY.reshape(-1)
    weights = start.copy()
    for _ in range(_MOST_STEPS):
        p = expit(terms @ weights)
        gradient = terms.T @ (observed - p) - _RIDGE * (weights - start)
        hessian = (terms * (p * (1 - p))[:, None]).T @ terms + _RIDGE * np.eye(len(weights))
        step = np.linalg.solve(hessian, gradient)
        weights = weights + step * min(1.0, _LARGEST_STEP / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < _TOLERANCE:
            break
    fitted: Floats = weights.reshape(2, 2)
    return np.stack([fitted[:, 0] - center * fitted[:, 1], fitted[:, 1]], axis=1)
