"""The solver of one label of ProXML: rounds of a working-set problem and a pass over all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.column_kernels import update_scores
from unmissed.models.linear.design import RowIndices
from unmissed.models.linear.proxml import full_pass, working_set
from unmissed.models.linear.proxml.coordinate_descent import l1_descend

Doubles = npt.NDArray[np.float64]

_EPOCHS = 200  # maximum number of epochs per round
_MIN_DECREASE = 0.1  # a round ends when an epoch yields at most this fraction of the round's total decrease
_STABLE_ROUNDS = 30  # from this round on, rows stay in the working set and rounds are solved to their goal
_INEXACT = 0.1  # goal of a round, as a fraction of max |gradient| - lambda


@dataclass(frozen=True)
class L1Problem:
    """Shared state of all labels: rows and columns of X, column sums and norms, and the parameters."""

    X: tuple[Any, ...]
    columns: tuple[Any, ...]
    totals: Doubles
    lengths: Doubles
    use_bias: np.float32
    threshold: float


class L1Buffers:
    """Work arrays of one thread; each label resets all of them but the scores."""

    def __init__(self, n_features: int, n_samples: int) -> None:
        self.dense, self.reference, self.gradient = (np.zeros(n_features) for _ in range(3))
        self.listed, self.seen = (np.zeros(n_features, np.bool_) for _ in range(2))
        self.known, self.touched = (np.empty(n_features, np.int32) for _ in range(2))
        self.local_index = np.full(n_features, -1, np.int32)
        self.raw, self.raw_base = (np.empty(n_samples) for _ in range(2))
        self.row_state = np.zeros(n_samples, np.int8)
        self.position_of = np.full(n_samples, -1, np.int32)


class L1Label:
    """The state of a label: its working set (rows, positives first; features), weights, bias and certificate."""

    def __init__(
        self, problem: L1Problem, positives: RowIndices, costs: tuple[float, float], buffers: L1Buffers
    ) -> None:
        self.problem, self.buffers = problem, buffers
        self.rows, self.positives, self.costs = positives, positives, costs
        self.features, self.w, self.bias = np.empty(0, np.int32), np.empty(0), 0.0
        self.objective, self.gap, self.lower, self.max_abs_gradient = np.inf, np.inf, 0.0, problem.threshold
        self.n_known = self.epochs = self.rounds = 0
        buffers.raw[:] = 0
        buffers.row_state[positives] = full_pass.POSITIVE

    def solve(self, tol: float, max_rounds: int, seed: int) -> None:
        """Run rounds until the relative duality gap is at most `tol`, or up to `max_rounds`."""
        threshold = self.problem.threshold
        while True:
            goal = max(
                max(0.6 * tol, 0.1 * min(self.gap, 1.0)) * threshold, _INEXACT * (self.max_abs_gradient - threshold)
            )
            before = self.w.copy(), self.bias
            self._descend(goal, seed + self.epochs)
            self._optimize_bias(0.1 * tol * threshold)
            self.rounds += 1
            if self.rounds < max_rounds:
                self._backtrack(*before)
            n, bias_only_gradient = self._certify()
            done = self.gap <= 0.9 * tol or self.rounds >= max_rounds
            if not done:
                self._extend_working_set(self.buffers.touched[:n], bias_only_gradient)
            self._reset_gradient(self.buffers.touched[:n])
            if done:
                break
        self._round_weights()
        self._reset_buffers()

    def _descend(self, goal: float, seed: int) -> None:
        """Solve the working-set problem, then compute the scores of all rows."""
        problem, buffers = self.problem, self.buffers
        buffers.local_index[self.features] = np.arange(len(self.features), dtype=np.int32)
        new = self.features[~buffers.listed[self.features]]
        buffers.listed[new] = True
        buffers.known[self.n_known : self.n_known + len(new)] = new
        self.n_known += len(new)
        buffers.raw_base[:] = buffers.raw
        scale = working_set.scale_rows(len(self.rows), len(self.positives), *self.costs)
        local = working_set.local_columns(
            problem.X, problem.columns, self.rows, self.features, buffers.local_index, buffers.position_of, scale
        )
        slack = working_set.initial_slack(scale, self.rows, buffers.raw, self.bias)
        bias_only_cost = self.costs[1] * working_set.count_bias_only_rows(buffers.raw, buffers.row_state)
        self.bias, epochs = l1_descend(
            (problem.X, self.rows, self.features, buffers.local_index),
            local,
            scale,
            bias_only_cost,
            slack,
            self.w,
            self.bias,
            problem.use_bias,
            problem.threshold,
            goal,
            _MIN_DECREASE if self.rounds < _STABLE_ROUNDS else 0.0,
            _EPOCHS,
            seed,
        )
        self.epochs += epochs
        self._score()

    def _score(self) -> None:
        buffers = self.buffers
        buffers.dense[self.features] = self.w
        known = buffers.known[: self.n_known]
        update_scores(self.problem.columns, known, buffers.dense, buffers.reference, buffers.raw, 0.0)

    def _optimize_bias(self, goal: float) -> None:
        """Set the bias to its optimum for the scores of all rows."""
        problem, buffers = self.problem, self.buffers
        if problem.use_bias:
            self.bias = full_pass.optimize_bias(
                buffers.row_state, self.positives, buffers.raw, self.bias, *self.costs, problem.threshold, goal
            )

    def _backtrack(self, w_base: Doubles, bias_base: float) -> None:
        """Add negatives with a loss to the working set; if the objective rose, backtrack toward the last point."""
        buffers = self.buffers
        self.rows = working_set.choose_rows(buffers.raw, buffers.row_state, self.bias, self.rows)
        t = full_pass.backtrack(
            buffers.row_state,
            self.positives,
            self.w,
            w_base,
            buffers.raw,
            buffers.raw_base,
            self.bias,
            bias_base,
            *self.costs,
            self.problem.threshold,
            self.objective,
        )
        if t < 1:
            self.bias = bias_base + t * (self.bias - bias_base)
            self.w = w_base + t * (self.w - w_base)
            buffers.raw[:] = buffers.raw_base + t * (buffers.raw - buffers.raw_base)
            buffers.dense[self.features] = buffers.reference[self.features] = self.w
        elif self.rounds < _STABLE_ROUNDS:
            self.rows = working_set.drop_far_rows(
                buffers.raw, buffers.row_state, self.bias, self.rows, len(self.positives)
            )

    def _certify(self) -> tuple[int, float]:
        """Compute objective, gap and gradient; return the number of features in `touched` and `bias_only_gradient`."""
        problem, buffers = self.problem, self.buffers
        loss, dual_sum, bias_derivative, n, bias_only_gradient = full_pass.loss_and_gradient(
            problem.X,
            problem.totals,
            buffers.row_state,
            self.positives,
            self.bias,
            *self.costs,
            buffers.raw,
            buffers.dense,
            buffers.gradient,
            buffers.seen,
            buffers.touched,
        )
        max_abs_gradient = full_pass.max_abs_gradient(
            buffers.gradient, problem.totals, bias_only_gradient, buffers.seen, buffers.touched[:n]
        )
        self.max_abs_gradient = max(max_abs_gradient, abs(bias_derivative) if problem.use_bias else 0.0)
        self.objective = problem.threshold * (abs(self.bias) + float(np.abs(self.w).sum())) + loss
        lower = full_pass.l1_dual(loss, dual_sum, self.max_abs_gradient, problem.threshold) / full_pass.SAFETY
        self.lower = max(self.lower, lower)  # each dual point gives a lower bound of the same optimum
        self._update_gap()
        return n, bias_only_gradient

    def _update_gap(self) -> None:
        self.gap = max(full_pass.SAFETY * self.objective - self.lower, 0.0) / max(self.objective, 1e-300)

    def _extend_working_set(self, touched: RowIndices, bias_only_gradient: float) -> None:
        """Choose the features of the next round; add all their rows if bias-only rows have a loss."""
        problem, buffers = self.problem, self.buffers
        old = self.features
        self.features, self.w = working_set.choose_features(
            buffers.gradient,
            problem.totals,
            problem.lengths,
            bias_only_gradient,
            buffers.seen,
            touched,
            old,
            self.w,
            buffers.local_index,
            problem.threshold,
        )
        if bias_only_gradient > 0:
            self.rows = working_set.add_rows_of_features(problem.columns, self.features, buffers.row_state, self.rows)
        buffers.local_index[old] = -1

    def _reset_gradient(self, touched: RowIndices) -> None:
        self.buffers.gradient[touched] = 0
        self.buffers.seen[touched] = False

    def _round_weights(self) -> None:
        """Round the weights to float32, as stored, and recompute the objective; the lower bound stays valid."""
        buffers = self.buffers
        self.bias = float(np.float32(self.bias))
        self.w = self.w.astype(np.float32).astype(np.float64)
        self._score()
        scores, bias = (buffers.raw, buffers.raw), (self.bias, self.bias)
        loss = full_pass.loss_between(buffers.row_state, self.positives, *scores, *bias, *self.costs, 0.0)
        self.objective = self.problem.threshold * (abs(self.bias) + float(np.abs(self.w).sum())) + loss
        self._update_gap()

    def _reset_buffers(self) -> None:
        buffers, known = self.buffers, self.buffers.known[: self.n_known]
        buffers.row_state[self.rows] = 0
        buffers.dense[known] = buffers.reference[known] = 0
        buffers.listed[known] = False
        buffers.local_index[known] = -1
