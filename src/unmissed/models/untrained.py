"""Labels without a training positive: nothing was learned of them, so no ranking contains them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.ranking import Ranking
from unmissed.solvers.shard import Shard

Mask = npt.NDArray[np.bool_] | None
"""Per label whether it has no training positive; None if every label has one, or if the counts are unknown."""

_CELLS = 2**22  # rows times labels that are ranked at a time when rows are ranked again


class Counts(NamedTuple):
    """How many training rows each label has, and how many rows there were."""

    labels: npt.NDArray[np.int64]
    n_samples: int


def untrained_mask(counts: Counts | None) -> Mask:
    """Return which labels have no training positive, or None if there are no such labels."""
    if counts is None:
        return None
    mask = np.asarray(counts.labels == 0)
    return mask if mask.any() else None


def rank_trained(rank: Callable[[sp.csr_matrix, int], Ranking], X: sp.csr_matrix, k: int, untrained: Mask) -> Ranking:
    """Return the k highest-scoring labels of each row that have a training positive.

    `rank(X, k)` returns the k highest-scoring of all labels. Rows that lose labels are ranked again, deep enough for
    all untrained labels. A model that scores untrained labels -inf spares them this.
    """
    found = rank(X, k)
    if untrained is None:
        return found
    kept = drop_untrained(found, untrained)
    deep = min(k + int(untrained.sum()), len(untrained))
    again = np.flatnonzero((kept.labels != found.labels).any(axis=1) & (found.scores[:, -1] > -np.inf))
    if deep == k or not len(again):
        return kept
    labels, scores = kept.labels.copy(), kept.scores.copy()
    size = max(_CELLS // deep, 1)
    for rows in np.split(again, range(size, len(again), size)):
        deeper = drop_untrained(rank(X[rows], deep), untrained).top(k)
        labels[rows], scores[rows] = deeper.labels, deeper.scores
    return replace(kept, labels=labels, scores=scores)


def drop_untrained(found: Ranking, untrained: Mask) -> Ranking:
    """Return a ranking without its untrained labels; -1 pads."""
    if untrained is None:
        return found
    dropped = np.append(untrained, False)[found.labels]  # -1 finds the last entry
    if not dropped.any():
        return found
    order = np.argsort(dropped, axis=1, kind="stable")
    labels = np.take_along_axis(np.where(dropped, -1, found.labels), order, 1)
    scores = np.take_along_axis(np.where(dropped, np.float32(-np.inf), found.scores), order, 1)
    return replace(found, labels=labels, scores=scores)


def hide_untrained(shard: Shard, untrained: Mask) -> Shard:
    """Return a shard whose untrained labels have the bias -inf, and so score -inf for every row."""
    mine = None if untrained is None else untrained[shard.first : shard.first + shard.n_labels]
    if mine is None or not mine.any():
        return shard
    return replace(shard, bias=np.where(mine, np.float32(-np.inf), shard.bias))
