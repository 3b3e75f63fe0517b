"""Sets of up to 64 lanes or features in the bits of one uint64.

Each operation compiles to one or a few instructions. Reference implementations run where kernels are interpreted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, lazy_module

ir, types = lazy_module("llvmlite.ir"), lazy_module("numba.core.types")
SIZE = 64


def reference_count_ones(bits):
    """Return the number of set bits (population count)."""
    return int(bits).bit_count()


def reference_lowest_bit(bits):
    """Return the index of the lowest set bit; `bits` must not be 0."""
    return (int(bits) & -int(bits)).bit_length() - 1


def reference_mask_above(numbers, limit):
    """Return the set of lanes whose number is above the limit or NaN."""
    return np.uint64(sum(1 << at for at in range(SIZE) if not numbers[at] <= limit))


def reference_mask_not_equal(numbers, number):
    """Return the set of lanes whose number differs from `number`."""
    return np.uint64(sum(1 << at for at in range(SIZE) if numbers[at] != number))


def _count_ones(typingctx: Any, bits: Any) -> Any:
    """Compile `reference_count_ones` to one instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def _lowest_bit(typingctx: Any, bits: Any) -> Any:
    """Compile `reference_lowest_bit` to one instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


def _compare(comparison: str) -> Any:
    """Return an intrinsic that compares 64 float32 with a scalar; NaN compares as true."""

    def function(typingctx: Any, numbers: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.VectorType(ir.FloatType(), SIZE)
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            loaded = builder.load(builder.bitcast(array.data, kind.as_pointer()), align=4)
            first = builder.insert_element(ir.Constant(kind, ir.Undefined), arguments[1], ir.IntType(32)(0))
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), SIZE), [0] * SIZE)
            limit = builder.shuffle_vector(first, first, everywhere)
            return builder.bitcast(builder.fcmp_unordered(comparison, loaded, limit), ir.IntType(SIZE))

        return types.uint64(numbers, types.float32), generate

    return intrinsic(function)


if interpreted():
    count_ones, lowest_bit, mask_above, mask_not_equal = (
        reference_count_ones,
        reference_lowest_bit,
        reference_mask_above,
        reference_mask_not_equal,
    )
else:
    count_ones, lowest_bit, mask_above, mask_not_equal = (
        intrinsic(_count_ones),
        intrinsic(_lowest_bit),
        _compare(">"),
        _compare("!="),
    )
