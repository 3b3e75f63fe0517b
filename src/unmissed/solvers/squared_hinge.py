"""Exact one-vs-rest squared-hinge SVMs for a block of labels, each with a duality gap as its certificate.

For every label: min 1/2 |w|^2 + 1/2 b^2 + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 over (w, b), LIBLINEAR's objective.

The way there, for LANES labels at a time. (1) All start near the solution of the label without positives, which they
share. (2) Two sweeps of dual coordinate ascent in lanes, one over a quarter of the rows, one over the rest; after each,
every label goes on alone over its awake rows. (3) Rounds: a pass in lanes finds the rows that each label has missed,
and from the second round on its duality gap; labels whose gap is small enough are done, the others take those rows in
and go on alone. Labels left over after two rounds wait until the block has enough of them to fill the lanes again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from unmissed.solvers import schedule
from unmissed.solvers.builder import ShardBuilder
from unmissed.solvers.design import Design, LabelBlock, lay_out
from unmissed.solvers.dual_ascent import DualAscent, Starts
from unmissed.solvers.label import Label
from unmissed.solvers.packed import Packed
from unmissed.solvers.parameters import Count, NotNegative, Seed, Tolerance, check_bias, check_ranges
from unmissed.solvers.rounded import Rounded
from unmissed.solvers.shard import Shard
from unmissed.solvers.twins import Twins, seed_of


@dataclass(frozen=True)
class SquaredHinge:
    """Solve label blocks to a relative duality gap of `tol`, in at most `max_rounds` rounds per label.

    `fit_bias` is the constant feature: True for one that is penalised like the weights (LIBLINEAR with -B 1), "free"
    for one that is not, False for none. Weights smaller than `prune` become 0 after training, where rows have length 1;
    for rows of another typical length the threshold is divided by it.
    """

    tol: Tolerance = 1e-3
    prune: NotNegative = 0.01
    fit_bias: bool | str = True
    max_rounds: Count = 50
    random_state: Seed = 0

    def __post_init__(self) -> None:
        check_ranges(self, type(self))
        check_bias(self.fit_bias)

    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> PreparedSquaredHinge:
        """Lay out X (CSR, float32, canonical), or some of its rows (rising), for all blocks of labels."""
        return PreparedSquaredHinge(self, X, rows)


class PreparedSquaredHinge:
    """A solver and rows of X; threads may share it."""

    def __init__(self, solver: SquaredHinge, X: Any, rows: npt.ArrayLike | None = None) -> None:
        self.solver = solver
        self.design: Design = lay_out(X, bias=solver.fit_bias is not False, seed=int(solver.random_state), rows=rows)
        self._rounded = Rounded(self.design)
        self._packed = Packed(self.design)
        self._twins = Twins()
        self._starts = Starts(self.design, self._packed, solver.fit_bias == "free", int(solver.random_state))

    def solve(self, block: LabelBlock) -> Shard:
        """Solve every label of the block; the result does not depend on how labels are put into blocks."""
        block.check_costs()
        solver, places = self.solver, self.design.places(block.rows)
        builder = ShardBuilder(self.design, block.first, block.n_labels, solver.prune)

        def begin(at: int) -> Label:
            costs = float(block.positive[at]), float(block.negative[at])
            positives = places[block.starts[at] : block.starts[at + 1]]
            seed = int(solver.random_state) + seed_of(positives)
            return Label(at, positives, costs, self._starts.of(costs[1]), seed)

        def keep(label: Label) -> None:
            builder.add(label.at, label.w, label.bias, label.objective, label.gap, label.epochs)
            label.forget()

        labels = [begin(at) for at in self._twins.begin(block, builder)]
        method = DualAscent(self.design, self._packed, self._rounded, solver.tol, solver.max_rounds)
        schedule.run(labels, method, keep)
        self._twins.end(block, builder)
        return builder.build()
