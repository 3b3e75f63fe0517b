"""Hints to the processor: fetch what will be read soon."""

from __future__ import annotations

from typing import Any

from unmissed._jit import interpreted, intrinsic, kernel, later

ir, types = later("llvmlite.ir"), later("numba.core.types")
LINE = 16  # numbers of 4 bytes in a cache line


def hint(builder: Any, pointer: Any) -> None:
    """Write the code that asks for the cache line at a pointer; nothing waits for it."""
    address = builder.bitcast(pointer, ir.IntType(8).as_pointer())
    number = ir.IntType(32)
    shape = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
    ask = builder.module.declare_intrinsic("llvm.prefetch", [address.type], shape)
    read, keep_near, data = 0, 3, 1
    builder.call(ask, [address, *(number(value) for value in (read, keep_near, data))])


def _prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of array[index]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        layout = context.make_array(signature.args[0])(context, builder, arguments[0])
        hint(builder, builder.gep(layout.data, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(array, index), generate


def _do_nothing(array: Any, index: Any) -> None:
    """Stand in where kernels are interpreted."""


prefetch = _do_nothing if interpreted() else intrinsic(_prefetch)


@kernel()
def prefetch_row(indptr, indices, values, row):
    """Ask for all of a sparse row."""
    for at in range(indptr[row], indptr[row + 1], LINE):
        prefetch(indices, at)
        prefetch(values, at)
