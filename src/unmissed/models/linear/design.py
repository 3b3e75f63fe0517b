"""Design, the training rows in the memory layout of the solvers, and LabelBlock, the labels that one task solves.

`Solvable` declares which loss and which costs a solver takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.models.dual_variables import DualVariables
from unmissed.numerics.csr import count_features, count_rows, read_only, reorder
from unmissed.numerics.dense_rows import add_dense_squares
from unmissed.numerics.workspace import borrowed_zeros, workspace

Floats = npt.NDArray[np.float32]
RowIndices = npt.NDArray[np.int32]
Costs = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LabelBlock:
    """Consecutive labels with their positive rows and the costs of a loss phi of a margin m.

    Label l of the block has the positives `rows[starts[l]:starts[l + 1]]`, numbered as in the X that the solver was
    prepared for. A positive costs `positive[l] * phi(m) + counter[l] * phi(-m)`, any other row
    `negative[l] * phi(-m)`; the costs include C. `counter` None means 0. If `per_cell`, `positive` has one cost per
    positive, in the order of `rows`, instead of one per label. `may_have_duplicate[l]` is True if another label, in
    this block or another, may have the same positives: the solution of l is then cached. `initial` has dual variables
    of an earlier solution on most of the rows, from which a solver may start.
    """

    first: int
    starts: npt.NDArray[np.int64]
    rows: RowIndices
    positive: Costs
    negative: Costs
    counter: Costs | None = None
    may_have_duplicate: npt.NDArray[np.bool_] | None = None
    per_cell: bool = False
    initial: DualVariables | None = None

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return len(self.negative)

    def positives(self, at: int) -> RowIndices:
        """Return the positive rows of a label."""
        return self.rows[self.starts[at] : self.starts[at + 1]]

    def positive_costs(self, at: int) -> Costs:
        """Return the cost of each positive of a label, in the order of `positives`."""
        begin, end = self.starts[at], self.starts[at + 1]
        return self.positive[begin:end] if self.per_cell else np.full(end - begin, self.positive[at])


@dataclass(frozen=True)
class Solvable:
    """What a solver declares to solve: a loss of the margin, by its name in `losses.NAMED`, and costs of it.

    Costs of positives and negatives may be any numbers of at least 0. Without `counter`, the solver takes no counter
    costs. With it, counter costs may have any sign as long as a positive has a convex loss, that is, if `positive` +
    `counter` >= 0: the loss must have the same curvature at m and -m, as the logistic loss has. A solver with `dense`
    takes `Features` with a dense part as they are; others take all features as one CSR matrix. A solver with `per_cell`
    takes such blocks (`LabelBlock.per_cell`) and, in `prepare`, a weight per row of X, which multiplies all costs of
    the row.
    """

    loss: str
    counter: bool = False
    dense: bool = False
    per_cell: bool = False

    def check(self, block: LabelBlock) -> None:
        """Raise InputError for costs of a block that are negative, not finite, or not solvable."""
        if block.per_cell and not self.per_cell:
            raise InputError(f"this solver of the {self.loss} loss takes one cost for all positives of a label")
        for name, costs in (("positive", block.positive), ("negative", block.negative)):
            at = _first(~(np.isfinite(costs) & (np.asarray(costs) >= 0)))
            if at is not None:
                of_cell = block.per_cell and name == "positive"
                label = int(np.searchsorted(block.starts, at, side="right")) - 1 if of_cell else at
                raise InputError(
                    f"label {block.first + label} has the {name} cost {costs[at]:g}; "
                    "a finite number, at least 0, was expected"
                )
        if block.counter is None:
            return
        counter = np.asarray(block.counter)
        solvable = np.isfinite(counter) & (block.positive + counter >= 0) if self.counter else counter == 0
        at = _first(~solvable)
        if at is not None:
            raise InputError(
                f"label {block.first + at} has the counter cost {counter[at]:g}: its problem is not convex for the "
                f"{self.loss} loss, and only convex ones are solved; "
                + ("positive and counter cost must not add up to less than 0" if self.counter else _CONVEX)
            )


_CONVEX = "the unbiased weighting needs the logistic loss (LogisticOVR)"


def _first(wrong: npt.NDArray[np.bool_]) -> int | None:
    """Return the first position that is True, or None."""
    found = np.flatnonzero(wrong)
    return int(found[0]) if len(found) else None


@dataclass(frozen=True)
class Design:
    """Rows of X in random order: sparse features in CSR format, by descending frequency, after the dense features.

    Frequent features come first so that the often-used part of a weight vector stays in cache. Coordinate ascent
    converges faster in random row order. Features that do not occur in the rows are removed.

    The first `n_dense` columns are the dense features. `dense` has them as the tuple that `numerics.dense_rows`
    describes; its values are those of X, not a copy, and its steps normalize them. The CSR arrays have the other
    columns.

    `norms` are |x|^2, including the constant feature. `features` maps column index to feature number of X;
    `counts` are the non-zeros of each column. `chosen` are the rows of X (ascending; None for all) and
    `position_of_row` their positions here. `typical_length` is the median of |x| over non-empty rows, to three digits
    (1 if all are empty). `weights` multiply the costs of the rows, `inverse_weights` are their reciprocals; both are
    empty if all weights are 1.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.uint32]
    values: Floats
    norms: Floats
    position_of_row: RowIndices
    features: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    chosen: npt.NDArray[np.int64] | None
    use_bias: np.float32
    typical_length: float
    dense: tuple[Any, ...]
    weights: Costs
    inverse_weights: Floats

    @property
    def n_dense(self) -> int:
        """The number of dense features."""
        return int(self.dense[2])

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return len(self.norms)

    @property
    def n_features(self) -> int:
        """The number of features, without the constant feature of the bias."""
        return len(self.features)

    @cached_property
    def size(self) -> float:
        """An upper bound of the Frobenius norm of X, including the constant feature."""
        return math.sqrt(float(np.sum(self.norms, dtype=np.float64))) * (1 + 1e-6)  # norms are float32

    @cached_property
    def longest(self) -> int:
        """The largest number of non-zeros in a row, all dense features included."""
        return int(np.diff(self.indptr).max(initial=0)) + self.n_dense

    @property
    def rows(self) -> tuple[Any, ...]:
        """The CSR arrays (indptr, indices, values) of the sparse features, in the order in which kernels take them."""
        return self.indptr, self.indices, self.values

    def weighted(self, cost: float, rows: RowIndices) -> Costs:
        """Return `cost` times the weight of each of the rows."""
        return cost * self.weights[rows] if len(self.weights) else np.full(len(rows), cost)

    def positions(self, rows: npt.NDArray[Any]) -> RowIndices:
        """Return the positions in this design of rows of X, given by their row numbers in X."""
        if not len(rows):
            return np.empty(0, np.int32)
        if self.chosen is not None:
            at = np.searchsorted(self.chosen, rows)
            if not np.isin(rows, self.chosen).all():
                raise InputError("a label block names a row that the solver was not prepared for")
            rows = at
        elif not 0 <= rows.min() <= rows.max() < self.n_samples:
            raise InputError(f"a label block names a row outside X ({self.n_samples} rows)")
        positions: RowIndices = self.position_of_row[rows]
        return positions


