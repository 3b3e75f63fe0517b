"""Dot products of int8 weights and int16 factors in int32, for all labels of a tile at once.

Integer arithmetic has no rounding errors and wraps around in the same way everywhere, so every implementation gives the
same bits. AVX2 multiplies pairs of adjacent int16 numbers and adds the two products in one instruction (vpmaddwd).
Non-zeros are therefore processed in pairs. Without AVX2, LLVM chooses the instructions.

Sign extension of int8 costs more than multiplication. So two weights are packed into one int16, 256 high + low, where
`low` has an offset of 128 and is unsigned. The int16 is multiplied once as it is and once shifted right to `high`. The
sum for `low` is the first sum minus 256 times the second, minus 128 times the sum of factors. The first sum may wrap
around; the result does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, kernel, lazy_module
from unmissed.numerics.prefetch import emit_prefetch
from unmissed.numerics.simd import constant

ir, types, cgutils = lazy_module("llvmlite.ir"), lazy_module("numba.core.types"), lazy_module("numba.core.cgutils")
binding = lazy_module("llvmlite.binding")

TILE = 64  # labels per tile; a line of TILE int8 weights is one cache line
_WIDTH = 16  # int16 numbers in a 256-bit register
PREFETCH_DISTANCE = 96  # in non-zeros

_Value = Any  # of llvmlite


@kernel()
def byte_slot(lane):
    """Return the byte of a line that stores a lane's weight, such that sums come out in lane order.

    Of 32 lanes, the first 16 are low bytes and the others high bytes. AVX2 interleaves four int16 numbers from each
    128-bit half.
    """
    half, low = (lane >> 3) & 1, lane & 7
    return (lane & ~31) + 2 * (4 * half + (low & 3) + 2 * (low & 4)) + ((lane >> 4) & 1)


@kernel()
def to_byte(weight, lane):
    """Return the stored byte of a weight from -127 to 127; low lanes add an offset of 128, modulo 256."""
    if lane & 16:
        return weight
    return weight - 128 if weight >= 0 else weight + 128


def reference_score_int8(positions, factors, begin, end, weights, sums, shift, scale, bias, scores):
    """Set scores = scale (sums + factors times lines of TILE weights) + bias; return the largest score.

    The reference implementation. A line starts at its position; begin and end are even. `shift` is 128 times the sum of
    the factors: the offset of low lanes. Lines are prefetched, so PREFETCH_DISTANCE positions must follow the last one.
    """
    order, low = [byte_slot(lane) for lane in range(TILE)], np.arange(TILE) & 16 == 0
    total = sums - np.where(low, np.array(shift).astype(np.int32), np.int32(0))
    for at in range(begin, end):
        line = weights[int(positions[at]) : int(positions[at]) + TILE][order]
        total += np.int32(factors[at]) * np.where(low, line.view(np.uint8).astype(np.int32), line.astype(np.int32))
    scores[:] = total.astype(np.float32) * np.float32(scale) + bias
    return scores.max()


def _multiply(builder: Any, left: _Value, right: _Value) -> _Value:
    """Return left[2i] right[2i] + left[2i + 1] right[2i + 1] in int32, for vectors of _WIDTH int16 numbers."""
    int16s, sums = ir.VectorType(ir.IntType(16), _WIDTH), ir.VectorType(ir.IntType(32), _WIDTH // 2)
    if binding.get_host_cpu_features().get("avx2"):
        name = "llvm.x86.avx2.pmadd.wd"
        shape = ir.FunctionType(sums, [int16s, int16s])
        return builder.call(cgutils.get_or_insert_function(builder.module, shape, name), [left, right])
    total = None
    for first in (0, 1):
        wide = [builder.sext(_shuffle(builder, one, one, range(first, _WIDTH, 2)), sums) for one in (left, right)]
        product = builder.mul(*wide)
        total = product if total is None else builder.add(total, product)
    return total


def _shuffle(builder: Any, one: _Value, other: _Value, order: Any) -> _Value:
    chosen = list(order)
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), len(chosen)), chosen))


# Interleaves of two lines, low and high half of each 128 bits: one instruction each (vpunpcklwd, vpunpckhwd).
_HALVES = [
    [side + 16 * line for begin in (half, half + 8) for side in range(begin, begin + 4) for line in (0, 1)]
    for half in (0, 4)
]


def _score_int8(
    typingctx: Any, positions: Any, factors: Any, begin: Any, end: Any, weights: Any, sums: Any, shift: Any, scale: Any,
    bias: Any, scores: Any
) -> Any:  # fmt: skip
    """Compute `reference_score_int8` with the sums in registers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = [context.make_array(signature.args[at])(context, builder, arguments[at]) for at in _ARRAYS]
        return _write(builder, [array.data for array in arrays], [arguments[at] for at in (2, 3, 6, 7)])

    bounds = types.int64, types.int64
    return types.float32(positions, factors, *bounds, weights, sums, types.int64, types.float32, bias, scores), generate


