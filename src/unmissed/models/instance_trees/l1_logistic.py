"""L1-regularized logistic regression with row costs, for separators: |w|_1 + sum_i c_i ln(1 + exp(-d_i w.x_i)).

The solver is a Newton method like newGLMNET of LIBLINEAR. Coordinate descent minimizes the quadratic model
of each step over a working set: the features with a nonzero weight or a derivative above the penalty. The tolerance of
coordinate descent decreases with the outer steps, and a line search ensures that the objective decreases. Column j has
rows[starts[j] : starts[j + 1]] and the values at the same positions.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.packed_rows import row_add, row_dot

_ONE = np.float32(1)
_ZERO = np.float32(0)
_DECREASE = 0.01  # Armijo constant: fraction of the predicted decrease that a step must reach.
_HALVINGS = 20  # Maximum number of step halvings in the line search.
_SKIP = 0.1  # Columns that together violate optimality by at most this fraction of the tolerance are skipped.
_PASSES = 8  # Maximum number of passes of coordinate descent per Newton step.


@kernel()
def fit_separator(starts, rows, values, side, cost, seed, max_steps, tol, w, score):
    """Fit w from w = 0, until the violation of optimality is at most `tol` times the initial one; set score = X w.

    side is 1 or -1; w has one entry per column, score one per row. Returns the number of Newton steps.
    """
    n_columns, n_rows = starts.shape[0] - 1, side.shape[0]
    gradient, diagonal = np.empty(n_columns, np.float32), np.empty(n_columns, np.float32)
    active, working = np.arange(n_columns).astype(np.int32), np.empty(n_columns, np.int32)
    step = np.zeros(n_columns, np.float32)
    row_derivative, row_curvature = np.empty(n_rows, np.float32), np.empty(n_rows, np.float32)
    weighted_step, score_step = np.empty(n_rows, np.float32), np.empty(n_rows, np.float32)
    w[:] = _ZERO
    score[:] = _ZERO
    loss = differentiate(side, cost, score, row_derivative, row_curvature)
    n_active, initial, inner_tol = n_columns, 0.0, 1.0
    margin = np.inf  # shrinking: a zero weight is inactive if |derivative| < 1 - margin
    for n_steps in range(max_steps):
        violation, worst, n_active, n_working = select_working_set(
            starts, rows, values, row_derivative, row_curvature, w, margin, n_active, active, working, gradient,
            diagonal,
        )  # fmt: skip
        if n_steps == 0:
            initial = violation
        if violation <= tol * initial:
            if n_active == n_columns or initial == 0:
                return n_steps
            n_active, margin = n_columns, np.inf
            for column in range(n_columns):
                active[column] = column
            continue
        margin = worst / n_rows
        allowed = max(inner_tol, 0.5 * tol) * initial
        n_passes, seed = coordinate_descent(
            starts, rows, values, row_curvature, w, gradient, diagonal, working, n_working, allowed, seed, step,
            weighted_step,
        )  # fmt: skip
        if n_passes == 1:
            inner_tol *= 0.25
        score_step[:] = _ZERO
        predicted = 0.0
        for at in range(n_working):
            column = working[at]
            if step[column] != _ZERO:
                begin, end = starts[column], starts[column + 1]
                row_add(rows, values, begin, end, step[column], score_step)
                predicted += gradient[column] * step[column] + abs(w[column] + step[column]) - abs(w[column])
        loss = line_search(
            side, cost, working, n_working, step, score_step, loss, predicted, w, score, row_derivative, row_curvature
        )
    return max_steps


# 12 arguments: a sparse matrix is three arrays, and the state of a classifier is kept in one array per quantity.
@kernel()
def select_working_set(
    starts, rows, values, row_derivative, row_curvature, w, margin, n_active, active, working, gradient, diagonal
):
    """Compute the gradient of the active columns, select the working set, and shrink the active set.

    Returns the sum and the maximum of the violations of optimality, and the sizes of the active and the working set.
    """
    violation, worst = 0.0, 0.0
    kept, n_working = 0, 0
    for at in range(n_active):
        column = active[at]
        begin, end = starts[column], starts[column + 1]
        derivative = row_dot(rows, values, begin, end, row_derivative)
        gradient[column] = derivative
        excess = column_violation(derivative, w[column])
        if w[column] == _ZERO and excess == _ZERO and abs(derivative) < _ONE - margin:
            continue
        active[kept] = column
        kept += 1
        violation += excess
        worst = max(worst, excess)
        if w[column] != _ZERO or excess > _ZERO:
            curvature = np.float32(1e-12)
            for position in range(begin, end):
                curvature += values[position] * values[position] * row_curvature[rows[position]]
            diagonal[column] = curvature
            working[n_working] = column
            n_working += 1
    return violation, worst, kept, n_working


@kernel()
def column_violation(derivative, weight):
    """Return the violation of a column's optimality condition: derivative + sign(weight) = 0, or |derivative| <= 1."""
    if weight > _ZERO:
        return abs(derivative + _ONE)
    if weight < _ZERO:
        return abs(derivative - _ONE)
    return max(_ZERO, abs(derivative) - _ONE)


