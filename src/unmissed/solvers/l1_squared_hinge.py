"""ProXML's problem for a block of labels: squared hinge and l1 penalty, each label certified.

For every label: min l1 |w|_1 + l1 |b| + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 over (w, b): LIBLINEAR's `-s 5 -B 1`
with C = 1 / l1, times l1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.kernels.l1_label import solve_l1_label
from unmissed.solvers.design import Rows
from unmissed.solvers.label_by_label import LabelByLabel, Solved
from unmissed.solvers.parameters import check_flag, check_positive, check_prune, check_rounds, check_seed, check_tol


@dataclass(frozen=True)
class L1SquaredHinge:
    """Solve label blocks to a relative duality gap of `tol`, in at most `max_rounds` rounds per label.

    With `fit_bias` a constant feature 1 has a weight b, penalised like the others. Weights smaller than `prune` become
    0 after training.
    """

    l1: float = 0.1
    tol: float = 1e-3
    prune: float = 0.0
    fit_bias: bool = True
    max_rounds: int = 200
    random_state: int = 0

    def __post_init__(self) -> None:
        check_positive("l1", self.l1)
        check_tol(self.tol)
        check_prune(self.prune)
        check_flag("fit_bias", self.fit_bias)
        check_rounds(self.max_rounds)
        check_seed(self.random_state)

    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> PreparedL1SquaredHinge:
        """Lay out X (CSR, float32, canonical), or some of its rows (rising), for all blocks of labels."""
        return PreparedL1SquaredHinge(self, X, rows)


class PreparedL1SquaredHinge(LabelByLabel):
    """A solver and rows of X; threads may share it."""

    def __init__(self, solver: L1SquaredHinge, X: Any, rows: npt.ArrayLike | None = None) -> None:
        super().__init__(X, rows, fit_bias=solver.fit_bias, prune=solver.prune, seed=int(solver.random_state))
        self.solver = solver
        design, values = self.design, self.design.values.astype(np.float64)
        self._totals = np.bincount(design.indices, values, design.n_features).astype(np.float64)
        self._lengths = np.sqrt(np.bincount(design.indices, values**2, design.n_features)) + 1e-12

    def make_buffers(self) -> tuple[npt.NDArray[Any], ...]:
        """Return the scratch arrays that `solve_l1_label` describes."""
        n, m = self.design.n_features, self.design.n_samples
        numbers = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        lists = np.full(n, -1, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
        return *numbers, *lists, np.empty(m), np.empty(m), np.zeros(m, np.int8)

    def solve_label(self, positives: Rows, costs: tuple[float, float], seed: int, buffers: Any) -> Solved:
        """Solve one label."""
        solver, design = self.solver, self.design
        found = solve_l1_label(
            design.rows,
            self.columns.arrays,
            self._totals,
            self._lengths,
            design.use_bias,
            positives,
            *costs,
            float(solver.l1),
            float(solver.tol),
            int(solver.max_rounds),
            seed,
            buffers,
        )
        return found[:6]  # type: ignore[no-any-return]