_ARRAYS = 0, 1, 4, 5, 8, 9  # arguments of `score_int8` that are arrays


def _write(builder: Any, arrays: list[_Value], numbers: list[_Value]) -> _Value:
    positions, pairs, table, sums, bias, scores = arrays
    begin, end, shift, scale = numbers
    int16s, int32s = ir.VectorType(ir.IntType(16), _WIDTH), ir.VectorType(ir.IntType(32), _WIDTH // 2)
    eight = ir.Constant(int16s, [8] * _WIDTH)
    totals = [cgutils.alloca_once_value(builder, ir.Constant(int32s, None)) for _ in range(TILE // 8)]

    def line_of(at: _Value) -> _Value:
        position = builder.zext(builder.load(builder.gep(positions, [at])), ir.IntType(64))
        return builder.gep(table, [position])

    def load(line: _Value, lane: int) -> _Value:
        pointer = builder.gep(line, [constant(lane)])
        return builder.load(builder.bitcast(pointer, int16s.as_pointer()), align=1)

    def add(total: _Value, more: _Value) -> None:
        builder.store(builder.add(builder.load(total), more), total)

    with cgutils.for_range_slice(builder, begin, end, constant(2), inc=True) as (at, _):
        for step in (0, 1):
            emit_prefetch(builder, line_of(builder.add(at, constant(PREFETCH_DISTANCE + step))))
        one, other = line_of(at), line_of(builder.add(at, constant(1)))
        pair = builder.load(builder.bitcast(builder.gep(pairs, [at]), ir.IntType(32).as_pointer()), align=2)
        both = builder.bitcast(_broadcast(builder, pair), int16s)
        for group, lane in enumerate(range(0, TILE, 2 * _WIDTH)):
            left, right = load(one, lane), load(other, lane)
            for half, order in enumerate(_HALVES):
                interleaved = _shuffle(builder, left, right, order)
                add(totals[4 * group + half], _multiply(builder, interleaved, both))
                add(totals[4 * group + half + 2], _multiply(builder, builder.ashr(interleaved, eight), both))
    results = [builder.load(total) for total in totals]
    spread = _broadcast(builder, builder.trunc(shift, ir.IntType(32)))
    for eighth in (0, 1, 4, 5):
        high = builder.mul(results[eighth + 2], ir.Constant(int32s, [256] * (_WIDTH // 2)))
        results[eighth] = builder.sub(builder.sub(results[eighth], high), spread)
    return _finish(builder, results, sums, _broadcast(builder, scale), bias, scores)


def _finish(builder: Any, results: list[_Value], sums: _Value, scale: _Value, bias: _Value, scores: _Value) -> _Value:
    """Write the scores of a tile and return the largest."""
    int32s, floats = results[0].type, scale.type
    peak = None
    for eighth, result in enumerate(results):
        source, offset, target = (
            builder.bitcast(builder.gep(array, [constant(8 * eighth)]), kind.as_pointer())
            for array, kind in ((sums, int32s), (bias, floats), (scores, floats))
        )
        total = builder.sitofp(builder.add(builder.load(source, align=4), result), floats)
        score = builder.fadd(builder.fmul(total, scale), builder.load(offset, align=4))
        builder.store(score, target, align=4)
        peak = score if peak is None else _larger(builder, score, peak)
    for distance in (4, 2, 1):
        peak = _larger(builder, _shuffle(builder, peak, peak, [lane ^ distance for lane in range(8)]), peak)
    return builder.extract_element(peak, ir.IntType(32)(0))


def _larger(builder: Any, one: _Value, other: _Value) -> _Value:
    return builder.select(builder.fcmp_ordered(">", one, other), one, other)


def _broadcast(builder: Any, number: _Value) -> _Value:
    """Return a vector of eight copies of a 32-bit number."""
    undefined = ir.Constant(ir.VectorType(number.type, 8), ir.Undefined)
    return _shuffle(builder, builder.insert_element(undefined, number, ir.IntType(32)(0)), undefined, [0] * 8)


score_int8 = reference_score_int8 if interpreted() else intrinsic(_score_int8)
