"""Kernels of the truncated Newton method: conjugate gradients and exact line search, in float64.

The primal objective is 1/2 |w|^2 + ridge/2 b^2 + sum_i c_i max(0, 1 - m_i)^2 with margins m_i = z_i (w.x_i + b). Its
Hessian is the identity (ridge for b) plus the sum of 2 c_i x_i x_i' over the violated rows.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.dense_rows import dense_add, dense_score
from unmissed.numerics.float64_sums import row_score


@kernel()
def dot(u, v):
    """Return u.v, added in a fixed order."""
    total = 0.0
    for at in range(u.shape[0]):
        total += u[at] * v[at]
    return total


@kernel()
def _hessian_product(indptr, indices, values, dense, rows, factors, v, out):
    """Set out to the loss part of H v; the last element is the bias, which must be 0 in v if there is none."""
    begins, dense_values, n_dense, steps = dense
    last = v.shape[0] - 1
    for at in range(last + 1):
        out[at] = 0.0
    total = 0.0
    for at in range(rows.shape[0]):
        begin, end = indptr[rows[at]], indptr[rows[at] + 1]
        score = row_score(indices[begin:end], values[begin:end], v, v[last])
        if n_dense > 0:
            score += np.float64(steps[rows[at]]) * dense_score(dense_values, begins[rows[at]], v, 0, n_dense)
        change = factors[at] * score
        total += change
        if n_dense > 0:
            dense_add(dense_values, begins[rows[at]], np.float64(steps[rows[at]]) * change, out, 0, n_dense)
        for position in range(begin, end):
            out[indices[position]] += change * np.float64(values[position])
    out[last] += total


@kernel()
def _diagonal(indptr, indices, values, dense, rows, factors, ridge, diagonal):
    """Set `diagonal` to the diagonal of H; a bias without curvature gets 1."""
    begins, dense_values, n_dense, steps = dense
    last = diagonal.shape[0] - 1
    for at in range(last):
        diagonal[at] = 1.0
    diagonal[last] = ridge
    for at in range(rows.shape[0]):
        diagonal[last] += factors[at]
        for position in range(indptr[rows[at]], indptr[rows[at] + 1]):
            diagonal[indices[position]] += factors[at] * np.float64(values[position]) * np.float64(values[position])
        begin, scale = begins[rows[at]], np.float64(steps[rows[at]])
        for feature in range(n_dense):
            diagonal[feature] += factors[at] * (scale * np.float64(dense_values[begin + feature])) ** 2
    if not diagonal[last] > 0:
        diagonal[last] = 1.0


# 12 arguments: the rows are three arrays and the dense ones, and conjugate gradients need tolerance and step limit.
@kernel()
def direction(indptr, indices, values, dense, rows, factors, ridge, use_bias, gradient, tolerance, max_steps, d):
    """Solve H d = -gradient by Jacobi-preconditioned conjugate gradients to a relative residual of `tolerance`.

    Parameters
    ----------
    indptr, indices, values, dense : the rows of X, dense features apart (see `numerics.dense_rows`)
    rows, factors : the violated rows and 2 c of each
    ridge, use_bias : penalty of the bias, and whether there is one; it is the last element of gradient and d
    tolerance, max_steps : stopping criteria: residual in the preconditioner's norm, number of iterations
    d : the direction (output)
    """
    size = gradient.shape[0]
    last = size - 1
    diagonal, product = np.empty(size), np.empty(size)
    _diagonal(indptr, indices, values, dense, rows, factors, ridge, diagonal)
    residual, preconditioned = -gradient, -gradient / diagonal
    conjugate = preconditioned.copy()
    d[:] = 0.0
    residual_norm = dot(residual, preconditioned)
    target_norm = tolerance * tolerance * residual_norm
    for _ in range(max_steps):
        if not residual_norm > target_norm:
            break
        _hessian_product(indptr, indices, values, dense, rows, factors, conjugate, product)
        for at in range(last):
            product[at] += conjugate[at]
        product[last] = product[last] + ridge * conjugate[last] if use_bias else 0.0
        curvature = dot(conjugate, product)
        if not curvature > 0:
            break
        step = residual_norm / curvature
        for at in range(size):
            d[at] += step * conjugate[at]
            residual[at] -= step * product[at]
            preconditioned[at] = residual[at] / diagonal[at]
        previous_norm, residual_norm = residual_norm, dot(residual, preconditioned)
        for at in range(size):
            conjugate[at] = preconditioned[at] + residual_norm / previous_norm * conjugate[at]


@kernel()
def best_step(margins, changes, costs, derivative, curvature):
    """Return the t >= 0 that minimizes derivative t + curvature t^2 / 2 + sum_i c_i max(0, 1 - m_i - t q_i)^2.

    The derivative is increasing and piecewise linear: one-dimensional Newton's method with a bracket.
    """
    low, high = 0.0, np.inf
    step = 1.0
    for _ in range(60):
        first, second = derivative + curvature * step, curvature
        for at in range(margins.shape[0]):
            slack = 1.0 - margins[at] - step * changes[at]
            if slack > 0:
                first -= 2 * costs[at] * changes[at] * slack
                second += 2 * costs[at] * changes[at] * changes[at]
        if first > 0:
            high = step
        else:
            low = step
        if first == 0 or not second > 0:
            break
        wanted = step - first / second
        if not low < wanted < high:
            wanted = 0.5 * (low + high) if high < np.inf else 2 * step
        if abs(wanted - step) <= 1e-12 * step:
            break
        step = wanted
    return step
