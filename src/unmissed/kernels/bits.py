"""Words of 64 bits as sets: of lanes that a number singles out, of features that are listed.

Each takes an instruction or a few. Plain twins stand in where kernels are interpreted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, later

ir, types = later("llvmlite.ir"), later("numba.core.types")
SIZE = 64


def plain_count_ones(word):
    """Return how many bits of an unsigned number are set."""
    return int(word).bit_count()


def plain_lowest(word):
    """Return which is the lowest bit that is set, of a number that is not 0."""
    return (int(word) & -int(word)).bit_length() - 1


def plain_above(numbers, limit):
    """Return the set of those of 64 numbers that are not at most the limit."""
    return np.uint64(sum(1 << at for at in range(SIZE) if not numbers[at] <= limit))


def plain_other(numbers, number):
    """Return the set of those of 64 numbers that are not the given one."""
    return np.uint64(sum(1 << at for at in range(SIZE) if numbers[at] != number))


def _count_ones(typingctx: Any, word: Any) -> Any:
    """Do what `plain_count_ones` does."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def _lowest(typingctx: Any, word: Any) -> Any:
    """Do what `plain_lowest` does."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


def _where(comparison: str) -> Any:
    """Write the code that compares 64 float32 with one; what is not a number passes."""

    def function(typingctx: Any, numbers: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.VectorType(ir.FloatType(), SIZE)
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            found = builder.load(builder.bitcast(array.data, kind.as_pointer()), align=4)
            first = builder.insert_element(ir.Constant(kind, ir.Undefined), arguments[1], ir.IntType(32)(0))
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), SIZE), [0] * SIZE)
            limit = builder.shuffle_vector(first, first, everywhere)
            return builder.bitcast(builder.fcmp_unordered(comparison, found, limit), ir.IntType(SIZE))

        return types.uint64(numbers, types.float32), generate

    return intrinsic(function)


if interpreted():
    count_ones, lowest, above, other = plain_count_ones, plain_lowest, plain_above, plain_other
else:
    count_ones, lowest, above, other = intrinsic(_count_ones), intrinsic(_lowest), _where(">"), _where("!=")
