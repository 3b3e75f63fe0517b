"""Hints to the processor: fetch what will be read soon."""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from unmissed._jit import kernel

_LINE = 16  # numbers of 4 bytes in a cache line


def _prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of array[index]; nothing waits for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        layout = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(layout.data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [address.type], shape)
        read, keep_in_second_level, data = 0, 2, 1
        builder.call(hint, [address, *(number(value) for value in (read, keep_in_second_level, data))])
        return context.get_dummy_value()

    return types.void(array, index), generate


def _do_nothing(array: Any, index: Any) -> None:
    """Stand in where kernels are interpreted."""


prefetch = _do_nothing if numba.config.DISABLE_JIT else intrinsic(_prefetch)  # type: ignore[attr-defined]


@kernel()
def prefetch_row(indptr, indices, values, row):
    """Ask for all of a sparse row."""
    for at in range(indptr[row], indptr[row + 1], _LINE):
        prefetch(indices, at)
        prefetch(values, at)


@kernel()
def prefetch_weights(flat, indices, at, lanes):
    """Ask for the weights of the four features from place `at` on, where rows of `flat` hold `lanes` numbers."""
    for place in range(at, min(at + 4, indices.shape[0])):
        begin = np.int64(indices[place]) * lanes
        for line in range(begin, begin + lanes, _LINE):
            prefetch(flat, line)
