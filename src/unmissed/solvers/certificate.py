"""Bounds of a label's optimum that hold in spite of rounding.

Sums are made in float64, and what their rounding can have done is added against ourselves: a sum of n terms is off by
at most n 2^-53 (and a little more) times the sum of their sizes. `upper_bound` is at least the objective of the float32
weights, `Dual.lower_bound` at most the least value that any weights have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unmissed.kernels.exact import dual_sums
from unmissed.solvers.design import Design, Rows

Doubles = npt.NDArray[np.float64]


def rounding(terms: int) -> float:
    """Return a bound of the relative error of a sum of that many terms, some further steps included."""
    return 1.01 * (terms + 16) * 2.0**-53


def upper_bound(design: Design, square: float, bias: float, penalised: bool, loss: float, most_cost: float) -> float:
    """Return at least 1/2 |w|^2 + loss, and 1/2 b^2 where the bias is penalised; all was summed in float64.

    Errors of e_i in the scores move the root of the loss by at most the length of the vector sqrt(c_i) e_i.
    """
    length = math.sqrt(square) * (1 + rounding(design.n_features))
    root = math.sqrt(loss) * (1 + rounding(design.n_samples))
    if length:  # without weights every score is the bias, exactly
        sizes = (1 + abs(bias)) * math.sqrt(design.n_samples) + length * design.size
        root += rounding(design.longest) * math.sqrt(most_cost) * sizes
    penalty = 0.5 * length**2 + (0.5 * bias**2 if penalised else 0.0)
    return (penalty + root**2) * (1 + rounding(0))


@dataclass(frozen=True)
class Dual:
    """A dual point: sums over its variables a >= 0 and what they make of w and b.

    `total` is sum a, `curved` sum h a^2, `square` |sum a z x|^2, `offset` sum a z where the bias is penalised (else the
    problem asks that it be 0, or has no bias), `spread` sum a |x|, `terms` the number of variables.
    """

    total: float
    curved: float
    square: float
    offset: float | None
    spread: float
    terms: int

    @classmethod
    def of(
        cls,
        design: Design,
        rows: Rows,
        a: Doubles,
        n_positives: int,
        costs: tuple[float, float],
        penalised: bool,
        square: float,
    ) -> Dual:
        """Sum up the variables of some rows, positives first, whose a is 0 where they cost nothing.

        `square` is |sum a z x|^2, made in float64.
        """
        h_positive, h_negative = (0.5 / cost if cost > 0 else 0.0 for cost in costs)
        sums = dual_sums(rows, a, n_positives, h_positive, h_negative, design.norms)
        total, curved, signed, spread = map(float, sums)
        spread = spread * (1 + 1e-6) + 1e-22 * total  # norms are float32, and the least may be lost
        return cls(total, curved, square, signed if penalised else None, spread, len(a))

    def lower_bound(self, n_features: int) -> float:
        """Return a lower bound of D(t a) = t sum a - t^2/2 (sum h a^2 + |w|^2 + b^2) at its best t."""
        error = rounding(2 * self.terms)
        length = math.sqrt(self.square) * (1 + rounding(n_features)) + error * self.spread
        offset = 0.0 if self.offset is None else abs(self.offset) + error * self.total
        steepness = self.curved * (1 + error) + length**2 + offset**2
        if not 0 < steepness < math.inf:  # no a above 0, or numbers out of range: 0 bounds any sum of squares
            return 0.0
        return 0.5 * (self.total * (1 - error)) ** 2 / steepness * (1 - rounding(0))


def relative_gap(upper: float, lower: float) -> float:
    """Return (upper - lower) / upper: by how much of itself the objective can be too large; inf if nothing is known."""
    if upper == 0:
        return 0.0
    gap = (upper - lower) / upper
    return gap if 0 <= gap < math.inf else math.inf