def by_frequency(indices: npt.NDArray[np.int32], n_features: int) -> npt.NDArray[np.int32]:
    """Return the index of each feature in descending order of frequency, for cache locality."""
    counts = np.zeros(n_features, np.int64)
    count_features(np.ascontiguousarray(indices), counts)
    position = np.empty(n_features, np.int32)
    position[np.argsort(-counts, kind="stable")] = np.arange(n_features, dtype=np.int32)
    return position


_UNSCALED = np.empty(0), np.empty(0, np.float32)  # the factors of a sparse part with all factors 1


def lay_out(
    X: Any,
    *,
    bias: bool,
    seed: int,
    rows: npt.ArrayLike | None = None,
    dense: Floats | None = None,
    factors: npt.NDArray[np.float64] | None = None,
    sparse_factors: tuple[npt.NDArray[np.float64], Floats] | None = None,
    weights: Costs | None = None,
) -> Design:
    """Return the Design of a CSR matrix X (float32, canonical), or of the given rows of it (ascending).

    `dense` are further features of the same rows, in C order; the design refers to the array. They are multiplied by
    `factors`, one number per row of X, and the values of X by `sparse_factors` (see `ScaledFeatures`). `weights` are
    those of the rows of X, all above 0. Time and memory depend on the chosen rows only, so that thousands of small
    subsets of X are cheap.
    """
    chosen = None if rows is None else _check_rows(rows, X.shape[0])
    begins, ends = X.indptr[:-1], X.indptr[1:]
    if chosen is not None:
        begins, ends = begins[chosen], ends[chosen]
    begins, ends = begins.astype(np.int64), ends.astype(np.int64)
    n_samples = len(begins)
    indices, data = read_only(X.indices), read_only(X.data)
    features, counts, position_of_feature = _frequent_first(begins, ends, indices, X.shape[1])
    order = np.random.default_rng(seed).permutation(n_samples)
    row_ids = order if chosen is None else chosen[order]
    position_of_row = np.empty(n_samples, np.int32)
    position_of_row[order] = np.arange(n_samples, dtype=np.int32)
    size = int((ends - begins).sum())
    indptr = np.empty(n_samples + 1, np.int64)
    new_indices = np.empty(size, np.uint32)
    values = np.empty(size, np.float32)
    norms = np.empty(n_samples, np.float32)
    scales = _UNSCALED if sparse_factors is None else tuple(factor[row_ids] for factor in sparse_factors)
    feature_index = position_of_feature, len(features)
    reorder(begins[order], ends[order], indices, data, scales, *feature_index, indptr, new_indices, values, norms)
    of_dense = _dense_rows(dense, row_ids, factors)
    if dense is not None and dense.shape[1]:
        add_dense_squares(of_dense, norms)
        new_indices += np.uint32(dense.shape[1])
        features, counts = _with_dense(features, counts, X.shape[1], dense.shape[1], n_samples)
    if not np.isfinite(norms).all():
        raise InputError("X has a row too long for float32: its squared norm overflows; scale its features down")
    filled = norms[norms > 0]
    typical = float(f"{math.sqrt(float(np.median(filled))):.3g}") if len(filled) else 1.0  # exactly 1 for unit rows
    use_bias = np.float32(1 if bias else 0)
    norms += use_bias
    columns = features, counts
    of_rows = np.empty(0) if weights is None else np.asarray(weights)[row_ids]
    costs = of_rows, np.minimum(1 / of_rows, _MOST_INVERSE).astype(np.float32)
    lists = indptr, new_indices, values, norms, position_of_row
    return Design(*lists, *columns, chosen, use_bias, typical, of_dense, *costs)


