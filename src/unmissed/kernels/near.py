"""Which rows come near their margin, found in 16-bit whole numbers with a proven error.

A certificate needs exact scores of few rows only: of those that are violated, or could be. To find them, rows and
weights are rounded to whole numbers times a step, x to s q and w to t r. Sums of their products are exact and the same
in any order; a score is then off by at most |s q|_1 t/2 + |x - s q| |w|. A weight takes two bytes, so that twice as
many stay in cache, and the products of two non-zeros are added in one step.
"""

import math

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.bits import above, lowest
from unmissed.kernels.exact import AHEAD, row_score, squared_length
from unmissed.kernels.prefetch import prefetch_row
from unmissed.kernels.transpose import LARGEST, round_weight
from unmissed.kernels.vectors import LANES, add_whole
from unmissed.losses.margin import squared_hinge_value

# Lengths of rounded rows and weights. Their product bounds every sum of products where the length of the weights is
# known, as it is in passes that certify; it is below 2^31 by a quarter, which is more than rounding adds to lengths.
# Elsewhere a sum may wrap around: then rows are missed for a while.
_ROW = 50_000.0
_LABEL = float(LARGEST)
_SHORT, _LONG = 1e-12, 1e12  # other lengths are left to exact scores: float32 might not hold what is made of them
_FLOAT = 1e-6  # more than float32 loses in a score, relative to |x| |w| or |b|
_HALF = 0.51  # of a step, and more than float32 adds to it
_MARGIN = np.float32(-1)  # of a negative
_ONE = np.uint64(1)
_loss = kernel()(squared_hinge_value)


