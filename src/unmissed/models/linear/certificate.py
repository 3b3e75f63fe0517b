"""Rigorous bounds of a label's optimum: rounding errors are included.

Sums are computed in float64. A sum of n terms has an error of at most about n 2^-53 times the sum of their absolute
values, and each bound is widened by that error. `upper_bound` is at least the objective of the float32 weights;
`Dual.lower_bound` is at most the minimum of the objective.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.design import Design, RowIndices
from unmissed.numerics.float64_sums import dual_sums

Doubles = npt.NDArray[np.float64]


def rounding(terms: int) -> float:
    """Return a bound of the relative error of a sum of `terms` terms and a few more operations."""
    return 1.01 * (terms + 16) * 2.0**-53


def upper_bound(design: Design, square: float, bias: float, penalized: bool, loss: float, most_cost: float) -> float:
    """Return an upper bound of 1/2 |w|^2 + loss, plus 1/2 b^2 if the bias is penalized.

    `square` is |w|^2 and `loss` the loss, both summed in float64. Errors e_i of the scores change the square root of
    the loss by at most the Euclidean norm of the vector sqrt(c_i) e_i.
    """
    length = math.sqrt(square) * (1 + rounding(design.n_features))
    root = math.sqrt(loss) * (1 + rounding(design.n_samples))
    if length:  # if all weights are 0, every score is exactly the bias
        sizes = (1 + abs(bias)) * math.sqrt(design.n_samples) + length * design.size
        root += rounding(design.longest) * math.sqrt(most_cost) * sizes
    penalty = 0.5 * length**2 + (0.5 * bias**2 if penalized else 0.0)
    return (penalty + root**2) * (1 + rounding(0))


@dataclass(frozen=True)
class Dual:
    """Sums over the dual variables a >= 0 of one label, from which its dual objective is computed.

    `total` is sum a, `curved` sum h a^2, `square` |sum a z x|^2, `spread` sum a |x|, `terms` the number of variables.
    `offset` is sum a z if the bias is penalized, else None: without a penalty the dual constrains it to 0.
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
        rows: RowIndices,
        a: Doubles,
        n_positives: int,
        costs: Doubles,
        penalized: bool,
        square: float,
    ) -> Dual:
        """Compute the sums from the dual variables `a` of `rows`, positives first.

        `costs` has a cost per row; rows of cost 0 must have a = 0. `square` is |sum a z x|^2, computed in float64.
        """
        h = np.divide(0.5, costs, out=np.zeros(len(costs)), where=costs > 0)
        sums = dual_sums(rows, a, n_positives, h, design.norms)
        total, curved, signed, spread = map(float, sums)
        spread = spread * (1 + 1e-6) + 1e-22 * total  # norms are float32, and tiny ones may underflow
        return cls(total, curved, square, signed if penalized else None, spread, len(a))

    def lower_bound(self, n_features: int) -> float:
        """Return a lower bound of max over t of D(t a) = t sum a - t^2/2 (sum h a^2 + |w|^2 + b^2)."""
        error = rounding(2 * self.terms)
        length = math.sqrt(self.square) * (1 + rounding(n_features)) + error * self.spread
        offset = 0.0 if self.offset is None else abs(self.offset) + error * self.total
        steepness = self.curved * (1 + error) + length**2 + offset**2
        if not 0 < steepness < math.inf:  # all a are 0, or overflow: 0 is a lower bound of any objective
            return 0.0
        return 0.5 * (self.total * (1 - error)) ** 2 / steepness * (1 - rounding(0))


def relative_gap(upper: float, lower: float) -> float:
    """Return the relative duality gap (upper - lower) / upper; inf if it is negative or not finite."""
    if upper == 0:
        return 0.0
    gap = (upper - lower) / upper
    return gap if 0 <= gap < math.inf else math.inf
