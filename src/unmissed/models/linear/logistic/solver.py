"""The solver of LogisticOVR for a block of labels: logistic loss, l2 penalty, and a certificate per label.

Each label minimizes P(w, b) = 1/2 |w|^2 + 1/2 b^2 + sum_i l_i(w.x_i + b). With phi(m) = log(1 + exp(-m)) a negative
costs l(m) = c phi(-m). A positive costs `positive` phi(m) + `counter` phi(-m) = (`positive` + `counter`) phi(m) +
`counter` m because phi(-m) = phi(m) + m: the problem is convex if `positive` + `counter` >= 0, whatever the sign of
`counter`.

Certificate. P is 1-strongly convex, so P - min P <= 1/2 |gradient|^2, which is also the duality gap of the dual
variables -l_i'(m_i). It is reported relative to the sum of the absolute values of the terms of P: P itself unless
`counter` m < 0 for a positive.

Method. Let r_i = l_i'(m_i). A label has few rows with a large r; these are its heavy rows, with all positives. A round
is one pass over X for LANES labels at a time, which computes P, its gradient and the heavy rows, followed by the
minimization of a model of P for each label: heavy rows enter exactly; light rows, of total r = s and mean row
v / s = sum r_i x_i / s, enter as s exp(d.v / s) for a step d, which has the right value and gradient and nearly the
right curvature. The model is convex and has the gradient of P, so its minimizer is in a direction of descent. Labels
begin at the solution of a label without positives, which all of them share.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed._jit import kernel
from unmissed.models.linear.certificate import rounding
from unmissed.models.linear.columns import FeatureColumns
from unmissed.models.linear.design import Design, Floats, LabelBlock, RowIndices, lay_out
from unmissed.models.linear.duplicate_labels import DuplicateLabels
from unmissed.models.linear.shard import Shard
from unmissed.models.linear.shard_builder import ShardBuilder
from unmissed.models.ranges import Count, NotNegative, Tolerance, check_flag, check_ranges
from unmissed.numerics.float64_sums import squared_norm
from unmissed.numerics.packed_rows import row_add, row_dot
from unmissed.numerics.simd import LANES, add_in_order
from unmissed.numerics.workspace import workspace

MAX_PER_LABEL = 6  # Up to this many labels, passes for one label each are cheaper than one in lanes.
HEAVY = 0.01  # A row is heavy if r |x|^2 is above this; fewer rows are light if a label converges slowly.
_SLOW = 0.1  # A label converges slowly if a round leaves more than this fraction of the gap.
_MODEL_TOLERANCE = 0.05  # Norm of the model's gradient at its minimizer, relative to that of P.
_CG_TOLERANCE = 0.1  # Relative residual of the Newton directions of the model.
_MODEL_STEPS, _CG_STEPS = 10, 100
_SMALL = 2.0**-10  # Below this, four terms of the series of log1p have an error below 2e-13.
_N_SUMS = 16
_MAX_INITIAL_SOLUTIONS = 16
_INITIAL_TOLERANCE = 1e-3
_ONE = np.float32(1)


@kernel()
def softplus(m):
    """Return log(1 + exp(m)) and its derivative, the logistic function of m."""
    decay = math.exp(-abs(m))
    inverse = 1.0 / (1.0 + decay)
    if decay < _SMALL:
        value = decay * (1.0 - decay * (0.5 - decay * (1.0 / 3.0 - 0.25 * decay)))
    else:
        value = math.log1p(decay)
    if m >= 0:
        return m + value, inverse
    return value, decay * inverse


@kernel()
def _positive_loss(m, costs):
    """Return the loss of a positive, its derivative, and the part of the loss below 0."""
    value, derivative = softplus(-m)
    curved = costs[0] + costs[1]
    linear = costs[1] * m
    return curved * value + linear, costs[1] - curved * derivative, min(linear, 0.0)


@kernel()
def lane_losses(X, norms, W, bias, costs, positives, heavy, R, sums, rows, counts):
    """Compute margins and losses of all rows for LANES labels.

    Parameters
    ----------
    X, norms : the CSR arrays, and |x|^2 of each row
    W, bias, costs : weights (n_features * LANES), bias and (positive, counter, negative) of each lane
    positives : the lanes whose label each row has, in CSR form
    heavy : a negative is heavy if r |x|^2 is above this
    R : the derivatives r, (n_samples * LANES) (output)
    sums : sum of losses, of r, of |r| and of the losses below 0, (4, LANES) (output)
    rows, counts : the heavy negatives of each lane, (LANES, n_samples), and their number (output)
    """
    indptr, indices, values = X
    starts, lanes = positives
    scores, losses, derivatives = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    is_positive = np.zeros(LANES, np.bool_)
    sums[:] = 0.0
    counts[:] = 0
    for row in range(norms.shape[0]):
        scores[:] = 0.0
        add_in_order(indices, values, indptr[row], indptr[row + 1], W, scores)
        for lane in range(LANES):
            value, derivative = softplus(scores[lane] + bias[lane])
            losses[lane], derivatives[lane] = costs[lane, 2] * value, costs[lane, 2] * derivative
        for at in range(starts[row], starts[row + 1]):
            lane = lanes[at]
            is_positive[lane] = True
            losses[lane], derivatives[lane], below = _positive_loss(scores[lane] + bias[lane], costs[lane])
            sums[3, lane] += below
        target = R[row * LANES : (row + 1) * LANES]
        for lane in range(LANES):
            sums[0, lane] += losses[lane]
            sums[1, lane] += derivatives[lane]
            sums[2, lane] += abs(derivatives[lane])
            target[lane] = np.float32(derivatives[lane])
        for lane in range(LANES):
            if derivatives[lane] * norms[row] > heavy[lane] and not is_positive[lane]:
                rows[lane, counts[lane]] = row
                counts[lane] += 1
        for at in range(starts[row], starts[row + 1]):
            is_positive[lanes[at]] = False


@kernel()
def label_losses(X, norms, w, bias, costs, is_positive, heavy, r, sums, rows):
    """Do the same as `lane_losses` for one label, with the same bits; return the number of heavy negatives."""
    indptr, indices, values = X
    sums[:] = 0.0
    count = 0
    for row in range(norms.shape[0]):
        score = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            score += np.float64(values[at]) * np.float64(w[indices[at]])
        if is_positive[row]:
            loss, derivative, below = _positive_loss(score + bias, costs)
            sums[3] += below
        else:
            value, derivative = softplus(score + bias)
            loss, derivative = costs[2] * value, costs[2] * derivative
            if derivative * norms[row] > heavy:
                rows[count] = row
                count += 1
        sums[0] += loss
        sums[1] += derivative
        sums[2] += abs(derivative)
        r[row] = np.float32(derivative)
    return count


@kernel()
def lane_gradients(columns, W, R, G, squares):
    """Set G to W + X' R, the gradients of the weights, for LANES labels, and `squares` to their squared norms."""
    starts, rows, values = columns
    sums = np.empty(LANES)
    squares[:] = 0.0
    for feature in range(starts.shape[0] - 1):
        sums[:] = 0.0
        add_in_order(rows, values, starts[feature], starts[feature + 1], R, sums)
        w, g = W[feature * LANES : (feature + 1) * LANES], G[feature * LANES : (feature + 1) * LANES]
        for lane in range(LANES):
            total = sums[lane] + np.float64(w[lane])
            squares[lane] += total * total
            g[lane] = np.float32(total)


