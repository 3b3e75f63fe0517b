"""The weights of one label as pairs: for each feature the contributions of negatives and of positives.

Weights of the n dense features are not interleaved: the contributions of negatives are the first n numbers, those of
positives the next n.

`label_ascent` needs the score of a row under both. A pair is loaded, multiplied and added as one vector, so both scores
cost little more than one. Products are added in a fixed order without fused multiply-add; the reference loop, which
runs where kernels are interpreted, gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, kernel, lazy_module
from unmissed.numerics.float64_sums import squared_norm
from unmissed.numerics.float64_sums import total as sum_up
from unmissed.numerics.simd import constant

ir, types, cgutils = lazy_module("llvmlite.ir"), lazy_module("numba.core.types"), lazy_module("numba.core.cgutils")

_ZERO = np.float32(0)
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
_N_SUMS = 4  # Pairs of partial sums per row.
_N_PARTIAL_SUMS = 64  # Partial sums over all features.

_Value = Any  # An llvmlite value.


def reference_pair_dot(entries, values, begin, end, mask, pairs):
    """Return both scores of the row begin:end, each in four partial sums with a fixed order."""
    sums = np.zeros((_N_SUMS, 2), np.float32)
    unrolled_end = begin + (end - begin) // _N_SUMS * _N_SUMS
    for at in range(begin, end):
        first = 2 * int(entries[at] & mask)
        sums[(at - begin) % _N_SUMS if at < unrolled_end else 0] += values[at] * pairs[first : first + 2]
    total = (sums[0] + sums[1]) + (sums[2] + sums[3])
    return total[0], total[1]


def _pair_dot(typingctx: Any, entries: Any, values: Any, begin: Any, end: Any, mask: Any, pairs: Any) -> Any:
    """Compile `reference_pair_dot` to vector instructions."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = [context.make_array(signature.args[at])(context, builder, arguments[at]).data for at in (0, 1, 5)]
        begin, end, mask = arguments[2:5]
        pair = ir.VectorType(ir.FloatType(), 2)
        sums = [cgutils.alloca_once(builder, pair) for _ in range(_N_SUMS)]  # LLVM keeps these in registers
        for total in sums:
            builder.store(ir.Constant(pair, [0.0, 0.0]), total)
        unrolled_end = builder.add(begin, builder.and_(builder.sub(end, begin), constant(-_N_SUMS)))
        for start, stop, unroll in ((begin, unrolled_end, _N_SUMS), (unrolled_end, end, 1)):
            with cgutils.for_range_slice(builder, start, stop, constant(unroll), inc=True) as (at, _):
                for number, total in enumerate(sums[:unroll]):
                    product = _product(builder, data, builder.add(at, constant(number)), mask, pair)
                    builder.store(builder.fadd(builder.load(total), product), total)
        s0, s1, s2, s3 = (builder.load(total) for total in sums)
        both = builder.fadd(builder.fadd(s0, s1), builder.fadd(s2, s3))
        scores = [builder.extract_element(both, ir.IntType(32)(part)) for part in (0, 1)]
        return context.make_tuple(builder, signature.return_type, scores)

    both = types.UniTuple(types.float32, 2)
    return both(entries, values, types.int64, types.int64, types.uint32, pairs), generate


def _product(builder: Any, data: list[_Value], position: _Value, mask: _Value, pair: Any) -> _Value:
    """Emit the product of one value and its feature's pair of weights."""
    entries, values, pairs = data
    feature = builder.zext(builder.and_(builder.load(builder.gep(entries, [position])), mask), ir.IntType(64))
    first = builder.gep(pairs, [builder.shl(feature, constant(1))])
    weights = builder.load(builder.bitcast(first, pair.as_pointer()), align=4)
    undefined = ir.Constant(pair, ir.Undefined)
    value = builder.insert_element(undefined, builder.load(builder.gep(values, [position])), ir.IntType(32)(0))
    broadcast = builder.shuffle_vector(value, undefined, ir.Constant(ir.VectorType(ir.IntType(32), 2), [0, 0]))
    return builder.fmul(broadcast, weights)


