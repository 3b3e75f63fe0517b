"""LabelByLabel: base of the l1 solvers, which solve one label at a time and read only what it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.columns import FeatureColumns
from unmissed.models.linear.design import Design, LabelBlock, RowIndices, Solvable, lay_out
from unmissed.models.linear.duplicate_labels import DuplicateLabels, seed_of
from unmissed.models.linear.shard import Shard
from unmissed.models.linear.shard_builder import ShardBuilder
from unmissed.models.parameters import L1, FitBias, MaxRounds, Prune, Seed, Tolerance, check_parameters
from unmissed.numerics.workspace import workspace

Solved = tuple[RowIndices, npt.NDArray[Any], float, float, float, int]
"""Column indices, weights, bias, objective, relative duality gap, epochs."""


@dataclass(frozen=True, kw_only=True)
class SparseSolver(ABC):
    """The validated parameters of a solver with an l1 penalty.

    Labels are solved to a relative duality gap of `tol`, in at most `max_rounds` rounds each. `fit_bias`
    adds a bias b, the weight of a constant feature 1. Weights below `prune` in absolute value become 0 after training.
    """

    solvable: ClassVar[Solvable]
    l1: L1 = 0.1
    tol: Tolerance = 1e-3
    prune: Prune = 0.0
    fit_bias: FitBias = True
    max_rounds: MaxRounds = 200
    random_state: Seed = 0

    def __post_init__(self) -> None:
        check_parameters(self)

    @abstractmethod
    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> LabelByLabel:
        """Copy X (CSR, float32, canonical), or some of its rows (ascending), to the layout that all blocks use."""


class LabelByLabel(ABC):
    """A solver prepared for X, which it stores as CSR and as CSC; threads may share it."""

    def __init__(self, solver: SparseSolver, X: Any, rows: npt.ArrayLike | None) -> None:
        self._solvable = solver.solvable
        self._prune, self._seed = solver.prune, int(solver.random_state)
        self.design: Design = lay_out(X, bias=solver.fit_bias, seed=self._seed, rows=rows)
        self.columns = FeatureColumns.of(self.design)
        self._duplicates = DuplicateLabels()

    @abstractmethod
    def make_buffers(self) -> Any:
        """Return the work arrays of a block."""

    @abstractmethod
    def solve_label(self, positives: RowIndices, costs: tuple[float, float], seed: int, buffers: Any) -> Solved:
        """Solve one label, given its positives, the costs of positives and negatives, and a random seed."""

    def solve(self, block: LabelBlock) -> Shard:
        """Return the solutions of a block; they do not depend on how labels are assigned to blocks."""
        self._solvable.check(block)
        positions = self.design.positions(block.rows)
        builder = ShardBuilder(self.design, block.first, block.n_labels, self._prune)
        buffers = self.make_buffers()
        dense = workspace("weights of one label", (self.design.n_features,))
        for at in self._duplicates.begin(block, builder):
            positives = np.sort(positions[block.starts[at] : block.starts[at + 1]])
            costs = float(block.positive[at]), float(block.negative[at])
            seed = self._seed + seed_of(positives)
            features, w, bias, objective, gap, epochs = self.solve_label(positives, costs, seed, buffers)
            dense[:] = 0
            dense[features] = w
            builder.add(at, dense, np.float32(bias), objective, gap, epochs)
        self._duplicates.end(block, builder)
        return builder.build()