@kernel()
def _round_row(values, factor, step, numbers):
    """Round a row; return its |q|_1 and |x - s q|^2, each of two partial sums."""
    size, error, size1, error1 = 0.0, 0.0, 0.0, 0.0
    for pair in range(values.shape[0] // 2):
        at = np.uint64(2 * pair)
        at1 = at + np.uint64(1)
        value, value1 = np.float64(values[at]), np.float64(values[at1])
        number, number1 = np.rint(value * factor), np.rint(value1 * factor)
        numbers[at], numbers[at1] = np.int16(number), np.int16(number1)
        size += abs(number)
        size1 += abs(number1)
        rest, rest1 = value - number * step, value1 - number1 * step
        error += rest * rest
        error1 += rest1 * rest1
    if values.shape[0] % 2:
        value = np.float64(values[-1])
        number = np.rint(value * factor)
        numbers[-1] = np.int16(number)
        size += abs(number)
        error += (value - number * step) * (value - number * step)
    return size + size1, error + error1


@kernel()
def round_rows(indptr, values, numbers, steps, sizes, errors):
    """Round each row to whole numbers times a step s; note s and at least |s q|_1 and |x - s q| (inf: not rounded)."""
    for row in range(indptr.shape[0] - 1):
        entries = values[indptr[row] : indptr[row + 1]]
        length, largest = np.sqrt(squared_length(entries)), np.float32(0)
        for at in range(entries.shape[0]):
            largest = max(largest, abs(entries[at]))
        usable = _SHORT < length < _LONG
        step = max(length / _ROW, largest / LARGEST) if usable else 0.0
        factor = 1.0 / step if usable else 0.0
        size, error = _round_row(entries, factor, step, numbers[indptr[row] : indptr[row + 1]])
        steps[row] = step
        sizes[row] = size * step * 1.001
        errors[row] = np.sqrt(error) * 1.001 + _FLOAT * length if usable or length == 0 else np.inf


@kernel()
def missing(rows, known, mark):
    """Return the rows of a list that are not known; `mark` is scratch, all False, and left so."""
    found = np.empty(rows.shape[0], np.int32)
    n = 0
    for at in range(known.shape[0]):
        mark[known[at]] = True
    for at in range(rows.shape[0]):
        if not mark[rows[at]]:
            found[n] = rows[at]
            n += 1
    for at in range(known.shape[0]):
        mark[known[at]] = False
    return found[:n]


def bounds_of(square: float, bias: float) -> tuple[float, float, float, float]:
    """Return the step t that weights are rounded to, a bound of their error, their length and the bias, rounded up.

    `square` is |w|^2. Weights that are not rounded have the step 0 and the length inf.
    """
    length, step = math.sqrt(square), 0.0
    if _SHORT < length < _LONG:
        step = length / _LABEL
    elif length != 0:
        length = math.inf
    return step, _HALF * step, length * 1.001, _FLOAT * (1 + abs(bias))


@kernel()
def list_near(first, frequent, given, row_bounds, W, bias, lane_bounds, positives, rows, slack, count):
    """List for each lane the negatives whose score may be above -1, and 1 + score as it is in whole numbers.

    Parameters
    ----------
    first : the number of the first row
    frequent : the rows of X in whole numbers, as far as features are frequent, as `rare.split_rows` has them
    given : what weights of rare features add to the rows, as `rare.give` has it
    row_bounds : (steps, sizes, errors) of the rows, as `round_rows` has them
    W, bias : (n_frequent, LANES) in whole numbers, and (LANES,)
    lane_bounds : (4, LANES), float32, of each lane what `bounds_of` has
    positives : two arrays, for each row the lanes whose label it has
    rows, slack, count : (LANES, n_samples) twice and (LANES,), the lists and their lengths
    """
    steps, sizes, errors = row_bounds
    lane_steps, halves, lengths, extra = lane_bounds[0], lane_bounds[1], lane_bounds[2], lane_bounds[3]
    pos_indptr, pos_lanes = positives
    starts, features, numbers = frequent
    given_indptr, given_lanes, given_numbers = given
    flat = W.reshape(-1)
    sums = np.empty(LANES, np.int32)
    score = np.empty(LANES, np.float32)
    most = np.empty(LANES, np.float32)
    for row in range(starts.shape[0] - 1):
        add_whole(features, numbers, starts[row], starts[row + 1], flat, sums)
        for place in range(given_indptr[row], given_indptr[row + 1]):
            sums[given_lanes[place]] += given_numbers[place]
        step, size, error = steps[row], sizes[row], errors[row]
        for lane in range(LANES):
            score[lane] = np.float32(sums[lane]) * (step * lane_steps[lane]) + bias[lane]
            most[lane] = score[lane] + (size * halves[lane] + error * lengths[lane] + extra[lane])
        for place in range(pos_indptr[row], pos_indptr[row + 1]):
            most[pos_lanes[place]] = -np.inf
        near = above(most, _MARGIN)  # what is not a number may be anything
        while near:
            lane = lowest(near)
            near &= near - _ONE
            at = count[lane]
            rows[lane, at] = first + row
            slack[lane, at] = np.float32(1) + score[lane]
            count[lane] = at + 1


@kernel()
def list_near_one(first, frequent, given, steps, w, step, bias, extra, is_positive, rows, slack):
    """List one label's negatives as `list_near` does where all bounds but `extra` are 0; return how many there are.

    `w` has the weights of frequent features.
    """
    starts, features, numbers = frequent
    given_indptr, _, given_numbers = given
    rounded = np.zeros(w.shape[0], np.int32)
    if step > 0:
        factor = np.float32(1.0 / step)
        for feature in range(w.shape[0]):
            rounded[feature] = round_weight(w[feature], factor)
    n = 0
    for row in range(starts.shape[0] - 1):
        total = np.int32(0)
        for at in range(given_indptr[row], given_indptr[row + 1]):
            total += given_numbers[at]
        for at in range(np.uint64(starts[row]), np.uint64(starts[row + 1])):
            total += np.int32(numbers[at]) * rounded[features[at]]
        score = np.float32(np.int32(total)) * (steps[row] * np.float32(step)) + bias
        if not score + extra <= _MARGIN and not is_positive[first + row]:
            rows[n] = first + row
            slack[n] = np.float32(1) + score
            n += 1
    return n


@kernel()
def exact_slack(indptr, indices, values, w, bias, rows, slack):
    """Keep of a list the rows that are violated, with 1 + score of each; return their loss, in float64, and number."""
    loss, n = 0.0, 0
    for at in range(rows.shape[0]):
        row = rows[at]
        if at + AHEAD < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + AHEAD])
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
