"""Sums of products of whole numbers, weights of 8 bits and factors of 16, in 32 bits, for the labels of a tile at once.

Whole numbers make no rounding errors, whatever the order, and wrap around in the same way everywhere: all ways give the
same bits. x86 multiplies two neighbours of 16 bits and adds them up in one instruction, so non-zeros are taken two at a
time; elsewhere LLVM finds its own way.

To widen bytes takes longer than to multiply. So two weights make one number of 16 bits, 256 high + low, where `low`
has 128 added to be never below 0. It is multiplied once as it is and once shifted to `high` alone; what `low` comes to
is then the first sum less 256 times the second, less 128 times the factors. The first may wrap around, the result does
not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, kernel, later
from unmissed.kernels.prefetch import hint
from unmissed.kernels.vectors import constant

ir, types, cgutils = later("llvmlite.ir"), later("numba.core.types"), later("numba.core.cgutils")
binding = later("llvmlite.binding")

TILE = 64  # labels
_WIDTH = 16  # numbers of 16 bits in a register
AHEAD = 96  # weights are asked for so many non-zeros before they are used; a line of TILE weights is one of the cache

_Value = Any  # of llvmlite


@kernel()
def byte_place(lane):
    """Return where in a line the weight of a lane stands, so that sums come out in order.

    Of 32 lanes the first half is low, the other high; vector units weave four numbers of 16 bits from either half.
    """
    half, low = (lane >> 3) & 1, lane & 7
    return (lane & ~31) + 2 * (4 * half + (low & 3) + 2 * (low & 4)) + ((lane >> 4) & 1)


@kernel()
def to_byte(weight, lane):
    """Return a weight from -127 to 127 as a lane keeps it: low ones with 128 added, modulo 256."""
    if lane & 16:
        return weight
    return weight - 128 if weight >= 0 else weight + 128


def plain_score_whole(places, factors, begin, end, weights, sums, shift, scale, bias, scores):
    """Add factors times lines of TILE weights to `sums`, set scores to scale times that plus bias; return the largest.

    A line begins at its place; begin and end are even. `shift` is 128 times the sum of the factors: what low lanes have
    too much. Lines are asked for ahead, so AHEAD more places have to follow the last one.
    """
    order, low = [byte_place(lane) for lane in range(TILE)], np.arange(TILE) & 16 == 0
    total = sums - np.where(low, np.array(shift).astype(np.int32), np.int32(0))
    for at in range(begin, end):
        line = weights[int(places[at]) : int(places[at]) + TILE][order]
        total += np.int32(factors[at]) * np.where(low, line.view(np.uint8).astype(np.int32), line.astype(np.int32))
    scores[:] = total.astype(np.float32) * np.float32(scale) + bias
    return scores.max()


def _multiply(builder: Any, left: _Value, right: _Value) -> _Value:
    """Return left[2i] right[2i] + left[2i + 1] right[2i + 1] in 32 bits, of _WIDTH numbers each."""
    words, sums = ir.VectorType(ir.IntType(16), _WIDTH), ir.VectorType(ir.IntType(32), _WIDTH // 2)
    if binding.get_host_cpu_features().get("avx2"):
        name = "llvm.x86.avx2.pmadd.wd"
        shape = ir.FunctionType(sums, [words, words])
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


# Low and high halves of each 128 bits, two lines interleaved, as one instruction does it.
_HALVES = [
    [side + 16 * line for begin in (half, half + 8) for side in range(begin, begin + 4) for line in (0, 1)]
    for half in (0, 4)
]


def _score_whole(
    typingctx: Any, places: Any, factors: Any, begin: Any, end: Any, weights: Any, sums: Any, shift: Any, scale: Any,
    bias: Any, scores: Any
) -> Any:  # fmt: skip
    """Do what `plain_score_whole` does with the sums in registers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = [context.make_array(signature.args[at])(context, builder, arguments[at]) for at in _ARRAYS]
        return _write(builder, [array.data for array in arrays], [arguments[at] for at in (2, 3, 6, 7)])

    numbers = types.int64, types.int64
    return types.float32(places, factors, *numbers, weights, sums, types.int64, types.float32, bias, scores), generate


_ARRAYS = 0, 1, 4, 5, 8, 9  # arguments of `score_whole` that are arrays


def _write(builder: Any, arrays: list[_Value], numbers: list[_Value]) -> _Value:
    places, pairs, table, sums, bias, scores = arrays
    begin, end, shift, scale = numbers
    words, wide = ir.VectorType(ir.IntType(16), _WIDTH), ir.VectorType(ir.IntType(32), _WIDTH // 2)
    eight = ir.Constant(words, [8] * _WIDTH)
    kept = [cgutils.alloca_once_value(builder, ir.Constant(wide, None)) for _ in range(TILE // 8)]

    def line_of(at: _Value) -> _Value:
        place = builder.zext(builder.load(builder.gep(places, [at])), ir.IntType(64))
        return builder.gep(table, [place])

    def load(line: _Value, lane: int) -> _Value:
        pointer = builder.gep(line, [constant(lane)])
        return builder.load(builder.bitcast(pointer, words.as_pointer()), align=1)

    def add(total: _Value, more: _Value) -> None:
        builder.store(builder.add(builder.load(total), more), total)

    with cgutils.for_range_slice(builder, begin, end, constant(2), inc=True) as (at, _):
        for step in (0, 1):
            hint(builder, line_of(builder.add(at, constant(AHEAD + step))))
        one, other = line_of(at), line_of(builder.add(at, constant(1)))
        pair = builder.load(builder.bitcast(builder.gep(pairs, [at]), ir.IntType(32).as_pointer()), align=2)
        both = builder.bitcast(_everywhere(builder, pair), words)
        for group, lane in enumerate(range(0, TILE, 2 * _WIDTH)):
            left, right = load(one, lane), load(other, lane)
            for half, order in enumerate(_HALVES):
                woven = _shuffle(builder, left, right, order)
                add(kept[4 * group + half], _multiply(builder, woven, both))
                add(kept[4 * group + half + 2], _multiply(builder, builder.ashr(woven, eight), both))
    results = [builder.load(total) for total in kept]
    spread = _everywhere(builder, builder.trunc(shift, ir.IntType(32)))
    for eighth in (0, 1, 4, 5):
        high = builder.mul(results[eighth + 2], ir.Constant(wide, [256] * (_WIDTH // 2)))
        results[eighth] = builder.sub(builder.sub(results[eighth], high), spread)
    return _finish(builder, results, sums, _everywhere(builder, scale), bias, scores)


def _finish(builder: Any, results: list[_Value], sums: _Value, scale: _Value, bias: _Value, scores: _Value) -> _Value:
    """Write the scores of a tile, and return the largest."""
    wide, floats = results[0].type, scale.type
    peak = None
    for eighth, result in enumerate(results):
        source, offset, target = (
            builder.bitcast(builder.gep(array, [constant(8 * eighth)]), kind.as_pointer())
            for array, kind in ((sums, wide), (bias, floats), (scores, floats))
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


def _everywhere(builder: Any, number: _Value) -> _Value:
    """Return eight times the same number of 32 bits."""
    nothing = ir.Constant(ir.VectorType(number.type, 8), ir.Undefined)
    return _shuffle(builder, builder.insert_element(nothing, number, ir.IntType(32)(0)), nothing, [0] * 8)


score_whole = plain_score_whole if interpreted() else intrinsic(_score_whole)
