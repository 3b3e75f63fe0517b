"""LabelByLabel: what solvers share that take one label at a time, because a label costs only what it touches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.solvers.buffers import scratch
from unmissed.solvers.builder import ShardBuilder
from unmissed.solvers.columns import Columns
from unmissed.solvers.design import Design, LabelBlock, Rows, lay_out
from unmissed.solvers.shard import Shard

Solved = tuple[Rows, npt.NDArray[Any], float, float, float, int]
"""Places of features, weights, bias, objective, relative gap, epochs."""


class LabelByLabel(ABC):
    """Rows of X laid out by row and by feature; threads may share it."""

    def __init__(self, X: Any, rows: npt.ArrayLike | None, *, fit_bias: bool, prune: float, seed: int) -> None:
        self.design: Design = lay_out(X, bias=fit_bias, seed=seed, rows=rows)
        self.columns = Columns.of(self.design)
        self._prune, self._seed = prune, seed

    @abstractmethod
    def make_buffers(self) -> tuple[npt.NDArray[Any], ...]:
        """Return the scratch arrays of a block."""

    @abstractmethod
    def solve_label(self, positives: Rows, costs: tuple[float, float], seed: int, buffers: Any) -> Solved:
        """Solve one label given its positives, what positives and negatives cost, and a seed of its own."""

    def solve(self, block: LabelBlock) -> Shard:
        """Solve every label of the block; the result does not depend on how labels are put into blocks."""
        block.check_costs()
        places = self.design.places(block.rows)
        builder = ShardBuilder(self.design, block.first, block.n_labels, self._prune)
        buffers = self.make_buffers()
        dense = scratch("weights of one label", (self.design.n_features,))
        for at in range(block.n_labels):
            positives = np.sort(places[block.starts[at] : block.starts[at + 1]])
            costs = float(block.positive[at]), float(block.negative[at])
            features, w, bias, objective, gap, epochs = self.solve_label(
                positives, costs, self._seed + 1_000_003 * (block.first + at), buffers
            )
            dense[:] = 0
            dense[features] = w
            builder.add(at, dense, np.float32(bias), objective, gap, epochs)
        return builder.build()
