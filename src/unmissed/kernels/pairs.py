"""The weights of one label in two parts side by side: for each feature what negatives gave, and what positives gave.

`ascent` needs the score of a row under both. Side by side they cost hardly more than one: a pair is loaded, multiplied
and added at once. Products are added in a given order and nothing is fused, so the plain loop, which stands in where
kernels are interpreted, gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, kernel, later
from unmissed.kernels.exact import total as sum_up
from unmissed.kernels.vectors import constant

ir, types, cgutils = later("llvmlite.ir"), later("numba.core.types"), later("numba.core.cgutils")

_ZERO = np.float32(0)
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
_SUMS = 4  # pairs of partial sums
_SIDE_BY_SIDE = 64  # partial sums over all features

_Value = Any  # of llvmlite


def plain_pair_dot(words, values, begin, end, mask, pairs):
    """Return the two scores of the row from `begin` to `end`: four partial sums of each in a fixed order."""
    sums = np.zeros((_SUMS, 2), np.float32)
    fours = begin + (end - begin) // _SUMS * _SUMS
    for at in range(begin, end):
        first = 2 * int(words[at] & mask)
        sums[(at - begin) % _SUMS if at < fours else 0] += values[at] * pairs[first : first + 2]
    total = (sums[0] + sums[1]) + (sums[2] + sums[3])
    return total[0], total[1]


def _pair_dot(typingctx: Any, words: Any, values: Any, begin: Any, end: Any, mask: Any, pairs: Any) -> Any:
    """Do what `plain_pair_dot` does."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = [context.make_array(signature.args[at])(context, builder, arguments[at]).data for at in (0, 1, 5)]
        begin, end, mask = arguments[2:5]
        pair = ir.VectorType(ir.FloatType(), 2)
        sums = [cgutils.alloca_once(builder, pair) for _ in range(_SUMS)]  # LLVM keeps these in registers
        for total in sums:
            builder.store(ir.Constant(pair, [0.0, 0.0]), total)
        fours = builder.add(begin, builder.and_(builder.sub(end, begin), constant(-_SUMS)))
        for start, stop, together in ((begin, fours, _SUMS), (fours, end, 1)):
            with cgutils.for_range_slice(builder, start, stop, constant(together), inc=True) as (at, _):
                for number, total in enumerate(sums[:together]):
                    product = _product(builder, data, builder.add(at, constant(number)), mask, pair)
                    builder.store(builder.fadd(builder.load(total), product), total)
        s0, s1, s2, s3 = (builder.load(total) for total in sums)
        both = builder.fadd(builder.fadd(s0, s1), builder.fadd(s2, s3))
        scores = [builder.extract_element(both, ir.IntType(32)(part)) for part in (0, 1)]
        return context.make_tuple(builder, signature.return_type, scores)

    both = types.UniTuple(types.float32, 2)
    return both(words, values, types.int64, types.int64, types.uint32, pairs), generate


def _product(builder: Any, data: list[_Value], place: _Value, mask: _Value, pair: Any) -> _Value:
    """Write the code for the value at a place times its feature's pair."""
    words, values, pairs = data
    feature = builder.zext(builder.and_(builder.load(builder.gep(words, [place])), mask), ir.IntType(64))
    first = builder.gep(pairs, [builder.shl(feature, constant(1))])
    weights = builder.load(builder.bitcast(first, pair.as_pointer()), align=4)
    nothing = ir.Constant(pair, ir.Undefined)
    value = builder.insert_element(nothing, builder.load(builder.gep(values, [place])), ir.IntType(32)(0))
    twice = builder.shuffle_vector(value, nothing, ir.Constant(ir.VectorType(ir.IntType(32), 2), [0, 0]))
    return builder.fmul(twice, weights)


pair_dot = plain_pair_dot if interpreted() else intrinsic(_pair_dot)


@kernel()
def pair_add(words, values, begin, end, mask, factor, pairs, part):
    """Add factor * x to one part; the features of a row differ from one another, so four can be in flight at once."""
    at, last, part = np.uint64(begin), np.uint64(end), np.uint64(part)
    while at + _4 <= last:
        i0, i1 = _2 * np.uint64(words[at] & mask) + part, _2 * np.uint64(words[at + _1] & mask) + part
        i2, i3 = _2 * np.uint64(words[at + _2] & mask) + part, _2 * np.uint64(words[at + _3] & mask) + part
        n0 = pairs[i0] + factor * values[at]
        n1 = pairs[i1] + factor * values[at + _1]
        n2 = pairs[i2] + factor * values[at + _2]
        n3 = pairs[i3] + factor * values[at + _3]
        pairs[i0], pairs[i1], pairs[i2], pairs[i3] = n0, n1, n2, n3
        at += _4
    while at < last:
        pairs[_2 * np.uint64(words[at] & mask) + part] += factor * values[at]
        at += _1


@kernel()
def pair_move(words, values, begin, end, mask, factor, pairs):
    """Move factor * x from first parts to second ones; return |x|^2."""
    square = 0.0
    for at in range(np.uint64(begin), np.uint64(end)):
        first = _2 * np.uint64(words[at] & mask)
        pairs[first] -= factor * values[at]
        pairs[first + _1] += factor * values[at]
        square += np.float64(values[at]) * np.float64(values[at])
    return square


@kernel()
def part_weights(w, pairs):
    """Set first parts to w, and second ones to 0; return |w|^2."""
    squares = np.zeros(_SIDE_BY_SIDE, np.float32)
    for begin in range(0, w.shape[0], _SIDE_BY_SIDE):
        some, both = w[begin : begin + _SIDE_BY_SIDE], pairs[2 * begin : 2 * begin + 2 * _SIDE_BY_SIDE]
        for at in range(some.shape[0]):
            both[2 * at] = some[at]
            both[2 * at + 1] = _ZERO
            squares[at] += some[at] * some[at]
    return sum_up(squares)


@kernel()
def join_weights(scale, pairs, w):
    """Set w to scale times the first parts plus the second ones; return |w|^2."""
    squares = np.zeros(_SIDE_BY_SIDE, np.float32)
    for begin in range(0, w.shape[0], _SIDE_BY_SIDE):
        some, both = w[begin : begin + _SIDE_BY_SIDE], pairs[2 * begin : 2 * begin + 2 * _SIDE_BY_SIDE]
        for at in range(some.shape[0]):
            some[at] = scale * both[2 * at] + both[2 * at + 1]
            squares[at] += some[at] * some[at]
    return sum_up(squares)
