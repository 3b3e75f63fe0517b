"""ShardBuilder: takes the weights of labels as they are finished, prunes them, and lays them out feature by feature."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from unmissed.kernels.arrange import by_feature, keep
from unmissed.solvers.buffers import scratch
from unmissed.solvers.design import Design, Floats, Rows
from unmissed.solvers.shard import Shard


class ShardBuilder:
    """The shard of a block in the making; labels may be finished in any order.

    Weights below `prune` become 0, where rows have length 1; where rows are longer, weights are as much smaller, and so
    is the threshold. The bias, which is the weight of a feature of 1, has the threshold as it is.
    """

    def __init__(self, design: Design, first: int, n_labels: int, prune: float) -> None:
        self._design = design
        self._first = first
        self._prune = np.float32(prune)
        self._threshold = np.float32(prune / design.typical_length)
        self._pruned = np.zeros(n_labels, np.float32)
        self._kept: list[tuple[Rows, Floats]] = [(np.empty(0, np.int32), np.empty(0, np.float32))] * n_labels
        self._bias = np.zeros(n_labels, np.float32)
        self._objective = np.full(n_labels, np.inf)
        self._gap = np.full(n_labels, np.inf)
        self._epochs = np.zeros(n_labels, np.int32)

    def add(self, at: int, w: Floats, bias: np.float32, objective: float, gap: float, epochs: int) -> None:
        """Take label `at` of the block: weights by place of feature, pruned here, and its certificate."""
        places, weights = scratch("places kept", (len(w),), np.int32), scratch("weights kept", (len(w),))
        n, dropped = keep(w, self._threshold, places, weights)
        self._kept[at] = places[:n].copy(), weights[:n].copy()
        self._bias[at] = bias if abs(bias) >= self._prune else 0
        self._pruned[at] = math.sqrt(dropped) * self._design.typical_length + abs(bias - self._bias[at])
        self._objective[at], self._gap[at], self._epochs[at] = objective, gap, epochs

    def build(self) -> Shard:
        """Return the shard, under the features' own numbers, rising."""
        counts = np.zeros(self._design.n_features, np.int64)
        for places, _ in self._kept:
            counts[places] += 1
        used = np.flatnonzero(counts)
        used = used[np.argsort(self._design.features[used])]
        starts = np.zeros(len(used) + 1, np.int64)
        np.cumsum(counts[used], out=starts[1:])
        filled: npt.NDArray[np.int64] = counts  # where the list of a feature goes on; its counts are not needed again
        filled[used] = starts[:-1]
        names = np.empty(starts[-1], np.uint16)
        weights = np.empty(starts[-1], np.float32)
        for at, kept in enumerate(self._kept):
            by_feature(*kept, at, filled, names, weights)
        return Shard(
            first=self._first,
            features=self._design.features[used],
            starts=starts,
            labels=names,
            weights=weights,
            bias=self._bias,
            objective=self._objective,
            gap=self._gap,
            epochs=self._epochs,
            pruned=self._pruned,
        )
