"""Fusion: the union of the members' lists, and the probability of each label in it by each member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unmissed.calibration import Calibration
from unmissed.models.ensembles.calibration import Floats
from unmissed.ranking import Ranking


@dataclass(frozen=True)
class Fusion:
    """The labels that at least one member lists, per row, and their probabilities.

    A member that ends its list before it is full does not score any other label: their probability is 0. If its list
    is full, the score of any other label is at most that of the last one listed, and this bound is taken.

    Parameters
    ----------
    labels : int32 array (n_samples, n_candidates), padded with -1
    values : float64 array (n_members, n_samples, n_candidates): calibrated probabilities
    """

    labels: npt.NDArray[np.int32]
    values: Floats

    @classmethod
    def of(cls, rankings: Sequence[Ranking], calibrations: Sequence[Calibration]) -> Fusion:
        """Return the union of rankings of the same rows, each with the calibration of its member."""
        every = np.concatenate([one.labels for one in rankings], axis=1)
        order = np.argsort(every, axis=1, kind="stable")
        ascending = np.take_along_axis(every, order, 1)
        is_first = np.ones(every.shape, dtype=bool)
        is_first[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
        slot = np.empty(every.shape, dtype=np.int64)  # of each listed label in the union
        np.put_along_axis(slot, order, np.cumsum(is_first, axis=1) - 1, 1)
        rows = np.broadcast_to(np.arange(len(every))[:, None], every.shape)
        labels = np.full(every.shape, -1, dtype=np.int32)
        labels[rows, slot] = every
        values = np.empty((len(rankings), *every.shape))
        begin = 0
        for value, one, calibration in zip(values, rankings, calibrations, strict=True):
            columns = slice(begin, begin := begin + one.k)
            last = np.broadcast_to(one.scores[:, -1:], labels.shape)
            value[:] = np.where(one.labels[:, -1:] < 0, 0, calibration.probability(labels, last, one.k))
            listed = calibration.probability(one.labels, one.scores, np.arange(one.k))
            value[rows[:, columns], slot[:, columns]] = listed
        return cls(labels, values)

    def rank(self, weights: Floats, k: int) -> Ranking:
        """Return the k labels with the highest weighted mean of probabilities."""
        scores = np.tensordot(weights, self.values, axes=1)
        width = min(k, scores.shape[1])
        best = np.lexsort((self.labels, -scores, self.labels < 0), axis=-1)[:, :width]
        labels, chosen = np.take_along_axis(self.labels, best, 1), np.take_along_axis(scores, best, 1)
        return Ranking.sort(labels, chosen).padded(k)
