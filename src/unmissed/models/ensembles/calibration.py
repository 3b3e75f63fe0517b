"""Sigmoid: Platt's calibration, which makes the scores of different members comparable."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from unmissed.ranking import Ranking

Floats = npt.NDArray[np.float64]
_LEAST_SLOPE = 1e-3  # per standard deviation of the scores; keeps the order of a member whose scores say nothing
_LARGEST_MARGIN = 30.0  # probabilities of larger margins would round to 1, and their order would be lost


class Sigmoid(NamedTuple):
    """The probability of a label given its score s: 1 / (1 + exp(-(slope s + offset))), with slope > 0."""

    slope: float
    offset: float

    def __call__(self, scores: npt.NDArray[np.float32]) -> Floats:
        """Return the probabilities of scores; 0 for -inf, the score of padding."""
        margins = self.slope * scores.astype(np.float64) + self.offset
        return np.asarray(np.exp(-np.logaddexp(0.0, -margins)))


def standardize(ranking: Ranking) -> Sigmoid:
    """Return the sigmoid of standardized scores, for rankings without known labels."""
    scores = ranking.scores[np.isfinite(ranking.scores)].astype(np.float64)
    scale = float(scores.std()) if scores.size else 1.0
    scale = scale if scale > 0 else 1.0
    return Sigmoid(1 / scale, -float(scores.mean()) / scale if scores.size else 0.0)


def calibrate(ranking: Ranking, Y: sp.csr_matrix) -> Sigmoid:
    """Fit the sigmoid to the ranked labels of held-out rows: which of them are correct (Platt, 1999).

    `Y` has a row per row of the ranking. Without both correct and wrong labels the scores are standardized.
    """
    listed = np.isfinite(ranking.scores)
    rows = np.nonzero(listed)[0]
    is_correct = np.asarray(Y[rows, ranking.labels[listed]]).ravel() > 0
    start = standardize(ranking)
    if is_correct.all() or not is_correct.any():
        return start
    standardized = start.slope * ranking.scores[listed].astype(np.float64) + start.offset
    fitted = LogisticRegression(C=1e3).fit(standardized[:, None], is_correct)
    slope = min(float(fitted.coef_[0, 0]), _LARGEST_MARGIN / max(float(np.abs(standardized).max()), 1.0))
    slope = max(slope, _LEAST_SLOPE)
    return Sigmoid(slope * start.slope, slope * start.offset + float(fitted.intercept_[0]))
