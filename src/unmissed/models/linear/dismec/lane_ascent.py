"""Dual coordinate ascent in SIMD lanes: one sweep over the rows of X serves LANES labels.

Weights are a (n_frequent, LANES) matrix, so a non-zero of X costs one contiguous multiply-add instead of LANES gathers.
Rows and weights are quantized to int16 as in `near_margin`, so scores and dual variables are approximate; they are a
warm start for the per-label phase and no certificate relies on them. Rare features (see `rare_features`) contribute
their positive weights from before the sweep, and the row's own update; |w|^2 is therefore approximate, too. Lanes never
mix: the result of a label does not depend on the labels in other lanes.

Notation of the dual: a row x with sign z and cost c has a variable a >= 0 and h = 1/(2c); w = sum a z x; the gradient
is z (w.x + b) - 1 + a h; the step a <- max(0, a - gradient / (|x|^2 + 1 + h)) solves the one-variable problem exactly.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.models.linear.dismec.label_ascent import PREFETCH_DISTANCE
from unmissed.numerics.bitset import lowest_bit, mask_not_equal
from unmissed.numerics.dense_rows import dense_add, prefetch_dense_row
from unmissed.numerics.packed_rows import prefetch_packed_row, row_add
from unmissed.numerics.simd import LANES, add_dense_int16, add_int16, lane_slot

_SCATTER = 6  # Up to this many lanes per row are updated one by one, more with full vectors.

_MAX_WEIGHT = np.int32(2**15 - 1)  # Largest int16 weight.
_ONE = np.float32(1)
_TWO = np.float32(2)
_ZERO = np.float32(0)
_ONE_BIT = np.uint64(1)


@kernel()
def _saturating_add(weight, change):
    """Return weight + change, rounded and saturated to int16.

    The change may exceed the range of int16, and rounding errors of many updates may add up beyond it.
    """
    return np.int16(min(max(np.int32(weight) + np.int32(np.rint(change)), -_MAX_WEIGHT), _MAX_WEIGHT))


@kernel()
def _update_dense_weights(numbers, pairs, factors, moved):
    """Add factors[l] * x to the quantized weights of dense features of the lanes that moved."""
    if moved.shape[0] <= _SCATTER:
        for at in range(moved.shape[0]):
            factor, column = factors[moved[at]], 2 * moved[at]
            for pair in range(pairs.shape[0]):
                line, first = pairs[pair, column : column + 2], 2 * pair
                line[0] = _saturating_add(line[0], factor * np.float32(numbers[first]))
                line[1] = _saturating_add(line[1], factor * np.float32(numbers[first + 1]))
        return
    for pair in range(pairs.shape[0]):
        line, even, odd = pairs[pair], np.float32(numbers[2 * pair]), np.float32(numbers[2 * pair + 1])
        for lane in range(LANES):
            line[2 * lane] = _saturating_add(line[2 * lane], factors[lane] * even)
            line[2 * lane + 1] = _saturating_add(line[2 * lane + 1], factors[lane] * odd)


@kernel()
def _update_weights(indices, numbers, begin, end, W, factors, moved):
    """Add factors[l] * x to the quantized weights of the lanes that moved."""
    if moved.shape[0] <= _SCATTER:
        flat = W.reshape(-1)
        for at in range(moved.shape[0]):
            factor, column = factors[moved[at]], np.uint64(lane_slot(moved[at]))
            for position in range(begin, end):
                target = np.uint64(indices[position]) * np.uint64(LANES) + column
                flat[target] = _saturating_add(flat[target], factor * np.float32(numbers[position]))
        return
    slot_factors = np.empty(LANES, np.float32)
    for lane in range(LANES):
        slot_factors[lane_slot(lane)] = factors[lane]
    for position in range(begin, end):
        line, number = W[indices[position]], np.float32(numbers[position])
        for column in range(LANES):
            line[column] = _saturating_add(line[column], slot_factors[column] * number)


# 16 arguments: a block of rows is five arrays, the state of all lanes is four, and the output is three.
@kernel()
def lane_sweep(
    first, frequent, rare_scores, rare_squares, row_bounds, norms, inverse_weights, use_bias, W, lanes, bias, positives,
    active, rows, variables, count
):  # fmt: skip
    """Do one epoch of dual coordinate ascent over a batch of rows in all lanes; list the active rows of each lane.

    Parameters
    ----------
    first : index of the first row
    frequent, rare_squares : quantized frequent features of the rows, and |x|^2 of their rare features, as from
        `rare_features.split_rows`; `frequent` ends with the dense features
    rare_scores : contribution of rare features to the rows, as from `rare_features.score_rare_features`
    row_bounds : (steps, sizes, errors) as from `near_margin.quantize_rows`; rows that are not quantized are skipped
    norms : |x|^2 of each row, including the constant feature
    inverse_weights : 1/weight of each row, or nothing if all weights are 1
    use_bias : float32, the value of the constant feature, 1 or 0
    W, bias : (lines of frequent features, pairs of dense ones) as in `near_margin.list_near`, and (LANES,), updated in
        place
    lanes : float32 (4, LANES): step of the weights, |w|^2 (updated in place), its upper limit, and h of a negative of
        weight 1
    positives : CSR (indptr, lanes, h), the lanes whose label each row has, and h of these positives
    active : CSR (indptr, lanes, variables), the lanes in which each row is active, as from `sort_by_row`
    rows, variables, count : (LANES, n_samples) twice and (LANES,), the lists and their lengths
    """
    starts, features, numbers, dense = frequent
    rare_indptr, rare_lanes, rare_numbers = rare_scores
    steps, _, errors = row_bounds
    lane_steps, squares, max_squares, h_negative = lanes[0], lanes[1], lanes[2], lanes[3]
    pos_indptr, pos_lanes, pos_h = positives
    active_indptr, active_lanes, active_variables = active
    inverse = np.zeros(LANES, np.float32)
    for lane in range(LANES):
        if lane_steps[lane] > 0:
            inverse[lane] = _ONE / lane_steps[lane]
    lines, pairs = W
    flat, flat_pairs, flat_dense, n_dense = lines.reshape(-1), pairs.reshape(-1), dense.reshape(-1), dense.shape[1]
    sums, dense_sums = np.empty(LANES, np.int32), np.empty(LANES, np.int32)
    a, raw, step = np.zeros(LANES, np.float32), np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    sign = np.full(LANES, -1, np.float32)
    moved = np.empty(LANES, np.int64)
    for row in range(starts.shape[0] - 1):
        for position in range(active_indptr[row], active_indptr[row + 1]):
            a[active_lanes[position]] = active_variables[position]
        if errors[row] != np.inf:
            begin, end, norm, length = starts[row], starts[row + 1], norms[row], norms[row] - use_bias
            add_int16(features, numbers, begin, end, flat, sums)
            if n_dense > 0:
                add_dense_int16(flat_dense, flat_dense, row * n_dense, (row + 1) * n_dense, flat_pairs, dense_sums)
                sums += dense_sums
            for position in range(rare_indptr[row], rare_indptr[row + 1]):
                sums[rare_lanes[position]] += rare_numbers[position]
            inverse_weight = inverse_weights[row] if inverse_weights.shape[0] > 0 else _ONE
            for lane in range(LANES):
                h = h_negative[lane] * inverse_weight
                raw[lane] = np.float32(sums[lane]) * (steps[row] * lane_steps[lane]) - a[lane] * rare_squares[row]
                gradient = a[lane] * h - (raw[lane] + bias[lane]) - _ONE
                step[lane] = max(-gradient / (norm + h), -a[lane])
            for position in range(pos_indptr[row], pos_indptr[row + 1]):
                lane = pos_lanes[position]
                raw[lane] += a[lane] * rare_squares[row]
                gradient = a[lane] * pos_h[position] + (raw[lane] + bias[lane]) - _ONE
                step[lane] = max(-gradient / (norm + pos_h[position]), -a[lane])
                sign[lane] = _ONE
            n_moved, pending = 0, mask_not_equal(step, _ZERO)
            while pending:
                lane = lowest_bit(pending)
                pending &= pending - _ONE_BIT
                new_square = squares[lane] + step[lane] * (_TWO * sign[lane] * raw[lane] + step[lane] * length)
                if new_square <= max_squares[lane]:
                    squares[lane] = new_square
                    a[lane] += step[lane]
                    bias[lane] += use_bias * (step[lane] * sign[lane])
                    step[lane] *= sign[lane] * (steps[row] * inverse[lane])
                    moved[n_moved] = lane
                    n_moved += 1
                else:  # the update would overflow the quantized weights
                    step[lane] = _ZERO
            if n_moved > 0:
                _update_weights(features, numbers, begin, end, lines, step, moved[:n_moved])
                _update_dense_weights(dense[row], pairs, step, moved[:n_moved])
            for at in range(n_moved):
                _record_active(moved[at], first + row, a, rows, variables, count)
            for position in range(pos_indptr[row], pos_indptr[row + 1]):
                sign[pos_lanes[position]] = -_ONE
        for position in range(active_indptr[row], active_indptr[row + 1]):
            _record_active(active_lanes[position], first + row, a, rows, variables, count)


@kernel()
def _record_active(lane, row, a, rows, variables, count):
    """Append a row to the list of a lane if it is active there, and reset its variable to 0."""
    if a[lane] > _ZERO:
        at = count[lane]
        rows[lane, at], variables[lane, at] = row, a[lane]
        count[lane] = at + 1
        a[lane] = _ZERO


@kernel()
def sort_by_row(rows, variables, starts, first, n_rows):
    """Return the active (row, lane) pairs of the rows first:first+n_rows and their variables, in CSR form by row.

    Lane l has the rows and variables starts[l]:starts[l + 1].
    """
    indptr = np.zeros(n_rows + 1, np.int64)
    for at in range(rows.shape[0]):
        position = rows[at] - first
        if 0 <= position < n_rows and variables[at] > _ZERO:
            indptr[position + 1] += 1
    for position in range(n_rows):
        indptr[position + 1] += indptr[position]
    filled = indptr[:-1].copy()
    lanes, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    for lane in range(starts.shape[0] - 1):
        for at in range(starts[lane], starts[lane + 1]):
            position = rows[at] - first
            if 0 <= position < n_rows and variables[at] > _ZERO:
                lanes[filled[position]], values[filled[position]] = lane, variables[at]
                filled[position] += 1
    return indptr, lanes, values


# 15 arguments: rows are four arrays and the dense ones, and the dual variables before and after the sweep are six.
@kernel()
def apply_sweep(
    indptr, entries, values, mask, dense, rows, a, n_positives, first, last, listed, variables, new, change, w
):
    """Apply a sweep over the rows first:last to a label; return its new working set and dual variables.

    The new set has the `n_positives` positives, the old negatives that are active outside the sweep, and those that the
    sweep listed. w is updated by the changes of a z. `new` and `change` (one number per row) are workspace, all zeros
    before and after.
    """
    max_squares = rows.shape[0] + listed.shape[0]
    new_rows, new_a = np.empty(max_squares, np.int32), np.empty(max_squares, np.float32)
    for at in range(listed.shape[0]):
        new[listed[at]] = variables[at]
    n = 0
    for at in range(rows.shape[0]):
        row = rows[at]
        inside = first <= row < last
        if at < n_positives:
            new_rows[n], new_a[n] = row, new[row] if inside else a[at]
            change[row] = new_a[n] - a[at]
            new[row] = _ZERO  # so that it is not listed as a negative
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
    X = indptr, entries, values, mask, dense
    _add_changes(*X, rows, change, w)
    _add_changes(*X, new_rows[:n], change, w)
    return new_rows[:n], new_a[:n]


@kernel()
def _add_changes(indptr, entries, values, mask, dense, rows, change, w):
    """Add the changes of a z times their rows to w, and reset the changes to 0."""
    dense_begins, dense_values, n_dense, dense_steps = dense
    for at in range(rows.shape[0]):
        row = rows[at]
        if at + PREFETCH_DISTANCE < rows.shape[0] and change[rows[at + PREFETCH_DISTANCE]] != _ZERO:
            prefetch_packed_row(indptr, entries, values, mask, rows[at + PREFETCH_DISTANCE])
            if n_dense > 0:
                prefetch_dense_row(dense, rows[at + PREFETCH_DISTANCE])
        if change[row] != _ZERO:
            row_add(entries, values, indptr[row], indptr[row + 1], change[row], w, mask)
            if n_dense > 0:
                dense_add(dense_values, dense_begins[row], change[row] * dense_steps[row], w, 0, n_dense)
            change[row] = _ZERO
