"""Labels without a training positive, which are excluded from every ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.features import Features
from unmissed.ranking import Ranking

Mask = npt.NDArray[np.bool_] | None
"""Boolean array, True for labels without a training positive; None if there are none or counts are unknown."""

_CELLS = 2**22  # rows times k of a batch that is ranked again


class Counts(NamedTuple):
    """Number of training positives per label, and number of training rows; sums of weights if rows have weights."""

    labels: npt.NDArray[np.int64]
    n_samples: float


def untrained_mask(counts: Counts | None) -> Mask:
    """Return the mask of labels without a training positive; None if there are none."""
    if counts is None:
        return None
    mask = np.asarray(counts.labels == 0)
    return mask if mask.any() else None


def rank_trained(rank: Callable[[Features, int], Ranking], X: Features, k: int, untrained: Mask) -> Ranking:
    """Return the k highest-scoring labels of each row among those with a training positive.

    `rank(X, k)` returns the k highest-scoring of all labels. Rows that lose labels are ranked again with
    k + n_untrained labels. This is not needed if the model scores untrained labels -inf.
    """
    ranking = rank(X, k)
    if untrained is None:
        return ranking
    kept = drop_untrained(ranking, untrained)
    deep = min(k + int(untrained.sum()), len(untrained))
    again = np.flatnonzero((kept.labels != ranking.labels).any(axis=1) & (ranking.scores[:, -1] > -np.inf))
    if deep == k or not len(again):
        return kept
    labels, scores = kept.labels.copy(), kept.scores.copy()
    size = max(_CELLS // deep, 1)
    for rows in np.split(again, range(size, len(again), size)):
        deeper = drop_untrained(rank(X[rows], deep), untrained).top(k)
        labels[rows], scores[rows] = deeper.labels, deeper.scores
    return replace(kept, labels=labels, scores=scores)


def drop_untrained(ranking: Ranking, untrained: Mask) -> Ranking:
    """Return a ranking without its untrained labels, padded with -1."""
    if untrained is None:
        return ranking
    dropped = np.append(untrained, False)[ranking.labels]  # -1 selects the last entry
    if not dropped.any():
        return ranking
    return ranking.keep(~dropped)
