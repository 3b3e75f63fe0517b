"""Which rows come near their margin, found in 16-bit whole numbers with a proven error.

A certificate needs exact scores of few rows only: of those that are violated, or could be. To find them, rows and
weights are rounded to whole numbers times a step, x to s q and w to t r. Sums of their products are exact and the same
in any order; a score is then off by at most |s q|_1 t/2 + |x - s q| |w|. A weight takes two bytes, so that twice as
many stay in cache, and the products of two non-zeros are added in one step.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.exact import row_score, squared_length
from unmissed.kernels.prefetch import prefetch_row
from unmissed.kernels.vectors import LANES, add_whole, whole_place
from unmissed.losses.margin import squared_hinge_value

# Lengths of rounded rows and weights. Their product bounds every sum of products; it is below 2^31 by a quarter, which
# is more than rounding adds to the lengths.
_ROW = 28_000.0
_LABEL = 60_000.0
_MOST = 32_000.0  # of a single weight
_SHORT, _LONG = 1e-12, 1e12  # other lengths are left to exact scores: float32 might not hold what is made of them
_FLOAT = 1e-6  # more than float32 loses in a score, relative to |x| |w| or |b|
_HALF = 0.51  # of a step, and more than float32 adds to it
_loss = kernel()(squared_hinge_value)


@kernel()
def round_rows(indptr, values, numbers, steps, sizes, errors):
    """Round each row to whole numbers times a step s; note s and at least |s q|_1 and |x - s q| (inf: not rounded)."""
    for row in range(indptr.shape[0] - 1):
        square, size, error = 0.0, 0.0, 0.0
        for at in range(indptr[row], indptr[row + 1]):
            square += np.float64(values[at]) * np.float64(values[at])
        length = np.sqrt(square)
        usable = _SHORT < length < _LONG
        step = length / _ROW if usable else 0.0
        factor = _ROW / length if usable else 0.0
        for at in range(indptr[row], indptr[row + 1]):
            number = np.rint(np.float64(values[at]) * factor)
            numbers[at] = np.int16(number)
            size += abs(number)
            rest = np.float64(values[at]) - number * step
            error += rest * rest
        steps[row] = step
        sizes[row] = size * step * 1.001
        errors[row] = np.sqrt(error) * 1.001 + _FLOAT * length if usable or length == 0 else np.inf


@kernel()
def bounds_of(w, bias):
    """Return the step t that weights are rounded to, a bound of their error, their length and the bias, rounded up.

    Weights that are not rounded have the step 0 and the length inf.
    """
    largest = np.int32(0)
    bits = w.view(np.int32)  # without its sign a larger number has larger bits, and those are compared side by side
    for at in range(w.shape[0]):
        largest = max(largest, bits[at] & np.int32(0x7FFFFFFF))
    most = np.full(1, largest, np.int32)
    length = np.sqrt(squared_length(w))
    step = 0.0
    if _SHORT < length < _LONG:
        step = max(length / _LABEL, np.float64(most.view(np.float32)[0]) / _MOST)
    elif length != 0:
        length = np.inf
    return step, _HALF * step, length * 1.001, _FLOAT * (1 + abs(bias))


@kernel()
def round_weights(weights, steps, rounded):
    """Write weights (LANES, n_features) as whole numbers times their label's step, feature by feature."""
    factors = np.zeros(LANES, np.float32)
    for lane in range(LANES):
        if steps[lane] > 0:
            factors[lane] = 1.0 / steps[lane]
    for top in range(0, LANES, 16):
        for feature in range(weights.shape[1]):
            line = rounded[feature, top : top + 16]
            for lane in range(16):
                line[whole_place(lane)] = np.int16(np.rint(weights[top + lane, feature] * factors[top + lane]))


@kernel()
def list_near(indptr, indices, numbers, row_bounds, W, bias, lane_bounds, pos_indptr, pos_lanes, rows, slack, count):
    """List for each lane the negatives whose score may be above -1, and 1 + score as it is in whole numbers.

    Parameters
    ----------
    indptr, indices, numbers : the rows of X in whole numbers
    row_bounds : (steps, sizes, errors) of the rows, as `round_rows` has them
    W, bias : (n_features, LANES) in whole numbers, and (LANES,)
    lane_bounds : (4, LANES), float32, of each lane what `bounds_of` has
    pos_indptr, pos_lanes : for each row, the lanes whose label it has
    rows, slack, count : (LANES, n_samples) twice and (LANES,), the lists and their lengths
    """
    steps, sizes, errors = row_bounds
    lane_steps, halves, lengths, extra = lane_bounds[0], lane_bounds[1], lane_bounds[2], lane_bounds[3]
    flat = W.reshape(-1)
    sums = np.empty(LANES, np.int32)
    score = np.empty(LANES, np.float32)
    most = np.empty(LANES, np.float32)
    for row in range(indptr.shape[0] - 1):
        add_whole(indices, numbers, indptr[row], indptr[row + 1], flat, sums)
        step, size, error = steps[row], sizes[row], errors[row]
        for lane in range(LANES):
            score[lane] = np.float32(sums[lane]) * (step * lane_steps[lane]) + bias[lane]
            most[lane] = score[lane] + (size * halves[lane] + error * lengths[lane] + extra[lane])
        for place in range(pos_indptr[row], pos_indptr[row + 1]):
            most[pos_lanes[place]] = -np.inf
        for lane in range(LANES):
            if not most[lane] <= np.float32(-1):  # what is not a number may be anything
                at = count[lane]
                rows[lane, at] = row
                slack[lane, at] = np.float32(1) + score[lane]
                count[lane] = at + 1


@kernel()
def list_violated(indptr, indices, numbers, steps, w, step, bias, is_positive, rows, slack):
    """List one label's negatives whose score in whole numbers is above -1, as `list_near` does; return how many."""
    rounded = np.zeros(w.shape[0], np.int32)
    if step > 0:
        factor = np.float32(1.0 / step)
        for feature in range(w.shape[0]):
            rounded[feature] = np.int32(np.rint(w[feature] * factor))
    n = 0
    for row in range(indptr.shape[0] - 1):
        total = np.int32(0)
        for at in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            total += np.int32(numbers[at]) * rounded[indices[at]]
        over = np.float32(1) + (np.float32(total) * (steps[row] * np.float32(step)) + bias)
        if over > 0 and not is_positive[row]:
            rows[n] = row
            slack[n] = over
            n += 1
    return n


@kernel()
def exact_slack(indptr, indices, values, w, bias, rows, slack):
    """Keep of a list the rows that are violated, with 1 + score of each; return their loss, in float64, and number."""
    loss, n = 0.0, 0
    for at in range(rows.shape[0]):
        row = rows[at]
        if at + 1 < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + 1])
        begin, end = indptr[row], indptr[row + 1]
        score = row_score(indices[begin:end], values[begin:end], w, bias)
        if score > -1.0:
            loss += _loss(-score)
            over = np.float32(1.0 + score)
            if over > 0:
                rows[n] = row
                slack[n] = over
                n += 1
    return loss, n
