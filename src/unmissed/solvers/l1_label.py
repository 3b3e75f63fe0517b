"""One label of ProXML: rounds of solving over a working set of features and rows, a pass over all rows in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.kernels import l1_choice, l1_pass
from unmissed.kernels.columns import catch_up
from unmissed.kernels.l1_descent import l1_descend
from unmissed.solvers.design import Rows

Doubles = npt.NDArray[np.float64]

_EPOCHS = 200  # at most, between two passes
_ENOUGH = 0.1  # a working set is left when an epoch adds only this share to what the round has won
_FORGET = 30  # after so many rounds no row leaves the working set any more, and each is solved to its goal
_ROUGHLY = 0.1  # that goal is this share of what the steepest slope exceeds lambda by


@dataclass(frozen=True)
class L1Problem:
    """What labels share: rows and columns of X, the sum and the length of each column, whether there is a bias."""

    X: tuple[Any, ...]
    columns: tuple[Any, ...]
    totals: Doubles
    lengths: Doubles
    use_bias: np.float32
    threshold: float


class L1Buffers:
    """Scratch of one thread for one label after the other; a label leaves everything but scores as it was."""

    def __init__(self, n_features: int, n_samples: int) -> None:
        self.dense, self.reference, self.gradient = (np.zeros(n_features) for _ in range(3))
        self.listed, self.seen = (np.zeros(n_features, np.bool_) for _ in range(2))
        self.known, self.touched = (np.empty(n_features, np.int32) for _ in range(2))
        self.name = np.full(n_features, -1, np.int32)
        self.raw, self.raw_base = (np.empty(n_samples) for _ in range(2))
        self.mark = np.zeros(n_samples, np.int8)
        self.place_of = np.full(n_samples, -1, np.int32)


class L1Label:
    """The state of a label: its working set (rows, positives first; features), weights, bias and certificate."""

    def __init__(self, problem: L1Problem, positives: Rows, costs: tuple[float, float], buffers: L1Buffers) -> None:
        self.problem, self.buffers = problem, buffers
        self.rows, self.positives, self.costs = positives, positives, costs
        self.features, self.w, self.bias = np.empty(0, np.int32), np.empty(0), 0.0
        self.objective, self.gap, self.lower, self.steepest = np.inf, np.inf, 0.0, problem.threshold
        self.n_known = self.epochs = self.rounds = 0
        buffers.raw[:] = 0
        buffers.mark[positives] = l1_pass.POSITIVE

    def solve(self, tol: float, max_rounds: int, seed: int) -> None:
        """Go on until the relative gap is `tol`."""
        threshold = self.problem.threshold
        while True:
            goal = max(max(0.6 * tol, 0.1 * min(self.gap, 1.0)) * threshold, _ROUGHLY * (self.steepest - threshold))
            before = self.w.copy(), self.bias
            self._descend(goal, seed + self.epochs)
            self._settle_bias(0.1 * tol * threshold)
            self.rounds += 1
            if self.rounds < max_rounds:
                self._step_back(*before)
            n, over = self._certify()
            done = self.gap <= 0.9 * tol or self.rounds >= max_rounds
            if not done:
                self._widen(self.buffers.touched[:n], over)
            self._clean(self.buffers.touched[:n])
            if done:
                break
        self._round_weights()
        self._leave()

    def _descend(self, goal: float, seed: int) -> None:
        """Solve over the working set, then score all rows."""
        problem, buffers = self.problem, self.buffers
        buffers.name[self.features] = np.arange(len(self.features), dtype=np.int32)
        new = self.features[~buffers.listed[self.features]]
        buffers.listed[new] = True
        buffers.known[self.n_known : self.n_known + len(new)] = new
        self.n_known += len(new)
        buffers.raw_base[:] = buffers.raw
        scale = l1_choice.scale_rows(len(self.rows), len(self.positives), *self.costs)
        local = l1_choice.local_columns(
            problem.X, problem.columns, self.rows, self.features, buffers.name, buffers.place_of, scale
        )
        slack = l1_choice.set_out(scale, self.rows, buffers.raw, self.bias)
        crowd = self.costs[1] * l1_choice.count_crowd(buffers.raw, buffers.mark)
        self.bias, epochs = l1_descend(
            (problem.X, self.rows, self.features, buffers.name),
            local,
            scale,
            crowd,
            slack,
            self.w,
            self.bias,
            problem.use_bias,
            problem.threshold,
            goal,
            _ENOUGH if self.rounds < _FORGET else 0.0,
            _EPOCHS,
            seed,
        )
        self.epochs += epochs
        self._score()

    def _score(self) -> None:
        buffers = self.buffers
        buffers.dense[self.features] = self.w
        known = buffers.known[: self.n_known]
        catch_up(self.problem.columns, known, buffers.dense, buffers.reference, buffers.raw, 0.0)

    def _settle_bias(self, goal: float) -> None:
        """Move the bias to where it is best for the scores of all rows."""
        problem, buffers = self.problem, self.buffers
        if problem.use_bias:
            self.bias = l1_pass.settle_bias(
                buffers.mark, self.positives, buffers.raw, self.bias, *self.costs, problem.threshold, goal
            )

    def _step_back(self, w_base: Doubles, bias_base: float) -> None:
        """Take in rows that lose now; where these make the objective rise, go only part of the way."""
        buffers = self.buffers
        self.rows = l1_choice.choose_rows(buffers.raw, buffers.mark, self.bias, self.rows)
        t = l1_pass.step_back(
            buffers.mark,
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
        elif self.rounds < _FORGET:
            self.rows = l1_choice.forget_rows(buffers.raw, buffers.mark, self.bias, self.rows, len(self.positives))

    def _certify(self) -> tuple[int, float]:
        """Find objective, gap and gradient; return how many features `touched` lists, and the crowd's own gradient."""
        problem, buffers = self.problem, self.buffers
        loss, mass, slope, n, over = l1_pass.lose(
            problem.X,
            problem.totals,
            buffers.mark,
            self.positives,
            self.bias,
            *self.costs,
            buffers.raw,
            buffers.dense,
            buffers.gradient,
            buffers.seen,
            buffers.touched,
        )
        steepest = l1_pass.steepest(buffers.gradient, problem.totals, over, buffers.seen, buffers.touched[:n])
        self.steepest = max(steepest, abs(slope) if problem.use_bias else 0.0)
        self.objective = problem.threshold * (abs(self.bias) + float(np.abs(self.w).sum())) + loss
        lower = l1_pass.l1_dual(loss, mass, self.steepest, problem.threshold) / l1_pass.WIDER
        self.lower = max(self.lower, lower)  # every dual point bounds the same optimum
        self._note_gap()
        return n, over

    def _note_gap(self) -> None:
        self.gap = max(l1_pass.WIDER * self.objective - self.lower, 0.0) / max(self.objective, 1e-300)

    def _widen(self, touched: Rows, over: float) -> None:
        """Choose the features of the next round; while the crowd loses, all rows that have one of them come along."""
        problem, buffers = self.problem, self.buffers
        old = self.features
        self.features, self.w = l1_choice.choose_features(
            buffers.gradient,
            problem.totals,
            problem.lengths,
            over,
            buffers.seen,
            touched,
            old,
            self.w,
            buffers.name,
            problem.threshold,
        )
        if over > 0:
            self.rows = l1_choice.take_touched(problem.columns, self.features, buffers.mark, self.rows)
        buffers.name[old] = -1

    def _clean(self, touched: Rows) -> None:
        self.buffers.gradient[touched] = 0
        self.buffers.seen[touched] = False

    def _round_weights(self) -> None:
        """Make the weights float32, as they are kept: the objective is theirs, the dual point of the exact ones."""
        buffers = self.buffers
        self.bias = float(np.float32(self.bias))
        self.w = self.w.astype(np.float32).astype(np.float64)
        self._score()
        scores, bias = (buffers.raw, buffers.raw), (self.bias, self.bias)
        loss = l1_pass.loss_between(buffers.mark, self.positives, *scores, *bias, *self.costs, 0.0)
        self.objective = self.problem.threshold * (abs(self.bias) + float(np.abs(self.w).sum())) + loss
        self._note_gap()

    def _leave(self) -> None:
        buffers, known = self.buffers, self.buffers.known[: self.n_known]
        buffers.mark[self.rows] = 0
        buffers.dense[known] = buffers.reference[known] = 0
        buffers.listed[known] = False
        buffers.name[known] = -1
