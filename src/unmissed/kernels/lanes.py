"""Labels in SIMD lanes: one pass over the rows of X serves LANES labels at once.

Weights are kept as (n_frequent, LANES), so a non-zero of X costs one contiguous multiply-add of LANES numbers instead
of LANES gathers. Rows and weights are 16-bit whole numbers times a step, as in `near`: scores are off by a little, and
so are the dual variables that come of them; whatever follows starts from these, and nothing relies on them. Of rare
features (see `rare`) a score has weights above 0 as they were before the sweep, and what the row itself gave; |w|^2 is
then off by a little, too. Lanes never mix: what a label gets does not depend on the labels beside it.

Notation of the dual: a row x with sign z and cost c has a variable a >= 0 and h = 1/(2c); w = sum a z x; the gradient
is z (w.x + b) - 1 + a h; the step a <- max(0, a - gradient / (|x|^2 + 1 + h)) solves the one-variable problem exactly.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.ascent import AHEAD, ask, row_add
from unmissed.kernels.bits import lowest, other
from unmissed.kernels.vectors import LANES, add_whole, whole_place

_SCATTER = 6  # up to this many lanes per row are updated one by one, more of them all at once

_MOST = np.int32(2**15 - 1)  # of a whole weight
_ONE = np.float32(1)
_TWO = np.float32(2)
_ZERO = np.float32(0)
_LOWEST = np.uint64(1)


@kernel()
def _moved(weight, by):
    """Return a whole weight that moved: by up to twice the largest, which may be more than 16 bits hold.

    What rounding adds up to over many moves may lead beyond the largest, and stops there.
    """
    return np.int16(min(max(np.int32(weight) + np.int32(np.rint(by)), -_MOST), _MOST))


@kernel()
def _move(indices, numbers, begin, end, W, factors, moved):
    """Add factors times a row to the whole weights of the lanes that moved."""
    if moved.shape[0] <= _SCATTER:
        flat = W.reshape(-1)
        for at in range(moved.shape[0]):
            factor, column = factors[moved[at]], np.uint64(whole_place(moved[at]))
            for place in range(begin, end):
                target = np.uint64(indices[place]) * np.uint64(LANES) + column
                flat[target] = _moved(flat[target], factor * np.float32(numbers[place]))
        return
    woven = np.empty(LANES, np.float32)
    for lane in range(LANES):
        woven[whole_place(lane)] = factors[lane]
    for place in range(begin, end):
        line, number = W[indices[place]], np.float32(numbers[place])
        for column in range(LANES):
            line[column] = _moved(line[column], woven[column] * number)


@kernel()
def lane_sweep(
    first, frequent, given, rare_squares, row_bounds, norms, use_bias, W, lanes, bias, positives, awake,
    rows, variables, count
):  # fmt: skip
    """Do one epoch of dual coordinate ascent over some rows for all lanes, and list for each lane its awake rows.

    Parameters
    ----------
    first : the number of the first row
    frequent, rare_squares : the rows of X in whole numbers, as far as features are frequent, and |x|^2 of the rest, as
        `rare.split_rows` has them
    given : what weights of rare features add to the rows, as `rare.give` has it
    row_bounds : (steps, sizes, errors) of the rows, as `near.round_rows` has them; rows that it did not round stay out
    norms : |x|^2 of each row with the constant feature counted in
    use_bias : float32, the value of the constant feature, 1 or 0
    W, bias : (n_frequent, LANES) in whole numbers, and (LANES,), changed in place
    lanes : (5, LANES), float32, of each lane the step of its weights, |w|^2 (changed in place), the most that it may
        become, and 1/(2c) of positives and of negatives
    positives : two arrays, for each row the lanes whose label it has
    awake : three arrays, for each row the lanes that it is awake in, and its dual variables in them; see `by_row`
    rows, variables, count : (LANES, n_samples) twice and (LANES,), the lists and their lengths
    """
    starts, features, numbers = frequent
    given_indptr, given_lanes, given_numbers = given
    steps, _, errors = row_bounds
    lane_steps, squares, most, h_positive, h_negative = lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]
    pos_indptr, pos_lanes = positives
    awake_indptr, awake_lanes, awake_variables = awake
    inverse = np.zeros(LANES, np.float32)
    for lane in range(LANES):
        if lane_steps[lane] > 0:
            inverse[lane] = _ONE / lane_steps[lane]
    flat = W.reshape(-1)
    sums = np.empty(LANES, np.int32)
    a, raw, step = np.zeros(LANES, np.float32), np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    sign = np.full(LANES, -1, np.float32)
    moved = np.empty(LANES, np.int64)
    for row in range(starts.shape[0] - 1):
        for place in range(awake_indptr[row], awake_indptr[row + 1]):
            a[awake_lanes[place]] = awake_variables[place]
        if errors[row] != np.inf:
            begin, end, norm, length = starts[row], starts[row + 1], norms[row], norms[row] - use_bias
            add_whole(features, numbers, begin, end, flat, sums)
            for place in range(given_indptr[row], given_indptr[row + 1]):
                sums[given_lanes[place]] += given_numbers[place]
            for lane in range(LANES):
                raw[lane] = np.float32(sums[lane]) * (steps[row] * lane_steps[lane]) - a[lane] * rare_squares[row]
                gradient = a[lane] * h_negative[lane] - (raw[lane] + bias[lane]) - _ONE
                step[lane] = max(-gradient / (norm + h_negative[lane]), -a[lane])
            for place in range(pos_indptr[row], pos_indptr[row + 1]):
                lane = pos_lanes[place]
                raw[lane] += a[lane] * rare_squares[row]
                gradient = a[lane] * h_positive[lane] + (raw[lane] + bias[lane]) - _ONE
                step[lane] = max(-gradient / (norm + h_positive[lane]), -a[lane])
                sign[lane] = _ONE
            n_moved, moving = 0, other(step, _ZERO)
            while moving:
                lane = lowest(moving)
                moving &= moving - _LOWEST
                grown = squares[lane] + step[lane] * (_TWO * sign[lane] * raw[lane] + step[lane] * length)
                if grown <= most[lane]:
                    squares[lane] = grown
                    a[lane] += step[lane]
                    bias[lane] += use_bias * (step[lane] * sign[lane])
                    step[lane] *= sign[lane] * (steps[row] * inverse[lane])
                    moved[n_moved] = lane
                    n_moved += 1
                else:  # weights that would outgrow their whole numbers stay
                    step[lane] = _ZERO
            if n_moved > 0:
                _move(features, numbers, begin, end, W, step, moved[:n_moved])
            for at in range(n_moved):
                _list(moved[at], first + row, a, rows, variables, count)
            for place in range(pos_indptr[row], pos_indptr[row + 1]):
                sign[pos_lanes[place]] = -_ONE
        for place in range(awake_indptr[row], awake_indptr[row + 1]):
            _list(awake_lanes[place], first + row, a, rows, variables, count)


@kernel()
def _list(lane, row, a, rows, variables, count):
    """Add a row to the list of a lane if it is awake there, and forget its variable."""
    if a[lane] > _ZERO:
        at = count[lane]
        rows[lane, at], variables[lane, at] = row, a[lane]
        count[lane] = at + 1
        a[lane] = _ZERO


@kernel()
def by_row(rows, variables, starts, first, n_rows):
    """Return, in CSR form, which of the rows from `first` on are awake in which lane, and their variables.

    Lane l has the rows and variables starts[l] to starts[l + 1].
    """
    indptr = np.zeros(n_rows + 1, np.int64)
    for at in range(rows.shape[0]):
        place = rows[at] - first
        if 0 <= place < n_rows and variables[at] > _ZERO:
            indptr[place + 1] += 1
    for place in range(n_rows):
        indptr[place + 1] += indptr[place]
    filled = indptr[:-1].copy()
    lanes, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    for lane in range(starts.shape[0] - 1):
        for at in range(starts[lane], starts[lane + 1]):
            place = rows[at] - first
            if 0 <= place < n_rows and variables[at] > _ZERO:
                lanes[filled[place]], values[filled[place]] = lane, variables[at]
                filled[place] += 1
    return indptr, lanes, values


@kernel()
def follow(indptr, words, values, mask, rows, a, n_positives, first, last, listed, variables, new, change, w):
    """Let a label follow a sweep over the rows from `first` to before `last`; return its working set and variables.

    It then has the positives, `n_positives` of them, those of the other old `rows` that are awake outside the sweep,
    and those that the sweep listed. Rows whose a z changed are added to w. `new` and `change`, one number per row each,
    are scratch: zeros, and left so.
    """
    most = rows.shape[0] + listed.shape[0]
    new_rows, new_a = np.empty(most, np.int32), np.empty(most, np.float32)
    for at in range(listed.shape[0]):
        new[listed[at]] = variables[at]
    n = 0
    for at in range(rows.shape[0]):
        row = rows[at]
        inside = first <= row < last
        if at < n_positives:
            new_rows[n], new_a[n] = row, new[row] if inside else a[at]
            change[row] = new_a[n] - a[at]
            new[row] = _ZERO  # so that it is no negative
            n += 1
        elif inside:
            change[row] = a[at]
        elif a[at] > _ZERO:
            new_rows[n], new_a[n] = row, a[at]
            n += 1
    for at in range(listed.shape[0]):
        row = listed[at]
        if new[row] > _ZERO:
            new_rows[n], new_a[n] = row, new[row]
            change[row] -= new[row]
            new[row] = _ZERO
            n += 1
    X = indptr, words, values, mask
    _add_changes(*X, rows, change, w)
    _add_changes(*X, new_rows[:n], change, w)
    return new_rows[:n], new_a[:n]


@kernel()
def _add_changes(indptr, words, values, mask, rows, change, w):
    """Add rows times what changed of their a z to w, and forget the change."""
    for at in range(rows.shape[0]):
        row = rows[at]
        if at + AHEAD < rows.shape[0] and change[rows[at + AHEAD]] != _ZERO:
            ask(indptr, words, values, mask, rows[at + AHEAD])
        if change[row] != _ZERO:
            row_add(words, values, indptr[row], indptr[row + 1], change[row], w, mask)
            change[row] = _ZERO
