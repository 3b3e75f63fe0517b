"""Exact scores of the candidates that another model proposes, by one-vs-rest weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Threads
from unmissed.models.linear.ranking.dense_scores import DensePart
from unmissed.models.linear.ranking.tiles import rescore_candidates
from unmissed.models.linear.shard import Shard
from unmissed.numerics.workspace import zeroed_workspace
from unmissed.ranking import Ranking

_ROWS = 512  # rows per task of a thread


@dataclass(frozen=True)
class WeightsByLabel:
    """The sparse weights of shards in label-major order: label l has starts[l]:starts[l + 1], features ascending."""

    starts: npt.NDArray[np.int64]
    features: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]

    @classmethod
    def from_shards(cls, shards: Sequence[Shard]) -> WeightsByLabel:
        """Transpose the weights of shards, so that a candidate costs only its number of weights."""
        lengths, features, weights = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.float32)]
        for shard in shards:
            order = np.argsort(shard.labels, kind="stable")
            features.append(np.repeat(shard.features, np.diff(shard.starts))[order])
            weights.append(shard.weights[order])
            lengths.append(np.bincount(shard.labels, minlength=shard.n_labels))
        bias = np.concatenate([np.empty(0, np.float32), *(shard.bias for shard in shards)])
        return cls(np.cumsum(np.concatenate(lengths)), np.concatenate(features), np.concatenate(weights), bias)

    @property
    def n_bytes(self) -> int:
        """Size in memory."""
        return sum(array.nbytes for array in (self.starts, self.features, self.weights, self.bias))

    def rank(
        self, X: sp.csr_matrix, candidates: Ranking, k: int, n_jobs: int | None, dense: DensePart | None = None
    ) -> Ranking:
        """Return the k best candidates of each row by exact score."""
        proposed = candidates.labels
        if len(proposed) != X.shape[0]:
            raise InputError(f"candidates have {len(proposed)} rows, X has {X.shape[0]}; expected as many")
        if proposed.size and int(proposed.max()) >= len(self.bias):
            raise InputError(f"candidates contain label {int(proposed.max())}; expected labels below {len(self.bias)}")
        scores = np.empty(proposed.shape, np.float32)
        indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False)

        def score_rows(first: int) -> None:
            last = min(first + _ROWS, X.shape[0])
            weights = self.starts, self.features, self.weights, self.bias
            values: Any = zeroed_workspace("features of a row", X.shape[1], np.float32)
            rows = indptr[first : last + 1], indices, X.data
            rescore_candidates(*rows, *weights, proposed[first:last], values, scores[first:last])
            if dense is not None:
                dense.add_to_candidates(slice(first, last), proposed[first:last], scores[first:last])

        for _ in Threads(n_jobs).each(score_rows, range(0, X.shape[0], _ROWS)):
            pass
        return Ranking.sort(proposed, scores).top(k).padded(k)
