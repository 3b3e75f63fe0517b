"""Popularity: the most frequent training labels for every row, the floor under every table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from unmissed.errors import NotFittedError
from unmissed.models.base import check_k, check_X, check_Y
from unmissed.progress import Progress, silent
from unmissed.ranking import Ranking
from unmissed.solvers.shard import Shard, Shards


class Popularity(BaseEstimator):  # type: ignore[misc]
    """Score label l by its number of positives among the training rows, whatever the row.

    It is the linear model without weights whose bias is the label's count, so it is kept and stored like one.

    Attributes
    ----------
    n_features_in_, n_labels_ : int
    shards_ : list of Shard
        The counts, as biases; one shard for `fit`, one more for each `fit_labels`.
    """

    def fit(self, X: Any, Y: Any, *, shards: Shards | None = None, progress: Progress = silent) -> Popularity:
        """Count the positives of each label."""
        X = check_X(X)
        Y = check_Y(Y, X.shape[0])
        self.n_features_in_ = int(X.shape[1])
        self.n_labels_ = 0
        self.shards_: list[Shard] = []
        return self._append(Y, shards, progress)

    def fit_labels(self, X: Any, Y: Any, *, shards: Shards | None = None, progress: Progress = silent) -> Popularity:
        """Count the positives of further labels, which get the numbers after those there are."""
        self._check_fitted()
        X = check_X(X, self.n_features_in_)
        return self._append(check_Y(Y, X.shape[0]), shards, progress)

    def rank(self, X: Any, k: int = 5) -> Ranking:
        """Return the k most frequent labels, the same ones for each row; equal counts in rising order of label."""
        self._check_fitted()
        k = check_k(k)
        n_samples = check_X(X, self.n_features_in_).shape[0]
        counts = self.label_counts_
        best = np.lexsort((np.arange(counts.size), -counts))[:k]
        labels = np.full(k, -1, dtype=np.int32)
        scores = np.full(k, -np.inf, dtype=np.float32)
        labels[: best.size] = best
        scores[: best.size] = counts[best]
        return Ranking(np.tile(labels, (n_samples, 1)), np.tile(scores, (n_samples, 1)))

    @property
    def label_counts_(self) -> npt.NDArray[np.float32]:
        """The number of positives of each label."""
        self._check_fitted()
        return np.concatenate([np.zeros(0, np.float32), *(shard.bias for shard in self.shards_)])

    @classmethod
    def from_shards(cls, params: dict[str, Any], shards: list[Shard], n_features: int) -> Popularity:
        """Build the fitted model whose shards these are."""
        model = cls(**params)
        model.n_features_in_ = n_features
        model.shards_ = list(shards)
        model.n_labels_ = sum(shard.n_labels for shard in shards)
        return model

    def _append(self, Y: Any, shards: Shards | None, progress: Progress) -> Popularity:
        n_new = int(Y.shape[1])
        if n_new:
            shard = shards.get(self.n_labels_) if shards is not None else None
            if shard is None:
                shard = _shard(np.bincount(Y.indices, minlength=n_new), self.n_labels_)
                if shards is not None:
                    shards.put(shard)
            self.shards_ = [*self.shards_, shard]
        self.n_labels_ += n_new
        progress(n_new, n_new)
        return self

    def _check_fitted(self) -> None:
        if not hasattr(self, "shards_"):
            raise NotFittedError("this Popularity has not been fitted; call fit(X, Y) first")


def _shard(counts: npt.NDArray[np.int64], first: int) -> Shard:
    n = counts.size
    return Shard(
        features=np.zeros(0, np.int32),
        starts=np.zeros(1, np.int64),
        labels=np.zeros(0, np.uint16),
        weights=np.zeros(0, np.float32),
        bias=counts.astype(np.float32),
        objective=np.zeros(n),
        gap=np.zeros(n),
        epochs=np.zeros(n, np.int32),
        first=first,
    )