def _dense_rows(
    dense: Floats | None, order: npt.NDArray[np.int64], factors: npt.NDArray[np.float64] | None
) -> tuple[Any, ...]:
    """Return dense features, whose rows are visited in this order, as kernels take them (see `numerics.dense_rows`)."""
    if dense is None:
        dense = np.empty((0, 0), np.float32)
    values = _Writable(dense) if not dense.flags.writeable else dense
    n = int(dense.shape[1])
    steps = np.ones(len(order), np.float32) if factors is None else factors[order].astype(np.float32)
    return order * n, np.asarray(values).reshape(-1), n, steps


class _Writable:
    """The memory of a read-only array as if it were writable, so that kernels need not be compiled a second time."""

    def __init__(self, array: Floats) -> None:
        self.array = array  # keeps the memory alive
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def _with_dense(
    features: npt.NDArray[np.int32], counts: npt.NDArray[np.int64], n_sparse: int, n_dense: int, n_samples: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return features and counts of the columns with the dense features before the sparse ones."""
    numbers = np.arange(n_sparse, n_sparse + n_dense, dtype=np.int32)
    return np.concatenate([numbers, features]), np.concatenate([np.full(n_dense, n_samples, np.int64), counts])


def _check_rows(rows: npt.ArrayLike, n_samples: int) -> npt.NDArray[np.int64]:
    chosen = np.asarray(rows)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or np.any(chosen[1:] <= chosen[:-1]):
        raise InputError("rows must be integers in strictly ascending order")
    if len(chosen) and not 0 <= chosen[0] <= chosen[-1] < n_samples:
        raise InputError(f"rows must be between 0 and {n_samples - 1}")
    return chosen.astype(np.int64)


def _frequent_first(
    begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], indices: npt.NDArray[Any], n_features: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return the features of some rows, most frequent first, their counts, and the inverse map.

    The inverse map is undefined for features that these rows do not have.
    """
    seen = workspace("features seen", (n_features,), np.int32)
    with borrowed_zeros("counts of features", n_features, np.int64) as counts:
        occurring = np.sort(seen[: count_rows(begins, ends, indices, counts, seen)])
        features = occurring[np.argsort(-counts[occurring], kind="stable")]
        frequencies = counts[features]
        counts[occurring] = 0
    position_of_feature = workspace("index of features", (n_features,), np.int32)
    position_of_feature[features] = np.arange(len(features), dtype=np.int32)
    return features, frequencies, position_of_feature


_LEAST_COST = 1e-30  # avoids an infinite h for a cost of 0
_LEAST_H = np.finfo(np.float32).tiny  # h of the highest costs: above 0
_MOST_INVERSE = 1e8  # 1/weight of a row; times the largest h it stays in the range of float32


def half_inverse(costs: float | Costs) -> Any:
    """Return h = 1/(2c) as float32, the diagonal term that a cost c adds to the dual of the squared hinge."""
    return np.maximum(0.5 / np.maximum(costs, _LEAST_COST), _LEAST_H).astype(np.float32)
