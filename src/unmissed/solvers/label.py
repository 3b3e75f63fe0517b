"""One label on its way to its optimum: its working set, its weights and its certificate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unmissed.kernels.ascent import ascend, squared_length
from unmissed.solvers.design import Design, Floats

Rows = npt.NDArray[np.int32]
_LEAST_COST = 1e-6  # 0 to float32; a cost of exactly 0 would make h infinite


def half_inverse(cost: float) -> np.float32:
    """Return h = 1/(2c), the curvature that a cost c adds to the dual."""
    return np.float32(0.5 / max(cost, _LEAST_COST))


@dataclass(frozen=True)
class Start:
    """Near the solution of the label without positives, where all begin: weights, bias, and the awake rows."""

    w: Floats
    bias: np.float32
    centre: float
    rows: Rows
    a: Floats


class Label:
    """A label's working set (positives first), weights w and bias, and what is known of its optimum.

    `centre` is the value of the bias that costs nothing: 0 for a regularised bias; for a free one it follows the bias.
    """

    def __init__(self, number: int, positives: Rows, costs: tuple[float, float], start: Start, seed: int) -> None:
        self.number = number
        self.positives = positives
        self.cost_positive, self.cost_negative = costs
        self.h_positive, self.h_negative = half_inverse(costs[0]), half_inverse(costs[1])
        self.w = start.w
        self.bias = start.bias
        self.centre = start.centre
        self.seed = seed + 1_000_003 * number
        self.rounds = 0
        self.epochs = 0
        self.objective = np.inf
        self.gap = np.inf
        self.set_rows(np.zeros(len(positives), np.float32), np.empty(0, np.int32), np.empty(0, np.float32))

    def set_rows(self, a_positives: Floats, negatives: Rows, a_negatives: Floats) -> None:
        """Make the working set of the positives and these negatives."""
        sizes = [len(self.positives), len(negatives)]
        self.rows = np.concatenate([self.positives, negatives])
        self.a = np.concatenate([a_positives, a_negatives])
        self.signs = np.repeat(np.array([1, -1], np.float32), sizes)
        self.hs = np.repeat(np.array([self.h_positive, self.h_negative]), sizes)

    def take_in(self, negatives: Rows) -> None:
        """Add sleeping negatives to the working set."""
        n = len(self.positives)
        sleeping = np.zeros(len(negatives), np.float32)
        self.set_rows(self.a[:n], np.concatenate([self.rows[n:], negatives]), np.concatenate([self.a[n:], sleeping]))

    def ascend(self, design: Design, tolerance: float, max_epochs: int) -> None:
        """Go on alone over the working set until an epoch gains at most `tolerance`."""
        bias, epochs = ascend(
            *design.rows,
            design.norms,
            design.use_bias,
            self.rows,
            self.signs,
            self.hs,
            self.a,
            self.w,
            self.bias,
            tolerance,
            max_epochs,
            self.seed + self.epochs,
        )
        self.bias = np.float32(bias)
        self.epochs += epochs

    @property
    def offset(self) -> float:
        """The part of the bias that the objective penalises."""
        return float(self.bias) - self.centre

    @property
    def penalty(self) -> float:
        """|w|^2 / 2 + offset^2 / 2."""
        return 0.5 * float(squared_length(self.w)) + 0.5 * self.offset**2

    def dual(self) -> float:
        """Return the dual objective: sum of a - h a^2 / 2, less the penalty, less centre times offset."""
        a = self.a.astype(np.float64)
        return float(np.sum(a - 0.5 * self.hs * a * a)) - self.penalty - self.centre * self.offset

    def certify(self, primal: float) -> None:
        """Note the objective and the relative duality gap.

        While a free bias still moves, what its offset costs is no part of the objective; its square, which bounds how
        far the optimum of the moving problem lies from that of the free one, is added to the gap.
        """
        moving = self.offset**2 if self.centre else 0.0
        self.objective = primal - 0.5 * moving
        self.gap = abs(primal - self.dual() + moving) / max(primal, np.finfo(float).tiny)

    def recentre(self) -> None:
        """Let the penalty of a free bias begin anew at the bias reached: a proximal step; the dual stays valid."""
        self.centre, self.bias = float(self.bias), np.float32(self.bias + self.offset)
