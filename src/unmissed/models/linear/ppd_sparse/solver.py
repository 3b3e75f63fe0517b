"""The solver of PPD-Sparse for a block of labels: hinge loss, elastic-net penalty, and a duality gap per label.

Each label minimizes 1/2 |w|^2 + l1 |w|_1 + 1/2 b^2 + sum_i c_i max(0, 1 - z_i (w.x_i + b)) over (w, b), or the same
with the squared hinge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.design import RowIndices, Solvable
from unmissed.models.linear.label_by_label import LabelByLabel, Solved, SparseSolver
from unmissed.models.linear.ppd_sparse.hinge_label import solve_hinge_label
from unmissed.models.parameters import Help, MaxRounds, Prune

HingeLoss = Annotated[
    Literal["squared-hinge", "hinge"], Help("squared-hinge, or hinge as in the paper (use C of about 1 then)")
]


@dataclass(frozen=True, kw_only=True)
class SparseHinge(SparseSolver):
    """Solves label blocks with `loss` "hinge" or "squared-hinge"; the bias has the l2 but not the l1 penalty."""

    loss: HingeLoss = "hinge"
    prune: Prune = 0.01
    max_rounds: MaxRounds = 100

    @property
    def solvable(self) -> Solvable:  # type: ignore[override]
        """The loss of the solver."""
        return Solvable(self.loss)

    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> PreparedSparseHinge:
        """Copy X (CSR, float32, canonical), or some of its rows (ascending), to the layout that all blocks use."""
        return PreparedSparseHinge(self, X, rows)


class PreparedSparseHinge(LabelByLabel):
    """A `SparseHinge` with its copy of X; threads may share it."""

    def __init__(self, solver: SparseHinge, X: Any, rows: npt.ArrayLike | None = None) -> None:
        super().__init__(solver, X, rows)
        self.solver = solver
        squares = np.maximum(self.design.norms.astype(np.float64) - float(self.design.use_bias), 0)
        self._lengths = np.sqrt(squares) * (1 + 1e-6) + 1e-6  # rounded up, since norms are float32

    def make_buffers(self) -> tuple[npt.NDArray[Any], ...]:
        """Return the work arrays that `solve_hinge_label` describes."""
        n, m = self.design.n_features, self.design.n_samples
        lists = np.zeros(n), np.zeros(n), np.zeros(n), np.empty(n, np.int32), np.empty(n, np.int32)
        flags = np.full(n, -1, np.int32), np.zeros(n, np.bool_), np.empty(n, np.float32)
        return *lists, *flags, np.empty(m), np.empty(m), np.zeros(m, np.int8)

    def solve_label(self, positives: RowIndices, costs: tuple[float, float], seed: int, buffers: Any) -> Solved:
        """Return the solution of one label."""
        solver, design = self.solver, self.design
        solution = solve_hinge_label(
            design.rows,
            self._lengths,
            (self.design.longest, float(self._lengths.max(initial=0))),
            design.use_bias,
            self.columns.arrays,
            positives,
            *costs,
            solver.loss == "squared-hinge",
            float(solver.l1),
            float(solver.tol),
            int(solver.max_rounds),
            seed,
            buffers,
        )
        return solution[:6]  # type: ignore[no-any-return]
