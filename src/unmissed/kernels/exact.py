"""Scores, losses and weights in float64, of float32 numbers: what certificates are made of.

A product of two float32 numbers is exact in float64, and sums are added in a fixed order, so the error of a result is
bounded by the number of its terms times 2^-53 times the sum of their sizes.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.prefetch import prefetch_row
from unmissed.losses.margin import squared_hinge_value

_AHEAD = 2  # rows are asked for so many before they are needed
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
        if at + _AHEAD < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + _AHEAD])
        begin, end = indptr[rows[at]], indptr[rows[at] + 1]
        scores[at] = row_score(indices[begin:end], values[begin:end], w, bias)


@kernel()
def add_rows(indptr, indices, values, rows, factors, w):
    """Add factors[t] times row rows[t] to w, all in float64."""
    for at in range(rows.shape[0]):
        if at + _AHEAD < rows.shape[0] and factors[at + _AHEAD] != 0:
            prefetch_row(indptr, indices, values, rows[at + _AHEAD])
        factor = np.float64(factors[at])
        if factor != 0:
            for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
                w[indices[place]] += factor * np.float64(values[place])


@kernel()
def squared_length(w):
    """Return |w|^2, summed in float64 in a fixed order."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    quads = w.shape[0] // 4
    for quad in range(quads):
        at = 4 * quad
        s0 += np.float64(w[at]) * np.float64(w[at])
        s1 += np.float64(w[at + 1]) * np.float64(w[at + 1])
        s2 += np.float64(w[at + 2]) * np.float64(w[at + 2])
        s3 += np.float64(w[at + 3]) * np.float64(w[at + 3])
    for at in range(4 * quads, w.shape[0]):
        s0 += np.float64(w[at]) * np.float64(w[at])
    return (s0 + s1) + (s2 + s3)


@kernel()
def take_weights(exact, w):
    """Round weights of float64 to w, set them to 0 where they were, and return |w|^2 before rounding."""
    square = squared_length(exact)
    for at in range(exact.shape[0]):
        w[at] = exact[at]
        exact[at] = 0.0
    return square
