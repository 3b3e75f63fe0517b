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
from unmissed.kernels.pairs import join_weights, pair_add, pair_dot, pair_move, part_weights
from unmissed.kernels.prefetch import LINE, prefetch

_ZERO = np.float32(0)
_1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(number) for number in range(1, 9))
_NOT_PACKED = np.uint32(2**32 - 1)
_FAR = 0.05  # a sleeping row whose margin is met by more than this will hardly wake soon
_CLOSER = 0.3  # awake rows are solved to this share of the tolerance
_WIDE = 4  # features per non-zero of a working set from which on its weights are not taken apart
_TOGETHER = 0.3  # without that each epoch leaves more to do, and the tolerance is this share of what it was
_MOST_GROWTH = 0.5  # all negatives grow or shrink by no more than this at once
_LEAST_SCALE, _MOST_SCALE = 1e-3, 1e3  # and by no more than this in all
AHEAD = 3  # rows are asked for so many visits before they are needed


@kernel()
def _full_dot(values, begin, w):
    """Return x.w of a row that has every feature, in order: eight partial sums."""
    s0, s1, s2, s3, s4, s5, s6, s7 = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
    to, last, at = np.uint64(0), np.uint64(w.shape[0]), np.uint64(begin)
    while to + _8 <= last:
        s0 += values[at] * w[to]
        s1 += values[at + _1] * w[to + _1]
        s2 += values[at + _2] * w[to + _2]
        s3 += values[at + _3] * w[to + _3]
        s4 += values[at + _4] * w[to + _4]
        s5 += values[at + _5] * w[to + _5]
        s6 += values[at + _6] * w[to + _6]
        s7 += values[at + _7] * w[to + _7]
        to, at = to + _8, at + _8
    while to < last:
        s0 += values[at] * w[to]
        to, at = to + _1, at + _1
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@kernel()
def _feature(word, mask):
    """Return the feature of a non-zero: the word itself, or what the mask leaves of it where words are packed."""
    if mask is None:
        return word
    return word & mask


@kernel()
def row_dot(words, values, begin, end, w, mask=None):
    """Return x.w of the row from `begin` to `end`: four partial sums in a fixed order.

    Unsigned indices skip wrap-around checks. A row as long as w has every feature, in order (`arrange.reorder` sees to
    it), and needs no indices.
    """
    if end - begin == w.shape[0]:
        return _full_dot(values, begin, w)
    s0, s1, s2, s3 = _ZERO, _ZERO, _ZERO, _ZERO
    at, last = np.uint64(begin), np.uint64(end)
    while at + _4 <= last:
        s0 += values[at] * w[_feature(words[at], mask)]
        s1 += values[at + _1] * w[_feature(words[at + _1], mask)]
        s2 += values[at + _2] * w[_feature(words[at + _2], mask)]
        s3 += values[at + _3] * w[_feature(words[at + _3], mask)]
        at += _4
    while at < last:
        s0 += values[at] * w[_feature(words[at], mask)]
        at += _1
    return (s0 + s1) + (s2 + s3)


@kernel()
def row_add(words, values, begin, end, factor, w, mask=None):
    """Add factor * x to w; the features of a row differ from one another, so four can be in flight at once."""
    if end - begin == w.shape[0]:
        for at in range(w.shape[0]):
            w[at] += factor * values[begin + at]
        return
    at, last = np.uint64(begin), np.uint64(end)
    while at + _4 <= last:
        i0, i1 = _feature(words[at], mask), _feature(words[at + _1], mask)
        i2, i3 = _feature(words[at + _2], mask), _feature(words[at + _3], mask)
        n0 = w[i0] + factor * values[at]
        n1 = w[i1] + factor * values[at + _1]
        n2 = w[i2] + factor * values[at + _2]
        n3 = w[i3] + factor * values[at + _3]
        w[i0], w[i1], w[i2], w[i3] = n0, n1, n2, n3
        at += _4
    while at < last:
        w[_feature(words[at], mask)] += factor * values[at]
        at += _1


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
def ask(indptr, words, values, mask, row):
    """Ask for all of a row."""
    for at in range(indptr[row], indptr[row + 1], LINE):
        prefetch(words, at)
        if mask == _NOT_PACKED:
            prefetch(values, at)


@kernel()
def _step(gradient, curvature, old, share, along, bend, scale):
    """Return the step of one variable, by what share all negatives grow with it, and the curvature of both together.

    `along` is how fast the gradient rises as all negatives grow, `bend` the curvature of that growth, `share` what the
    variable itself has of it, `scale` by how much negatives have grown. Where the two hardly differ, or growth would go
    too far, the variable moves alone.
    """
    if bend > 0:
        both = curvature - along * along / bend
        rest = 1 - along * share / bend
        if both > 0.1 * curvature and rest > 0.5:
            step = max(-gradient / both, -old / rest)
            growth = -along * step / bend
            if abs(growth) < _MOST_GROWTH and _LEAST_SCALE < scale * (1 + growth) < _MOST_SCALE:
                return step, growth, both
    return max(-gradient / curvature, -old), 0.0, curvature


