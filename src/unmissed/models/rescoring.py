"""Exact scores of candidates: the labels that another model proposes, scored by one-vs-rest weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Threads
from unmissed.kernels.ranking import score_candidates
from unmissed.ranking import Ranking
from unmissed.solvers.buffers import clean_scratch
from unmissed.solvers.shard import Shard

_ROWS = 512  # rows that one thread takes at a time


@dataclass(frozen=True)
class ByLabel:
    """The weights of shards turned round: label l has those from starts[l] to starts[l + 1], features rising."""

    starts: npt.NDArray[np.int64]
    features: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]

    @classmethod
    def turn(cls, shards: Sequence[Shard]) -> ByLabel:
        """Copy the weights of shards label by label; a label's candidates then cost as much as it has weights."""
        lengths, features, weights = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.float32)]
        for shard in shards:
            order = np.argsort(shard.labels, kind="stable")
            features.append(np.repeat(shard.features, np.diff(shard.starts))[order])
            weights.append(shard.weights[order])
            lengths.append(np.bincount(shard.labels, minlength=shard.n_labels))
        bias = np.concatenate([np.empty(0, np.float32), *(shard.bias for shard in shards)])
        return cls(np.cumsum(np.concatenate(lengths)), np.concatenate(features), np.concatenate(weights), bias)

    def rank(self, X: sp.csr_matrix, candidates: Ranking, k: int, n_jobs: int | None) -> Ranking:
        """Return the k best candidates of each row by their exact scores."""
        proposed = candidates.labels
        if len(proposed) != X.shape[0]:
            raise InputError(f"candidates are given for {len(proposed)} rows, X has {X.shape[0]}")
        if proposed.size and int(proposed.max()) >= len(self.bias):
            raise InputError(f"candidates name the label {int(proposed.max())}; expected labels below {len(self.bias)}")
        scores = np.empty(proposed.shape, np.float32)
        indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False)

        def some(first: int) -> None:
            last = min(first + _ROWS, X.shape[0])
            weights = self.starts, self.features, self.weights, self.bias
            dense: Any = clean_scratch("features of a row", X.shape[1], np.float32)
            rows = indptr[first : last + 1], indices, X.data
            score_candidates(*rows, *weights, proposed[first:last], dense, scores[first:last])

        for _ in Threads(n_jobs).each(some, range(0, X.shape[0], _ROWS)):
            pass
        return Ranking.sort(proposed, scores).top(k).padded(k)
