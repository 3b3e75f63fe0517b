"""Kernels for low-rank factors: inner products, selected entries of a product, conjugate gradient updates.

Each sum has a fixed order and no fused multiply-add. So the result of a row does not depend on other rows, on other
columns, or on the tiling.
"""

import numpy as np

from unmissed._jit import kernel

_ZERO = np.float32(0)


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
