"""ShardBuilder: collects and prunes the weights of solved labels and sorts them by feature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.design import Design, Floats, RowIndices
from unmissed.models.linear.duplicate_labels import Solution
from unmissed.models.linear.shard import Shard
from unmissed.numerics.csr import append_by_feature, list_kept_weights
from unmissed.numerics.workspace import workspace


class ShardBuilder:
    """Builds the shard of a block; labels may be added in any order, and all must be added before `build`.

    Weights of sparse features below `prune` in absolute value become 0; those of dense features are all kept. The
    threshold is divided by the typical norm of a row, because weights scale inversely with it. The bias, the weight of
    a constant feature 1, is compared with `prune` itself.
    """

    def __init__(self, design: Design, first: int, n_labels: int, prune: float) -> None:
        self._design = design
        self._first = first
        self._prune = np.float32(prune)
        self._threshold = np.float32(prune / design.typical_length)
        self._solutions: list[Solution | None] = [None] * n_labels

    def add(
        self,
        at: int,
        w: Floats,
        bias: np.float32,
        objective: float,
        gap: float,
        epochs: int,
        *,
        dual: tuple[RowIndices, Floats] | None = None,
        full_objective: float | None = None,
    ) -> None:
        """Prune and store label `at` of the block: weights by column index, bias, certificate, and dual variables."""
        dense, sparse = w[: self._design.n_dense], w[self._design.n_dense :]
        size = (len(sparse),)
        positions, weights = workspace("positions kept", size, np.int32), workspace("weights kept", size)
        n, dropped = list_kept_weights(sparse, self._threshold, positions, weights)
        kept = bias if abs(bias) >= self._prune else np.float32(0)
        pruned = math.sqrt(dropped) * self._design.typical_length + float(abs(bias - kept))
        certificate = objective, gap, epochs, dual, full_objective
        self.put(at, Solution(positions[:n].copy(), weights[:n].copy(), dense.copy(), kept, pruned, *certificate))

    def put(self, at: int, solution: Solution) -> None:
        """Set the solution of label `at`, which may come from a duplicate label."""
        self._solutions[at] = solution

    def get(self, at: int) -> Solution | None:
        """Return the solution of label `at`, or None if it is not set."""
        return self._solutions[at]

    def build(self) -> Shard:
        """Return the shard, with the feature numbers of X, ascending."""
        solutions = [solution for solution in self._solutions if solution is not None]
        features = self._design.features[self._design.n_dense :]
        counts = np.zeros(len(features), np.int64)
        for solution in solutions:
            counts[solution.positions] += 1
        used = np.flatnonzero(counts)
        used = used[np.argsort(features[used])]
        starts = np.zeros(len(used) + 1, np.int64)
        np.cumsum(counts[used], out=starts[1:])
        filled: npt.NDArray[np.int64] = counts  # next free slot of each feature; reuses the array of counts
        filled[used] = starts[:-1]
        full = [one.full_objective for one in solutions if one.full_objective is not None]
        names = np.empty(starts[-1], np.uint16)
        weights = np.empty(starts[-1], np.float32)
        for at, solution in enumerate(solutions):
            append_by_feature(solution.positions, solution.weights, at, filled, names, weights)
        return Shard(
            first=self._first,
            features=features[used],
            starts=starts,
            labels=names,
            weights=weights,
            bias=np.array([solution.bias for solution in solutions], np.float32),
            objective=np.array([solution.objective for solution in solutions], np.float64),
            gap=np.array([solution.gap for solution in solutions], np.float64),
            epochs=np.array([solution.epochs for solution in solutions], np.int32),
            pruned=np.array([solution.pruned for solution in solutions], np.float32),
            dense=np.stack([solution.dense for solution in solutions]) if self._design.n_dense else None,
            **_join_duals([solution.dual for solution in solutions if solution.dual is not None], len(solutions)),
            full_objective=np.array(full, np.float64) if full else None,
        )


def _join_duals(duals: Sequence[tuple[RowIndices, Floats]], n_labels: int) -> dict[str, Any]:
    """Return the arrays of a shard with the dual variables of all its labels; none if they were not kept."""
    if len(duals) < n_labels:
        return {}
    rows, values = zip(*duals, strict=True)
    starts = np.append(0, np.cumsum([len(one) for one in rows], dtype=np.int64))
    return {"dual_starts": starts, "dual_rows": np.concatenate(rows), "dual_values": np.concatenate(values)}
