"""The classifiers of one tree node: squared-hinge SVMs over the few rows that reach it, each with a certificate.

For every column of the node: min 1/2 |w|^2 + 1/2 b^2 + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 over (w, b), LIBLINEAR's
objective, as in `squared_hinge`; here the positives of a column may differ in cost. All columns of a node are swept
together in SIMD lanes, each time over all rows in a new random order, until the gain of a sweep says that the duality
gap may have come down to the tolerance. Then the weights are recomputed from the dual variables in float64, the bias is
moved to its best value, and the gap is certified: a bound that counts its own rounding errors, as in `certificate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.kernels.node_certificate import best_bias, exact_scores, sum_duals, take_weights
from unmissed.kernels.node_lanes import dual_objective, round_weights, sweep
from unmissed.solvers.buffers import scratch
from unmissed.solvers.certificate import Dual, relative_gap, upper_bound
from unmissed.solvers.design import Design, lay_out
from unmissed.solvers.label import half_inverse
from unmissed.solvers.parameters import Count, NotNegative, Seed, Tolerance, check_ranges

MOST_COLUMNS = 112  # classifiers of a node; more lanes gain nothing
STEP = 16  # lanes come in multiples of this, so that few kinds of them are compiled
_NEWTON = 8  # steps towards the best bias
_GAIN = 0.5  # the gap is about twice what a sweep gains, relative to the dual objective

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NodeRows:
    """Rows that reach a node, and which of its columns each is a positive of.

    Parameters
    ----------
    design : the rows, laid out
    starts, columns : the positive columns of the laid-out row i are columns[starts[i]:starts[i + 1]]
    costs : what each of those positives costs
    negative : what any other row costs
    n_columns : the number of columns
    """

    design: Design
    starts: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    costs: npt.NDArray[np.float64]
    negative: float
    n_columns: int


@dataclass(frozen=True)
class NodeWeights:
    """Sparse weights of a node's columns, feature by feature, in whole numbers times a scale per column.

    Feature `features[j]` (rising) has `counts[j] + 1` weights, whose columns rise; the score of a column is
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
    """Solve the columns of nodes to a relative duality gap of `tol`, in at most `max_sweeps` sweeps over their rows.

    Weights smaller than `prune` become 0 after training, and the others are rounded to 16 bits. `objective` and `gap`
    are upper bounds for the float32 weights before that.
    """

    tol: Tolerance = 0.05
    prune: NotNegative = 0.1
    max_sweeps: Count = 100
    random_state: Seed = 0

    def __post_init__(self) -> None:
        check_ranges(self, type(self))

    def lay_out(self, X: Any, rows: npt.NDArray[np.int64], seed: int) -> tuple[Design, npt.NDArray[np.int64]]:
        """Lay out rows of X (rising) in random order; return them with the number of the row at each place."""
        design = lay_out(X, bias=True, seed=seed, rows=rows)
        laid = np.empty(len(rows), np.int64)
        laid[design.place_of_row] = rows
        return design, laid

    def solve(self, node: NodeRows, seed: int) -> NodeWeights:
        """Solve all columns of a node; one that no row reaches rejects everything."""
        if node.design.n_samples == 0:
            return _reject(node.n_columns)
        return _Sweeps(self, node, seed).run()


def _reject(n_columns: int) -> NodeWeights:
    """Return the score -1 for every row and column."""
    nothing = np.zeros(n_columns)
    return NodeWeights(
        features=np.empty(0, np.uint32),
        counts=np.empty(0, np.uint8),
        columns=np.empty(0, np.uint8),
        weights=np.empty(0, np.int16),
        scale=nothing.astype(np.float32),
        bias=np.full(n_columns, -1, np.float32),
        objective=nothing,
        gap=nothing,
        sweeps=nothing.astype(np.int32),
    )


