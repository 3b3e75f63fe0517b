"""Calibration: from scores of any scale to probabilities, by a pooled monotone map and two numbers per label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from unmissed.calibration.label_effects import fit_label_effects, frequency_terms
from unmissed.calibration.monotone_map import MonotoneMap, fit_monotone_map
from unmissed.calibration.scored_cells import Cells
from unmissed.errors import InputError
from unmissed.execution import Piece

KEY = "calibration"
LEAST_SLOPE = 0.05
MOST_RANKS = 10  # best cells of a row that labels are fitted to; chosen on held-out training rows (docs/calibration.md)
_NEWTON_STEPS = 30
_LAYOUT: dict[str, tuple[Any, int]] = {
    "scores": (np.float64, 1),
    "logits": (np.float64, 1),
    "slopes": (np.float32, 1),
    "intercepts": (np.float32, 1),
    "coefficients": (np.float64, 2),
}
Floats = npt.NDArray[np.float32]


class TrueProbability(NamedTuple):
    """P(label is true | x) = P(label is observed | x) / propensity, and the share of cells that were clipped."""

    probability: Floats
    clipped: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """P(label l is observed | x) = expit(slope_l u + intercept_l), where u = g(score) and g is shared by all labels.

    Slopes are positive, so a label's probability never falls with its score. 8 bytes per label and one small table.

    Parameters
    ----------
    pooled : the map g from scores to logits
    slopes, intercepts : float32 arrays of shape (n_labels,)
    coefficients : float64 array of shape (2, 2): slope and intercept of a label without cells, as functions of 1 and
        log n
    """

    pooled: MonotoneMap
    slopes: Floats
    intercepts: Floats
    coefficients: npt.NDArray[np.float64]

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return len(self.slopes)

    def probability(self, labels: npt.ArrayLike, scores: npt.ArrayLike) -> Floats:
        """Return the probability of each label given its score; 0 for padding, the label -1.

        Parameters
        ----------
        labels : int array: labels below `n_labels`, or -1
        scores : array of the same shape
        """
        chosen, given = np.asarray(labels), np.asarray(scores)
        if chosen.shape != given.shape:
            raise InputError(f"labels and scores must have one shape; got {chosen.shape} and {given.shape}")
        if chosen.size and not -1 <= int(chosen.min()) <= int(chosen.max()) < self.n_labels:
            raise InputError(f"the calibration has {self.n_labels} labels; got {chosen.min()} to {chosen.max()}")
        if np.isnan(given).any():
            raise InputError("a score is not a number; it has no probability")
        logits = self.pooled(given).astype(np.float32)
        found: Floats = expit(self.slopes[chosen] * logits + self.intercepts[chosen])
        found[chosen < 0] = 0
        return found

    def extend(self, label_counts: npt.ArrayLike) -> Calibration:
        """Return the calibration with further labels, which have these training counts and get the prior."""
        slopes, intercepts = _as_pairs(frequency_terms(label_counts) @ self.coefficients.T)
        return Calibration(
            self.pooled,
            np.append(self.slopes, slopes),
            np.append(self.intercepts, intercepts),
            self.coefficients,
        )

    def among(self, labels: npt.NDArray[Any], label_counts: npt.ArrayLike) -> Calibration:
        """Return the calibration of all labels, given that of some: `labels` are theirs, and others get the prior."""
        slopes, intercepts = _as_pairs(frequency_terms(label_counts) @ self.coefficients.T)
        slopes[labels], intercepts[labels] = self.slopes, self.intercepts
        return Calibration(self.pooled, slopes, intercepts, self.coefficients)

    def to_piece(self, key: str = KEY) -> Piece:
        """Return the piece that stores the calibration."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "scores": self.pooled.scores,
            "logits": self.pooled.logits,
            "slopes": self.slopes,
            "intercepts": self.intercepts,
            "coefficients": self.coefficients,
        }
        return Piece(key, arrays, {"n_labels": self.n_labels})

    @classmethod
    def from_piece(cls, piece: Piece, n_labels: int) -> Calibration:
        """Return the calibration stored in a piece; raise if it is damaged or has another number of labels."""
        arrays = piece.expect(_LAYOUT)
        slopes, intercepts, coefficients = (arrays[name] for name in ("slopes", "intercepts", "coefficients"))
        if not len(slopes) == len(intercepts) == n_labels:
            raise piece.damaged(f"it has slopes of {len(slopes)} labels, expected {n_labels}")
        if coefficients.shape != (2, 2) or not np.isfinite(coefficients).all():
            raise piece.damaged("its coefficients are not 2 x 2 finite numbers")
        if not (np.isfinite(slopes).all() and np.isfinite(intercepts).all() and (slopes > 0).all()):
            raise piece.damaged("a label has a slope that is not positive, or an intercept that is not finite")
        try:
            pooled = MonotoneMap(np.asarray(arrays["scores"]), np.asarray(arrays["logits"]))
        except InputError as error:
            raise piece.damaged(str(error)) from error
        return cls(pooled, slopes, intercepts, coefficients)