@kernel()
def _epoch(indptr, words, values, mask, norms, use_bias, rows, sides, a, w, pairs, part, order, n, least, far):
    """Solve for the variables of the first n places of `order` one by one, unless that gains no more than `least`.

    Returns `part` as it is now and by how much the dual objective rose, and notes which rows are `far` from awake. For
    `part` see `_take_apart`.
    """
    apart, scale, bias, bias_positives, bend, square = part
    gain = 0.0
    for place in range(n):
        at = order[place]
        if place + AHEAD < n:
            ask(indptr, words, values, mask, rows[order[place + AHEAD]])
        begin, end = indptr[rows[at]], indptr[rows[at] + 1]
        sign, h = (1.0, np.float64(sides[1])) if at < sides[0] else (-1.0, np.float64(sides[2]))
        if apart:
            score, score_positives = pair_dot(words, values, begin, end, mask, pairs)
        else:
            score, score_positives = row_dot(words, values, begin, end, w, mask), _ZERO
        scaled = apart and sign < 0
        old = a[at] * scale if scaled else np.float64(a[at])
        along = sign * scale * (score + bias)
        gradient = along + sign * (score_positives + bias_positives) - 1 + h * old
        far[at] = gradient > _FAR
        if old == 0 and gradient >= 0:
            continue
        share = old if scaled else 0.0
        along += h * share
        curvature = norms[rows[at]] + h
        step, growth, both = _step(gradient, curvature, old, share, along, bend, scale)
        more = -step * (gradient + 0.5 * both * step)
        if more <= least:
            continue
        gain += more
        if not apart:
            a[at] = old + step
            row_add(words, values, begin, end, np.float32(step * sign), w, mask)
            square += step * (2 * sign * score + step * (norms[rows[at]] - use_bias))
            bias += use_bias * step * sign
            continue
        slope = (1 + growth) * (along * step + bend * growth)  # 0 where both were solved for
        bend *= (1 + growth) * (1 + growth)
        scale *= 1 + growth
        if scaled:
            new = old * (1 + growth) + step
            a[at] = new / scale if new > 1e-9 * old else 0.0
            slope += step * (gradient + curvature * step + along * growth)
            bend += 2 * (1 + growth) * along * step + curvature * step * step
            pair_add(words, values, begin, end, mask, np.float32(step * sign / scale), pairs, 0)
            bias += use_bias * step * sign / scale
        else:
            a[at] = old + step
            pair_add(words, values, begin, end, mask, np.float32(step * sign), pairs, 1)
            bias_positives += use_bias * step * sign
        if bend > 0:  # what a step that ended at 0 has left
            growth = min(max(-slope / bend, -_MOST_GROWTH), _MOST_GROWTH)
            if _LEAST_SCALE < scale * (1 + growth) < _MOST_SCALE:
                bend *= (1 + growth) * (1 + growth)
                scale *= 1 + growth
    return (apart, scale, bias, bias_positives, bend, square), gain


@kernel()
def _take_apart(indptr, words, values, mask, use_bias, rows, sides, a, w, pairs, bias, square):
    """Put what negatives and what positives gave to w side by side, negatives to be scaled.

    Returns whether that was done, the scale, both parts of the bias, the curvature of the dual objective along all
    negatives, and |w|^2, which is given. Where none of these is awake, w may hold more than the working set gave it,
    and stays as it is; so it does where its length would cost more than the visits that are saved.
    """
    grown, squares, size = 0.0, 0.0, 0
    for at in range(rows.shape[0]):
        size += indptr[rows[at] + 1] - indptr[rows[at]]
        if at >= sides[0]:
            grown += np.float64(a[at])
            squares += np.float64(sides[2]) * np.float64(a[at]) * np.float64(a[at])
    if not grown > 0 or w.shape[0] > _WIDE * size:
        return False, 1.0, np.float64(bias), 0.0, 0.0, square
    of_negatives, product = part_weights(w, pairs), 0.0  # |first|^2 and first.second, of the two parts
    for at in range(sides[0]):
        if a[at] > 0:
            begin, end, variable = indptr[rows[at]], indptr[rows[at] + 1], np.float64(a[at])
            score, score_positives = pair_dot(words, values, begin, end, mask, pairs)
            length = variable * pair_move(words, values, begin, end, mask, a[at], pairs)
            of_negatives += variable * (length - 2 * score)
            product += variable * (score - score_positives - length)
    of_negatives = max(of_negatives, 0.0)
    bias_negatives = -use_bias * grown
    bend = squares + of_negatives + bias_negatives * bias_negatives
    slope = squares + of_negatives + product + bias_negatives * bias - grown
    growth = min(max(-slope / bend, -_MOST_GROWTH), _MOST_GROWTH) if bend > 0 else 0.0
    return True, 1 + growth, bias_negatives, bias - bias_negatives, bend * (1 + growth) * (1 + growth), square