@kernel()
def label_gradient(columns, w, r, g):
    """Do the same as `lane_gradients` for one label, with the same bits; return the squared norm."""
    starts, rows, values = columns
    square = 0.0
    for feature in range(starts.shape[0] - 1):
        total = 0.0
        for at in range(starts[feature], starts[feature + 1]):
            total += np.float64(values[at]) * np.float64(r[rows[at]])
        total += np.float64(w[feature])
        square += total * total
        g[feature] = np.float32(total)
    return square


@kernel()
def interleave(by_label, by_feature):
    """Copy a (LANES, n_features) matrix to a flat feature-major one, in blocks that fit in the cache."""
    for begin in range(0, by_label.shape[1], _N_SUMS):
        for lane in range(LANES):
            for at in range(begin, min(begin + _N_SUMS, by_label.shape[1])):
                by_feature[at * LANES + lane] = by_label[lane, at]


@kernel()
def separate(by_feature, by_label):
    """Copy a flat feature-major matrix to a (LANES, n_features) one."""
    for begin in range(0, by_label.shape[1], _N_SUMS):
        for lane in range(LANES):
            for at in range(begin, min(begin + _N_SUMS, by_label.shape[1])):
                by_label[lane, at] = by_feature[at * LANES + lane]


@kernel()
def _dot(u, v):
    """Return u.v in float64, in partial sums that the compiler can vectorize."""
    sums = np.zeros(_N_SUMS)
    end = u.shape[0] // _N_SUMS * _N_SUMS
    for begin in range(0, end, _N_SUMS):
        one, other = u[begin : begin + _N_SUMS], v[begin : begin + _N_SUMS]
        for at in range(_N_SUMS):
            sums[at] += np.float64(one[at]) * np.float64(other[at])
    total = 0.0
    for at in range(end, u.shape[0]):
        total += np.float64(u[at]) * np.float64(v[at])
    for at in range(_N_SUMS):
        total += sums[at]
    return total


