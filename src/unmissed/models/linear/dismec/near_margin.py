"""Find the rows that may violate their margin, in int16 arithmetic with a proven error bound.

A certificate needs exact scores only of rows that are violated or may be. To find them, rows and weights are quantized,
x to s q and w to t r. Integer sums are exact in any order; a score then has an error of at most
|s q|_1 t/2 + |x - s q| |w|. An int16 weight takes half the cache of a float32, and one instruction adds two
products.
"""

import math

import numpy as np

from unmissed._jit import kernel
from unmissed.losses.margin import squared_hinge_value
from unmissed.numerics.bitset import lowest_bit, mask_above
from unmissed.numerics.dense_rows import dense_score, prefetch_dense_row
from unmissed.numerics.float64_sums import PREFETCH_DISTANCE, row_score, squared_norm
from unmissed.numerics.prefetch import prefetch_row
from unmissed.numerics.simd import DENSE_LANES, DENSE_ROWS, LANES, add_dense_int16, add_dense_rows_int16, add_int16
from unmissed.numerics.transpose import MAX_QUANTIZED, quantize_weight

# Norms of quantized rows and weights. Their product bounds every sum of products if |w| is known, as in exact passes;
# it is a quarter below 2^31, more than rounding adds. In approximate passes a sum may wrap around and a row be missed.
_ROW_NORM = 50_000.0
_WEIGHT_NORM = float(MAX_QUANTIZED)
_MIN_NORM, _MAX_NORM = 1e-12, 1e12  # Other norms are not quantized, to stay in the range of float32.
_FLOAT32_ERROR = 1e-6  # Bound of the float32 error of a score, relative to |x| |w| or |b|.
_HALF_STEP = 0.51  # Largest rounding error in steps, with a reserve for float32.
_MARGIN = np.float32(-1)  # Scores above it violate the margin of a negative.
_ONE_BIT = np.uint64(1)
_loss = kernel()(squared_hinge_value)


@kernel()
def _quantize_row(values, factor, step, numbers):
    """Quantize a row; return |q|_1 and |x - s q|^2, each in two partial sums."""
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
def _largest(values):
    """Return the largest absolute value, or 0."""
    largest = np.float32(0)
    for at in range(values.shape[0]):
        largest = max(largest, abs(values[at]))
    return largest


@kernel()
def quantize_rows(indptr, values, dense, numbers, dense_numbers, steps, sizes, errors):
    """Quantize each row to s q; set s and upper bounds of |s q|_1 and |x - s q| (inf: not quantized).

    `dense` has the dense features of the rows, see `numerics.dense_rows`. `dense_numbers` (n_samples, number of dense
    features, rounded up to an even one) gets theirs; what is beyond them is set to 0.
    """
    begins, dense_values, n_dense, dense_steps = dense
    for row in range(indptr.shape[0] - 1):
        entries = values[indptr[row] : indptr[row + 1]]
        dense_entries, scale = dense_values[begins[row] : begins[row] + n_dense], np.float64(dense_steps[row])
        norm = np.sqrt(squared_norm(entries) + scale * scale * squared_norm(dense_entries))
        largest = max(np.float64(_largest(entries)), scale * np.float64(_largest(dense_entries)))
        usable = _MIN_NORM < norm < _MAX_NORM
        step = max(norm / _ROW_NORM, largest / MAX_QUANTIZED) if usable else 0.0
        factor = 1.0 / step if usable else 0.0
        size, error = _quantize_row(entries, factor, step, numbers[indptr[row] : indptr[row + 1]])
        dense_numbers[row, n_dense:] = 0
        dense_step = step / scale if scale > 0 else 0.0
        numbers_of_row = dense_numbers[row, :n_dense]
        dense_size, dense_error = _quantize_row(dense_entries, scale * factor, dense_step, numbers_of_row)
        size, error = size + dense_size, error + scale * scale * dense_error
        steps[row] = step
        sizes[row] = size * step * 1.001
        errors[row] = np.sqrt(error) * 1.001 + _FLOAT32_ERROR * norm if usable or norm == 0 else np.inf


