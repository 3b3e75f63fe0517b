"""One label on its way to its optimum: its working set, its weights and its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unmissed.kernels.ascent import ascend
from unmissed.kernels.exact import add_rows, take_weights
from unmissed.solvers.buffers import lent_zeros, scratch
from unmissed.solvers.certificate import Doubles, Dual, relative_gap, upper_bound
from unmissed.solvers.design import Design, Floats, Rows

_LEAST_COST = 1e-30  # a cost of exactly 0 would make h infinite


def half_inverse(cost: float) -> np.float32:
    """Return h = 1/(2c), the curvature that a cost c adds to the dual."""
    return np.float32(0.5 / max(cost, _LEAST_COST))


@dataclass(frozen=True)
class Start:
    """Near the solution of the label without positives, where all begin: weights, |w|^2, bias, and the awake rows."""

    w: Floats
    square: float
    bias: np.float32
    free: bool
    centre: float
    rows: Rows
    a: Floats


class Label:
    """A label's working set, the positives first, with dual variables a; weights w, bias, and what is known of both.

    `at` is its place in the block. `square` is |w|^2: exactly so after `refresh`, nearly so after `ascend`. `centre` is
    the value of the bias that costs nothing: 0 for a regularised bias; for a free one it follows the bias.
    """

    def __init__(self, at: int, positives: Rows, costs: tuple[float, float], start: Start, seed: int) -> None:
        self.at = at
        self.positives = positives
        self.cost_positive, self.cost_negative = costs
        self.h_positive, self.h_negative = half_inverse(costs[0]), half_inverse(costs[1])
        self.start = start
        self.w = start.w
        self.square = start.square
        self.bias = start.bias
        self.free = start.free
        self.centre = start.centre
        self.seed = seed
        self.rounds = 0
        self.epochs = 0
        self.done = False
        self.spent = False
        self.objective = np.inf
        self.gap = np.inf
        self.lower = 0.0
        self.rows, self.a = positives, np.zeros(len(positives), np.float32)

    def take_in(self, negatives: Rows) -> None:
        """Add sleeping negatives to the working set."""
        self.rows = np.concatenate([self.rows, negatives])
        self.a = np.concatenate([self.a, np.zeros(len(negatives), np.float32)])

    def ascend(
        self, design: Design, X: tuple[Any, ...], tolerance: float, max_epochs: int, put_back: bool = True
    ) -> None:
        """Go on alone over the working set until an epoch gains at most `tolerance`; X has the rows, `Packed` or not.

        Packed rows leave w off by a little, until `refresh` computes it again. Where that comes next, nothing need be
        `put_back`: w and |w|^2 are out of date until then.
        """
        bias, self.square, epochs = ascend(
            *X,
            design.norms,
            design.use_bias,
            self.rows,
            (len(self.positives), self.h_positive, self.h_negative),
            self.a,
            self.w,
            scratch("weights in pairs", (2 * design.n_features,)),
            self.bias,
            self.square,
            tolerance,
            max_epochs,
            self.seed + self.epochs,
            put_back,
        )
        self.bias = np.float32(bias)
        self.epochs += epochs
        self.spent = epochs >= max_epochs

    @property
    def offset(self) -> float:
        """The part of the bias that coordinate ascent penalises."""
        return float(self.bias) - self.centre

    @property
    def scale(self) -> float:
        """About the objective: at the optimum it is half the sum of the dual variables."""
        return 0.5 * float(np.sum(self.a))

    def refresh(self, design: Design) -> None:
        """Compute w from the dual variables in float64, which ends the drift of updates, and note a lower bound."""
        a = self.a.astype(np.float64)
        n = len(self.positives)
        for cost, side in ((self.cost_positive, a[:n]), (self.cost_negative, a[n:])):
            if cost == 0:
                side[:] = 0
        square, self.square = self._weights(design, a, self.w)
        if design.use_bias:
            self.bias = np.float32(self.centre + float(np.sum(a[:n]) - np.sum(a[n:])))
        if self.free:
            a = self.balance(a)
            square, _ = self._weights(design, a, np.empty_like(self.w))
        self.lower = self.lower_bound(design, self.rows, a, square)

    def certify(self, design: Design, loss: float) -> None:
        """Note the objective of these weights, whose loss is given, and the relative duality gap."""
        if self.free and len(self.positives) == design.n_samples:  # nothing to tell apart: b = 1 costs nothing
            self.w[:], self.square, self.bias, self.objective, self.gap = 0, 0.0, np.float32(1), 0.0, 0.0
            return
        most = max(self.cost_positive, self.cost_negative)
        self.objective = upper_bound(design, self.square, float(self.bias), not self.free, loss, most)
        self.gap = relative_gap(self.objective, self.lower)

    def lower_bound(self, design: Design, rows: Rows, a: Doubles, square: float) -> float:
        """Return a lower bound of the objective from dual variables of some rows, the positives first."""
        penalised = bool(design.use_bias) and not self.free
        costs = self.cost_positive, self.cost_negative
        return Dual.of(design, rows, a, len(self.positives), costs, penalised, square).lower_bound(design.n_features)

    def balance(self, a: Doubles) -> Doubles:
        """Scale the heavier side of dual variables, positives or the rest, down: a free bias asks for equal sums."""
        n = len(self.positives)
        sums = float(np.sum(a[:n])), float(np.sum(a[n:]))
        if not min(sums) > 0:
            return np.zeros_like(a)
        return a * np.where(np.arange(len(a)) < n, min(1.0, sums[1] / sums[0]), min(1.0, sums[0] / sums[1]))

    def leave_lanes(self) -> None:
        """Move the weights out of the buffer that the next group takes over."""
        self.w = self.w.copy()

    def forget(self) -> None:
        """Let go of the working set and the weights once they are kept elsewhere."""
        self.w = self.a = np.empty(0, np.float32)
        self.rows = np.empty(0, np.int32)

    def recentre(self) -> None:
        """Centre the penalty of a free bias on the bias reached: a proximal step; the dual stays valid."""
        self.centre, self.bias = float(self.bias), np.float32(self.bias + self.offset)

    def _weights(self, design: Design, a: Doubles, w: Floats) -> tuple[float, float]:
        """Set w to sum a z x, rounded at the end; return |w|^2 before and after rounding."""
        signed = a.copy()
        signed[len(self.positives) :] *= -1
        with lent_zeros("weights in float64", design.n_features, np.float64) as exact:
            add_rows(*design.rows, self.rows, signed, exact)
            square, rounded = take_weights(exact, w)
        return float(square), float(rounded)
