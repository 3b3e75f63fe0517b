"""One label of PPD-Sparse: hinge loss, plain or squared, and two penalties, solved in the dual over a set of rows.

min over (w, b) of 1/2 |w|^2 + lambda |w|_1 + 1/2 b^2 + sum_i loss_i, where loss_i is c_i r_i or c_i r_i^2 with r_i =
max(0, 1 - z_i (w.x_i + b)). With dual variables 0 <= a_i <= cap_i and v = sum_i a_i z_i x_i, the weights are w = S(v)
(every entry moved towards 0 by lambda) and b = sum_i a_i z_i; the dual objective is sum_i a_i - h_i a_i^2 / 2, less
1/2 |S(v)|^2 + 1/2 b^2. The hinge has cap = c and h = 0, its square no cap and h = 1 / (2 c). Where w = S(v), the gap
between the two is a sum over rows, so that every visit of a row measures its share.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.ascent import _shuffle, row_add
from unmissed.kernels.prefetch import prefetch_row

_ZERO = np.float32(0)
_ONE = np.float32(1)
_LEAST = np.float32(1e-12)


@kernel()
def shrink(value, threshold):
    """Return the value moved towards 0 by the threshold."""
    return value - min(max(value, -threshold), threshold)


@kernel()
def _shrunk_dot(indices, values, v, threshold):
    """Return x.S(v) of one sparse row: four partial sums in a fixed order."""
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
def _curvature(indices, values, v, threshold, reach):
    """Return the sum of squares of the entries x_j for which |v_j| or |v_j + reach x_j| exceeds the threshold."""
    h0, h1 = _ZERO, _ZERO
    pairs = indices.shape[0] // 2
    for pair in range(pairs):
        at = np.uint64(2 * pair)
        at1 = at + np.uint64(1)
        x0, x1 = values[at], values[at1]
        v0, v1 = v[indices[at]], v[indices[at1]]
        h0 += x0 * x0 if max(abs(v0), abs(v0 + reach * x0)) > threshold else _ZERO
        h1 += x1 * x1 if max(abs(v1), abs(v1 + reach * x1)) > threshold else _ZERO
    for at in range(2 * pairs, indices.shape[0]):
        x0, v0 = values[at], v[indices[at]]
        h0 += x0 * x0 if max(abs(v0), abs(v0 + reach * x0)) > threshold else _ZERO
    return h0 + h1


@kernel()
def _share(g, a, cap, h):
    """Return what a row with z (w.x + b) - 1 = g adds to the gap."""
    if g > _ZERO:
        return np.float64(a * g) + 0.5 * h * a * a
    if h > _ZERO:
        return 0.5 * np.float64(h) * np.float64(a + g / h) ** 2
    return np.float64((a - cap) * g)


@kernel()
def hinge_epoch(indptr, indices, values, use_bias, threshold, signs, caps, hs, a, v, bias, order, n):
    """Visit the first n places of `order` once; return the new bias and the gap that the visits measured."""
    gap = 0.0
    for place in range(n):
        at = order[place]
        if place + 1 < n:
            prefetch_row(indptr, indices, values, order[place + 1])
        sign, old, cap, h = signs[at], a[at], caps[at], hs[at]
        begin, end = indptr[at], indptr[at + 1]
        slope = sign * (_shrunk_dot(indices[begin:end], values[begin:end], v, threshold) + bias) - _ONE
        gap += _share(slope, old, cap, h)
        slope += h * old
        if (old == _ZERO and slope >= _ZERO) or (old == cap and slope <= _ZERO):
            continue
        # a step moves v along x: only entries above the threshold at either end of it can bend the objective
        reach = min(max(-slope / max(use_bias + h, _LEAST), -old), cap - old)
        bend = _curvature(indices[begin:end], values[begin:end], v, threshold, reach * sign) + use_bias + h
        new = min(max(old - slope / bend, _ZERO), cap) if bend > _ZERO else old + reach
        if new != old:
            a[at] = new
            row_add(indices, values, begin, end, (new - old) * sign, v)
            bias += use_bias * ((new - old) * sign)
    return bias, gap


@kernel()
def hinge_ascend(indptr, indices, values, use_bias, threshold, signs, caps, hs, a, v, bias, goal, max_epochs, seed):
    """Raise the dual objective over a working set until an epoch measures a gap of at most `goal`.

    Between two epochs over the whole set come up to ten over the rows strictly between their bounds. Returns how
    many epochs over the whole set were done.
    """
    n = a.shape[0]
    order = np.arange(n)
    state = np.uint64(seed) ^ np.uint64(88172645463325252)
    for epoch in range(max_epochs):
        state = _shuffle(order, n, state)
        bias, gap = hinge_epoch(indptr, indices, values, use_bias, threshold, signs, caps, hs, a, v, bias, order, n)
        if gap <= goal:
            return epoch + 1
        inside = 0
        for place in range(n):
            at = order[place]
            if _ZERO < a[at] < caps[at]:
                order[place] = order[inside]
                order[inside] = at
                inside += 1
        for _ in range(10):
            state = _shuffle(order, inside, state)
            bias, part = hinge_epoch(
                indptr, indices, values, use_bias, threshold, signs, caps, hs, a, v, bias, order, inside
            )
            if part <= max(0.1 * goal, 0.1 * gap):
                break
    return max_epochs
