"""Labels in SIMD lanes: one pass over the rows of X serves LANES labels at once.

Weights are kept as (n_features, LANES), so a non-zero of X costs one contiguous multiply-add of LANES numbers instead
of LANES gathers. Lanes never mix and no flag lets the compiler reorder their sums: what a label gets does not depend on
the labels beside it.

Notation of the dual: a row x with sign z and cost c has a variable a >= 0 and h = 1/(2c); w = sum a z x; the gradient
is z (w.x + b) - 1 + a h; the step a <- max(0, a - gradient / (|x|^2 + 1 + h)) solves the one-variable problem exactly.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.vectors import LANES, add_in_pairs, move_weights

_SCATTER = 4  # up to this many lanes a row are updated one by one, more of them all at once

_ONE = np.float32(1)
_ZERO = np.float32(0)


@kernel()
def lane_sweep(indptr, indices, values, norms, use_bias, W, bias, pos_indptr, pos_lanes, h_positive, h_negative, alpha):
    """Do one epoch of dual coordinate ascent over all rows for all lanes.

    Parameters
    ----------
    indptr, indices, values, norms : the rows of X, float32, and |x|^2 of each with the constant feature counted in
    use_bias : float32, the value of the constant feature, 1 or 0
    W, bias : (n_features, LANES) and (LANES,), changed in place
    pos_indptr, pos_lanes : for each row, the lanes whose label it has
    h_positive, h_negative : (LANES,), 1/(2c) of positives and negatives
    alpha : (n_samples, LANES), the dual variables, changed in place
    """
    flat = W.reshape(-1)
    score = np.empty(LANES, np.float32)
    step = np.empty(LANES, np.float32)
    moved = np.empty(LANES, np.int64)
    for row in range(indptr.shape[0] - 1):
        begin, end = indptr[row], indptr[row + 1]
        score[:] = bias
        add_in_pairs(indices, values, begin, end, flat, score)
        a = alpha[row]
        norm = norms[row]
        for lane in range(LANES):
            gradient = a[lane] * h_negative[lane] - score[lane] - _ONE
            step[lane] = max(-gradient / (norm + h_negative[lane]), -a[lane])
        # `step` is the change of a; positives take their own
        for place in range(pos_indptr[row], pos_indptr[row + 1]):
            lane = pos_lanes[place]
            gradient = a[lane] * h_positive[lane] + score[lane] - _ONE
            step[lane] = max(-gradient / (norm + h_positive[lane]), -a[lane])
        n_moved = 0
        for lane in range(LANES):
            if step[lane] != _ZERO:
                moved[n_moved] = lane
                n_moved += 1
        if n_moved == 0:
            continue
        for lane in range(LANES):
            a[lane] += step[lane]
            step[lane] = -step[lane]
        for place in range(pos_indptr[row], pos_indptr[row + 1]):
            lane = pos_lanes[place]
            step[lane] = -step[lane]
        # `step` is now the change of a z
        for lane in range(LANES):
            bias[lane] += use_bias * step[lane]
        if n_moved <= _SCATTER:
            for place in range(n_moved):
                lane = moved[place]
                for at in range(begin, end):
                    W[indices[at], lane] += step[lane] * values[at]
        else:
            move_weights(indices, values, begin, end, flat, step)


@kernel()
def count_awake(table, count):
    """Count the positive entries of each lane of a (n_samples, LANES) table."""
    for row in range(table.shape[0]):
        line = table[row]
        for lane in range(LANES):
            if line[lane] > _ZERO:
                count[lane] += 1


@kernel()
def list_awake(table, starts, rows, entries):
    """List the rows and values of the positive entries, lane after lane; lane b's list begins at starts[b]."""
    filled = starts.copy()
    for row in range(table.shape[0]):
        line = table[row]
        total = _ZERO
        for lane in range(LANES):
            total += line[lane]
        if total == _ZERO:
            continue
        for lane in range(LANES):
            if line[lane] > _ZERO:
                at = filled[lane]
                rows[at] = row
                entries[at] = line[lane]
                filled[lane] = at + 1


@kernel()
def turn(source, target):
    """Transpose a matrix, sixteen rows at a time, so that each write fills a cache line."""
    n_rows, n_columns = source.shape
    tiled = n_rows - n_rows % 16
    for top in range(0, tiled, 16):
        for column in range(n_columns):
            line = target[column, top : top + 16]
            for row in range(16):
                line[row] = source[top + row, column]
    for row in range(tiled, n_rows):
        for column in range(n_columns):
            target[column, row] = source[row, column]
