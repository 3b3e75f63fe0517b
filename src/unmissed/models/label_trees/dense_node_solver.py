"""The classifiers of a tree node whose rows have dense features, or dense and sparse ones.

The problem and its certificate are those of `node_solver`. Each column has a working set of rows. It starts with the
positives and some of the negatives. A round does a few epochs of coordinate ascent over the working sets. Then the
scores of all rows, whose dense part BLAS computes, give approximate duality gaps and the next working sets: rows that
are active or violated. Columns whose gap is small enough wait. When all do, they are certified in float64; the bounds
hold for any order in which BLAS adds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.execution.blas import one_blas_thread
from unmissed.models.label_trees.dense_node_kernels import (
    add_sparse_scores,
    ascend_columns,
    best_biases,
    dual_objectives,
    list_rows_to_visit,
    sum_active_rows,
)
from unmissed.models.label_trees.node_problem import Doubles, Floats, NodeRows, NodeSolution, NodeWeights
from unmissed.numerics.workspace import workspace

_FIRST_ROWS = 0.25  # fraction of the rows in the first working sets
_FIRST_EPOCHS = 2
_EPOCHS = 3  # of later rounds
_BLOCK_BYTES = 2**18  # of rows that are visited by all columns in turn; they fit into the cache
_SCORED_ROWS = 1024  # rows per matrix product
_NEWTON_STEPS = 8  # for the bias
_BIAS_TOLERANCE = 1e-3, 1e-8  # a bias has converged at this relative decrease: in rounds, in certificates
_STRICTER = 0.5  # factor of the tolerance of approximate gaps, if a certificate missed it

Columns = npt.NDArray[np.int64]


class ColumnAscent:
    """The state of a node's dual coordinate ascent, column by column.

    Parameters
    ----------
    node : the problem; its design has dense features
    tol : relative duality gap to reach
    max_sweeps : maximum number of epochs of a column
    seed : seed of the order in which rows are visited
    """

    def __init__(self, node: NodeRows, tol: float, max_sweeps: int, seed: int) -> None:
        self.node, self.tol, self.max_sweeps = node, tol, max_sweeps
        self.rng = np.random.default_rng(seed)
        n, design = node.n_columns, node.design
        self.rows = design.dense, *design.rows
        self.W = workspace("node weights", (n, design.n_features))
        self.a = workspace("node duals", (n, design.n_samples))
        self.W[:], self.a[:] = 0, 0
        self.bias = np.zeros(n, np.float32)
        self.sweeps = np.zeros(n, np.int32)
        self.positives = _by_column(node)
        self.negative = float(node.negative)

    def run(self, prune: float) -> NodeWeights:
        """Do rounds until every column is certified or has had `max_sweeps` epochs; return the quantized weights."""
        columns = np.arange(self.node.n_columns)
        scores, bias = self._first_scores(), self.bias
        n_epochs, target = min(_FIRST_EPOCHS, self.max_sweeps), self.tol
        while True:
            self._ascend(columns, self._working_sets(columns, scores, bias), n_epochs)
            scores = self._scores(columns, np.float32)
            bias, gap = self._approximate_gaps(columns, scores)
            columns, scores = _choose(columns, scores, (gap > target) & (self.sweeps[columns] < self.max_sweeps))
            if not len(columns):
                solution = self._certify()
                columns = np.flatnonzero((solution.gap > self.tol) & (self.sweeps < self.max_sweeps))
                if not len(columns):
                    n_dense = self.node.design.n_dense
                    sparse = np.ascontiguousarray(self.W[:, n_dense:].T)
                    return self.node.quantize(sparse, self.W[:, :n_dense], prune, solution)
                scores, bias, target = self._scores(columns, np.float32), solution.bias, _STRICTER * target
            n_epochs = min(_EPOCHS, self.max_sweeps - int(self.sweeps[columns].max()))

    def _first_scores(self) -> Floats:
        """Return scores of which only those of the first working sets are violated at bias 0."""
        scores = workspace("node scores", self.a.shape)
        scores[:] = -2
        scores[:, : int(np.ceil(_FIRST_ROWS * self.a.shape[1]))] = 0
        return scores

    def _working_sets(self, columns: Columns, scores: Floats, bias: Floats) -> tuple[Any, ...]:
        """Return the rows of each column that are active or violated, as `ascend_columns` takes them."""
        common = scores, columns, self.positives, self.negative, bias, self.a
        starts = np.zeros(len(columns) + 1, np.int64)
        list_rows_to_visit(*common, starts, np.empty(0, np.int32), np.empty(0, np.float32))
        np.cumsum(starts, out=starts)
        rows, h = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
        list_rows_to_visit(*common, starts, rows, h)
        return starts, rows, h

    def _ascend(self, columns: Columns, lists: tuple[Any, ...], n_epochs: int) -> None:
        """Do epochs of coordinate ascent over the working sets."""
        design = self.node.design
        n_values = design.n_dense + 2 * len(design.values) // design.n_samples
        block_rows = max(_BLOCK_BYTES // (4 * n_values), 16)
        seed = int(self.rng.integers(1, 2**62))
        order = block_rows, n_epochs, seed
        ascend_columns(*self.rows, design.norms, columns, lists, *order, self.W, self.bias, self.a)
        self.sweeps[columns] += n_epochs

    def _scores(self, columns: Columns, dtype: Any) -> npt.NDArray[Any]:
        """Return the scores (n_columns, n_samples) of all rows without the bias."""
        (begins, values, n_dense, _), *sparse = self.rows
        X, rows = values.reshape(-1, n_dense), begins // n_dense
        W = self.W[columns].astype(dtype)
        dense, transposed = np.ascontiguousarray(W[:, :n_dense].T), np.ascontiguousarray(W[:, n_dense:].T)
        scores = workspace(f"node scores {np.dtype(dtype)}", (len(columns), len(rows)), dtype)
        with one_blas_thread():
            for first in range(0, len(rows), _SCORED_ROWS):
                products = X[rows[first : first + _SCORED_ROWS]].astype(dtype, copy=False) @ dense
                if len(transposed):
                    add_sparse_scores(*sparse, first, n_dense, transposed, products)
                scores[:, first : first + _SCORED_ROWS] = products.T
        return scores

    def _approximate_gaps(self, columns: Columns, scores: Floats) -> tuple[Floats, Doubles]:
        """Return the best bias of every column, and the approximate relative duality gaps of the given ones."""
        bias, loss = self.bias.copy(), np.zeros(self.node.n_columns)
        tolerance = _BIAS_TOLERANCE[0]
        best_biases(scores, columns, self.positives, self.negative, _NEWTON_STEPS, tolerance, bias, loss)
        square = np.square(self.W).sum(axis=1, dtype=np.float64)
        dual = dual_objectives(columns, self.positives, self.negative, square, self.bias, self.a)
        primal = (0.5 * square + 0.5 * np.square(bias, dtype=np.float64) + loss)[columns]
        return bias, np.where(primal > 0, (primal - dual) / np.maximum(primal, 1e-300), 0.0)

    def _certify(self) -> NodeSolution:
        """Recompute the weights from the dual variables, and return the best bias with its certificate."""
        n, design = self.node.n_columns, self.node.design
        sums, loss = np.empty((6, n)), np.empty(n)
        exact = np.empty(design.n_features)
        sum_active_rows(*self.rows, design.norms, self.positives, self.negative, self.a, exact, self.W, sums)
        self.bias[:] = sums[2]
        bias, columns = self.bias.copy(), np.arange(n)
        scores, tolerance = self._scores(columns, np.float64), _BIAS_TOLERANCE[1]
        best_biases(scores, columns, self.positives, self.negative, _NEWTON_STEPS, tolerance, bias, loss)
        return NodeSolution(bias, *self.node.certify(sums, bias, loss), self.sweeps)


def _by_column(node: NodeRows) -> tuple[Any, ...]:
    """Return (starts, rows, costs), the positives of each column."""
    order = np.argsort(node.columns, kind="stable")
    rows = np.repeat(np.arange(node.design.n_samples, dtype=np.int32), np.diff(node.starts))
    counts = np.bincount(node.columns, minlength=node.n_columns)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return starts, rows[order], node.costs[order].astype(np.float64, copy=False)


def _choose(columns: Columns, scores: Floats, chosen: npt.NDArray[np.bool_]) -> tuple[Columns, Floats]:
    """Return the chosen columns and their scores."""
    return columns[chosen], scores if chosen.all() else scores[chosen]
