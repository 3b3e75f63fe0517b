"""Design: X laid out once for all label blocks, and LabelBlock, the unit of work."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.kernels.arrange import count_features, count_rows, reorder
from unmissed.solvers.buffers import lent_zeros, scratch

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int32]
Costs = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LabelBlock:
    """Consecutive labels with their positive rows and the costs of a loss phi of a margin m.

    Label l of the block has the positives `rows[starts[l]:starts[l + 1]]`, numbered as in the X that the solver was
    prepared for. A positive costs `positive[l] * phi(m) + counter[l] * phi(-m)`, any other row
    `negative[l] * phi(-m)`; the constant C is multiplied in. No `counter` means 0. `again` tells which labels other
    labels, of this block or another, may have the positives of: solutions of these are worth remembering.
    """

    first: int
    starts: npt.NDArray[np.int64]
    rows: Rows
    positive: Costs
    negative: Costs
    counter: Costs | None = None
    again: npt.NDArray[np.bool_] | None = None

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return len(self.positive)

    def positives(self, at: int) -> Rows:
        """Return the positive rows of a label."""
        return self.rows[self.starts[at] : self.starts[at + 1]]

    def check_costs(self) -> None:
        """Refuse costs that are not finite or make the problem of a label non-convex."""
        for name, costs in (("positive", self.positive), ("negative", self.negative)):
            wrong = np.flatnonzero(~(np.isfinite(costs) & (np.asarray(costs) >= 0)))
            if len(wrong):
                label, cost = self.first + wrong[0], costs[wrong[0]]
                raise InputError(
                    f"label {label} has the {name} cost {cost:g}; a finite number, at least 0, was expected"
                )
        if self.counter is not None and np.any(self.counter != 0):
            label = self.first + int(np.flatnonzero(self.counter)[0])
            raise InputError(
                f"label {label} has a counter cost: its problem is not convex, and only convex ones are solved"
            )


@dataclass(frozen=True)
class Design:
    """Some rows of X in random order, the features that occur in them in falling order of frequency.

    Frequent features first keeps the hot part of every weight vector in cache; the random order of rows is what
    coordinate ascent wants. `norms` are |x|^2 with the constant feature counted in, `features` the own numbers of the
    features, `chosen` the rows (rising, None for all), `place_of_row` where each of them went, `typical_length` the
    median of |x| over rows that are not empty, to three digits (1 if all are).
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.uint32]
    values: Floats
    norms: Floats
    place_of_row: Rows
    features: npt.NDArray[np.int32]
    chosen: npt.NDArray[np.int64] | None
    use_bias: np.float32
    typical_length: float

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return len(self.norms)

    @property
    def n_features(self) -> int:
        """The number of features, without the constant one."""
        return len(self.features)

    @cached_property
    def size(self) -> float:
        """At least the root of the sum of all |x|^2, with the constant feature counted in."""
        return math.sqrt(float(np.sum(self.norms, dtype=np.float64))) * (1 + 1e-6)  # norms are float32

    @cached_property
    def longest(self) -> int:
        """The most non-zeros that a row has."""
        return int(np.diff(self.indptr).max(initial=0))

    @property
    def rows(self) -> tuple[Any, ...]:
        """What every kernel that walks over rows begins with."""
        return self.indptr, self.indices, self.values

    def places(self, rows: npt.NDArray[Any]) -> Rows:
        """Return where rows of X, by their own numbers, are in here."""
        if not len(rows):
            return np.empty(0, np.int32)
        if self.chosen is not None:
            at = np.searchsorted(self.chosen, rows)
            if not np.isin(rows, self.chosen).all():
                raise InputError("a label block names a row that is not among those the solver was prepared for")
            rows = at
        elif not 0 <= rows.min() <= rows.max() < self.n_samples:
            raise InputError(f"a label block names a row that X, with {self.n_samples} rows, does not have")
        places: Rows = self.place_of_row[rows]
        return places


def by_frequency(indices: npt.NDArray[np.int32], n_features: int) -> npt.NDArray[np.int32]:
    """Return the place of each feature when the most frequent come first, which keeps what is hot together."""
    counts = np.zeros(n_features, np.int64)
    count_features(np.ascontiguousarray(indices), counts)
    place = np.empty(n_features, np.int32)
    place[np.argsort(-counts, kind="stable")] = np.arange(n_features, dtype=np.int32)
    return place


def lay_out(X: Any, *, bias: bool, seed: int, rows: npt.ArrayLike | None = None) -> Design:
    """Copy rows of the CSR matrix X (float32, canonical), all by default, into the layout that the kernels want.

    The work and memory are those of the chosen rows alone, so that thousands of small subsets of X are cheap.
    """
    chosen = None if rows is None else _check_rows(rows, X.shape[0])
    begins, ends = X.indptr[:-1], X.indptr[1:]
    if chosen is not None:
        begins, ends = begins[chosen], ends[chosen]
    begins, ends = begins.astype(np.int64), ends.astype(np.int64)
    n_samples = len(begins)
    indices = np.ascontiguousarray(X.indices)
    features, place_of_feature = _frequent_first(begins, ends, indices, X.shape[1])
    order = np.random.default_rng(seed).permutation(n_samples)
    place_of_row = np.empty(n_samples, np.int32)
    place_of_row[order] = np.arange(n_samples, dtype=np.int32)
    size = int((ends - begins).sum())
    indptr = np.empty(n_samples + 1, np.int64)
    new_indices = np.empty(size, np.uint32)
    values = np.empty(size, np.float32)
    norms = np.empty(n_samples, np.float32)
    data = np.ascontiguousarray(X.data)
    names = place_of_feature, len(features)
    reorder(begins[order], ends[order], indices, data, *names, indptr, new_indices, values, norms)
    if not np.isfinite(norms).all():
        raise InputError("X holds a row too long for float32; scale its features down")
    filled = norms[norms > 0]
    typical = float(f"{math.sqrt(float(np.median(filled))):.3g}") if len(filled) else 1.0  # 1, not 0.9999999, for 1
    use_bias = np.float32(1 if bias else 0)
    return Design(indptr, new_indices, values, norms + use_bias, place_of_row, features, chosen, use_bias, typical)


def _check_rows(rows: npt.ArrayLike, n_samples: int) -> npt.NDArray[np.int64]:
    chosen = np.asarray(rows)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or np.any(chosen[1:] <= chosen[:-1]):
        raise InputError("rows must be whole numbers in rising order, none twice")
    if len(chosen) and not 0 <= chosen[0] <= chosen[-1] < n_samples:
        raise InputError(f"rows must be from 0 to {n_samples - 1}")
    return chosen.astype(np.int64)


def _frequent_first(
    begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], indices: npt.NDArray[Any], n_features: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the features of some rows, most frequent first, and the place of each feature (of others: anything)."""
    seen = scratch("features seen", (n_features,), np.int32)
    with lent_zeros("counts of features", n_features, np.int64) as counts:
        found = np.sort(seen[: count_rows(begins, ends, indices, counts, seen)])
        features = found[np.argsort(-counts[found], kind="stable")]
        counts[found] = 0
    place_of_feature = scratch("places of features", (n_features,), np.int32)
    place_of_feature[features] = np.arange(len(features), dtype=np.int32)
    return features, place_of_feature
