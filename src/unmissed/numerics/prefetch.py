"""Software prefetch of array elements and sparse rows."""

from __future__ import annotations

from typing import Any

from unmissed._jit import interpreted, intrinsic, kernel, lazy_module

ir, types = lazy_module("llvmlite.ir"), lazy_module("numba.core.types")
LINE = 16  # 4-byte numbers per cache line


def emit_prefetch(builder: Any, pointer: Any) -> None:
    """Emit an LLVM prefetch of the cache line at a pointer, for reading, with high locality."""
    address = builder.bitcast(pointer, ir.IntType(8).as_pointer())
    number = ir.IntType(32)
    shape = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
    llvm_prefetch = builder.module.declare_intrinsic("llvm.prefetch", [address.type], shape)
    read, high_locality, data = 0, 3, 1
    builder.call(llvm_prefetch, [address, *(number(value) for value in (read, high_locality, data))])


def _prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of array[index]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        layout = context.make_array(signature.args[0])(context, builder, arguments[0])
        emit_prefetch(builder, builder.gep(layout.data, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(array, index), generate


def _do_nothing(array: Any, index: Any) -> None:
    """Replace `prefetch` where kernels are interpreted."""


prefetch = _do_nothing if interpreted() else intrinsic(_prefetch)


@kernel()
def prefetch_row(indptr, indices, values, row):
    """Prefetch all cache lines of a CSR row."""
    for at in range(indptr[row], indptr[row + 1], LINE):
        prefetch(indices, at)
        prefetch(values, at)