@kernel()
def _put_together(sides, a, w, pairs, part, put_back):
    """Undo `_take_apart`; return the bias and |w|^2. Unless they are `put_back`, w and |w|^2 are out of date."""
    apart, scale, bias, bias_positives, _, square = part
    if apart:
        for at in range(sides[0], a.shape[0]):
            a[at] *= np.float32(scale)
    if apart and put_back:
        square = join_weights(np.float32(scale), pairs, w)
    return np.float32(scale * bias + bias_positives), max(square, 0.0)


@kernel()
def _awake_first(order, a, far):
    """Put awake rows first and those far from awake last; return how many are awake, and how many are not far."""
    awake, near = 0, 0
    for place in range(order.shape[0]):
        at = order[place]
        if a[at] > _ZERO or not far[at]:
            order[place] = order[near]
            order[near] = at
            near += 1
    for place in range(near):
        at = order[place]
        if a[at] > _ZERO:
            order[place] = order[awake]
            order[awake] = at
            awake += 1
    return awake, near


@kernel()
def ascend(
    indptr, words, values, mask, norms, use_bias, rows, sides, a, w, pairs, bias, square, tolerance, max_epochs,
    seed, put_back
):  # fmt: skip
    """Raise the dual objective over a working set until an epoch gains at most `tolerance`.

    Of its rows the first sides[0] are positives; sides[1] and sides[2] are the h of positives and of negatives. Returns
    the bias and |w|^2, nearly, as they are then (given as they were), and the number of epochs.

    Between two epochs over the whole set come up to five over its awake rows alone, and every other time rows that were
    far from awake are left out. Steps that would gain less than their share of the tolerance are not made: to move
    costs as much as to look.

    Negatives resemble one another, if only by the constant feature: when one grows, all others should shrink, and one
    by one that takes many visits. So each step is solved for together with the factor by which all negatives then grow
    or shrink. For this the weights are in two parts, what negatives gave, to be scaled, and what positives gave:
    `pairs`, two numbers per feature, is scratch. Unless they are `put_back` into w, w and |w|^2 are out of date.
    """
    n = rows.shape[0]
    order = np.arange(n)
    far = np.zeros(n, np.bool_)
    state = np.uint64(seed) ^ np.uint64(88172645463325252)
    X = indptr, words, values, mask
    part = _take_apart(*X, use_bias, rows, sides, a, w, pairs, bias, square)
    if not part[0]:
        tolerance *= _TOGETHER
    least = _CLOSER * tolerance / max(n, 1)
    epochs, near = 0, n
    while epochs < max_epochs:
        epochs += 1
        state = _shuffle(order, near, state)
        part, gain = _epoch(*X, norms, use_bias, rows, sides, a, w, pairs, part, order, near, least, far)
        if gain <= tolerance:
            break
        awake, near = _awake_first(order, a, far)
        for _ in range(5):
            state = _shuffle(order, awake, state)
            part, more = _epoch(*X, norms, use_bias, rows, sides, a, w, pairs, part, order, awake, least, far)
            if more <= max(_CLOSER * tolerance, 0.1 * gain):
                break
        if epochs % 2 == 0:
            near = n
    bias, square = _put_together(sides, a, w, pairs, part, put_back)
    return bias, square, epochs


@kernel()
def best_shift(slack, positive_scores, cost_positive, cost_negative, offset):
    """Return the shift d <= 0 of the bias that minimises the primal objective when nothing else moves.

    After a working set was solved alone, the bias is too high and crowds of rows are slightly violated; nearly all of
    them come to rest when the bias falls. Those that stay violated after this shift are worth taking in.
    `offset` is the bias less its centre, which is what the objective penalises.
    """
    shift = 0.0
    left, n = slack.copy(), slack.shape[0]  # rows that came to rest stay behind the first n, unless the bias rises
    for _ in range(30):
        slope, curvature = np.float64(offset) + shift, 1.0
        violated = 0
        for at in range(n):
            over = np.float64(left[at]) + shift
            if over > 0:
                slope += 2 * cost_negative * over
                curvature += 2 * cost_negative
                left[at], left[violated] = left[violated], left[at]
                violated += 1
        for at in range(positive_scores.shape[0]):
            under = 1.0 - np.float64(positive_scores[at]) - shift
            if under > 0:
                slope -= 2 * cost_positive * under
                curvature += 2 * cost_positive
        move = slope / curvature
        shift = min(shift - move, 0.0)
        n = violated if move > 0 else slack.shape[0]
        if abs(move) < 1e-4:
            break
    return shift