@kernel()
def _row_scores(X, rows, v, bias, scores):
    """Set `scores` to the products of some rows with v, plus the bias."""
    indptr, indices, values = X
    for at in range(rows.shape[0]):
        scores[at] = np.float64(row_dot(indices, values, indptr[rows[at]], indptr[rows[at] + 1], v)) + bias


@kernel()
def _add_rows(X, rows, factors, v):
    """Add the rows, times their factors, to v; return the sum of the factors."""
    indptr, indices, values = X
    total = 0.0
    for at in range(rows.shape[0]):
        row_add(indices, values, indptr[rows[at]], indptr[rows[at] + 1], np.float32(factors[at]), v)
        total += factors[at]
    return total


@kernel()
def _derivatives(margins, n_positives, costs, r, curvature):
    """Set r and the curvature of heavy rows, positives first."""
    for at in range(margins.shape[0]):
        _, sigma = softplus(margins[at])
        curved = costs[0] + costs[1] if at < n_positives else costs[2]
        r[at] = curved * sigma - (costs[0] if at < n_positives else 0.0)
        curvature[at] = curved * sigma * (1.0 - sigma)


@kernel()
def _direction(X, rows, curvature, light, v, use_bias, residual, residual_bias, vectors):
    """Solve H d = residual by preconditioned conjugate gradients; d is vectors[0], its bias is returned.

    H is the identity plus the heavy rows times their curvature plus light v v'; the bias of v is light[1], its factor
    light[0]. `residual` is overwritten.
    """
    indptr, indices, values = X
    d, p, q, diagonal = vectors[0], vectors[1], vectors[2], vectors[3]
    factor, v_bias = light
    for at in range(d.shape[0]):
        d[at], diagonal[at] = 0.0, 1.0 + factor * v[at] * v[at]
    diagonal_bias, d_bias = 1.0 + factor * v_bias * v_bias, 0.0
    for at in range(rows.shape[0]):
        c = np.float32(curvature[at])
        for position in range(indptr[rows[at]], indptr[rows[at] + 1]):
            diagonal[indices[position]] += c * values[position] * values[position]
        diagonal_bias += curvature[at]
    for at in range(d.shape[0]):
        diagonal[at] = _ONE / diagonal[at]
        p[at] = residual[at] * diagonal[at]
    p_bias = residual_bias / diagonal_bias
    square = _dot(residual, p) + residual_bias * p_bias
    target = _CG_TOLERANCE * _CG_TOLERANCE * square
    scores = np.empty(rows.shape[0])
    for _ in range(_CG_STEPS):
        if not square > target:
            break
        _row_scores(X, rows, p, p_bias, scores)
        for at in range(rows.shape[0]):
            scores[at] *= curvature[at]
        along = np.float32(factor * (_dot(v, p) + v_bias * p_bias))
        for at in range(d.shape[0]):
            q[at] = p[at] + along * v[at]
        q_bias = p_bias + along * v_bias + _add_rows(X, rows, scores, q)
        step = square / (_dot(p, q) + use_bias * p_bias * q_bias)
        d_bias += step * p_bias
        residual_bias -= use_bias * step * q_bias
        step_ = np.float32(step)
        for at in range(d.shape[0]):
            d[at] += step_ * p[at]
            residual[at] -= step_ * q[at]
            q[at] = residual[at] * diagonal[at]
        before, square = square, _dot(residual, q) + residual_bias * residual_bias / diagonal_bias
        ratio = np.float32(square / before)
        for at in range(d.shape[0]):
            p[at] = q[at] + ratio * p[at]
        p_bias = residual_bias / diagonal_bias + square / before * p_bias
    return d_bias


