"""Dot products and axpy updates of one sparse row, added in a fixed order, for packed and unpacked rows.

A packed entry is a uint32 that holds feature and value: its low bits are the feature index, and all 32 bits read as a
float32 approximate the value. Coordinate ascent is bound by loading rows, and a packed row takes half the memory. An
unpacked row has separate arrays of features (`entries`) and values, and a mask of all ones.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.prefetch import LINE, prefetch

_ZERO = np.float32(0)
_1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(number) for number in range(1, 9))
_NOT_PACKED = np.uint32(2**32 - 1)


@kernel()
def _dense_dot(values, begin, w):
    """Return x.w of a dense row, in eight partial sums."""
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
def _feature(entry, mask):
    """Return the feature index of an entry; `mask` selects its bits if entries are packed."""
    if mask is None:
        return entry
    return entry & mask


@kernel()
def row_dot(entries, values, begin, end, w, mask=None):
    """Return x.w of the row begin:end, in four partial sums with a fixed order.

    Unsigned indices avoid wrap-around checks. A row as long as w is dense and sorted (`csr.reorder` guarantees it), so
    its indices are not read.
    """
    if end - begin == w.shape[0]:
        return _dense_dot(values, begin, w)
    s0, s1, s2, s3 = _ZERO, _ZERO, _ZERO, _ZERO
    at, last = np.uint64(begin), np.uint64(end)
    while at + _4 <= last:
        s0 += values[at] * w[_feature(entries[at], mask)]
        s1 += values[at + _1] * w[_feature(entries[at + _1], mask)]
        s2 += values[at + _2] * w[_feature(entries[at + _2], mask)]
        s3 += values[at + _3] * w[_feature(entries[at + _3], mask)]
        at += _4
    while at < last:
        s0 += values[at] * w[_feature(entries[at], mask)]
        at += _1
    return (s0 + s1) + (s2 + s3)


@kernel()
def row_add(entries, values, begin, end, factor, w, mask=None):
    """Add factor * x to w; the features of a row are distinct, so four updates can overlap."""
    if end - begin == w.shape[0]:
        for at in range(w.shape[0]):
            w[at] += factor * values[begin + at]
        return
    at, last = np.uint64(begin), np.uint64(end)
    while at + _4 <= last:
        i0, i1 = _feature(entries[at], mask), _feature(entries[at + _1], mask)
        i2, i3 = _feature(entries[at + _2], mask), _feature(entries[at + _3], mask)
        n0 = w[i0] + factor * values[at]
        n1 = w[i1] + factor * values[at + _1]
        n2 = w[i2] + factor * values[at + _2]
        n3 = w[i3] + factor * values[at + _3]
        w[i0], w[i1], w[i2], w[i3] = n0, n1, n2, n3
        at += _4
    while at < last:
        w[_feature(entries[at], mask)] += factor * values[at]
        at += _1


@kernel()
def pack(features, values, n_bits, entries):
    """Set entries[t] to the float32 nearest to values[t] whose low n_bits are features[t].

    `values` has the float32 values viewed as uint32.
    """
    for at in range(features.shape[0]):
        feature, size = np.int64(features[at]), np.int64(values[at]) & 0x7FFFFFFF
        high = max((size - feature + (1 << (n_bits - 1))) >> n_bits, 0)
        entries[at] = (np.int64(values[at]) & 0x80000000) | (high << n_bits) | feature


@kernel()
def shuffle(order, n, state):
    """Shuffle order[:n] in place (Fisher-Yates with xorshift); return the next state of the generator."""
    for position in range(n - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        other = np.int64(((state >> np.uint64(33)) * np.uint64(position + 1)) >> np.uint64(31))
        order[position], order[other] = order[other], order[position]
    return state


@kernel()
def prefetch_packed_row(indptr, entries, values, mask, row):
    """Prefetch all cache lines of a packed or unpacked row."""
    for at in range(indptr[row], indptr[row + 1], LINE):
        prefetch(entries, at)
        if mask == _NOT_PACKED:
            prefetch(values, at)
