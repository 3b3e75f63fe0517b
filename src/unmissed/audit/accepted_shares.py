"""Shares of accepted labels among answered questions, with intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]


class AcceptedShare(NamedTuple):
    """Accepted among decided questions, with the 95 % interval of Clopper and Pearson.

    Parameters
    ----------
    low, high : the probabilities, or the training rows of the labels, of these questions
    n_decided, n_accepted : questions with a yes or no, and how many are yes; a question may be accepted in part
    share, share_low, share_high : accepted over decided, and its interval
    predicted : the mean probability that was stated or predicted; None if some question has none
    """

    low: float
    high: float
    n_decided: int
    n_accepted: float
    share: float
    share_low: float
    share_high: float
    predicted: float | None


def accepted_share(
    low: float, high: float, accepted: npt.ArrayLike, predicted: Floats, weights: Floats | None = None
) -> AcceptedShare:
    """Return the share of accepted questions.

    Parameters
    ----------
    low, high : what the questions have in common, as in `AcceptedShare`
    accepted : whether each question is accepted, or the share of its answers that say yes
    predicted : probability of each question; NaN if it has none
    weights : questions that each one represents. The interval is then that of as many questions of equal weight as have
        the same variance
    """
    yes = np.asarray(accepted, dtype=np.float64)
    weight = np.ones(len(yes)) if weights is None else weights
    w = weight / weight.sum()
    n, mean = 1 / float((w**2).sum()), float(w @ yes)
    k = n * mean
    share_low = float(stats.beta.ppf(0.025, k, n - k + 1)) if yes.any() else 0.0
    share_high = float(stats.beta.ppf(0.975, k + 1, n - k)) if (yes < 1).any() else 1.0
    stated = float(w @ predicted)
    return AcceptedShare(
        low, high, len(yes), float(yes.sum()), mean, share_low, share_high, None if np.isnan(stated) else stated
    )
