"""Products with a factor, a dense matrix of few columns: sparse times factor, and factor times factor in tiles.

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
