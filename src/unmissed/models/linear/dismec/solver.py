"""Exact one-vs-rest squared-hinge SVMs for a block of labels, each with a duality gap as its certificate.

For every label: min 1/2 |w|^2 + 1/2 b^2 + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 over (w, b), LIBLINEAR's objective.
A positive has its own cost, a negative that of the label; the weight of a row multiplies both.

The algorithm, for LANES labels at a time:

1. Warm start. All labels start near the solution of a label without positives, which they share. A label with dual
   variables of an earlier solution (`LabelBlock.initial`) goes from these to 3, and keeps them if they are still
   certified.
2. Two sweeps of dual coordinate ascent in lanes, over the first quarter of the rows and over the rest. After each sweep
   follows a per-label phase over the label's active rows (a > 0).
3. Rounds. A pass in lanes finds the violated rows outside each label's working set and, from the second round on, the
   duality gap. Labels with a small enough gap are done; the others add those rows and run a per-label phase.

Labels that are not done after two rounds wait until the block has enough of them to fill the lanes again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.features import Features, ScaledFeatures
from unmissed.models.linear.design import Costs, Design, Floats, LabelBlock, RowIndices, Solvable, lay_out
from unmissed.models.linear.dismec import schedule
from unmissed.models.linear.dismec.dual_ascent import DualAscent, InitialSolutions
from unmissed.models.linear.dismec.label_state import LabelState
from unmissed.models.linear.dismec.packed_design import PackedDesign
from unmissed.models.linear.dismec.quantized_rows import QuantizedRows
from unmissed.models.linear.duplicate_labels import DuplicateLabels, seed_of
from unmissed.models.linear.shard import Shard
from unmissed.models.linear.shard_builder import ShardBuilder
from unmissed.models.parameters import Help, KeepDual, MaxRounds, Prune, Seed, Tolerance, check_parameters

FreeBias = Annotated[
    bool | Literal["free"],
    Help("true for a bias that is penalized like the weights, free for an unpenalized one, false for none"),
]


@dataclass(frozen=True)
class SquaredHinge:
    """Solve label blocks to a relative duality gap of `tol`, in at most `max_rounds` rounds per label.

    `fit_bias` is True for a bias that is penalized like the weights (LIBLINEAR with -B 1), "free" for an unpenalized
    one, False for none. Weights with |w| < prune become 0 after training if rows are L2-normalized; for other rows the
    threshold is divided by their typical norm. `keep_dual` stores the dual variables of labels with their weights. A
    label that Newton's method solved has none.
    """

    solvable: ClassVar[Solvable] = Solvable("squared-hinge", dense=True, per_cell=True)
    tol: Tolerance = 1e-3
    prune: Prune = 0.01
    fit_bias: FreeBias = True
    max_rounds: MaxRounds = 50
    random_state: Seed = 0
    keep_dual: KeepDual = False

    def __post_init__(self) -> None:
        check_parameters(self)
        if self.keep_dual and self.fit_bias == "free":
            raise InputError("dual variables are not kept with an unpenalized bias (fit_bias free)")

    def prepare(self, X: Any, rows: npt.ArrayLike | None = None, weights: Costs | None = None) -> PreparedSquaredHinge:
        """Prepare X, or a sorted subset of its rows, for all blocks of labels.

        X is a canonical float32 CSR matrix, `Features` or `ScaledFeatures`. The dense part is not copied. `weights`,
        one above 0 per row of X, multiply the costs of its rows.
        """
        return PreparedSquaredHinge(self, X, rows, weights)


class PreparedSquaredHinge:
    """A solver and the prepared rows of X; it is safe to share between threads."""

    def __init__(
        self, solver: SquaredHinge, X: Any, rows: npt.ArrayLike | None = None, weights: Costs | None = None
    ) -> None:
        self.solver = solver
        X, factors, sparse_factors = X if isinstance(X, ScaledFeatures) else (X, None, None)
        sparse, dense = X.both if isinstance(X, Features) else (X, None)
        bias, seed = solver.fit_bias is not False, int(solver.random_state)
        self.design: Design = lay_out(
            sparse,
            bias=bias,
            seed=seed,
            rows=rows,
            dense=dense,
            factors=factors,
            sparse_factors=sparse_factors,
            weights=weights,
        )
        self._quantized = QuantizedRows(self.design)
        self._packed = PackedDesign(self.design, self._quantized)
        self._duplicates = DuplicateLabels()
        self._initial_solutions = InitialSolutions(self.design, self._packed, solver.fit_bias == "free", seed)

    def solve(self, block: LabelBlock) -> Shard:
        """Return the solution of every label of the block; it does not depend on the assignment of labels to blocks."""
        self.solver.solvable.check(block)
        solver, positions = self.solver, self.design.positions(block.rows)
        builder = ShardBuilder(self.design, block.first, block.n_labels, solver.prune)

        initial = None if solver.fit_bias == "free" else block.initial

        def is_resumed(at: int) -> bool:
            return initial is not None and initial.starts[at] < initial.starts[at + 1]

        def begin(at: int) -> LabelState:
            negative = float(block.negative[at])
            positives, costs = positions[block.starts[at] : block.starts[at + 1]], block.positive_costs(at)
            seed = int(solver.random_state) + seed_of(positives)
            if self.design.n_dense:  # passes return scores of positives in the order of rows
                order = np.argsort(positives)
                positives, costs = positives[order], costs[order]
            if len(self.design.weights):
                costs = costs * self.design.weights[positives]
            label = LabelState(at, positives, (costs, negative), self._initial_solutions.of(negative), seed)
            if initial is not None and is_resumed(at):
                known = initial.of_labels(at, at + 1)
                label.resume(self.design.positions(known.rows), known.values, known.same_features)
            return label

        def keep(label: LabelState) -> None:
            dual = self._dual_of(label) if solver.keep_dual else None
            builder.add(label.at, label.w, label.bias, label.objective, label.gap, label.epochs, dual=dual)
            label.release()

        method = DualAscent(self.design, self._packed, self._quantized, solver.tol, solver.max_rounds)
        todo = self._duplicates.begin(block, builder)
        for resumed in (False, True):  # in groups of their own: the result must not depend on the group
            chosen = [at for at in todo if is_resumed(at) == resumed]
            schedule.run(chosen, begin, method, keep, rounds_together=1 if resumed else 2)
        self._duplicates.end(block, builder)
        return builder.build()

    @cached_property
    def _row_of_position(self) -> RowIndices:
        """The row of X at each position."""
        rows = np.argsort(self.design.position_of_row)
        return (rows if self.design.chosen is None else self.design.chosen[rows]).astype(np.int32)

    def _dual_of(self, label: LabelState) -> tuple[RowIndices, Floats]:
        """Return the rows of X with dual variables above 0, ascending, and these variables, signed."""
        signs = np.where(np.arange(len(label.a)) < len(label.positives), np.float32(1), np.float32(-1))
        active = np.flatnonzero(label.a > 0) if label.is_dual_current else np.empty(0, np.int64)
        rows = self._row_of_position[label.rows[active]]
        order = np.argsort(rows)
        return rows[order], (signs * label.a)[active][order]
