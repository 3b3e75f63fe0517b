"""The training problem of a tree node, its solution, and the bounds that certify it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unmissed.models.label_trees.node_kernels import quantize_weights
from unmissed.models.linear.certificate import Dual, relative_gap, upper_bound
from unmissed.models.linear.design import Design
from unmissed.numerics.workspace import workspace

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NodeWeights:
    """Int16 weights of a node's columns, with a scale per column: sparse ones by feature, dense ones by column.

    The sparse feature features[j] (ascending) has counts[j] + 1 weights, in ascending order of column. `dense`
    (n_columns, n_dense) has the weights of dense features. The score of a column is bias + scale (sum of x_j times
    weight).
    """

    features: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint8]
    columns: npt.NDArray[np.uint8]
    weights: npt.NDArray[np.int16]
    dense: npt.NDArray[np.int16]
    scale: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]
    objective: npt.NDArray[np.float64]
    gap: npt.NDArray[np.float64]
    sweeps: npt.NDArray[np.int32]

    @classmethod
    def reject_all(cls, n_columns: int, n_dense: int) -> NodeWeights:
        """Return weights that score -1 for every row and column."""
        zeros = np.zeros(n_columns)
        return cls(
            features=np.empty(0, np.uint32),
            counts=np.empty(0, np.uint8),
            columns=np.empty(0, np.uint8),
            weights=np.empty(0, np.int16),
            dense=np.zeros((n_columns, n_dense), np.int16),
            scale=zeros.astype(np.float32),
            bias=np.full(n_columns, -1, np.float32),
            objective=zeros,
            gap=zeros,
            sweeps=zeros.astype(np.int32),
        )


@dataclass(frozen=True)
class NodeSolution:
    """The bias of each column of a node, its certificate, and the number of sweeps over its rows."""

    bias: Floats
    objective: Doubles
    gap: Doubles
    sweeps: npt.NDArray[np.int32]


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

    def certify(self, sums: Doubles, bias: Floats, loss: Doubles) -> tuple[Doubles, Doubles]:
        """Return upper bounds of the objective and of the relative duality gap of each column.

        sums (6, n_columns) are those of a, h a^2, a z and a |x| over the dual variables a, and |w|^2 before and after w
        is rounded to float32; `loss` is that of the rounded weights with `bias`. All are float64 sums.
        """
        design, n = self.design, self.n_columns
        max_cost = max(self.negative, float(self.costs.max(initial=0)))
        objective, gap = np.empty(n), np.empty(n)
        for at, (total, curved, offset, spread, before, after) in enumerate(sums[:, :n].T.tolist()):
            dual = Dual(total, curved, before, offset, spread, terms=design.n_samples)
            objective[at] = upper_bound(design, after, float(bias[at]), True, float(loss[at]), max_cost)
            gap[at] = relative_gap(objective[at], dual.lower_bound(design.n_features))
        return objective, gap

    def quantize(self, W: Floats, dense: Floats, prune: float, solution: NodeSolution) -> NodeWeights:
        """Return the quantized weights; those of sparse features below `prune` in magnitude are set to 0.

        W (n_sparse, at least n_columns) has the weights of sparse features, `dense` (n_columns, n_dense) the others.
        """
        n, n_sparse = self.n_columns, len(W)
        features = self.design.features[self.design.n_dense :]
        positions, counts = workspace("node features", (n_sparse,), np.int32), np.empty(n_sparse, np.uint8)
        columns = workspace("node columns", (n_sparse * n,), np.uint8)
        weights = workspace("node quantized", (n_sparse * n,), np.int16)
        scale = np.abs(dense).max(axis=1, initial=0)
        lists = scale, positions, counts, columns, weights
        n_features, n_weights = quantize_weights(W, n, np.argsort(features), np.float32(prune), *lists)
        return NodeWeights(
            features=features[positions[:n_features]].astype(np.uint32),
            counts=counts[:n_features].copy(),
            columns=columns[:n_weights].copy(),
            weights=weights[:n_weights].copy(),
            dense=np.rint(dense / np.where(scale > 0, scale, 1)[:, None]).astype(np.int16),
            scale=scale,
            bias=solution.bias.copy(),
            objective=solution.objective,
            gap=solution.gap,
            sweeps=solution.sweeps,
        )
