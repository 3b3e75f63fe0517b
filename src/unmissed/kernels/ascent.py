"""Dual coordinate ascent for one label over a small working set of rows, and the choice of that set.

Only rows with a > 0 ("awake") shape the solution, often less than one in a hundred. After sweeps in lanes have found
most of them, each label goes on alone: its working set is visited many times at the price of one pass over X.
Notation as in `lanes`.

What a visit costs is loading the row, so a non-zero can be packed into one word of 32 bits: the lowest bits are the
feature, and the word read as a float32 is the value, nearly. Rows that are not packed have words for features and
others for values, and a mask of ones.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.prefetch import LINE, prefetch

_ONE = np.float32(1)
_ZERO = np.float32(0)
_NOT_PACKED = np.uint32(2**32 - 1)
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
def _feature(word, mask):
    """Return the feature of a non-zero: the word itself, or what the mask leaves of it where words are packed."""
    if mask is None:
        return word
    return word & mask


@kernel()
def row_dot(words, values, w, mask=None):
    """Return x.w of one row: four partial sums in a fixed order, unsigned indices to skip wrap-around checks.

    A row as long as w has every feature, in order (`arrange.reorder` sees to it), and needs no indices.
    """
    if words.shape[0] == w.shape[0]:
        return _full_dot(values, w)
    s0, s1, s2, s3 = _ZERO, _ZERO, _ZERO, _ZERO
    quads = words.shape[0] // 4
    for quad in range(quads):
        at = np.uint64(4 * quad)
        at1, at2, at3 = at + np.uint64(1), at + np.uint64(2), at + np.uint64(3)
        s0 += values[at] * w[_feature(words[at], mask)]
        s1 += values[at1] * w[_feature(words[at1], mask)]
        s2 += values[at2] * w[_feature(words[at2], mask)]
        s3 += values[at3] * w[_feature(words[at3], mask)]
    for at in range(4 * quads, words.shape[0]):
        s0 += values[at] * w[_feature(words[at], mask)]
    return (s0 + s1) + (s2 + s3)


@kernel()
def row_add(words, values, factor, w, mask=None):
    """Add factor * x to w; the features of a row differ from one another, so four can be in flight at once."""
    if words.shape[0] == w.shape[0]:
        for at in range(w.shape[0]):
            w[at] += factor * values[at]
        return
    quads = words.shape[0] // 4
    for quad in range(quads):
        at = np.uint64(4 * quad)
        at1, at2, at3 = at + np.uint64(1), at + np.uint64(2), at + np.uint64(3)
        i0, i1 = _feature(words[at], mask), _feature(words[at1], mask)
        i2, i3 = _feature(words[at2], mask), _feature(words[at3], mask)
        n0 = w[i0] + factor * values[at]
        n1 = w[i1] + factor * values[at1]
        n2 = w[i2] + factor * values[at2]
        n3 = w[i3] + factor * values[at3]
        w[i0], w[i1], w[i2], w[i3] = n0, n1, n2, n3
    for at in range(4 * quads, words.shape[0]):
        w[_feature(words[at], mask)] += factor * values[at]


@kernel()
def pack(features, values, n_bits, words):
    """Set words[t], read as float32, to the number nearest to values[t] whose last n_bits are features[t].

    Values are given as their 32 bits.
    """
    for at in range(features.shape[0]):
        feature, size = np.int64(features[at]), np.int64(values[at]) & 0x7FFFFFFF
        first = max((size - feature + (1 << (n_bits - 1))) >> n_bits, 0)
        words[at] = (np.int64(values[at]) & 0x80000000) | (first << n_bits) | feature


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
def _ask(indptr, words, values, mask, row):
    """Ask for all of a row."""
    for at in range(indptr[row], indptr[row + 1], LINE):
        prefetch(words, at)
        if mask == _NOT_PACKED:
            prefetch(values, at)


@kernel()
def _epoch(indptr, words, values, mask, norms, use_bias, rows, signs, hs, a, w, bias, order, n, least):
    """Solve for the variables of the first n places of `order` one by one, unless that gains no more than `least`.

    Returns the new bias and by how much the dual objective rose.
    """
    gain = 0.0
    for place in range(n):
        at = order[place]
        if place + _AHEAD < n:
            _ask(indptr, words, values, mask, rows[order[place + _AHEAD]])
        begin, end = indptr[rows[at]], indptr[rows[at] + 1]
        old, sign = a[at], signs[at]
        gradient = sign * (row_dot(words[begin:end], values[begin:end], w, mask) + bias) - _ONE + old * hs[at]
        if old == _ZERO and gradient >= _ZERO:
            continue
        curvature = norms[rows[at]] + hs[at]
        step = max(-gradient / curvature, -old)
        more = -np.float64(step) * (gradient + np.float32(0.5) * curvature * step)
        if more > least:
            a[at] = old + step
            row_add(words[begin:end], values[begin:end], step * sign, w, mask)
            bias += use_bias * (step * sign)
            gain += more
    return bias, gain


@kernel()
def ascend(indptr, words, values, mask, norms, use_bias, rows, signs, hs, a, w, bias, tolerance, max_epochs, seed):
    """Raise the dual objective over a working set until an epoch gains at most `tolerance`; return bias and epochs.

    Between two epochs over the whole set come up to five over its awake rows alone. Steps that would gain less than
    their share of the tolerance are not made: to move costs as much as to look.
    """
    n = rows.shape[0]
    order = np.arange(n)
    least = tolerance / max(n, 1)
    state = np.uint64(seed) ^ np.uint64(88172645463325252)
    X = indptr, words, values, mask
    for epoch in range(max_epochs):
        state = _shuffle(order, n, state)
        bias, gain = _epoch(*X, norms, use_bias, rows, signs, hs, a, w, bias, order, n, least)
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
            bias, more = _epoch(*X, norms, use_bias, rows, signs, hs, a, w, bias, order, awake, least)
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
