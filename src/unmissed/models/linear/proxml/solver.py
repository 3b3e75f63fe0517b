"""The solver of ProXML for a block of labels: squared hinge loss, l1 penalty, and a duality gap per label.

Each label minimizes l1 |w|_1 + l1 |b| + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 over (w, b). This is LIBLINEAR's
`-s 5 -B 1` with C = 1 / l1, multiplied by l1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.design import RowIndices, Solvable
from unmissed.models.linear.label_by_label import LabelByLabel, Solved, SparseSolver
from unmissed.models.linear.proxml.l1_label import L1Buffers, L1Label, L1Problem
from unmissed.models.parameters import L1
from unmissed.models.ranges import NumberRange

PositiveL1 = Annotated[L1, NumberRange(0, above=True)]


@dataclass(frozen=True, kw_only=True)
class L1SquaredHinge(SparseSolver):
    """Solves label blocks with squared hinge loss and l1 penalty; the bias is penalized like a weight."""

    solvable: ClassVar[Solvable] = Solvable("squared-hinge")
    l1: PositiveL1 = 0.1

    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> PreparedL1SquaredHinge:
        """Copy X (CSR, float32, canonical), or some of its rows (ascending), to the layout that all blocks use."""
        return PreparedL1SquaredHinge(self, X, rows)


class PreparedL1SquaredHinge(LabelByLabel):
    """An `L1SquaredHinge` with its copy of X; threads may share it."""

    def __init__(self, solver: L1SquaredHinge, X: Any, rows: npt.ArrayLike | None = None) -> None:
        super().__init__(solver, X, rows)
        self.solver = solver
        design, values = self.design, self.design.values.astype(np.float64)
        totals = np.bincount(design.indices, values, design.n_features).astype(np.float64)
        lengths = np.sqrt(np.bincount(design.indices, values**2, design.n_features)) + 1e-12
        self.problem = L1Problem(design.rows, self.columns.arrays, totals, lengths, design.use_bias, float(solver.l1))

    def make_buffers(self) -> L1Buffers:
        """Return the work arrays of one thread."""
        return L1Buffers(self.design.n_features, self.design.n_samples)

    def solve_label(self, positives: RowIndices, costs: tuple[float, float], seed: int, buffers: Any) -> Solved:
        """Return the solution of one label."""
        label = L1Label(self.problem, positives, costs, buffers)
        label.solve(float(self.solver.tol), int(self.solver.max_rounds), seed)
        return label.features, label.w, label.bias, label.objective, label.gap, label.epochs