# 13 arguments: a sparse matrix is three arrays, and the state of a classifier is kept in one array per quantity.
@kernel()
def coordinate_descent(
    starts, rows, values, row_curvature, w, gradient, diagonal, working, n_working, allowed, seed, step, weighted_step
):
    """Minimize the quadratic model over the working set until the violations of optimality sum to at most `allowed`.

    weighted_step_i = row_curvature_i (x_i.step) is kept up to date. A column with a small violation is skipped, and
    leaves the working set if its weight is 0. Returns the number of passes and the next seed.
    """
    weighted_step[:] = _ZERO
    for at in range(n_working):
        step[working[at]] = _ZERO
    n_left = n_working
    for n_passes in range(1, _PASSES + 1):
        violation, skip_below = 0.0, np.float32(_SKIP * allowed / n_working)
        for at in range(n_left - 1, 0, -1):
            seed = next_seed(seed)
            other = np.int64(seed % np.uint64(at + 1))
            working[at], working[other] = working[other], working[at]
        at = 0
        while at < n_left:
            column = working[at]
            begin, end = starts[column], starts[column + 1]
            weight, curvature = w[column] + step[column], diagonal[column]
            derivative = gradient[column] + row_dot(rows, values, begin, end, weighted_step)
            excess = column_violation(derivative, weight)
            violation += excess
            if excess <= skip_below:
                if weight == _ZERO:
                    n_left -= 1
                    working[at], working[n_left] = working[n_left], column
                else:
                    at += 1
                continue
            target = curvature * weight - derivative
            minimizer = (max(_ZERO, abs(target) - _ONE) / curvature) * (_ONE if target > _ZERO else -_ONE)
            change = minimizer - weight
            at += 1
            step[column] += change
            for position in range(begin, end):
                weighted_step[rows[position]] += change * values[position] * row_curvature[rows[position]]
        if violation <= allowed:
            return n_passes, seed
    return _PASSES, seed


# 12 arguments: the state of a classifier is kept in one array per quantity, and a step changes four of them.
@kernel()
def line_search(
    side, cost, working, n_working, step, score_step, loss, predicted, w, score, row_derivative, row_curvature
):
    """Take a step, halved until the objective decreases sufficiently; return the new loss."""
    size = _ONE
    for _ in range(_HALVINGS):
        for row in range(score.shape[0]):
            score[row] += size * score_step[row]
        new_loss = differentiate(side, cost, score, row_derivative, row_curvature)
        penalty = 0.0
        for at in range(n_working):
            column = working[at]
            penalty += abs(w[column] + size * step[column]) - abs(w[column])
        if new_loss - loss + penalty <= _DECREASE * size * predicted:
            break
        for row in range(score.shape[0]):
            score[row] -= size * score_step[row]
        size *= np.float32(0.5)
    else:
        size = _ZERO
        new_loss = differentiate(side, cost, score, row_derivative, row_curvature)
    for at in range(n_working):
        column = working[at]
        w[column] += size * step[column]
    return new_loss


@kernel()
def differentiate(side, cost, score, row_derivative, row_curvature):
    """Return the loss; compute the first and second derivative of the loss of each row with respect to its score."""
    loss = 0.0
    for row in range(score.shape[0]):
        z = side[row] * score[row]
        e = np.exp(-abs(z))
        loss += cost[row] * (np.log1p(e) + max(_ZERO, -z))
        p = (e if z > _ZERO else _ONE) / (_ONE + e)
        row_derivative[row] = -cost[row] * side[row] * p
        row_curvature[row] = cost[row] * e / ((_ONE + e) * (_ONE + e))
    return loss


@kernel()
def next_seed(seed):
    """Return the next state of an xorshift generator."""
    seed ^= seed << np.uint64(13)
    seed ^= seed >> np.uint64(7)
    seed ^= seed << np.uint64(17)
    return seed