@kernel()
def _step_size(margins, changes, r0, n_positives, costs, slopes, light):
    """Return a step t in (0, 1] along a direction: 1 unless it overshoots the model's minimum by far.

    `slopes` has the derivative of the model's linear and quadratic part at t = 0 and its curvature; `light` has v.d,
    the exponent u of the light rows and its change.
    """
    low, high, t, first = 0.0, 1.0, 1.0, 0.0
    for trial in range(30):
        at_t = 0.0 if trial == 0 else t
        slope = slopes[0] + at_t * slopes[1] + light[0] * (math.exp(min(light[1] + at_t * light[2], 50.0)) - 1.0)
        for at in range(margins.shape[0]):
            _, sigma = softplus(margins[at] + at_t * changes[at])
            curved = costs[0] + costs[1] if at < n_positives else costs[2]
            slope += (curved * sigma - (costs[0] if at < n_positives else 0.0) - r0[at]) * changes[at]
        if trial == 0:
            first = slope
            continue
        if slope > -0.2 * first:
            high = t
        elif slope < 0.8 * first and t < 1.0:
            low = t
        else:
            return t
        t = 0.5 * (low + high)
    return low


@kernel()
def minimize_model(X, rows, n_positives, costs, use_bias, g, total, w, bias, vectors):
    """Minimize the model of P around (w, bias) and move there; return the bias and the slope of P along the step.

    Parameters
    ----------
    X : the CSR arrays
    rows, n_positives : the heavy rows, positives first
    costs : (positive, counter, negative)
    use_bias : 1 if there is a bias, else 0
    g, total : the gradient of the weights, and the sum of r over all rows
    w, bias : the current point; w is changed
    vectors : 7 work arrays of the length of w; after the call, the last is the step
    """
    v, residual, moved = vectors[4], vectors[5], vectors[6]
    n = rows.shape[0]
    margins, changes, r0, r, curvature = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    _row_scores(X, rows, w, bias, margins)
    _derivatives(margins, n_positives, costs, r0, curvature)
    for at in range(w.shape[0]):
        v[at], moved[at], residual[at] = g[at] - w[at], 0.0, -g[at]
    s = total + _add_rows(X, rows, -r0, v)
    g_bias = use_bias * (bias + total)
    moved_bias, u, residual_bias = 0.0, 0.0, -g_bias
    if not s > 1e-9 * abs(total):  # no light rows but for rounding errors
        s = 0.0
        v[:] = 0.0
    square = _dot(g, g) + g_bias * g_bias
    target = _MODEL_TOLERANCE * _MODEL_TOLERANCE * square
    for _ in range(_MODEL_STEPS):
        factor = math.exp(min(u, 50.0)) / s if s > 0 else 0.0
        d_bias = use_bias * _direction(
            X, rows, curvature, (np.float32(factor), s), v, use_bias, residual, residual_bias, vectors
        )
        d = vectors[0]
        _row_scores(X, rows, d, d_bias, changes)
        along_v = _dot(v, d) + s * d_bias
        change = along_v / s if s > 0 else 0.0
        slope = _dot(g, d) + g_bias * d_bias + _dot(moved, d) + moved_bias * d_bias
        slopes = slope, _dot(d, d) + d_bias * d_bias
        t = _step_size(margins, changes, r0, n_positives, costs, slopes, (along_v, u, change))
        u += t * change
        moved_bias += t * d_bias
        for at in range(n):
            margins[at] += t * changes[at]
        _derivatives(margins, n_positives, costs, r, curvature)
        growth = np.float32(math.exp(min(u, 50.0)) - 1.0)
        step = np.float32(t)
        for at in range(w.shape[0]):
            moved[at] += step * d[at]
            residual[at] = -(g[at] + moved[at] + growth * v[at])
        inner = _add_rows(X, rows, r0 - r, residual)
        residual_bias = use_bias * (inner - (g_bias + moved_bias + growth * s))
        if not _dot(residual, residual) + residual_bias * residual_bias > target:
            break
    for at in range(w.shape[0]):
        w[at] += moved[at]
    return bias + moved_bias, _dot(g, moved) + g_bias * moved_bias