def fit_calibration(cells: Cells, label_counts: npt.ArrayLike) -> Calibration:
    """Fit the pooled map to all out-of-fold cells, and the labels' slopes and intercepts to the 10 best of each row.

    The logits of a label are not exactly linear in those of the pooled map. Its many cells of low probability would
    decide about its slope, and the probabilities of the best labels would be wrong.

    Parameters
    ----------
    cells : out-of-fold cells, as `cross_fit` returns them
    label_counts : training positives of each label in all rows, on which the final model is trained
    """
    counts = np.asarray(label_counts)
    if counts.shape != (cells.n_labels,):
        raise InputError(f"label counts have shape {counts.shape}; expected one for each of {cells.n_labels} labels")
    pooled = fit_monotone_map(cells.scores, cells.observed, cells.weights)
    logits = pooled(cells.scores)
    best = np.flatnonzero((cells.ranks >= 0) & (cells.ranks < MOST_RANKS))
    ranked = cells.select(best)
    effects = fit_label_effects(ranked.labels, logits[best], ranked.observed, counts, ranked.groups)
    pairs = frequency_terms(counts) @ effects.coefficients.T + effects.deviations
    _bound_slopes(pairs, logits[best], ranked)
    return Calibration(pooled, *_as_pairs(pairs), effects.coefficients)


def true_probability(
    labels: npt.ArrayLike, probabilities: npt.ArrayLike, propensities: npt.ArrayLike
) -> TrueProbability:
    """Return min(1, pi / p): the probability that a label is true, whether or not it is observed.

    Parameters
    ----------
    labels : int array: labels, or -1 for padding
    probabilities : array of the same shape: the probability pi that the label is observed
    propensities : array of n_labels: p, the probability that a true label is observed
    """
    chosen, pi = np.asarray(labels), np.asarray(probabilities, dtype=np.float64)
    p = np.asarray(propensities, dtype=np.float64)
    if not ((p > 0) & (p <= 1)).all():
        raise InputError("propensities must be above 0 and at most 1")
    if chosen.size and int(chosen.max()) >= len(p):
        raise InputError(f"there are propensities of {len(p)} labels; got label {chosen.max()}")
    ratio = np.where(chosen >= 0, pi / np.append(p, 1.0)[chosen], 0.0)
    n_cells = int((chosen >= 0).sum())
    return TrueProbability(np.minimum(ratio, 1.0).astype(np.float32), float((ratio > 1).sum() / max(n_cells, 1)))


def _as_pairs(pairs: npt.NDArray[np.float64]) -> tuple[Floats, Floats]:
    """Return slopes, at least the least slope, and intercepts."""
    return np.maximum(pairs[:, 0], LEAST_SLOPE).astype(np.float32), pairs[:, 1].astype(np.float32)


def _bound_slopes(pairs: npt.NDArray[np.float64], logits: npt.NDArray[np.float64], cells: Cells) -> None:
    """Set slopes below the least one to it, and fit the intercepts of these labels such that their sums agree."""
    low = pairs[:, 0] < LEAST_SLOPE
    chosen = low[cells.labels]
    if not low.any():
        return
    pairs[low, 0] = LEAST_SLOPE
    labels, base, n_labels = cells.labels[chosen], LEAST_SLOPE * logits[chosen], len(pairs)
    hits = np.bincount(labels, cells.observed[chosen], n_labels) + 0.5
    for _ in range(_NEWTON_STEPS):
        p = expit(base + pairs[labels, 1])
        gap = hits - np.bincount(labels, p, n_labels)
        information = np.bincount(labels, p * (1 - p), n_labels) + 0.1
        pairs[low, 1] += np.clip(gap / information, -2.0, 2.0)[low]