class _Sweeps:
    """The state of a node between sweeps."""

    def __init__(self, solver: NodeSolver, node: NodeRows, seed: int) -> None:
        self.solver, self.node = solver, node
        n_lanes = 2 if node.n_columns <= 2 else -(-node.n_columns // STEP) * STEP
        self.lanes = (0,) * n_lanes
        self.rng = np.random.default_rng([solver.random_state, seed])
        design = node.design
        self.W = scratch("node weights", (design.n_features, n_lanes))
        self.a = scratch("node duals", (design.n_samples, n_lanes))
        self.W[:], self.a[:] = 0, 0
        self.bias = np.full(n_lanes, -2, np.float32)  # a lane without a column is satisfied there
        self.bias[: node.n_columns] = 0
        h = (0.5 / np.maximum(node.costs, 1e-30)).astype(np.float32)
        self.positives = node.starts, node.columns, h, half_inverse(node.negative)
        self.costs = node.starts, node.columns, node.costs.astype(np.float64, copy=False), float(node.negative)

    def run(self) -> NodeWeights:
        """Sweep, and certify when the last sweep gained little."""
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
            if sweeps < solver.max_sweeps and (gain > _GAIN * solver.tol * np.abs(before)).any():
                continue
            bias, objective, gap = self._certify()
            if sweeps >= solver.max_sweeps or (gap <= solver.tol).all():
                return self._keep(bias, objective, gap, sweeps)

    def _certify(self) -> tuple[npt.NDArray[np.float32], Doubles, Doubles]:
        """Return each column's best bias, an upper bound of its objective there, and of its relative duality gap."""
        n, design = self.node.n_columns, self.node.design
        duals, squares = self._recompute_weights()
        bias, losses = self._best_bias()
        most_cost = max(self.node.negative, float(self.node.costs.max(initial=0)))
        objective, gap = np.empty(n), np.empty(n)
        for at, dual in enumerate(duals):
            square, loss = float(squares[at]), float(losses[at])
            objective[at] = upper_bound(design, square, float(bias[at]), True, loss, most_cost)
            gap[at] = relative_gap(objective[at], dual.lower_bound(design.n_features))
        return bias[:n], objective, gap

    def _recompute_weights(self) -> tuple[list[Dual], Doubles]:
        """Set weights and bias to float32 of what the dual variables give; return the dual points and the new |w|^2."""
        n, design = self.node.n_columns, self.node.design
        exact = scratch("node sums", self.W.shape, np.float64)
        sums, squares = np.empty((4, len(self.lanes))), np.empty((2, len(self.lanes)))
        sum_duals(self.lanes, *design.rows, design.norms, *self.costs, self.a, exact, sums)
        take_weights(self.lanes, exact, self.W, squares)
        total, curved, offset, spread = sums[:, :n].tolist()
        self.bias[:n] = offset
        square = squares[0, :n].tolist()
        points = zip(total, curved, square, offset, spread, strict=True)
        return [Dual(*point, terms=design.n_samples) for point in points], squares[1]

    def _best_bias(self) -> tuple[npt.NDArray[np.float32], Doubles]:
        """Return the best bias of each lane for the weights it has, and its loss there."""
        scores = scratch("node sums", self.a.shape, np.float64)
        exact_scores(self.lanes, *self.node.design.rows, self.W, scores)
        bias, loss = self.bias.copy(), np.empty(len(self.lanes))
        best_bias(self.lanes, scores, *self.costs, _NEWTON, bias, loss)
        return bias, loss

    def _keep(self, bias: Any, objective: Any, gap: Any, sweeps: int) -> NodeWeights:
        """Prune and round the weights."""
        n, design = self.node.n_columns, self.node.design
        most = design.n_features * n
        places, counts = scratch("node features", (design.n_features,), np.int32), np.empty(design.n_features, np.uint8)
        columns, weights = scratch("node columns", (most,), np.uint8), scratch("node rounded", (most,), np.int16)
        scale = np.empty(n, np.float32)
        by_number = np.argsort(design.features)
        prune = np.float32(self.solver.prune)
        n_features, n_weights = round_weights(self.W, n, by_number, prune, scale, places, counts, columns, weights)
        return NodeWeights(
            features=design.features[places[:n_features]].astype(np.uint32),
            counts=counts[:n_features].copy(),
            columns=columns[:n_weights].copy(),
            weights=weights[:n_weights].copy(),
            scale=scale,
            bias=bias.copy(),
            objective=objective,
            gap=gap,
            sweeps=np.full(n, sweeps, np.int32),
        )
