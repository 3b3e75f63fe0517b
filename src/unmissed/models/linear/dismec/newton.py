"""Truncated Newton method, the fallback if coordinate ascent is slow: long rows, large costs, a free bias."""

from __future__ import annotations

import numpy as np

from unmissed.models.linear.certificate import Doubles
from unmissed.models.linear.design import Design
from unmissed.models.linear.dismec.label_state import LabelState
from unmissed.models.linear.dismec.newton_kernels import best_step, direction, dot
from unmissed.numerics.dense_rows import add_dense_rows, add_dense_scores
from unmissed.numerics.float64_sums import add_rows, scores_exact, squared_norm

_MAX_STEPS = 100
_CG_TOLERANCES = 0.1, 0.6, 1e-4  # Tolerance of conjugate gradients: initial, factor per step, final.
_MAX_IDLE_STEPS = 5
_GROWTHS = tuple(2.0**-power for power in range(24, 10, -2))
_TARGET_GAP = 0.05  # Target gap, relative to `tol`.


class Newton:
    """Newton's method for the primal problem of one label in float64, starting from its current weights."""

    def __init__(self, design: Design, label: LabelState) -> None:
        self._design, self._label = design, label
        n, d = design.n_samples, design.n_features
        self._rows = np.concatenate([label.positives, np.setdiff1d(np.arange(n, dtype=np.int32), label.positives)])
        self._signs = np.where(np.arange(n) < len(label.positives), np.float32(1), np.float32(-1))
        self._costs = label.costs(design, self._rows)
        self._use_bias = bool(design.use_bias)
        self._ridge = 0.0 if label.free or not self._use_bias else 1.0
        self._point = np.empty(d + 1)  # the weights, then the bias
        self._point[:d], self._point[d] = label.w, label.bias
        if not np.isfinite(self._point).all():  # ascent has overflowed float32
            self._point[:] = 0
        self._scores = np.empty(n)
        self._slack = np.empty(n)
        self._gradient = np.empty(d + 1)

    def solve(self, tol: float) -> None:
        """Iterate until the gap is well below `tol` or no step helps; set the label's weights and certificate.

        Near the limit of float64 the dual point still improves when the objective does not; the best of each is kept.
        """
        least, max_steps, idle = np.inf, -1.0, 0
        for step in range(_MAX_STEPS):
            objective, lower = self._evaluate()
            idle = 0 if objective < least or lower > max_steps else idle + 1
            if objective < least:
                least, best = objective, self._point.copy()
            max_steps = max(max_steps, lower)
            if least - max_steps <= _TARGET_GAP * tol * least or idle >= _MAX_IDLE_STEPS:
                break
            self._label.epochs += 1
            self._step(max(_CG_TOLERANCES[0] * _CG_TOLERANCES[1] ** step, _CG_TOLERANCES[2]))
        self._label.lower = max_steps
        self._finish(best, tol)

    def _evaluate(self) -> tuple[float, float]:
        """Compute slack and gradient at the current point; return the primal objective and a dual lower bound.

        The dual point is a = 2 c slack, which is optimal at the optimum.
        """
        self._score(self._point[:-1], self._point[-1])
        np.maximum(0.0, 1.0 - self._signs * self._scores, out=self._slack)
        a = 2 * self._costs * self._slack
        w = self._weights(a)
        self._gradient[:-1] = self._point[:-1] - w
        self._gradient[-1] = self._ridge * self._point[-1] - np.sum(a * self._signs) if self._use_bias else 0.0
        if self._label.free:
            a = self._label.balance(a)
            w = self._weights(a)
        square = float(squared_norm(w))
        penalty = squared_norm(self._point[:-1]) + self._ridge * self._point[-1] ** 2
        objective = float(0.5 * penalty + np.sum(self._costs * self._slack**2))
        return objective, self._label.lower_bound(self._design, self._rows, a, square)

    def _weights(self, a: Doubles) -> Doubles:
        """Return sum a z x."""
        w = np.zeros(self._design.n_features)
        add_rows(*self._design.rows, self._rows, a * self._signs, w)
        add_dense_rows(self._design.dense, self._rows, a * self._signs, w)
        return w

    def _step(self, tolerance: float) -> None:
        """Do an exact line search along the Newton direction, solved to a relative `tolerance`."""
        violated = np.flatnonzero(self._slack > 0)
        d = np.empty_like(self._point)
        rows, factors = self._rows[violated], 2 * self._costs[violated]
        max_steps = min(len(d) + 50, 1000)
        arguments = (rows, factors, self._ridge, self._use_bias, self._gradient, tolerance, max_steps, d)
        direction(*self._design.rows, self._design.dense, *arguments)
        margins = self._signs * self._scores
        self._score(d[:-1], d[-1])
        derivative = dot(self._point[:-1], d[:-1]) + self._ridge * self._point[-1] * d[-1]
        curvature = dot(d[:-1], d[:-1]) + self._ridge * d[-1] ** 2
        self._point += best_step(margins, self._signs * self._scores, self._costs, derivative, curvature) * d

    def _finish(self, point: Doubles, tol: float) -> None:
        """Round the weights to float32 and certify them.

        If the loss is nearly 0, rounding can violate margins slightly at a large cost; slightly scaled-up weights may
        then have a lower objective.
        """
        gaps = {0.0: self._round(point)}
        if gaps[0.0] > tol:
            gaps |= {growth: self._round((1 + growth) * point) for growth in _GROWTHS}
            self._round((1 + min(gaps, key=gaps.__getitem__)) * point)

    def _round(self, point: Doubles) -> float:
        """Set the label's weights, rounded to float32, and its certificate; return its gap."""
        label = self._label
        label.w[:], label.bias = point[:-1], np.float32(point[-1])
        label.square = float(squared_norm(label.w))
        self._score(label.w, label.bias)
        slack = np.maximum(0.0, 1.0 - self._signs * self._scores)
        label.certify(self._design, float(np.sum(self._costs * slack**2)))
        return label.gap

    def _score(self, w: object, bias: object) -> None:
        scores_exact(*self._design.rows, self._rows, w, bias, self._scores)
        add_dense_scores(self._design.dense, self._rows, w, self._scores)
