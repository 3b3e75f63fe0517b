"""Dual coordinate ascent for one label of PPD-Sparse over a working set of rows.

The primal is min over (w, b) of 1/2 |w|^2 + lambda |w|_1 + 1/2 b^2 + sum_i loss_i, where loss_i is c_i r_i (hinge) or
c_i r_i^2 (squared hinge) with r_i = max(0, 1 - z_i (w.x_i + b)).

The dual variables are 0 <= a_i <= cap_i. With v = sum_i a_i z_i x_i, the weights are w = S(v), soft-thresholding by
lambda, and b = sum_i a_i z_i. The dual objective is sum_i (a_i - h_i a_i^2 / 2) - 1/2 |S(v)|^2 - 1/2 b^2. The hinge has
cap = c and h = 0, the squared hinge no cap and h = 1 / (2 c). The duality gap is a sum over rows, so that a visit of a
row yields its term.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.packed_rows import row_add, shuffle
from unmissed.numerics.prefetch import prefetch_row
from unmissed.numerics.shrinkage import shrink

_ZERO = np.float32(0)
_ONE = np.float32(1)
_MIN_CURVATURE = np.float32(1e-12)


@kernel()
def _shrunk_dot(indices, values, v, threshold):
    """Return x.S(v) of one sparse row, as four partial sums in a fixed order."""
    s0, s1, s2, s3 = _ZERO, _ZERO, _ZERO, _ZERO
    quads = indices.shape[0] // 4
    for quad in range(quads):
        at = np.uint64(4 * quad)
        at1, at2, at3 = at + np.uint64(1), at + np.uint64(2), at + np.uint64(3)
        s0 += values[at] * shrink(v[indices[at]], threshold)
        s1 += values[at1] * shrink(v[indices[at1]], threshold)
        s2 += values[at2] * shrink(v[indices[at2]], threshold)
        s3 += values[at3] * shrink(v[indices[at3]], threshold)
    for at in range(4 * quads, indices.shape[0]):
        s0 += values[at] * shrink(v[indices[at]], threshold)
    return (s0 + s1) + (s2 + s3)


@kernel()
def _curvature(indices, values, v, threshold, max_step):
    """Return the sum of x_j^2 over the j for which |v_j| or |v_j + max_step x_j| exceeds the threshold."""
    h0, h1 = _ZERO, _ZERO
    pairs = indices.shape[0] // 2
    for pair in range(pairs):
        at = np.uint64(2 * pair)
        at1 = at + np.uint64(1)
        x0, x1 = values[at], values[at1]
        v0, v1 = v[indices[at]], v[indices[at1]]
        h0 += x0 * x0 if max(abs(v0), abs(v0 + max_step * x0)) > threshold else _ZERO
        h1 += x1 * x1 if max(abs(v1), abs(v1 + max_step * x1)) > threshold else _ZERO
    for at in range(2 * pairs, indices.shape[0]):
        x0, v0 = values[at], v[indices[at]]
        h0 += x0 * x0 if max(abs(v0), abs(v0 + max_step * x0)) > threshold else _ZERO
    return h0 + h1


@kernel()
def _gap_term(g, a, cap, h):
    """Return the term of the duality gap of a row with z (w.x + b) - 1 = g."""
    if g > _ZERO:
        return np.float64(a * g) + 0.5 * h * a * a
    if h > _ZERO:
        return 0.5 * np.float64(h) * np.float64(a + g / h) ** 2
    return np.float64((a - cap) * g)


# 13 arguments: the rows are three arrays, and each row has a sign, a bound, a diagonal term and a variable.
@kernel()
def hinge_epoch(indptr, indices, values, use_bias, threshold, signs, caps, hs, a, v, bias, order, n):
    """Update the dual variables order[:n] once each; return the bias and the sum of their gap terms before updates."""
    gap = 0.0
    for position in range(n):
        at = order[position]
        if position + 1 < n:
            prefetch_row(indptr, indices, values, order[position + 1])
        sign, old, cap, h = signs[at], a[at], caps[at], hs[at]
        begin, end = indptr[at], indptr[at + 1]
        derivative = sign * (_shrunk_dot(indices[begin:end], values[begin:end], v, threshold) + bias) - _ONE
        gap += _gap_term(derivative, old, cap, h)
        derivative += h * old
        if (old == _ZERO and derivative >= _ZERO) or (old == cap and derivative <= _ZERO):
            continue
        # a step moves v along x: only entries above the threshold at either end of it have curvature
        max_step = min(max(-derivative / max(use_bias + h, _MIN_CURVATURE), -old), cap - old)
        curvature = _curvature(indices[begin:end], values[begin:end], v, threshold, max_step * sign) + use_bias + h
        new = min(max(old - derivative / curvature, _ZERO), cap) if curvature > _ZERO else old + max_step
        if new != old:
            a[at] = new
            row_add(indices, values, begin, end, (new - old) * sign, v)
            bias += use_bias * ((new - old) * sign)
    return bias, gap


# 14 arguments: the rows are three arrays, and each row has a sign, a bound, a diagonal term and a variable.
@kernel()
def hinge_ascend(indptr, indices, values, use_bias, threshold, signs, caps, hs, a, v, bias, goal, max_epochs, seed):
    """Maximize the dual objective over a working set until the gap measured in an epoch is at most `goal`.

    Each epoch over the working set is followed by up to ten epochs over its free variables, those strictly between
    their bounds. Returns the number of epochs over the working set.
    """
    n = a.shape[0]
    order = np.arange(n)
    state = np.uint64(seed) ^ np.uint64(88172645463325252)
    for epoch in range(max_epochs):
        state = shuffle(order, n, state)
        bias, gap = hinge_epoch(indptr, indices, values, use_bias, threshold, signs, caps, hs, a, v, bias, order, n)
        if gap <= goal:
            return epoch + 1
        n_free = 0
        for position in range(n):
            at = order[position]
            if _ZERO < a[at] < caps[at]:
                order[position] = order[n_free]
                order[n_free] = at
                n_free += 1
        for _ in range(10):
            state = shuffle(order, n_free, state)
            bias, free_gap = hinge_epoch(
                indptr, indices, values, use_bias, threshold, signs, caps, hs, a, v, bias, order, n_free
            )
            if free_gap <= max(0.1 * goal, 0.1 * gap):
                break
    return max_epochs
