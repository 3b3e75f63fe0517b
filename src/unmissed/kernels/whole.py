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

ir, types, cgutils = later("llvmlite.ir"), later("numba.core.types"), later("numba.core.cgutils")
binding = later("llvmlite.binding")

TILE = 64  # labels
_WIDTH = 16  # numbers of 16 bits in a register
_AHEAD = 40  # weights are asked for so many non-zeros before they are used; a line of TILE weights is one of the cache

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


def plain_add_whole(lines, factors, begin, end, weights, sums):
    """Add factors times lines of TILE weights to `sums`; lines are numbered, begin and end are even."""
    places, low = [byte_place(lane) for lane in range(TILE)], np.arange(TILE) & 16 == 0
    for at in range(begin, end):
        line = weights[TILE * int(lines[at]) : TILE * (int(lines[at]) + 1)][places]
        sums += np.int32(factors[at]) * np.where(low, line ^ np.int8(-128), line).astype(np.int32)


def _number(value: int) -> _Value:
    return ir.IntType(64)(value)


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


def _add_whole(typingctx: Any, lines: Any, factors: Any, begin: Any, end: Any, weights: Any, sums: Any) -> Any:
    """Do what `plain_add_whole` does with the sums in registers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = [context.make_array(signature.args[at])(context, builder, arguments[at]) for at in (0, 1, 4, 5)]
        numbers, pairs, table, out = (array.data for array in arrays)
        n_lines = builder.extract_value(arrays[0].shape, 0)
        words, wide = ir.VectorType(ir.IntType(16), _WIDTH), ir.VectorType(ir.IntType(32), _WIDTH // 2)
        ones, eight = ir.Constant(words, [1] * _WIDTH), ir.Constant(words, [8] * _WIDTH)
        total_factor = cgutils.alloca_once_value(builder, ir.Constant(wide, None))
        kept = [cgutils.alloca_once_value(builder, ir.Constant(wide, None)) for _ in range(TILE // 8)]

        def place_at(at: _Value) -> _Value:
            line = builder.zext(builder.load(builder.gep(numbers, [at])), ir.IntType(64))
            return builder.mul(line, _number(TILE))

        def line_at(place: _Value, lane: int) -> _Value:
            pointer = builder.gep(table, [builder.add(place, _number(lane))])
            return builder.load(builder.bitcast(pointer, words.as_pointer()), align=1)

        def add(total: _Value, more: _Value) -> None:
            builder.store(builder.add(builder.load(total), more), total)

        last = builder.sub(n_lines, _number(1))
        with cgutils.for_range_slice(builder, arguments[2], arguments[3], _number(2), inc=True) as (at, _):
            for step in (0, 1):
                ahead = builder.add(at, _number(_AHEAD + step))
                inside = builder.icmp_signed("<", ahead, last)
                hint(builder, builder.gep(table, [place_at(builder.select(inside, ahead, last))]))
            one, other = place_at(at), place_at(builder.add(at, _number(1)))
            pair = builder.load(builder.bitcast(builder.gep(pairs, [at]), ir.IntType(32).as_pointer()), align=2)
            nothing = ir.Constant(wide, ir.Undefined)
            spread = builder.insert_element(nothing, pair, ir.IntType(32)(0))
            both = builder.bitcast(_shuffle(builder, spread, nothing, [0] * (_WIDTH // 2)), words)
            add(total_factor, _multiply(builder, ones, both))
            for group, lane in enumerate(range(0, TILE, 2 * _WIDTH)):
                left, right = line_at(one, lane), line_at(other, lane)
                for half, order in enumerate(_HALVES):
                    woven = _shuffle(builder, left, right, order)
                    add(kept[4 * group + half], _multiply(builder, woven, both))
                    add(kept[4 * group + half + 2], _multiply(builder, builder.ashr(woven, eight), both))
        bias = builder.mul(builder.load(total_factor), ir.Constant(wide, [128] * (_WIDTH // 2)))
        for eighth, total in enumerate(kept):
            result = builder.load(total)
            if not eighth & 2:
                high = builder.mul(builder.load(kept[eighth + 2]), ir.Constant(wide, [256] * (_WIDTH // 2)))
                result = builder.sub(builder.sub(result, high), bias)
            pointer = builder.bitcast(builder.gep(out, [_number(8 * eighth)]), wide.as_pointer())
            builder.store(builder.add(builder.load(pointer, align=4), result), pointer, align=4)
        return context.get_dummy_value()

    return types.void(lines, factors, types.int64, types.int64, weights, sums), generate


def plain_count_ones(word):
    """Return how many bits of an unsigned number are set."""
    return int(word).bit_count()


def _count_ones(typingctx: Any, word: Any) -> Any:
    """Do what `plain_count_ones` does in one instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


add_whole = plain_add_whole if interpreted() else intrinsic(_add_whole)
count_ones = plain_count_ones if interpreted() else intrinsic(_count_ones)
