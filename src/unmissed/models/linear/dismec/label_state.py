"""The state of one label in the solver: working set, dual variables, weights and certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.certificate import Doubles, Dual, relative_gap, upper_bound
from unmissed.models.linear.design import Costs, Design, Floats, RowIndices, half_inverse
from unmissed.models.linear.dismec.label_ascent import ascend
from unmissed.numerics.dense_rows import add_dense_rows
from unmissed.numerics.float64_sums import add_rows, move_to_float32
from unmissed.numerics.workspace import borrowed_zeros, workspace


@dataclass(frozen=True)
class InitialSolution:
    """A warm start, near the solution of a label without positives: w, |w|^2, bias, active rows and their variables."""

    w: Floats
    square: float
    bias: np.float32
    free: bool
    center: float
    rows: RowIndices
    a: Floats


class LabelState:
    """A label's working set (positives first), dual variables a, weights w, bias and certificate.

    `at` is its index in the block. `positive_costs` has the cost of each positive, with the weight of its row;
    `cost_negative` is that of a negative of weight 1. `h` has 1/(2c) of each positive. `square` is |w|^2: exact after
    `refresh`, approximate after `ascend`. `center` is the unpenalized value of the bias: 0 for a regularized bias; a
    free bias moves it (proximal point method). `is_resumed` tells whether the label starts from an earlier solution,
    `ascends_first` whether it is unlikely to be certified as it is, `is_dual_current` whether w is the sum of a z x:
    Newton's method changes w only.
    """

    def __init__(
        self, at: int, positives: RowIndices, costs: tuple[Costs, float], initial: InitialSolution, seed: int
    ) -> None:
        self.at = at
        self.positives = positives
        self.positive_costs, self.cost_negative = costs
        self.h, self.h_negative = half_inverse(costs[0]), half_inverse(costs[1])
        self.initial = initial
        self.w = initial.w
        self.square = initial.square
        self.bias = initial.bias
        self.free = initial.free
        self.center = initial.center
        self.seed = seed
        self.rounds = 0
        self.epochs = 0
        self.done = False
        self.is_resumed = self.ascends_first = False
        self.is_dual_current = True
        self.hit_epoch_limit = False
        self.objective = np.inf
        self.gap = np.inf
        self.lower = 0.0
        self.rows, self.a = positives, np.zeros(len(positives), np.float32)

    def resume(self, rows: RowIndices, values: Floats, same_features: bool) -> None:
        """Start from earlier dual variables of distinct rows, signed as in `DualVariables`.

        A variable counts only if its row is still a positive, or still a negative.
        """
        order = np.argsort(self.positives)
        sorted_positives = self.positives[order]
        at = np.minimum(np.searchsorted(sorted_positives, rows), max(len(order) - 1, 0))
        is_positive = sorted_positives[at] == rows if len(order) else np.zeros(len(rows), np.bool_)
        kept = is_positive & (values > 0)
        self.a[order[at[kept]]] = values[kept]
        known = ~is_positive & (values < 0)
        self.rows = np.concatenate([self.positives, rows[known]])
        self.a = np.concatenate([self.a, -values[known]])
        self.is_resumed, self.ascends_first = True, not same_features

    def add_negatives(self, negatives: RowIndices) -> None:
        """Add inactive negatives (a = 0) to the working set."""
        self.rows = np.concatenate([self.rows, negatives])
        self.a = np.concatenate([self.a, np.zeros(len(negatives), np.float32)])

    def ascend(
        self,
        design: Design,
        X: tuple[Any, ...],
        far: npt.NDArray[np.bool_],
        tolerance: float,
        max_epochs: int,
        write_back: bool = True,
    ) -> None:
        """Run the per-label phase: ascend over the working set until an epoch gains at most `tolerance`.

        X has the rows of a `PackedDesign`, packed or exact. Packed rows make w approximate until the next `refresh`. If
        that comes next, `write_back` may be False: w and |w|^2 are then stale until `refresh`. `far` is True for
        inactive rows that need no visit at first.
        """
        bias, self.square, epochs = ascend(
            *X,
            design.norms,
            design.use_bias,
            self.rows,
            (self.h, self.h_negative, design.inverse_weights),
            self.a,
            far,
            self.w,
            workspace("weights in pairs", (2 * design.n_features,)),
            self.bias,
            self.square,
            tolerance,
            max_epochs,
            self.seed + self.epochs,
            write_back,
        )
        self.bias = np.float32(bias)
        self.epochs += epochs
        self.hit_epoch_limit = epochs >= max_epochs

    @property
    def offset(self) -> float:
        """The penalized part of the bias."""
        return float(self.bias) - self.center

    @property
    def scale(self) -> float:
        """An estimate of the objective: half the sum of the dual variables, which is exact at the optimum."""
        return 0.5 * float(np.sum(self.a))

    def refresh(self, design: Design) -> None:
        """Recompute w from the dual variables in float64, which removes accumulated error, and set the lower bound."""
        a = self.a.astype(np.float64)
        n = len(self.positives)
        a[self.costs(design, self.rows) == 0] = 0
        square, self.square = self._weights(design, a, self.w)
        if design.use_bias:
            self.bias = np.float32(self.center + float(np.sum(a[:n]) - np.sum(a[n:])))
        if self.free:
            a = self.balance(a)
            square, _ = self._weights(design, a, np.empty_like(self.w))
        self.lower = self.lower_bound(design, self.rows, a, square)

    def certify(self, design: Design, loss: float) -> None:
        """Set the objective of the current weights, which have this loss, and the relative duality gap."""
        if self.free and len(self.positives) == design.n_samples:  # no negatives: w = 0, b = 1 has objective 0
            self.w[:], self.square, self.bias, self.objective, self.gap = 0, 0.0, np.float32(1), 0.0, 0.0
            return
        most = max(self.positive_costs.max(initial=0.0), self.cost_negative * design.weights.max(initial=1.0))
        self.objective = upper_bound(design, self.square, float(self.bias), not self.free, loss, most)
        self.gap = relative_gap(self.objective, self.lower)

    def lower_bound(self, design: Design, rows: RowIndices, a: Doubles, square: float) -> float:
        """Return the dual objective of variables a of the rows (positives first), a lower bound of the primal one."""
        penalized = bool(design.use_bias) and not self.free
        costs = self.costs(design, rows)
        return Dual.of(design, rows, a, len(self.positives), costs, penalized, square).lower_bound(design.n_features)

    def costs(self, design: Design, rows: RowIndices) -> Costs:
        """Return the costs of rows, positives first: all positives, and some negatives."""
        negatives = rows[len(self.positives) :]
        return np.concatenate([self.positive_costs, design.weighted(self.cost_negative, negatives)])

    def balance(self, a: Doubles) -> Doubles:
        """Scale down the class with the larger sum of a: a free bias is dual feasible only with equal sums."""
        n = len(self.positives)
        sums = float(np.sum(a[:n])), float(np.sum(a[n:]))
        if not min(sums) > 0:
            return np.zeros_like(a)
        return a * np.where(np.arange(len(a)) < n, min(1.0, sums[1] / sums[0]), min(1.0, sums[0] / sums[1]))

    def leave_lanes(self) -> None:
        """Copy the weights out of the workspace that the next group reuses."""
        self.w = self.w.copy()

    def release(self) -> None:
        """Free the working set and the weights once they are stored."""
        self.w = self.a = np.empty(0, np.float32)
        self.rows = np.empty(0, np.int32)

    def recenter(self) -> None:
        """Center the penalty of a free bias on its current value: a proximal point step; the dual stays feasible."""
        self.center, self.bias = float(self.bias), np.float32(self.bias + self.offset)

    def _weights(self, design: Design, a: Doubles, w: Floats) -> tuple[float, float]:
        """Set w to sum a z x, accumulated in float64; return |w|^2 before and after rounding to float32."""
        signed = a.copy()
        signed[len(self.positives) :] *= -1
        with borrowed_zeros("weights in float64", design.n_features, np.float64) as exact:
            add_rows(*design.rows, self.rows, signed, exact)
            add_dense_rows(design.dense, self.rows, signed, exact)
            square, rounded = move_to_float32(exact, w)
        return float(square), float(rounded)
