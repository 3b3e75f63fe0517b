"""The classifiers of one tree node: squared-hinge SVMs over the rows that reach it, each with a certificate.

For every column of the node, minimize over (w, b)

    1/2 |w|^2 + 1/2 b^2 + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2,

LIBLINEAR's objective, as in the DiSMEC solver; here the positives of a column may differ in cost. Dual coordinate
ascent sweeps all columns of a node together in SIMD lanes, over all rows in a new random order, until the gain of a
sweep suggests that the duality gap is within the tolerance. Then the weights are recomputed from the dual variables in
float64, the bias is optimized, and the gap is certified by a bound that includes its own rounding errors, as in
`models.linear.certificate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from unmissed.models.label_trees.node_certificate import best_bias, float64_scores, store_weights, sum_duals
from unmissed.models.label_trees.node_kernels import dual_objective, quantize_weights, sweep
from unmissed.models.linear.certificate import Dual, relative_gap, upper_bound
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
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NodeRows:
    """The training problem of a node: its rows, and the positive columns of each row.

    Parameters
    ----------
    design : the rows in solver layout
    starts, columns : the positive columns of row i of the design are columns[starts[i]:starts[i + 1]]
    costs : cost of each of those positives
    negative : cost of a negative
    n_columns : number of columns
    """

    design: Design
    starts: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    costs: npt.NDArray[np.float64]
    negative: float
    n_columns: int


@dataclass(frozen=True)
class NodeWeights:
    """Sparse int16 weights of a node's columns, stored by feature, with a scale per column.

    Feature features[j] (ascending) has counts[j] + 1 weights, in ascending order of column. The score of a column is
    bias + scale (sum of x_j times weight).
    """

    features: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint8]
    columns: npt.NDArray[np.uint8]
    weights: npt.NDArray[np.int16]
    scale: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]
    objective: npt.NDArray[np.float64]
    gap: npt.NDArray[np.float64]
    sweeps: npt.NDArray[np.int32]


@dataclass(frozen=True)
class NodeSolver:
    """Solves the columns of nodes to a relative duality gap of `tol`, in at most `max_sweeps` sweeps over their rows.

    After training, weights below `prune` in magnitude are set to 0 and the others are quantized to int16. `objective`
    and `gap` are upper bounds for the float32 weights before that.
    """

    tol: Tolerance = 0.05
    prune: Prune = 0.1
    max_sweeps: MaxSweeps = 100
    random_state: Seed = 0

    def __post_init__(self) -> None:
        check_parameters(self)

    def lay_out(self, X: Any, rows: npt.NDArray[np.int64], seed: int) -> tuple[Design, npt.NDArray[np.int64]]:
        """Return the given rows of X (ascending) in random order, and the row index of each."""
        design = lay_out(X, bias=True, seed=seed, rows=rows)
        row_ids = np.empty(len(rows), np.int64)
        row_ids[design.position_of_row] = rows
        return design, row_ids

    def solve(self, node: NodeRows, seed: int) -> NodeWeights:
        """Return the weights of all columns of a node; a node without rows scores -1 everywhere."""
        if node.design.n_samples == 0:
            return _reject_all(node.n_columns)
        return _DualAscent(self, node, seed).run()


def _reject_all(n_columns: int) -> NodeWeights:
    """Return weights that score -1 for every row and column."""
    zeros = np.zeros(n_columns)
    return NodeWeights(
        features=np.empty(0, np.uint32),
        counts=np.empty(0, np.uint8),
        columns=np.empty(0, np.uint8),
        weights=np.empty(0, np.int16),
        scale=zeros.astype(np.float32),
        bias=np.full(n_columns, -1, np.float32),
        objective=zeros,
        gap=zeros,
        sweeps=zeros.astype(np.int32),
    )


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
                return self._quantize(bias, objective, gap, sweeps)

    def _certify(self) -> tuple[npt.NDArray[np.float32], Doubles, Doubles]:
        """Return the best bias, and upper bounds of the objective and of the relative duality gap, per column."""
        n, design = self.node.n_columns, self.node.design
        duals, squares = self._recompute_weights()
        bias, losses = self._best_bias()
        max_cost = max(self.node.negative, float(self.node.costs.max(initial=0)))
        objective, gap = np.empty(n), np.empty(n)
        for at, dual in enumerate(duals):
            square, loss = float(squares[at]), float(losses[at])
            objective[at] = upper_bound(design, square, float(bias[at]), True, loss, max_cost)
            gap[at] = relative_gap(objective[at], dual.lower_bound(design.n_features))
        return bias[:n], objective, gap

    def _recompute_weights(self) -> tuple[list[Dual], Doubles]:
        """Recompute weights and bias from the dual variables; return the dual points and |w|^2 in float32."""
        n, design = self.node.n_columns, self.node.design
        exact = workspace("node sums", self.W.shape, np.float64)
        sums, squares = np.empty((4, len(self.lanes))), np.empty((2, len(self.lanes)))
        sum_duals(self.lanes, *design.rows, design.norms, *self.costs, self.a, exact, sums)
        store_weights(self.lanes, exact, self.W, squares)
        total, quadratic, offset, spread = sums[:, :n].tolist()
        self.bias[:n] = offset
        square = squares[0, :n].tolist()
        points = zip(total, quadratic, square, offset, spread, strict=True)
        return [Dual(*point, terms=design.n_samples) for point in points], squares[1]

    def _best_bias(self) -> tuple[npt.NDArray[np.float32], Doubles]:
        """Return the optimal bias of each lane for its weights, and the loss there."""
        scores = workspace("node sums", self.a.shape, np.float64)
        float64_scores(self.lanes, *self.node.design.rows, self.W, scores)
        bias, loss = self.bias.copy(), np.empty(len(self.lanes))
        best_bias(self.lanes, scores, *self.costs, _NEWTON_STEPS, bias, loss)
        return bias, loss

    def _quantize(self, bias: Any, objective: Any, gap: Any, sweeps: int) -> NodeWeights:
        """Return the pruned and quantized weights."""
        n, design = self.node.n_columns, self.node.design
        capacity = design.n_features * n
        positions, counts = (
            workspace("node features", (design.n_features,), np.int32),
            np.empty(design.n_features, np.uint8),
        )
        columns, weights = (
            workspace("node columns", (capacity,), np.uint8),
            workspace("node quantized", (capacity,), np.int16),
        )
        scale = np.empty(n, np.float32)
        feature_order = np.argsort(design.features)
        prune = np.float32(self.solver.prune)
        n_features, n_weights = quantize_weights(
            self.W, n, feature_order, prune, scale, positions, counts, columns, weights
        )
        return NodeWeights(
            features=design.features[positions[:n_features]].astype(np.uint32),
            counts=counts[:n_features].copy(),
            columns=columns[:n_weights].copy(),
            weights=weights[:n_weights].copy(),
            scale=scale,
            bias=bias.copy(),
            objective=objective,
            gap=gap,
            sweeps=np.full(n, sweeps, np.int32),
        )