@dataclass(frozen=True)
class Logistic:
    """Solve label blocks to a relative duality gap of `tol`, in at most `max_rounds` rounds per label.

    `fit_bias` adds a bias that is penalized like the weights (LIBLINEAR with -B 1). Weights with |w| < prune become 0
    after training if rows are L2-normalized; for other rows the threshold is divided by their typical norm.
    """

    tol: Tolerance = 1e-3
    prune: NotNegative = 0.01
    fit_bias: bool = True
    max_rounds: Count = 50

    def __post_init__(self) -> None:
        check_ranges(self, type(self))
        check_flag("fit_bias", self.fit_bias)

    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> PreparedLogistic:
        """Prepare X (canonical float32 CSR), or a sorted subset of its rows, for all blocks of labels."""
        return PreparedLogistic(self, X, rows)


class LabelState:
    """A label: its positives and costs, weights, bias, gradient, heavy rows and certificate."""

    def __init__(self, at: int, positives: RowIndices, costs: tuple[float, float, float], w: Floats, bias: float) -> None:
        self.at, self.positives, self.costs = at, positives, np.array(costs)
        self.w, self.bias = w, float(np.float32(bias))
        self.g = np.empty_like(w)
        self.total = 0.0
        self.heavy = positives
        self.threshold = HEAVY
        self.rounds = 0
        self.done = False
        self.objective, self.gap = np.inf, np.inf
        self.before: tuple[float, float, Floats, float] = np.inf, 0.0, w, 0.0  # objective, slope, step, its bias


