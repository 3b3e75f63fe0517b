"""ProXML's problem for a block of labels: squared hinge and l1 penalty, each label certified.

For every label: min l1 |w|_1 + l1 |b| + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 over (w, b): LIBLINEAR's `-s 5 -B 1`
with C = 1 / l1, times l1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.solvers.design import Rows
from unmissed.solvers.l1_label import L1Buffers, L1Label, L1Problem
from unmissed.solvers.label_by_label import LabelByLabel, Solved, SparseSolver
from unmissed.solvers.parameters import Positive


@dataclass(frozen=True, kw_only=True)
class L1SquaredHinge(SparseSolver):
    """Solve label blocks; the bias is penalised like the other weights."""

    l1: Positive = 0.1

    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> PreparedL1SquaredHinge:
        """Lay out X (CSR, float32, canonical), or some of its rows (rising), for all blocks of labels."""
        return PreparedL1SquaredHinge(self, X, rows)


class PreparedL1SquaredHinge(LabelByLabel):
    """A solver and rows of X; threads may share it."""

    def __init__(self, solver: L1SquaredHinge, X: Any, rows: npt.ArrayLike | None = None) -> None:
        super().__init__(solver, X, rows)
        self.solver = solver
        design, values = self.design, self.design.values.astype(np.float64)
        totals = np.bincount(design.indices, values, design.n_features).astype(np.float64)
        lengths = np.sqrt(np.bincount(design.indices, values**2, design.n_features)) + 1e-12
        self.problem = L1Problem(design.rows, self.columns.arrays, totals, lengths, design.use_bias, float(solver.l1))

    def make_buffers(self) -> L1Buffers:
        """Return the scratch of one thread."""
        return L1Buffers(self.design.n_features, self.design.n_samples)

    def solve_label(self, positives: Rows, costs: tuple[float, float], seed: int, buffers: Any) -> Solved:
        """Solve one label."""
        label = L1Label(self.problem, positives, costs, buffers)
        label.solve(float(self.solver.tol), int(self.solver.max_rounds), seed)
        return label.features, label.w, label.bias, label.objective, label.gap, label.epochs
