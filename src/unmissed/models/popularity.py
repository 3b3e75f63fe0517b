"""Popularity: ranks the most frequent training labels for every row, the baseline of every comparison."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Piece, Pieces, Work
from unmissed.features import Features
from unmissed.models.base import Model
from unmissed.models.dense_support import DenseSupport
from unmissed.models.label_blocks import label_key, walk_labels
from unmissed.models.training_data import TrainingData
from unmissed.ranking import Ranking


@dataclass(frozen=True)
class CountTask:
    """Count the positives of `size` labels, from label `first` on."""

    first: int
    size: int

    @property
    def key(self) -> str:
        """The key of the piece with the counts."""
        return label_key(self.first)

    def run(self, shared: TrainingData) -> Piece:
        """Return the label counts."""
        return Piece(self.key, {"counts": shared.label_counts}, {"n_labels": self.size})


@dataclass(frozen=True)
class Counted:
    """Shared state of `CountTask`: the rows."""

    rows: TrainingData

    def __call__(self) -> TrainingData:
        """Return the rows."""
        return self.rows


class Popularity(Model):
    """Score each label by its number of training positives; the model ignores X."""

    dense_support = DenseSupport.NATIVE
    counts_: npt.NDArray[np.int64]

    def _fit(self, rows: TrainingData, work: Work) -> None:
        self._count(rows, 0, work)

    def _fit_labels(self, rows: TrainingData, work: Work) -> None:
        self._count(rows, self.n_labels_, work)

    def _count(self, rows: TrainingData, first: int, work: Work) -> None:
        if rows.n_labels:
            work.run([CountTask(first, rows.n_labels)], Counted(rows))

    def _open(self, pieces: Pieces) -> None:
        found = walk_labels(self.n_labels_, pieces.get, lambda piece, _: _counts_of(piece), len)
        self.counts_ = np.concatenate([np.zeros(0, np.int64), *found])

    def _rank_features(self, rows: Features, k: int) -> Ranking:
        return self._rank(rows, k)

    def _rank(self, X: Features | sp.csr_matrix, k: int) -> Ranking:
        """Return the k most frequent labels, the same for every row; ties by label index."""
        counts = self.counts_
        best = np.lexsort((np.arange(counts.size), -counts))[:k]
        labels = np.full(k, -1, dtype=np.int32)
        scores = np.full(k, -np.inf, dtype=np.float32)
        labels[: best.size] = best
        scores[: best.size] = counts[best]
        return Ranking(np.tile(labels, (X.shape[0], 1)), np.tile(scores, (X.shape[0], 1)))


def _counts_of(piece: Piece) -> npt.NDArray[np.int64]:
    """Return the label counts of a piece."""
    counts = piece.expect({"counts": (np.int64, 1)})["counts"]
    if not counts.size or counts.min() < 0:
        raise piece.damaged("it holds no counts")
    return counts