class PreparedLogistic:
    """A solver and the prepared rows of X; it is safe to share between threads."""

    def __init__(self, solver: Logistic, X: Any, rows: npt.ArrayLike | None = None) -> None:
        self.solver = solver
        self.design: Design = lay_out(X, bias=solver.fit_bias, seed=0, rows=rows)
        self.columns = FeatureColumns.of(self.design)
        self._longest = math.sqrt(float(self.design.norms.max(initial=0))) * (1 + 1e-6)
        self._duplicates = DuplicateLabels()
        self._initial: OrderedDict[float, tuple[LabelState, Floats]] = OrderedDict()
        self._lock = threading.Lock()

    def solve(self, block: LabelBlock) -> Shard:
        """Return the solution of every label of the block; it does not depend on the assignment of labels to blocks."""
        positions = self.design.positions(block.rows)
        builder = ShardBuilder(self.design, block.first, block.n_labels, self.solver.prune)
        counter = np.zeros(block.n_labels) if block.counter is None else block.counter
        todo = self._duplicates.begin(block, builder)
        active: list[LabelState] = []
        for first in range(0, len(todo), LANES):
            for at in todo[first : first + LANES]:
                costs = float(block.positive[at]), float(counter[at]), float(block.negative[at])
                active.append(self._begin(at, np.sort(positions[block.starts[at] : block.starts[at + 1]]), costs))
            enough = LANES if first + LANES < len(todo) else 1
            while len(active) >= enough:
                self._round(active[:LANES])
                for label in active[:LANES]:
                    if label.done:
                        builder.add(
                            label.at, label.w, np.float32(label.bias), label.objective, label.gap, label.rounds
                        )
                active = [label for label in active if not label.done]
        self._duplicates.end(block, builder)
        return builder.build()

    def _begin(self, at: int, positives: RowIndices, costs: tuple[float, float, float]) -> LabelState:
        """Return a label after the first step from the shared initial solution."""
        initial, r = self._initial_solution(costs[2])
        label = LabelState(at, positives, costs, initial.w.copy(), initial.bias)
        label.g[:], label.total = initial.g, initial.total
        heavy = np.setdiff1d(initial.heavy, positives)
        label.heavy = np.concatenate([positives, heavy])
        margins, own, _ = np.empty(len(positives)), np.empty(len(positives)), np.empty(len(positives))
        _row_scores(self.design.rows, positives, label.w, label.bias, margins)
        _derivatives(margins, len(positives), label.costs, own, _)
        label.total += float(_add_rows(self.design.rows, positives, own - r[positives], label.g))
        self._improve(label)
        return label

    def _initial_solution(self, cost: float) -> tuple[LabelState, Floats]:
        """Return the solution of a label without positives whose negatives cost `cost`, and its r."""
        with self._lock:
            if cost not in self._initial:
                self._initial[cost] = self._solve_initial(cost)
                if len(self._initial) > _MAX_INITIAL_SOLUTIONS:
                    self._initial.popitem(last=False)
            self._initial.move_to_end(cost)
            return self._initial[cost]

    def _solve_initial(self, cost: float) -> tuple[LabelState, Floats]:
        n, bias = self.design.n_samples, 0.0
        if self.design.use_bias:
            for _ in range(100):  # Newton's method for b + n cost sigma(b) = 0, from above: monotone
                _, sigma = softplus(bias)
                bias -= (bias + n * cost * sigma) / (1 + n * cost * sigma * (1 - sigma))
        w = np.zeros(self.design.n_features, np.float32)
        label = LabelState(-1, np.empty(0, np.int32), (0.0, 0.0, cost), w, bias)
        r = np.empty(n, np.float32)
        for _ in range(self.solver.max_rounds):
            self._evaluate_one(label, r)
            self._certify(label, max(self.solver.tol, _INITIAL_TOLERANCE))
            if label.done:
                break
            self._improve(label)
        return label, r

    def _round(self, group: Sequence[LabelState]) -> None:
        """Evaluate and certify labels; improve those that are not done."""
        if len(group) <= MAX_PER_LABEL:
            for label in group:
                self._evaluate_one(label, workspace("derivatives of rows", (self.design.n_samples,)))
        else:
            self._evaluate(group)
        for label in group:
            self._certify(label, self.solver.tol)
            if not label.done:
                self._improve(label)

    def _evaluate(self, group: Sequence[LabelState]) -> None:
        """Compute objective, gradient and heavy rows of up to LANES labels."""
        n, d, k = self.design.n_samples, self.design.n_features, len(group)
        by_label = workspace("weights by label", (LANES, d))
        W, G = workspace("weights in lanes", (d * LANES,)), workspace("gradients in lanes", (d * LANES,))
        R, listed = workspace("derivatives in lanes", (n * LANES,)), workspace("rows of lanes", (LANES, n), np.int32)
        bias, costs, heavy = np.zeros(LANES), np.zeros((LANES, 3)), np.ones(LANES)
        for lane, label in enumerate(group):
            by_label[lane], bias[lane], costs[lane], heavy[lane] = label.w, label.bias, label.costs, label.threshold
        by_label[k:] = 0
        interleave(by_label, W)
        sums, counts, squares = np.empty((4, LANES)), np.empty(LANES, np.int64), np.empty(LANES)
        positives = _by_row(group, n)
        lane_losses(self.design.rows, self.design.norms, W, bias, costs, positives, heavy, R, sums, listed, counts)
        lane_gradients(self.columns.arrays, W, R, G, squares)
        separate(G, by_label)
        for lane, label in enumerate(group):
            label.g[:] = by_label[lane]
            self._record(label, sums[:, lane], float(squares[lane]), listed[lane, : counts[lane]])

    def _evaluate_one(self, label: LabelState, r: Floats) -> None:
        """Compute objective, gradient and heavy rows of one label, and r."""
        n = self.design.n_samples
        sums, listed = np.empty(4), workspace("rows of one label", (n,), np.int32)
        is_positive = np.zeros(n, np.bool_)
        is_positive[label.positives] = True
        of_label = label.w, label.bias, label.costs, is_positive, label.threshold
        count = label_losses(self.design.rows, self.design.norms, *of_label, r, sums, listed)
        square = label_gradient(self.columns.arrays, label.w, r, label.g)
        self._record(label, sums, float(square), listed[:count])

    def _record(self, label: LabelState, sums: npt.NDArray[np.float64], square: float, heavy: RowIndices) -> None:
        """Set the objective and the bound of the gap of a label from the sums of a pass, rounding errors included."""
        design = self.design
        loss, total, mass, below = map(float, sums)
        label.rounds += 1
        label.total, label.heavy = total, np.concatenate([label.positives, heavy])
        length = math.sqrt(float(squared_norm(label.w)))
        margin_error = rounding(design.longest) * (length * self._longest + abs(label.bias))
        error = (2.0**-24 + margin_error + rounding(design.n_samples)) * mass * self._longest + 1e-30
        slope_bias = label.bias + total if design.use_bias else 0.0
        norm = math.sqrt(square + slope_bias**2) * (1 + rounding(design.n_features)) + error
        penalty = 0.5 * (length**2 + label.bias**2)
        scale = penalty + loss - 2 * below
        label.objective = penalty + loss + margin_error * mass + (1e-12 + rounding(design.n_samples)) * scale
        gap = 0.5 * norm**2 / scale if scale > 0 else (0.0 if norm == 0 else math.inf)
        if gap > _SLOW * label.gap:
            label.threshold *= 0.1
        label.gap = gap if gap < math.inf else math.inf

    def _certify(self, label: LabelState, tol: float) -> None:
        label.done = label.gap <= tol or label.rounds >= self.solver.max_rounds

    def _improve(self, label: LabelState) -> None:
        """Take the step of the model, or shorten the last one if it raised the objective."""
        objective, slope, step, step_bias = label.before
        if label.objective > objective + 1e-4 * slope:
            t = min(max(-0.5 * slope / (label.objective - objective - slope), 0.1), 0.5)
            label.w -= np.float32(1 - t) * step
            label.bias -= (1 - t) * step_bias
            label.before = objective, t * slope, np.float32(t) * step, t * step_bias
        else:
            vectors = workspace("vectors of one label", (7, self.design.n_features))
            bias, slope = minimize_model(
                self.design.rows,
                label.heavy,
                len(label.positives),
                label.costs,
                float(self.design.use_bias),
                label.g,
                label.total,
                label.w,
                label.bias,
                vectors,
            )
            label.before = label.objective, float(slope), vectors[6].copy(), bias - label.bias
            label.bias = float(bias)
        label.bias = float(np.float32(label.bias))


def _by_row(group: Sequence[LabelState], n_samples: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the lanes whose label each row has, in CSR form."""
    rows = np.concatenate([label.positives for label in group])
    lanes = np.repeat(np.arange(len(group)), [len(label.positives) for label in group])
    starts = np.zeros(n_samples + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n_samples), out=starts[1:])
    return starts, lanes[np.argsort(rows, kind="stable")]
