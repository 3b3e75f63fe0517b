"""The classifiers of one tree node: squared-hinge SVMs over the rows that reach it, each with a certificate.

For every column of the node, minimize over (w, b)

    1/2 |w|^2 + 1/2 b^2 + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2,

LIBLINEAR's objective, as in the DiSMEC solver; here the positives of a column may differ in cost. Dual coordinate
ascent sweeps all columns of a node together in SIMD lanes, over all rows in a new random order, until the gain of a
sweep suggests that the duality gap is within the tolerance. Then the weights are recomputed from the dual variables in
float64, the bias is optimized, and the gap is certified by a bound that includes its own rounding errors, as in
`models.linear.certificate`. Rows with dense features are solved by `dense_node_solver` instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from unmissed.features import Features
from unmissed.models.label_trees.dense_node_solver import ColumnAscent
from unmissed.models.label_trees.node_certificate import best_bias, float64_scores, store_weights, sum_duals
from unmissed.models.label_trees.node_kernels import dual_objective, sweep
from unmissed.models.label_trees.node_problem import Doubles, Floats, NodeRows, NodeSolution, NodeWeights
from unmissed.models.linear.design import Design, half_inverse, lay_out
from unmissed.models.parameters import Help, Prune, Seed, Tolerance, check_parameters
from unmissed.models.ranges import IntegerRange
from unmissed.numerics.workspace import workspace

MAX_COLUMNS = 112  # classifiers of a node; more lanes gain nothing
LANE_MULTIPLE = 16  # of the number of lanes, so that few variants are compiled
_NEWTON_STEPS = 8  # for the bias
_GAIN_PER_GAP = 0.5  # a sweep gains about half of the remaining duality gap

MaxSweeps = Annotated[
    int,
    IntegerRange(1),
    Help("maximum number of sweeps over a node's rows; a warning names classifiers that did not converge"),
]


@dataclass(frozen=True)
class NodeSolver:
    """Solves the columns of nodes to a relative duality gap of `tol`, in at most `max_sweeps` sweeps over their rows.

    After training, weights of sparse features below `prune` in magnitude are set to 0, and the others are quantized to
    int16. `objective` and `gap` are upper bounds for the float32 weights before that.
    """

    tol: Tolerance = 0.05
    prune: Prune = 0.1
    max_sweeps: MaxSweeps = 100
    random_state: Seed = 0

    def __post_init__(self) -> None:
        check_parameters(self)

    def lay_out(self, X: Features, rows: npt.NDArray[np.int64], seed: int) -> tuple[Design, npt.NDArray[np.int64]]:
        """Return the given rows of X (ascending) in random order, and the row index of each."""
        sparse, dense = X.both
        design = lay_out(sparse, bias=True, seed=seed, rows=rows, dense=dense)
        row_ids = np.empty(len(rows), np.int64)
        row_ids[design.position_of_row] = rows
        return design, row_ids

    def solve(self, node: NodeRows, seed: int) -> NodeWeights:
        """Return the weights of all columns of a node; a node without rows scores -1 everywhere."""
        if node.design.n_samples == 0:
            return NodeWeights.reject_all(node.n_columns, node.design.n_dense)
        if node.design.n_dense:
            return ColumnAscent(node, self.tol, self.max_sweeps, self.random_state + seed).run(self.prune)
        return _DualAscent(self, node, seed).run()


class _DualAscent:
    """The state of a node's dual coordinate ascent."""

    def __init__(self, solver: NodeSolver, node: NodeRows, seed: int) -> None:
        self.solver, self.node = solver, node
        n_lanes = 2 if node.n_columns <= 2 else -(-node.n_columns // LANE_MULTIPLE) * LANE_MULTIPLE
        self.lanes = (0,) * n_lanes
        self.rng = np.random.default_rng([solver.random_state, seed])
        design = node.design
        self.W = workspace("node weights", (design.n_features, n_lanes))
        self.a = workspace("node duals", (design.n_samples, n_lanes))
        self.W[:], self.a[:] = 0, 0
        self.bias = np.full(n_lanes, -2, np.float32)  # unused lanes: no row has a loss at -2
        self.bias[: node.n_columns] = 0
        h = (0.5 / np.maximum(node.costs, 1e-30)).astype(np.float32)
        self.positives = node.starts, node.columns, h, half_inverse(node.negative)
        self.costs = node.starts, node.columns, node.costs.astype(np.float64, copy=False), float(node.negative)

    def run(self) -> NodeWeights:
        """Sweep until the gap is certified or max_sweeps is reached; certify only when a sweep gains little."""
        n_columns, solver = self.node.n_columns, self.solver
        before = np.zeros(n_columns)
        dual = np.empty(len(self.lanes))
        order = np.arange(self.node.design.n_samples, dtype=np.int32)
        sweeps = 0
        while True:
            self.rng.shuffle(order)
            sweep(
                self.lanes,
                order,
                *self.node.design.rows,
                self.node.design.norms,
                *self.positives,
                self.W,
                self.bias,
                self.a,
            )
            sweeps += 1
            dual_objective(self.lanes, *self.positives, self.W, self.bias, self.a, dual)
            gain = dual[:n_columns] - before
            before = dual[:n_columns].copy()
            if sweeps < solver.max_sweeps and (gain > _GAIN_PER_GAP * solver.tol * np.abs(before)).any():
                continue
            bias, objective, gap = self._certify()
            if sweeps >= solver.max_sweeps or (gap <= solver.tol).all():
                solution = NodeSolution(bias, objective, gap, np.full(n_columns, sweeps, np.int32))
                return self.node.quantize(self.W, np.empty((n_columns, 0), np.float32), solver.prune, solution)

    def _certify(self) -> tuple[Floats, Doubles, Doubles]:
        """Return the best bias, and upper bounds of the objective and of the relative duality gap, per column."""
        sums = self._recompute_weights()
        bias, losses = self._best_bias()
        return bias[: self.node.n_columns], *self.node.certify(sums, bias, losses)

    def _recompute_weights(self) -> Doubles:
        """Recompute weights and bias from the dual variables; return the sums of `NodeRows.certify`."""
        n, design = self.node.n_columns, self.node.design
        exact = workspace("node sums", self.W.shape, np.float64)
        sums = np.empty((6, len(self.lanes)))
        sum_duals(self.lanes, *design.rows, design.norms, *self.costs, self.a, exact, sums[:4])
        store_weights(self.lanes, exact, self.W, sums[4:])
        self.bias[:n] = sums[2, :n]
        return sums

    def _best_bias(self) -> tuple[Floats, Doubles]:
        """Return the optimal bias of each lane for its weights, and the loss there."""
        scores = workspace("node sums", self.a.shape, np.float64)
        float64_scores(self.lanes, *self.node.design.rows, self.W, scores)
        bias, loss = self.bias.copy(), np.empty(len(self.lanes))
        best_bias(self.lanes, scores, *self.costs, _NEWTON_STEPS, bias, loss)
        return bias, loss