@kernel()
def rows_not_in(rows, excluded, is_excluded):
    """Return the rows that are not in `excluded`; `is_excluded` is workspace, all False before and after."""
    found = np.empty(rows.shape[0], np.int32)
    n = 0
    for at in range(excluded.shape[0]):
        is_excluded[excluded[at]] = True
    for at in range(rows.shape[0]):
        if not is_excluded[rows[at]]:
            found[n] = rows[at]
            n += 1
    for at in range(excluded.shape[0]):
        is_excluded[excluded[at]] = False
    return found[:n]


def error_bounds(square: float, bias: float) -> tuple[float, float, float, float]:
    """Return the step t of quantized weights, and upper bounds of their error, their norm and the error of the bias.

    `square` is |w|^2. Weights that cannot be quantized get a step of 0 and a norm of inf.
    """
    norm, step = math.sqrt(square), 0.0
    if _MIN_NORM < norm < _MAX_NORM:
        step = norm / _WEIGHT_NORM
    elif norm != 0:
        norm = math.inf
    return step, _HALF_STEP * step, norm * 1.001, _FLOAT32_ERROR * (1 + abs(bias))


@kernel()
def _add_dense(numbers, row, n_rows, n, pairs, n_lanes, sums):
    """Set sums[row % DENSE_ROWS] to x.W of a dense row; the first of DENSE_ROWS rows sets those of all of them.

    Lanes from `n_lanes` on may be left as they are.
    """
    if row >= n_rows - n_rows % DENSE_ROWS:
        add_dense_int16(numbers, numbers, row * n, (row + 1) * n, pairs, sums[row % DENSE_ROWS * LANES :])
    elif row % DENSE_ROWS == 0:
        for lane in range(0, n_lanes, DENSE_LANES):
            add_dense_rows_int16(numbers, numbers, row * n, (row + 1) * n, pairs[2 * lane :], sums[lane:])


# 14 arguments: a block of rows is four arrays, the weights of all lanes are four, and the output is five.
@kernel()
def list_near(
    first, frequent, rare_scores, row_bounds, W, n_lanes, bias, lane_bounds, positives, rows, slack, count, scores,
    n_scores
):  # fmt: skip
    """List for each lane the negatives whose score may be above -1, with 1 + score, and the scores of all positives.

    All scores are those of quantized arithmetic.

    Parameters
    ----------
    first : index of the first row
    frequent : quantized frequent features of the rows, as from `rare_features.split_rows`, and dense features
    rare_scores : contribution of rare features to the rows, as from `rare_features.score_rare_features`
    row_bounds : (steps, sizes, errors) of the rows, as from `quantize_rows`
    W, n_lanes, bias : (lines of frequent features, int16 (n_frequent, LANES), and pairs of dense ones, int16
        (n_dense / 2, 2 LANES), see `simd.add_dense_int16`), the number of lanes with a label, and (LANES,)
    lane_bounds : float32 (4, LANES), `error_bounds` of each lane
    positives : CSR (indptr, lanes, not used), the lanes whose label each row has
    rows, slack, count : (LANES, n_samples) twice and (LANES,), the lists and their lengths
    scores, n_scores : the scores of positives; (LANES,), the index at which the next one of each lane is stored
    """
    steps, sizes, errors = row_bounds
    lane_steps, lane_errors, lane_norms, extra = lane_bounds[0], lane_bounds[1], lane_bounds[2], lane_bounds[3]
    pos_indptr, pos_lanes, _ = positives
    starts, features, numbers, dense = frequent
    rare_indptr, rare_lanes, rare_numbers = rare_scores
    flat, flat_pairs, flat_dense, n_dense = W[0].reshape(-1), W[1].reshape(-1), dense.reshape(-1), dense.shape[1]
    sums, dense_sums = np.empty(LANES, np.int32), np.zeros(DENSE_ROWS * LANES, np.int32)
    score = np.empty(LANES, np.float32)
    upper_scores = np.empty(LANES, np.float32)
    for row in range(starts.shape[0] - 1):
        add_int16(features, numbers, starts[row], starts[row + 1], flat, sums)
        if n_dense > 0:
            _add_dense(flat_dense, row, starts.shape[0] - 1, n_dense, flat_pairs, n_lanes, dense_sums)
            sums += dense_sums[row % DENSE_ROWS * LANES :][:LANES]
        for position in range(rare_indptr[row], rare_indptr[row + 1]):
            sums[rare_lanes[position]] += rare_numbers[position]
        step, size, error = steps[row], sizes[row], errors[row]
        for lane in range(LANES):
            score[lane] = np.float32(sums[lane]) * (step * lane_steps[lane]) + bias[lane]
            upper_scores[lane] = score[lane] + (size * lane_errors[lane] + error * lane_norms[lane] + extra[lane])
        for position in range(pos_indptr[row], pos_indptr[row + 1]):
            lane = pos_lanes[position]
            upper_scores[lane] = -np.inf
            scores[n_scores[lane]] = score[lane]
            n_scores[lane] += 1
        near = mask_above(upper_scores, _MARGIN)  # NaN counts as near
        while near:
            lane = lowest_bit(near)
            near &= near - _ONE_BIT
            at = count[lane]
            rows[lane, at] = first + row
            slack[lane, at] = np.float32(1) + score[lane]
            count[lane] = at + 1


