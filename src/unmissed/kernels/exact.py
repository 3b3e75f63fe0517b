"""Scores, losses and weights in float64, of float32 numbers: what certificates are made of.

A product of two float32 numbers is exact in float64, and sums are added in a fixed order, so the error of a result is
bounded by the number of its terms times 2^-53 times the sum of their sizes.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.prefetch import LINE, prefetch_row
from unmissed.losses.margin import squared_hinge_value

AHEAD = 2  # rows are asked for so many before they are needed
_SIDE_BY_SIDE = 16  # partial sums
_loss = kernel()(squared_hinge_value)


@kernel()
def row_score(indices, values, w, bias):
    """Return x.w + bias in float64: four non-zeros at a time, two and two; what is left one by one."""
    score = np.float64(bias)
    quads = indices.shape[0] // 4
    for quad in range(quads):
        at = np.uint64(4 * quad)
        at1, at2, at3 = at + np.uint64(1), at + np.uint64(2), at + np.uint64(3)
        score += (
            np.float64(values[at]) * np.float64(w[indices[at]]) + np.float64(values[at1]) * np.float64(w[indices[at1]])
        ) + (
            np.float64(values[at2]) * np.float64(w[indices[at2]])
            + np.float64(values[at3]) * np.float64(w[indices[at3]])
        )
    for at in range(4 * quads, indices.shape[0]):
        score += np.float64(values[at]) * np.float64(w[indices[at]])
    return score


@kernel()
def touch(w):
    """Read weights in order, which is quick, so that rows find them near when they read them out of order.

    Returns the sum of some of them, only so that something depends on it.
    """
    total = np.float32(0)
    for at in range(0, w.shape[0], LINE):
        total += w[at]
    return total


@kernel()
def label_slack_exact(indptr, indices, values, w, bias, is_positive, slack):
    """Write max(0, 1 + score) of each row (0 for positives) for one label; return the loss of its negatives."""
    loss = 0.0
    for row in range(indptr.shape[0] - 1):
        slack[row] = 0
        if is_positive[row]:
            continue
        begin, end = indptr[row], indptr[row + 1]
        score = row_score(indices[begin:end], values[begin:end], w, bias)
        slack[row] = max(1.0 + score, 0.0)
        if score > -1.0:
            loss += _loss(-score)
    return loss


@kernel()
def scores_exact(indptr, indices, values, rows, w, bias, scores):
    """Set scores[t] = x.w + bias for the rows t of a list, in float64."""
    for at in range(rows.shape[0]):
        if at + AHEAD < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + AHEAD])
        begin, end = indptr[rows[at]], indptr[rows[at] + 1]
        scores[at] = row_score(indices[begin:end], values[begin:end], w, bias)


@kernel()
def add_rows(indptr, indices, values, rows, factors, w):
    """Add factors[t] times row rows[t] to w, all in float64."""
    for at in range(rows.shape[0]):
        if at + AHEAD < rows.shape[0] and factors[at + AHEAD] != 0:
            prefetch_row(indptr, indices, values, rows[at + AHEAD])
        factor = np.float64(factors[at])
        if factor != 0:
            for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
                w[indices[place]] += factor * np.float64(values[place])


@kernel()
def total(numbers):
    """Return the sum of a few numbers in float64, one after the other."""
    found = 0.0
    for at in range(numbers.shape[0]):
        found += np.float64(numbers[at])
    return found


@kernel()
def squared_length(w):
    """Return |w|^2, summed in float64 in a fixed order."""
    sums = np.zeros(_SIDE_BY_SIDE)
    whole = w.shape[0] // _SIDE_BY_SIDE * _SIDE_BY_SIDE
    for begin in range(0, whole, _SIDE_BY_SIDE):
        some = w[begin : begin + _SIDE_BY_SIDE]
        for at in range(_SIDE_BY_SIDE):
            sums[at] += np.float64(some[at]) * np.float64(some[at])
    for at in range(whole, w.shape[0]):
        sums[0] += np.float64(w[at]) * np.float64(w[at])
    return total(sums)


@kernel()
def take_weights(exact, w):
    """Round weights of float64 to w, set them to 0 where they were; return |w|^2 before and after rounding."""
    sums, rounded = np.zeros(_SIDE_BY_SIDE), np.zeros(_SIDE_BY_SIDE)
    for begin in range(0, w.shape[0], _SIDE_BY_SIDE):
        some, new = exact[begin : begin + _SIDE_BY_SIDE], w[begin : begin + _SIDE_BY_SIDE]
        for at in range(some.shape[0]):
            sums[at] += some[at] * some[at]
            new[at] = np.float32(some[at])
            rounded[at] += np.float64(new[at]) * np.float64(new[at])
        some[:] = 0.0
    return total(sums), total(rounded)


@kernel()
def dual_sums(rows, a, n_positives, h_positive, h_negative, norms):
    """Return the sums over dual variables, positives first, of a, h a^2, a z and a |x|, in float64.

    `norms` are the float32 |x|^2 of all rows; what their rounding can have taken from |x| is not counted.
    """
    total, curved, signed, spread = 0.0, 0.0, 0.0, 0.0
    for at in range(rows.shape[0]):
        value = np.float64(a[at])
        total += value
        if at < n_positives:
            curved += h_positive * value * value
            signed += value
        else:
            curved += h_negative * value * value
            signed -= value
        spread += value * np.sqrt(np.float64(norms[rows[at]]))
    return total, curved, signed, spread
