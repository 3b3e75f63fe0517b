"""Newton's method for labels where coordinate ascent makes no headway: long rows, large costs, a free bias."""

from __future__ import annotations

import numpy as np

from unmissed.kernels.exact import add_rows, scores_exact, squared_length
from unmissed.kernels.newton import best_step, direction, dot
from unmissed.solvers.certificate import Doubles
from unmissed.solvers.design import Design
from unmissed.solvers.label import Label

_MOST_STEPS = 100
_SHARES = 0.1, 0.6, 1e-4  # how far conjugate gradients go: at first, from step to step, in the end
_MOST_IDLE = 5
_GROWTHS = tuple(2.0**-power for power in range(24, 10, -2))
_ENOUGH = 0.05  # how far Newton goes, relative to the tolerance


class Newton:
    """The primal problem of one label in float64, from where the label stands to its optimum."""

    def __init__(self, design: Design, label: Label) -> None:
        self._design, self._label = design, label
        n, d = design.n_samples, design.n_features
        self._rows = np.concatenate([label.positives, np.setdiff1d(np.arange(n, dtype=np.int32), label.positives)])
        self._signs = np.where(np.arange(n) < len(label.positives), np.float32(1), np.float32(-1))
        self._costs = np.where(self._signs > 0, label.cost_positive, label.cost_negative)
        self._use_bias = bool(design.use_bias)
        self._ridge = 0.0 if label.free or not self._use_bias else 1.0
        self._point = np.empty(d + 1)  # weights and, last, the bias
        self._point[:d], self._point[d] = label.w, label.bias
        if not np.isfinite(self._point).all():  # numbers out of the range of float32
            self._point[:] = 0
        self._scores = np.empty(n)
        self._slack = np.empty(n)
        self._gradient = np.empty(d + 1)

    def solve(self, tol: float) -> None:
        """Go on until the gap is well below `tol` or no step helps; then give the label its weights and certificate.

        Where the objective has no digits left, the dual point still gets better: the best of both are kept.
        """
        least, most, idle = np.inf, -1.0, 0
        for step in range(_MOST_STEPS):
            objective, lower = self._evaluate()
            idle = 0 if objective < least or lower > most else idle + 1
            if objective < least:
                least, best = objective, self._point.copy()
            most = max(most, lower)
            if least - most <= _ENOUGH * tol * least or idle >= _MOST_IDLE:
                break
            self._label.epochs += 1
            self._step(max(_SHARES[0] * _SHARES[1] ** step, _SHARES[2]))
        self._label.lower = most
        self._finish(best, tol)

    def _evaluate(self) -> tuple[float, float]:
        """Find slack and gradient at the point; return the objective and a lower bound of the least one.

        The bound is that of the dual point a = 2 c slack, which at the optimum is the best one.
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
        square = float(squared_length(w))
        penalty = squared_length(self._point[:-1]) + self._ridge * self._point[-1] ** 2
        objective = float(0.5 * penalty + np.sum(self._costs * self._slack**2))
        return objective, self._label.lower_bound(self._design, self._rows, a, square)

    def _weights(self, a: Doubles) -> Doubles:
        """Return sum a z x."""
        w = np.zeros(self._design.n_features)
        add_rows(*self._design.rows, self._rows, a * self._signs, w)
        return w

    def _step(self, share: float) -> None:
        """Move to the best point in Newton's direction, found up to a share of the gradient."""
        violated = np.flatnonzero(self._slack > 0)
        d = np.empty_like(self._point)
        rows, factors = self._rows[violated], 2 * self._costs[violated]
        most = min(len(d) + 50, 1000)
        arguments = (rows, factors, self._ridge, self._use_bias, self._gradient, share, most, d)
        direction(*self._design.rows, *arguments)
        margins = self._signs * self._scores
        self._score(d[:-1], d[-1])
        slope = dot(self._point[:-1], d[:-1]) + self._ridge * self._point[-1] * d[-1]
        bend = dot(d[:-1], d[:-1]) + self._ridge * d[-1] ** 2
        self._point += best_step(margins, self._signs * self._scores, self._costs, slope, bend) * d

    def _finish(self, point: Doubles, tol: float) -> None:
        """Round the weights to float32 and certify them.

        Where the loss is nearly 0, rounding can make rows miss their margin by a little at a great cost: weights that
        are a little longer then cost less.
        """
        gaps = {0.0: self._round(point)}
        if gaps[0.0] > tol:
            gaps |= {growth: self._round((1 + growth) * point) for growth in _GROWTHS}
            self._round((1 + min(gaps, key=gaps.__getitem__)) * point)

    def _round(self, point: Doubles) -> float:
        """Give the label these weights, rounded, and their certificate; return its gap."""
        label = self._label
        label.w[:], label.bias = point[:-1], np.float32(point[-1])
        label.square = float(squared_length(label.w))
        self._score(label.w, label.bias)
        slack = np.maximum(0.0, 1.0 - self._signs * self._scores)
        label.certify(self._design, float(np.sum(self._costs * slack**2)))
        return label.gap

    def _score(self, w: object, bias: object) -> None:
        scores_exact(*self._design.rows, self._rows, w, bias, self._scores)
