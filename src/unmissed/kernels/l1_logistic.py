"""l1 logistic regression with a cost per row: |w|_1 + sum_i c_i ln(1 + exp(-d_i w.x_i)), for the nodes of row trees.

Newton steps; the quadratic model of each is minimised by coordinate descent over the features that have a weight or
want one (their slope exceeds the penalty), and no more exactly than the step deserves. A line search sees to it that
the objective falls. Columns are sparse: rows[starts[j] : starts[j + 1]] and the values beside them.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.ascent import row_add, row_dot

_ONE = np.float32(1)
_ZERO = np.float32(0)
_DECREASE = 0.01  # the share of the promised decrease that a step must bring
_HALVINGS = 20
_LITTLE = 0.1  # the share of what is allowed in sum that columns may have among themselves and stay as they are
_PASSES = 8  # passes of coordinate descent in one Newton step; a new model is worth more than a ninth


@kernel()
def separate(starts, rows, values, side, cost, seed, max_steps, tol, w, score):
    """Minimise from w = 0 to `tol` of the first violation, in at most `max_steps` steps; score becomes X w.

    Returns the steps taken. side is 1 or -1; w has one entry per column, score one per row.
    """
    n_columns, n_rows = starts.shape[0] - 1, side.shape[0]
    slopes, curves = np.empty(n_columns, np.float32), np.empty(n_columns, np.float32)
    active, working = np.arange(n_columns).astype(np.int32), np.empty(n_columns, np.int32)
    step = np.zeros(n_columns, np.float32)
    pull, bend = np.empty(n_rows, np.float32), np.empty(n_rows, np.float32)
    bent, moved = np.empty(n_rows, np.float32), np.empty(n_rows, np.float32)
    w[:] = _ZERO
    score[:] = _ZERO
    loss = differentiate(side, cost, score, pull, bend)
    n_active, first, inner_tol = n_columns, 0.0, 1.0
    margin = np.inf  # how far below the penalty a slope must be for its feature to be left out
    for taken in range(max_steps):
        violation, worst, n_active, n_working = look(
            starts, rows, values, pull, bend, w, margin, n_active, active, working, slopes, curves
        )
        if taken == 0:
            first = violation
        if violation <= tol * first:
            if n_active == n_columns or first == 0:
                return taken
            n_active, margin = n_columns, np.inf
            for column in range(n_columns):
                active[column] = column
            continue
        margin = worst / n_rows
        enough = max(inner_tol, 0.5 * tol) * first
        passes, seed = descend(
            starts, rows, values, bend, w, slopes, curves, working, n_working, enough, seed, step, bent
        )
        if passes == 1:
            inner_tol *= 0.25
        moved[:] = _ZERO
        promise = 0.0
        for at in range(n_working):
            column = working[at]
            if step[column] != _ZERO:
                begin, end = starts[column], starts[column + 1]
                row_add(rows, values, begin, end, step[column], moved)
                promise += slopes[column] * step[column] + abs(w[column] + step[column]) - abs(w[column])
        loss = advance(side, cost, working, n_working, step, moved, loss, promise, w, score, pull, bend)
    return max_steps


@kernel()
def look(starts, rows, values, pull, bend, w, margin, n_active, active, working, slopes, curves):
    """Take the slope of each active column; list those to work on, and drop those that will hardly come back.

    Returns the summed and the largest violation of optimality, and how many columns are active and to be worked on.
    """
    violation, worst = 0.0, 0.0
    kept, n_working = 0, 0
    for at in range(n_active):
        column = active[at]
        begin, end = starts[column], starts[column + 1]
        slope = row_dot(rows, values, begin, end, pull)
        slopes[column] = slope
        wrong = violated(slope, w[column])
        if w[column] == _ZERO and wrong == _ZERO and abs(slope) < _ONE - margin:
            continue
        active[kept] = column
        kept += 1
        violation += wrong
        worst = max(worst, wrong)
        if w[column] != _ZERO or wrong > _ZERO:
            curve = np.float32(1e-12)
            for place in range(begin, end):
                curve += values[place] * values[place] * bend[rows[place]]
            curves[column] = curve
            working[n_working] = column
            n_working += 1
    return violation, worst, kept, n_working


@kernel()
def violated(slope, weight):
    """Return by how much a column misses its condition of optimality, slope + sign(weight) = 0 or |slope| <= 1."""
    if weight > _ZERO:
        return abs(slope + _ONE)
    if weight < _ZERO:
        return abs(slope - _ONE)
    return max(_ZERO, abs(slope) - _ONE)


@kernel()
def descend(starts, rows, values, bend, w, slopes, curves, working, n_working, enough, seed, step, bent):
    """Minimise the quadratic model over the working columns until they violate optimality by `enough` in sum.

    bent_i = bend_i (x_i.step) is kept up to date. A column that is 0 and wants to stay so is left out of further
    passes; one that violates optimality by little is left as it is. Returns the passes taken and the next seed.
    """
    bent[:] = _ZERO
    for at in range(n_working):
        step[working[at]] = _ZERO
    n_left = n_working
    for passed in range(1, _PASSES + 1):
        violation, little = 0.0, np.float32(_LITTLE * enough / n_working)
        for at in range(n_left - 1, 0, -1):
            seed = next_seed(seed)
            other = np.int64(seed % np.uint64(at + 1))
            working[at], working[other] = working[other], working[at]
        at = 0
        while at < n_left:
            column = working[at]
            begin, end = starts[column], starts[column + 1]
            weight, curve = w[column] + step[column], curves[column]
            slope = slopes[column] + row_dot(rows, values, begin, end, bent)
            wrong = violated(slope, weight)
            violation += wrong
            if wrong <= little:
                if weight == _ZERO:
                    n_left -= 1
                    working[at], working[n_left] = working[n_left], column
                else:
                    at += 1
                continue
            target = curve * weight - slope
            aim = (max(_ZERO, abs(target) - _ONE) / curve) * (_ONE if target > _ZERO else -_ONE)
            change = aim - weight
            at += 1
            step[column] += change
            for place in range(begin, end):
                bent[rows[place]] += change * values[place] * bend[rows[place]]
        if violation <= enough:
            return passed, seed
    return _PASSES, seed


@kernel()
def advance(side, cost, working, n_working, step, moved, loss, promise, w, score, pull, bend):
    """Go along a step, halved until the objective falls enough; return the new loss."""
    size = _ONE
    for _ in range(_HALVINGS):
        for row in range(score.shape[0]):
            score[row] += size * moved[row]
        now = differentiate(side, cost, score, pull, bend)
        penalty = 0.0
        for at in range(n_working):
            column = working[at]
            penalty += abs(w[column] + size * step[column]) - abs(w[column])
        if now - loss + penalty <= _DECREASE * size * promise:
            break
        for row in range(score.shape[0]):
            score[row] -= size * moved[row]
        size *= np.float32(0.5)
    else:
        size = _ZERO
        now = differentiate(side, cost, score, pull, bend)
    for at in range(n_working):
        column = working[at]
        w[column] += size * step[column]
    return now


@kernel()
def differentiate(side, cost, score, pull, bend):
    """Return the loss; pull_i and bend_i become the first and second derivative of row i's loss by its score."""
    loss = 0.0
    for row in range(score.shape[0]):
        z = side[row] * score[row]
        e = np.exp(-abs(z))
        loss += cost[row] * (np.log1p(e) + max(_ZERO, -z))
        p = (e if z > _ZERO else _ONE) / (_ONE + e)
        pull[row] = -cost[row] * side[row] * p
        bend[row] = cost[row] * e / ((_ONE + e) * (_ONE + e))
    return loss


@kernel()
def next_seed(seed):
    """Return the next state of a generator (xorshift)."""
    seed ^= seed << np.uint64(13)
    seed ^= seed >> np.uint64(7)
    seed ^= seed << np.uint64(17)
    return seed
