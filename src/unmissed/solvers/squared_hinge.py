"""Exact one-vs-rest squared-hinge SVMs for a block of labels, each with a duality gap as its certificate.

For every label: min 1/2 |w|^2 + 1/2 b^2 + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 over (w, b), LIBLINEAR's objective.

The way there, for LANES labels at a time. (1) All start from the solution of the label without positives, which they
share. (2) Two sweeps of dual coordinate ascent over all rows, in lanes; after each, every label goes on alone over its
awake rows. (3) Rounds: a pass in lanes finds each label's duality gap and the rows it has missed; labels whose gap is
small enough are done, the others take those rows in and go on alone. Labels left over after two rounds wait until the
block has enough of them to fill the lanes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from unmissed.kernels.arrange import by_feature, keep
from unmissed.kernels.ascent import ascend
from unmissed.kernels.lanes import LANES
from unmissed.solvers.design import Design, Floats, LabelBlock, lay_out
from unmissed.solvers.label import Label, Rows, Start, half_inverse
from unmissed.solvers.shard import Shard
from unmissed.solvers.workspace import ALONE, Workspace

Bias = Literal["regularised", "free", "none"]
_ROUNDS_TOGETHER = 2  # most labels are done after two; then those that are not wait for one another
Kept = tuple[Rows, Floats]  # the places of the weights that stay, and the weights


@dataclass(frozen=True)
class SquaredHinge:
    """Solve label blocks to a relative duality gap of `tol`, in at most `max_rounds` rounds a label.

    `bias` is the constant feature: regularised like the weights (LIBLINEAR with -B 1), free, or none. Weights smaller
    than `prune` become 0 after training. A negative cost (Costs.counter) makes the problem non-convex: not taken.
    """

    tol: float = 1e-3
    prune: float = 0.01
    bias: Bias = "regularised"
    max_rounds: int = 50
    seed: int = 0

    def prepare(self, X: Any) -> Design:
        """Lay out X for all blocks."""
        return lay_out(X, bias=self.bias != "none", seed=self.seed)

    def begin(self, design: Design, cost: float) -> Start:
        """Go one epoch towards the solution of the label without positives, whose rows all cost `cost`."""
        n = design.n_samples
        w = np.zeros(design.n_features, np.float32)
        a = np.zeros(n, np.float32)
        centre = -1.0 if self.bias == "free" else 0.0  # at -1 every negative is satisfied
        bias, _ = ascend(
            *design.rows,
            design.norms,
            design.use_bias,
            np.arange(n, dtype=np.int32),
            np.full(n, -1, np.float32),
            np.full(n, half_inverse(cost)),
            a,
            w,
            np.float32(centre),
            0.0,
            1,  # every label goes on from here, and a better start was seen to save nothing
            self.seed,
        )
        awake = np.flatnonzero(a > 0).astype(np.int32)
        return Start(w, np.float32(bias), self.bias == "free", centre, awake, a[awake])

    def solve(self, design: Design, start: Start, block: LabelBlock) -> Shard:
        """Solve every label of the block; the result does not depend on how labels are put into blocks."""
        workspace = Workspace(design)
        labels = [
            Label(block.first + at, block.positives(at), (block.positive[at], block.negative[at]), start, self.seed)
            for at in range(block.n_labels)
        ]
        kept: dict[int, Kept] = {}
        waiting: list[Label] = []

        def settle(group: Sequence[Label]) -> None:
            """Keep the weights of labels that are done; the others wait for their next round."""
            for label in group:
                if label.gap <= self.tol or label.rounds >= self.max_rounds:
                    kept[label.number] = _prune(label.w, self.prune)
                    label.forget()
                else:
                    label.w = label.w.copy()
                    waiting.append(label)

        for left in range(0, len(labels), LANES):
            group = labels[left : left + LANES]
            workspace.sweep(group, start)
            left_over: Sequence[Label] = group
            for _ in range(min(_ROUNDS_TOGETHER, self.max_rounds)):
                workspace.round(left_over if len(left_over) <= ALONE else group, self.tol, self.max_rounds)
                left_over = [label for label in group if not label.gap <= self.tol]
            settle(group)
            enough = LANES if left + LANES < len(labels) else 1
            while len(waiting) >= enough:
                group, waiting = waiting[:LANES], waiting[LANES:]
                workspace.round(group, self.tol, self.max_rounds)
                settle(group)
        return self._shard(design, block, labels, kept)

    def _shard(self, design: Design, block: LabelBlock, labels: Sequence[Label], kept: dict[int, Kept]) -> Shard:
        """Lay out what pruning left, feature by feature, under the features' own names."""
        counts = np.zeros(design.n_features, np.int64)
        for places, _ in kept.values():
            counts[places] += 1
        counts = counts[design.place_of_feature]
        starts = np.zeros(design.n_features + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        filled = np.empty(design.n_features, np.int64)
        filled[design.place_of_feature] = starts[:-1]
        names = np.empty(starts[-1], np.uint16)
        weights = np.empty(starts[-1], np.float32)
        for at, label in enumerate(labels):
            by_feature(*kept.pop(label.number), at, filled, names, weights)
        used = np.flatnonzero(counts)
        bias = np.array([label.bias for label in labels], np.float32)
        return Shard(
            first=block.first,
            features=used.astype(np.int32),
            starts=np.append(starts[used], starts[-1]),
            labels=names,
            weights=weights,
            bias=np.where(np.abs(bias) < self.prune, np.float32(0), bias),
            objective=np.array([label.objective for label in labels]),
            gap=np.array([label.gap for label in labels]),
            epochs=np.array([label.epochs for label in labels], np.int32),
        )


def _prune(w: Floats, threshold: float) -> Kept:
    """Return the places and weights that are at least `threshold` in size."""
    places = np.empty(len(w), np.int32)
    weights = np.empty(len(w), np.float32)
    n = keep(w, np.float32(threshold), places, weights)
    return places[:n].copy(), weights[:n].copy()
