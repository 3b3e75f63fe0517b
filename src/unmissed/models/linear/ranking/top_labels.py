"""TopLabels: the k best labels of each row so far, which every way of scoring merges into."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.ranking import Ranking

_NO_LABEL = np.iinfo(np.int32).max  # above all labels, so that a label with the same score takes its slot


class TopLabels(NamedTuple):
    """Labels (n_rows, k) and their scores, best first; ties go to the smaller label."""

    labels: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]

    @classmethod
    def empty(cls, n_rows: int, k: int) -> TopLabels:
        """Return lists that any label enters."""
        return cls(np.full((n_rows, k), -1, np.int32), np.full((n_rows, k), -np.inf, np.float32))

    @classmethod
    def above(cls, least: np.float32, n_rows: int, k: int) -> TopLabels:
        """Return lists that labels with a score of at least `least`, a finite number, enter."""
        with np.errstate(over="ignore"):  # -inf is below the smallest number
            below = np.nextafter(least, np.float32(-np.inf))
        return cls(np.full((n_rows, k), _NO_LABEL, np.int32), np.full((n_rows, k), below, np.float32))

    @property
    def full(self) -> npt.NDArray[np.bool_]:
        """Whether the list of a row has no slot left."""
        return np.asarray((self.labels[:, -1] >= 0) & (self.labels[:, -1] < _NO_LABEL))

    @property
    def ranking(self) -> Ranking:
        """The lists as a ranking."""
        return Ranking(self.labels, self.scores)

    def of(self, rows: Any) -> TopLabels:
        """Return the lists of some rows: in the same memory for a slice, copies for an array."""
        return TopLabels(self.labels[rows], self.scores[rows])