pair_dot = reference_pair_dot if interpreted() else intrinsic(_pair_dot)


@kernel()
def pair_add(entries, values, begin, end, mask, factor, pairs, part):
    """Add factor * x to part 0 or 1; the features of a row are distinct, so four updates can overlap."""
    at, last, part = np.uint64(begin), np.uint64(end), np.uint64(part)
    while at + _4 <= last:
        i0, i1 = _2 * np.uint64(entries[at] & mask) + part, _2 * np.uint64(entries[at + _1] & mask) + part
        i2, i3 = _2 * np.uint64(entries[at + _2] & mask) + part, _2 * np.uint64(entries[at + _3] & mask) + part
        n0 = pairs[i0] + factor * values[at]
        n1 = pairs[i1] + factor * values[at + _1]
        n2 = pairs[i2] + factor * values[at + _2]
        n3 = pairs[i3] + factor * values[at + _3]
        pairs[i0], pairs[i1], pairs[i2], pairs[i3] = n0, n1, n2, n3
        at += _4
    while at < last:
        pairs[_2 * np.uint64(entries[at] & mask) + part] += factor * values[at]
        at += _1


@kernel()
def pair_move(entries, values, begin, end, mask, factor, pairs):
    """Move factor * x from part 0 to part 1; return |x|^2."""
    square = 0.0
    for at in range(np.uint64(begin), np.uint64(end)):
        first = _2 * np.uint64(entries[at] & mask)
        pairs[first] -= factor * values[at]
        pairs[first + _1] += factor * values[at]
        square += np.float64(values[at]) * np.float64(values[at])
    return square


@kernel()
def split_weights(w, pairs, n_dense):
    """Set the part of negatives to w and that of positives to 0; return |w|^2."""
    square = _split_sparse(w[n_dense:], pairs[2 * n_dense :])
    if n_dense > 0:
        pairs[:n_dense] = w[:n_dense]
        pairs[n_dense : 2 * n_dense] = _ZERO
        square += squared_norm(w[:n_dense])
    return square


@kernel()
def merge_weights(scale, pairs, w, n_dense):
    """Set w to scale times the part of negatives + that of positives; return |w|^2."""
    square = _merge_sparse(scale, pairs[2 * n_dense :], w[n_dense:])
    if n_dense > 0:
        for at in range(n_dense):
            w[at] = scale * pairs[at] + pairs[n_dense + at]
        square += squared_norm(w[:n_dense])
    return square


@kernel()
def _split_sparse(w, pairs):
    """Set part 0 to w and part 1 to 0; return |w|^2."""
    squares = np.zeros(_N_PARTIAL_SUMS, np.float32)
    for begin in range(0, w.shape[0], _N_PARTIAL_SUMS):
        block, both = w[begin : begin + _N_PARTIAL_SUMS], pairs[2 * begin : 2 * begin + 2 * _N_PARTIAL_SUMS]
        for at in range(block.shape[0]):
            both[2 * at] = block[at]
            both[2 * at + 1] = _ZERO
            squares[at] += block[at] * block[at]
    return sum_up(squares)


@kernel()
def _merge_sparse(scale, pairs, w):
    """Set w to scale * part 0 + part 1; return |w|^2."""
    squares = np.zeros(_N_PARTIAL_SUMS, np.float32)
    for begin in range(0, w.shape[0], _N_PARTIAL_SUMS):
        block, both = w[begin : begin + _N_PARTIAL_SUMS], pairs[2 * begin : 2 * begin + 2 * _N_PARTIAL_SUMS]
        for at in range(block.shape[0]):
            block[at] = scale * both[2 * at] + both[2 * at + 1]
            squares[at] += block[at] * block[at]
    return sum_up(squares)
