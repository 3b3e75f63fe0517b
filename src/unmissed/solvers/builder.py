"""ShardBuilder: takes the weights of labels as they are finished, prunes them, and lays them out feature by feature."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from unmissed.kernels.arrange import by_feature, keep
from unmissed.solvers.buffers import scratch
from unmissed.solvers.design import Design, Floats
from unmissed.solvers.shard import Shard
from unmissed.solvers.twins import Solution


class ShardBuilder:
    """The shard of a block in the making; labels may be finished in any order, and all are before it is built.

    Weights below `prune` become 0, where rows have length 1; where rows are longer, weights are as much smaller, and so
    is the threshold. The bias, which is the weight of a feature of 1, has the threshold as it is.
    """

    def __init__(self, design: Design, first: int, n_labels: int, prune: float) -> None:
        self._design = design
        self._first = first
        self._prune = np.float32(prune)
        self._threshold = np.float32(prune / design.typical_length)
        self._solutions: list[Solution | None] = [None] * n_labels

    def add(self, at: int, w: Floats, bias: np.float32, objective: float, gap: float, epochs: int) -> None:
        """Take label `at` of the block: weights by place of feature, pruned here, and its certificate."""
        places, weights = scratch("places kept", (len(w),), np.int32), scratch("weights kept", (len(w),))
        n, dropped = keep(w, self._threshold, places, weights)
        kept = bias if abs(bias) >= self._prune else np.float32(0)
        pruned = math.sqrt(dropped) * self._design.typical_length + float(abs(bias - kept))
        self.put(at, Solution(places[:n].copy(), weights[:n].copy(), kept, pruned, objective, gap, epochs))

    def put(self, at: int, solution: Solution) -> None:
        """Take what was found for label `at`, or for a twin of it."""
        self._solutions[at] = solution

    def get(self, at: int) -> Solution | None:
        """Return the solution of label `at`, if it is there."""
        return self._solutions[at]

    def build(self) -> Shard:
        """Return the shard, under the features' own numbers, rising."""
        solutions = [solution for solution in self._solutions if solution is not None]
        counts = np.zeros(self._design.n_features, np.int64)
        for solution in solutions:
            counts[solution.places] += 1
        used = np.flatnonzero(counts)
        used = used[np.argsort(self._design.features[used])]
        starts = np.zeros(len(used) + 1, np.int64)
        np.cumsum(counts[used], out=starts[1:])
        filled: npt.NDArray[np.int64] = counts  # where the list of a feature goes on; its counts are not needed again
        filled[used] = starts[:-1]
        names = np.empty(starts[-1], np.uint16)
        weights = np.empty(starts[-1], np.float32)
        for at, solution in enumerate(solutions):
            by_feature(solution.places, solution.weights, at, filled, names, weights)
        return Shard(
            first=self._first,
            features=self._design.features[used],
            starts=starts,
            labels=names,
            weights=weights,
            bias=np.array([solution.bias for solution in solutions], np.float32),
            objective=np.array([solution.objective for solution in solutions], np.float64),
            gap=np.array([solution.gap for solution in solutions], np.float64),
            epochs=np.array([solution.epochs for solution in solutions], np.int32),
            pruned=np.array([solution.pruned for solution in solutions], np.float32),
        )
