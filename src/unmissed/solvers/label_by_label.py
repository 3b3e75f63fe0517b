"""LabelByLabel: what solvers share that take one label at a time, because a label costs only what it touches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.solvers.buffers import scratch
from unmissed.solvers.builder import ShardBuilder
from unmissed.solvers.columns import Columns
from unmissed.solvers.design import Design, LabelBlock, Rows, lay_out
from unmissed.solvers.parameters import Count, NotNegative, Seed, Tolerance, check_flag, check_ranges
from unmissed.solvers.shard import Shard
from unmissed.solvers.twins import Twins, seed_of

Solved = tuple[Rows, npt.NDArray[Any], float, float, float, int]
"""Places of features, weights, bias, objective, relative gap, epochs."""


@dataclass(frozen=True, kw_only=True)
class SparseSolver(ABC):
    """The parameters of a solver with an l1 penalty, checked.

    Labels are solved to a relative duality gap of `tol`, in at most `max_rounds` rounds each. With `fit_bias` a
    constant feature 1 has a weight b. Weights smaller than `prune` become 0 after training.
    """

    l1: NotNegative = 0.1
    tol: Tolerance = 1e-3
    prune: NotNegative = 0.0
    fit_bias: bool = True
    max_rounds: Count = 200
    random_state: Seed = 0

    def __post_init__(self) -> None:
        check_ranges(self, type(self))
        check_flag("fit_bias", self.fit_bias)

    @abstractmethod
    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> LabelByLabel:
        """Lay out X (CSR, float32, canonical), or some of its rows (rising), for all blocks of labels."""


class LabelByLabel(ABC):
    """Rows of X laid out by row and by feature; threads may share it."""

    def __init__(self, solver: SparseSolver, X: Any, rows: npt.ArrayLike | None) -> None:
        self._prune, self._seed = solver.prune, int(solver.random_state)
        self.design: Design = lay_out(X, bias=solver.fit_bias, seed=self._seed, rows=rows)
        self.columns = Columns.of(self.design)
        self._twins = Twins()

    @abstractmethod
    def make_buffers(self) -> Any:
        """Return the scratch of a block."""

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
        for at in self._twins.begin(block, builder):
            positives = np.sort(places[block.starts[at] : block.starts[at + 1]])
            costs = float(block.positive[at]), float(block.negative[at])
            seed = self._seed + seed_of(positives)
            features, w, bias, objective, gap, epochs = self.solve_label(positives, costs, seed, buffers)
            dense[:] = 0
            dense[features] = w
            builder.add(at, dense, np.float32(bias), objective, gap, epochs)
        self._twins.end(block, builder)
        return builder.build()
