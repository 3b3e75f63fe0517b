"""Newton's method for one label in the primal, in float64: a direction by conjugate gradients, and the best step.

The objective is 1/2 |w|^2 + ridge/2 b^2 + sum_i c_i max(0, 1 - m_i)^2 over margins m_i = z_i (w.x_i + b); its second
derivative is 1 (ridge for b) plus the sum of 2 c_i x_i x_i' over the violated rows.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.exact import row_score


@kernel()
def dot(u, v):
    """Return u.v, added in a fixed order."""
    total = 0.0
    for at in range(u.shape[0]):
        total += u[at] * v[at]
    return total


@kernel()
def _curvature(indptr, indices, values, rows, factors, v, out):
    """Set out = H v; the last place of v and out is the bias, whose share of v must be 0 where there is none."""
    last = v.shape[0] - 1
    for at in range(last + 1):
        out[at] = 0.0
    total = 0.0
    for at in range(rows.shape[0]):
        begin, end = indptr[rows[at]], indptr[rows[at] + 1]
        change = factors[at] * row_score(indices[begin:end], values[begin:end], v, v[last])
        total += change
        for place in range(begin, end):
            out[indices[place]] += change * np.float64(values[place])
    out[last] += total


@kernel()
def _diagonal(indptr, indices, values, rows, factors, ridge, diagonal):
    """Set `diagonal` to that of H; a bias without any curvature gets 1."""
    last = diagonal.shape[0] - 1
    for at in range(last):
        diagonal[at] = 1.0
    diagonal[last] = ridge
    for at in range(rows.shape[0]):
        diagonal[last] += factors[at]
        for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
            diagonal[indices[place]] += factors[at] * np.float64(values[place]) * np.float64(values[place])
    if not diagonal[last] > 0:
        diagonal[last] = 1.0


@kernel()
def direction(indptr, indices, values, rows, factors, ridge, use_bias, gradient, share, most, d):
    """Solve H d = -gradient by preconditioned conjugate gradients until the residual is `share` of the gradient.

    Parameters
    ----------
    indptr, indices, values : the rows of X
    rows, factors : the violated rows and 2 c of each
    ridge, use_bias : the penalty of the bias, and whether there is one; it is the last place of gradient and d
    share, most : when to stop, by size of the residual in the preconditioner's norm and by number of steps
    d : the direction, written
    """
    size = gradient.shape[0]
    last = size - 1
    diagonal, product = np.empty(size), np.empty(size)
    _diagonal(indptr, indices, values, rows, factors, ridge, diagonal)
    residual, conditioned = -gradient, -gradient / diagonal
    towards = conditioned.copy()
    d[:] = 0.0
    size_now = dot(residual, conditioned)
    enough = share * share * size_now
    for _ in range(most):
        if not size_now > enough:
            break
        _curvature(indptr, indices, values, rows, factors, towards, product)
        for at in range(last):
            product[at] += towards[at]
        product[last] = product[last] + ridge * towards[last] if use_bias else 0.0
        bend = dot(towards, product)
        if not bend > 0:
            break
        step = size_now / bend
        for at in range(size):
            d[at] += step * towards[at]
            residual[at] -= step * product[at]
            conditioned[at] = residual[at] / diagonal[at]
        size_before, size_now = size_now, dot(residual, conditioned)
        for at in range(size):
            towards[at] = conditioned[at] + size_now / size_before * towards[at]


@kernel()
def best_step(margins, changes, costs, slope, bend):
    """Return the t >= 0 that minimises slope t + bend t^2 / 2 + sum_i c_i max(0, 1 - m_i - t q_i)^2.

    The derivative rises and is linear between kinks: Newton's method in one dimension, kept within a bracket.
    """
    low, high = 0.0, np.inf
    step = 1.0
    for _ in range(60):
        first, second = slope + bend * step, bend
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
