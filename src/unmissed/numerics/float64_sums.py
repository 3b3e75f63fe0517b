"""Scores, norms and weights of float32 data, accumulated in float64: the arithmetic of duality-gap certificates.

A product of two float32 numbers is exact in float64. Sums are added in a fixed order, so the error of a result is at
most its number of terms times 2^-53 times the sum of their absolute values.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.prefetch import LINE, prefetch_row

PREFETCH_DISTANCE = 2  # Prefetch distance, in rows.
_N_SUMS = 16  # Partial sums, so that the compiler can vectorize.


@kernel()
def row_score(indices, values, w, bias):
    """Return x.w + bias in float64, four non-zeros per step and the remainder one by one."""
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
def load_into_cache(w):
    """Read the weights sequentially, so that later gathers hit the cache.

    Returns a sum of some of them; otherwise the compiler would remove the loop.
    """
    total = np.float32(0)
    for at in range(0, w.shape[0], LINE):
        total += w[at]
    return total


@kernel()
def scores_exact(indptr, indices, values, rows, w, bias, scores):
    """Set scores[t] = x.w + bias in float64 for the row rows[t]."""
    for at in range(rows.shape[0]):
        if at + PREFETCH_DISTANCE < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + PREFETCH_DISTANCE])
        begin, end = indptr[rows[at]], indptr[rows[at] + 1]
        scores[at] = row_score(indices[begin:end], values[begin:end], w, bias)


@kernel()
def add_rows(indptr, indices, values, rows, factors, w):
    """Add factors[t] times the row rows[t] to w for every t, in float64."""
    for at in range(rows.shape[0]):
        if at + PREFETCH_DISTANCE < rows.shape[0] and factors[at + PREFETCH_DISTANCE] != 0:
            prefetch_row(indptr, indices, values, rows[at + PREFETCH_DISTANCE])
        factor = np.float64(factors[at])
        if factor != 0:
            for position in range(indptr[rows[at]], indptr[rows[at] + 1]):
                w[indices[position]] += factor * np.float64(values[position])


@kernel()
def total(numbers):
    """Return the sum of the numbers in float64, added in order."""
    result = 0.0
    for at in range(numbers.shape[0]):
        result += np.float64(numbers[at])
    return result


@kernel()
def squared_norm(w):
    """Return |w|^2, summed in float64 in a fixed order."""
    sums = np.zeros(_N_SUMS)
    vector_end = w.shape[0] // _N_SUMS * _N_SUMS
    for begin in range(0, vector_end, _N_SUMS):
        block = w[begin : begin + _N_SUMS]
        for at in range(_N_SUMS):
            sums[at] += np.float64(block[at]) * np.float64(block[at])
    for at in range(vector_end, w.shape[0]):
        sums[0] += np.float64(w[at]) * np.float64(w[at])
    return total(sums)


@kernel()
def dot(u, v):
    """Return u.v, summed in float64 in a fixed order."""
    sums = np.zeros(_N_SUMS)
    vector_end = u.shape[0] // _N_SUMS * _N_SUMS
    for begin in range(0, vector_end, _N_SUMS):
        one, other = u[begin : begin + _N_SUMS], v[begin : begin + _N_SUMS]
        for at in range(_N_SUMS):
            sums[at] += np.float64(one[at]) * np.float64(other[at])
    for at in range(vector_end, u.shape[0]):
        sums[0] += np.float64(u[at]) * np.float64(v[at])
    return total(sums)


@kernel()
def move_to_float32(exact, w):
    """Round float64 weights to the float32 array w and zero them; return |w|^2 before and after rounding."""
    sums, rounded = np.zeros(_N_SUMS), np.zeros(_N_SUMS)
    for begin in range(0, w.shape[0], _N_SUMS):
        block, new = exact[begin : begin + _N_SUMS], w[begin : begin + _N_SUMS]
        for at in range(block.shape[0]):
            sums[at] += block[at] * block[at]
            new[at] = np.float32(block[at])
            rounded[at] += np.float64(new[at]) * np.float64(new[at])
        block[:] = 0.0
    return total(sums), total(rounded)


@kernel()
def dual_sums(rows, a, n_positives, h, norms):
    """Return the sums of a, h a^2, a z and a |x| over dual variables, positives first, in float64.

    `h` has a number per variable, `norms` the float32 |x|^2 of all rows; their rounding error is not accounted for.
    """
    total, curved, signed, spread = 0.0, 0.0, 0.0, 0.0
    for at in range(rows.shape[0]):
        value = np.float64(a[at])
        total += value
        curved += h[at] * value * value
        signed += value if at < n_positives else -value
        spread += value * np.sqrt(np.float64(norms[rows[at]]))
    return total, curved, signed, spread
