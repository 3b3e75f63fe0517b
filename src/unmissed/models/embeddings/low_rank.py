"""Kernels for low-rank factors: sparse times factor, factor times factor in tiles, selected entries of a product.

Each sum has a fixed order and no fused multiply-add. So the result of a row does not depend on other rows, on other
columns, or on the tiling.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.simd import LANES

_ZERO = np.float32(0)


@kernel()
def sparse_times_factor(indptr, indices, data, factor, out):
    """Set out = A factor for a CSR matrix A; the loop over entries is unrolled by 4."""
    rank = factor.shape[1]
    for row in range(indptr.shape[0] - 1):
        out_row = out[row]
        for j in range(rank):
            out_row[j] = _ZERO
        at, end = indptr[row], indptr[row + 1]
        while at + 3 < end:
            f0, f1 = factor[indices[at]], factor[indices[at + 1]]
            f2, f3 = factor[indices[at + 2]], factor[indices[at + 3]]
            v0, v1, v2, v3 = data[at], data[at + 1], data[at + 2], data[at + 3]
            for j in range(rank):
                out_row[j] = (((out_row[j] + v0 * f0[j]) + v1 * f1[j]) + v2 * f2[j]) + v3 * f3[j]
            at += 4
        while at < end:
            f0, v0 = factor[indices[at]], data[at]
            for j in range(rank):
                out_row[j] += v0 * f0[j]
            at += 1


@kernel()
def pack_tile(factor, first, tile):
    """Copy rows first, first + 1, ... of a factor to the columns of a (rank, LANES) tile, padded with zeros."""
    for lane in range(LANES):
        if first + lane < factor.shape[0]:
            for j in range(factor.shape[1]):
                tile[j, lane] = factor[first + lane, j]
        else:
            for j in range(factor.shape[1]):
                tile[j, lane] = _ZERO


@kernel()
def score_factors(queries, tile, scores):
    """Set scores = queries tile for a (rank, LANES) tile."""
    out_row = np.empty(LANES, np.float32)
    rank = tile.shape[0]
    for row in range(queries.shape[0]):
        query = queries[row]
        for lane in range(LANES):
            out_row[lane] = _ZERO
        j = 0
        while j + 3 < rank:
            t0, t1, t2, t3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
            q0, q1, q2, q3 = query[j], query[j + 1], query[j + 2], query[j + 3]
            for lane in range(LANES):
                out_row[lane] = (((out_row[lane] + q0 * t0[lane]) + q1 * t1[lane]) + q2 * t2[lane]) + q3 * t3[lane]
            j += 4
        while j < rank:
            t0, q0 = tile[j], query[j]
            for lane in range(LANES):
                out_row[lane] += q0 * t0[lane]
            j += 1
        for lane in range(LANES):
            scores[row, lane] = out_row[lane]


@kernel()
def dot(a, b):
    """Return the dot product a . b from eight partial sums, added in a fixed order."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = _ZERO
    j = 0
    while j + 7 < a.shape[0]:
        s0 += a[j] * b[j]
        s1 += a[j + 1] * b[j + 1]
        s2 += a[j + 2] * b[j + 2]
        s3 += a[j + 3] * b[j + 3]
        s4 += a[j + 4] * b[j + 4]
        s5 += a[j + 5] * b[j + 5]
        s6 += a[j + 6] * b[j + 6]
        s7 += a[j + 7] * b[j + 7]
        j += 8
    total = ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
    while j < a.shape[0]:
        total += a[j] * b[j]
        j += 1
    return total


@kernel()
def sampled_products(indptr, indices, left, right, out):
    """Set out[e] = left[i] . right[j] for each stored entry e = (i, j) of a sparsity pattern."""
    for row in range(indptr.shape[0] - 1):
        query = left[row]
        for at in range(indptr[row], indptr[row + 1]):
            out[at - indptr[0]] = dot(query, right[indices[at]])


@kernel()
def column_dots(a, b, out):
    """Set out[j] = dot product of column j of a and of b, in float64."""
    for j in range(out.shape[0]):
        out[j] = 0.0
    for row in range(a.shape[0]):
        for j in range(out.shape[0]):
            out[j] += np.float64(a[row, j]) * np.float64(b[row, j])


@kernel()
def step_columns(step, direction, image, weights, residual):
    """Conjugate gradient update per column: weights += step direction, residual -= step image."""
    for row in range(weights.shape[0]):
        for j in range(step.shape[0]):
            weights[row, j] += step[j] * direction[row, j]
            residual[row, j] -= step[j] * image[row, j]


@kernel()
def update_directions(beta, preconditioned, direction):
    """Set the next conjugate directions: direction = preconditioned + beta direction, per column."""
    for row in range(direction.shape[0]):
        for j in range(beta.shape[0]):
            direction[row, j] = preconditioned[row, j] + beta[j] * direction[row, j]
