"""MonotoneMap: one rising map from scores to logits, fitted on the cells of all labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import isotonic_regression

from unmissed.errors import InputError

Floats = npt.NDArray[np.float64]
MOST_KNOTS = 256


@dataclass(frozen=True, eq=False)
class MonotoneMap:
    """A piecewise linear map from scores to logits, constant outside of its knots.

    Parameters
    ----------
    scores : float64 array, strictly rising: the knots
    logits : float64 array, not falling: the logit of the observed fraction at each knot
    """

    scores: Floats
    logits: Floats

    def __post_init__(self) -> None:
        scores, logits = self.scores, self.logits
        if scores.ndim != 1 or scores.shape != logits.shape or not scores.size:
            raise InputError(f"a monotone map needs knots and as many logits; got {scores.shape} and {logits.shape}")
        if not (np.isfinite(scores).all() and np.isfinite(logits).all()):
            raise InputError("a monotone map has a knot or a logit that is not finite")
        if not ((np.diff(scores) > 0).all() and (np.diff(logits) >= 0).all()):
            raise InputError("the knots of a monotone map must rise strictly, and its logits must not fall")

    def __call__(self, scores: npt.ArrayLike) -> Floats:
        """Return the logit of each score."""
        return np.interp(np.asarray(scores, dtype=np.float64), self.scores, self.logits)


def fit_monotone_map(scores: npt.ArrayLike, observed: npt.ArrayLike, weights: npt.ArrayLike) -> MonotoneMap:
    """Fit the map by centered isotonic regression.

    The blocks of weighted isotonic regression (pool adjacent violators) become knots at their mean score. With h
    observed of mass m the fraction of a block is (h + 1/2) / (m + 1), so that no logit is infinite. At most 256 knots
    are kept: neighboring blocks are joined such that all have about the same Fisher information.
    """
    knots, of_cell = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    if not knots.size:
        raise InputError("there are no cells to calibrate with; the model ranked no labels")
    mass = np.bincount(of_cell.reshape(-1), np.asarray(weights, dtype=np.float64))
    hits = np.bincount(of_cell.reshape(-1), np.asarray(weights, dtype=np.float64) * np.asarray(observed))
    columns = np.stack([mass, hits, mass * knots])
    columns = _merge(columns, isotonic_regression(hits / mass, sample_weight=mass))
    columns = _merge(columns, _by_information(columns))
    fractions = isotonic_regression((columns[1] + 0.5) / (columns[0] + 1), sample_weight=columns[0])
    columns = _merge(columns, fractions)
    fractions = np.unique(fractions)
    return MonotoneMap(columns[2] / columns[0], np.log(fractions) - np.log1p(-fractions))


def _by_information(columns: Floats) -> npt.NDArray[Any]:
    """Return the number of the joined block of each block: at most 256 of about equal Fisher information."""
    if columns.shape[1] <= MOST_KNOTS:
        return np.arange(columns.shape[1])
    p = (columns[1] + 0.5) / (columns[0] + 1)
    information = np.cumsum(columns[0] * p * (1 - p))
    return np.asarray(np.floor(information / information[-1] * (MOST_KNOTS - 1)))


def _merge(columns: Floats, values: npt.NDArray[Any]) -> Floats:
    """Return the sums of columns over runs of equal values."""
    starts = np.flatnonzero(np.append(True, np.diff(values) != 0))
    return np.asarray(np.add.reduceat(columns, starts, axis=1))
