"""Dual coordinate ascent for one label over a small working set of rows, and the choice of that set.

Only rows with a > 0 ("awake") shape the solution, often less than one in a hundred. After sweeps in lanes have found
most of them, each label goes on alone: its working set is visited many times at the price of one pass over X.
Notation as in `lanes`.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.prefetch import prefetch_row

_ONE = np.float32(1)
_ZERO = np.float32(0)
_AHEAD = 3  # rows are asked for so many visits before they are needed


@kernel()
def _full_dot(values, w):
    """Return x.w of a row that has every feature, in order: eight partial sums, which vector units take as they are."""
    s0, s1, s2, s3, s4, s5, s6, s7 = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
    eights = values.shape[0] // 8
    for eight in range(eights):
        v, u = values[8 * eight : 8 * eight + 8], w[8 * eight : 8 * eight + 8]
        s0 += v[0] * u[0]
        s1 += v[1] * u[1]
        s2 += v[2] * u[2]
        s3 += v[3] * u[3]
        s4 += v[4] * u[4]
        s5 += v[5] * u[5]
        s6 += v[6] * u[6]
        s7 += v[7] * u[7]
    for at in range(8 * eights, values.shape[0]):
        s0 += values[at] * w[at]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@kernel()
def row_dot(indices, values, w):
    """Return x.w of one row: four partial sums in a fixed order, unsigned indices to skip wrap-around checks.

    A row as long as w has every feature, in order (`arrange.reorder` sees to it), and needs no indices.
    """
    if indices.shape[0] == w.shape[0]:
        return _full_dot(values, w)
    s0, s1, s2, s3 = _ZERO, _ZERO, _ZERO, _ZERO
    quads = indices.shape[0] // 4
    for quad in range(quads):
        at = np.uint64(4 * quad)
        at1, at2, at3 = at + np.uint64(1), at + np.uint64(2), at + np.uint64(3)
        s0 += values[at] * w[indices[at]]
        s1 += values[at1] * w[indices[at1]]
        s2 += values[at2] * w[indices[at2]]
        s3 += values[at3] * w[indices[at3]]
    for at in range(4 * quads, indices.shape[0]):
        s0 += values[at] * w[indices[at]]
    return (s0 + s1) + (s2 + s3)


@kernel()
def row_add(indices, values, factor, w):
    """Add factor * x to w; the indices of a row differ from one another, so four can be in flight at once."""
    if indices.shape[0] == w.shape[0]:
        for at in range(w.shape[0]):
            w[at] += factor * values[at]
        return
    quads = indices.shape[0] // 4
    for quad in range(quads):
        at = np.uint64(4 * quad)
        at1, at2, at3 = at + np.uint64(1), at + np.uint64(2), at + np.uint64(3)
        i0, i1, i2, i3 = indices[at], indices[at1], indices[at2], indices[at3]
        n0 = w[i0] + factor * values[at]
        n1 = w[i1] + factor * values[at1]
        n2 = w[i2] + factor * values[at2]
        n3 = w[i3] + factor * values[at3]
        w[i0], w[i1], w[i2], w[i3] = n0, n1, n2, n3
    for at in range(4 * quads, indices.shape[0]):
        w[indices[at]] += factor * values[at]


@kernel()
def _visit(indptr, indices, values, norms, use_bias, row, sign, h, a, at, w, bias):
    """Solve for one dual variable; return the new bias and by how much the dual objective rose."""
    begin, end = indptr[row], indptr[row + 1]
    old = a[at]
    gradient = sign * (row_dot(indices[begin:end], values[begin:end], w) + bias) - _ONE + old * h
    if old == _ZERO and gradient >= _ZERO:
        return bias, 0.0
    curvature = norms[row] + h
    step = max(-gradient / curvature, -old)
    if step == _ZERO:
        return bias, 0.0
    a[at] = old + step
    row_add(indices[begin:end], values[begin:end], step * sign, w)
    return bias + use_bias * (step * sign), -np.float64(step) * (gradient + np.float32(0.5) * curvature * step)


@kernel()
def _shuffle(order, n, state):
    """Shuffle the first n places of `order` (Fisher and Yates, xorshift); return the generator's next state."""
    for place in range(n - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        other = np.int64(((state >> np.uint64(33)) * np.uint64(place + 1)) >> np.uint64(31))
        order[place], order[other] = order[other], order[place]
    return state


@kernel()
def _epoch(indptr, indices, values, norms, use_bias, rows, signs, hs, a, w, bias, order, n):
    """Visit the first n places of `order` once; return the new bias and by how much the dual objective rose."""
    gain = 0.0
    for place in range(n):
        at = order[place]
        if place + _AHEAD < n:
            prefetch_row(indptr, indices, values, rows[order[place + _AHEAD]])
        bias, more = _visit(indptr, indices, values, norms, use_bias, rows[at], signs[at], hs[at], a, at, w, bias)
        gain += more
    return bias, gain


@kernel()
def ascend(indptr, indices, values, norms, use_bias, rows, signs, hs, a, w, bias, tolerance, max_epochs, seed):
    """Raise the dual objective over a working set until an epoch gains at most `tolerance`; return bias and epochs.

    Between two epochs over the whole set come up to five over its awake rows alone.
    """
    n = rows.shape[0]
    order = np.arange(n)
    state = np.uint64(seed) ^ np.uint64(88172645463325252)
    for epoch in range(max_epochs):
        state = _shuffle(order, n, state)
        bias, gain = _epoch(indptr, indices, values, norms, use_bias, rows, signs, hs, a, w, bias, order, n)
        if gain <= tolerance:
            return bias, epoch + 1
        awake = 0
        for place in range(n):
            at = order[place]
            if a[at] > _ZERO:
                order[place] = order[awake]
                order[awake] = at
                awake += 1
        for _ in range(5):
            state = _shuffle(order, awake, state)
            bias, more = _epoch(indptr, indices, values, norms, use_bias, rows, signs, hs, a, w, bias, order, awake)
            if more <= max(tolerance, 0.1 * gain):
                break
    return bias, max_epochs


@kernel()
def best_shift(slack, positive_scores, cost_positive, cost_negative, offset):
    """Return the shift d <= 0 of the bias that minimises the primal objective when nothing else moves.

    After a working set was solved alone, the bias is too high and crowds of rows are slightly violated; nearly all of
    them come to rest when the bias falls. Those that stay violated after this shift are worth taking in.
    `offset` is the bias less its centre, which is what the objective penalises.
    """
    shift = 0.0
    for _ in range(30):
        slope, curvature = np.float64(offset) + shift, 1.0
        for at in range(slack.shape[0]):
            over = np.float64(slack[at]) + shift
            if over > 0:
                slope += 2 * cost_negative * over
                curvature += 2 * cost_negative
        for at in range(positive_scores.shape[0]):
            under = 1.0 - np.float64(positive_scores[at]) - shift
            if under > 0:
                slope -= 2 * cost_positive * under
                curvature += 2 * cost_positive
        move = slope / curvature
        shift = min(shift - move, 0.0)
        if abs(move) < 1e-4:
            break
    return shift