# 11 arguments: a block of rows is four arrays, the weights of a label are two, and the output is three.
@kernel()
def list_near_one(first, frequent, rare_scores, row_bounds, w, bias, bounds, is_positive, rows, slack, scores):
    """List one label's rows as `list_near` does; return the number of negatives listed and that of positives.

    `w` has the weights of dense and of frequent features, not yet quantized; `bounds` are `error_bounds` of the label.
    """
    starts, features, numbers, dense = frequent
    rare_indptr, _, rare_numbers = rare_scores
    steps, sizes, errors = row_bounds
    label_step, label_error, label_norm, extra = bounds
    quantized = np.zeros(w.shape[0], np.int32)
    if label_step > 0:
        factor = np.float32(1.0 / np.float64(label_step))
        for feature in range(w.shape[0]):
            quantized[feature] = quantize_weight(w[feature], factor)
    n, n_positives = 0, 0
    for row in range(starts.shape[0] - 1):
        total = np.int32(0)
        for at in range(rare_indptr[row], rare_indptr[row + 1]):
            total += rare_numbers[at]
        for at in range(np.uint64(starts[row]), np.uint64(starts[row + 1])):
            total += np.int32(numbers[at]) * quantized[features[at]]
        dense_total = np.int32(0)
        for feature in range(min(dense.shape[1], quantized.shape[0])):
            dense_total = np.int32(dense_total + np.int32(dense[row, feature]) * quantized[feature])
        total += dense_total
        score = np.float32(np.int32(total)) * (steps[row] * label_step) + bias
        upper_score = score + (sizes[row] * label_error + errors[row] * label_norm + extra)
        if is_positive[first + row]:
            scores[n_positives] = score
            n_positives += 1
        elif not upper_score <= _MARGIN:
            rows[n] = first + row
            slack[n] = np.float32(1) + score
            n += 1
    return n, n_positives


@kernel()
def exact_slack(indptr, indices, values, dense, weights, w, bias, rows, slack):
    """Keep the violated rows of a list, with 1 + score of each; return their loss in float64 and their number.

    `weights` are those of all rows of X, or nothing if all are 1; the loss is weighted.
    """
    begins, dense_values, n_dense, steps = dense
    loss, n = 0.0, 0
    for at in range(rows.shape[0]):
        row = rows[at]
        if at + PREFETCH_DISTANCE < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + PREFETCH_DISTANCE])
            if n_dense > 0:
                prefetch_dense_row(dense, rows[at + PREFETCH_DISTANCE])
        begin, end = indptr[row], indptr[row + 1]
        score = row_score(indices[begin:end], values[begin:end], w, bias)
        if n_dense > 0:
            score += np.float64(steps[row]) * dense_score(dense_values, begins[row], w, 0, n_dense)
        if score > -1.0:
            loss += _loss(-score) * weights[row] if weights.shape[0] > 0 else _loss(-score)
            excess = np.float32(1.0 + score)
            if excess > 0:
                rows[n] = row
                slack[n] = excess
                n += 1
    return loss, n
