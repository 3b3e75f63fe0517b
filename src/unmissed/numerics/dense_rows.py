"""Dot products and axpy updates of dense rows, added in a fixed order.

Kernels take dense rows as a tuple (rows, values, n): row r of a design has the n numbers that begin at rows[r] * n in
the flat array `values`. So a design in another row order, or of some rows only, shares the array that it was made from.
Weights of dense features are n consecutive numbers.

Dot products keep several vectors of partial sums in registers. Products are added in a fixed order without fused
multiply-add, so the reference loops, which run where kernels are interpreted, give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, kernel, lazy_module
from unmissed.numerics.float64_sums import PREFETCH_DISTANCE
from unmissed.numerics.prefetch import LINE, prefetch
from unmissed.numerics.simd import constant, shuffle_mask

ir, types, cgutils = lazy_module("llvmlite.ir"), lazy_module("numba.core.types"), lazy_module("numba.core.cgutils")

_N_SUMS = 4  # Vectors of partial sums.
_WIDTHS = {"float32": 16, "float64": 8}  # Numbers per vector.


def _reference_dot(values, begin, weights, first, n, dtype):
    """Return x.w of the row values[begin:begin + n] and the weights from `first` on, in the order of `_dot`."""
    width = _WIDTHS[dtype]
    products = values[begin : begin + n].astype(dtype) * weights[first : first + n].astype(dtype)
    sums = np.zeros((_N_SUMS, width), dtype)
    long, short = n // (_N_SUMS * width) * _N_SUMS * width, n // width * width
    for at in range(0, long, _N_SUMS * width):
        sums += products[at : at + _N_SUMS * width].reshape(_N_SUMS, width)
    for at in range(long, short, width):
        sums[0] += products[at : at + width]
    total = (sums[0] + sums[1]) + (sums[2] + sums[3])
    while len(total) > 1:
        total = total[: len(total) // 2] + total[len(total) // 2 :]
    rest = np.zeros(1, dtype)
    for at in range(short, n):
        rest[0] += products[at]
    return total[0] + rest[0]


def reference_dense_dot(values, begin, weights, first, n):
    """Return x.w of one row in float32."""
    return _reference_dot(values, begin, weights, first, n, "float32")


def reference_dense_score(values, begin, weights, first, n):
    """Return x.w of one row in float64."""
    return _reference_dot(values, begin, weights, first, n, "float64")


def _dot(dtype: str) -> Any:
    """Return an intrinsic that compiles the reference to vector instructions."""

    def function(typingctx: Any, values: Any, begin: Any, weights: Any, first: Any, n: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = [context.make_array(signature.args[at])(context, builder, arguments[at]).data for at in (0, 2)]
            number = ir.FloatType() if dtype == "float32" else ir.DoubleType()
            return _emit_dot(builder, data, (arguments[1], arguments[3]), arguments[4], number, _WIDTHS[dtype])

        result = getattr(types, dtype)
        return result(values, types.int64, weights, types.int64, types.int64), generate

    return intrinsic(function)


def _emit_dot(builder: Any, data: list[Any], begins: tuple[Any, Any], n: Any, number: Any, width: int) -> Any:
    vector = ir.VectorType(number, width)
    sums = [cgutils.alloca_once(builder, vector) for _ in range(_N_SUMS)]  # LLVM keeps these in registers
    for total in sums:
        builder.store(ir.Constant(vector, [0.0] * width), total)
    rest = cgutils.alloca_once(builder, number)
    builder.store(ir.Constant(number, 0.0), rest)
    long, short = (builder.and_(n, constant(-size)) for size in (_N_SUMS * width, width))
    loops = (constant(0), long, sums, width), (long, short, sums[:1], width), (short, n, [rest], 1)
    for start, stop, totals, size in loops:
        with cgutils.for_range_slice(builder, start, stop, constant(len(totals) * size), inc=True) as (at, _):
            for part, total in enumerate(totals):
                position = builder.add(at, constant(part * size))
                x, w = (
                    _load(builder, array, builder.add(begin, position), number, size)
                    for array, begin in zip(data, begins, strict=True)
                )
                builder.store(builder.fadd(builder.load(total), builder.fmul(x, w)), total)
    s0, s1, s2, s3 = (builder.load(total) for total in sums)
    both = builder.fadd(builder.fadd(s0, s1), builder.fadd(s2, s3))
    while width > 1:
        width //= 2
        low, high = (builder.shuffle_vector(both, both, shuffle_mask(range(at, at + width))) for at in (0, width))
        both = builder.fadd(low, high)
    return builder.fadd(builder.extract_element(both, ir.IntType(32)(0)), builder.load(rest))


def _load(builder: Any, array: Any, position: Any, number: Any, size: int) -> Any:
    """Emit the load of `size` consecutive numbers, extended to the type `number` if they are shorter."""
    pointer = builder.gep(array, [position])
    stored = array.type.pointee
    if size == 1:
        loaded = builder.load(pointer)
        return loaded if stored == number else builder.fpext(loaded, number)
    loaded = builder.load(builder.bitcast(pointer, ir.VectorType(stored, size).as_pointer()), align=4)
    return loaded if stored == number else builder.fpext(loaded, ir.VectorType(number, size))


dense_dot = reference_dense_dot if interpreted() else _dot("float32")
dense_score = reference_dense_score if interpreted() else _dot("float64")


@kernel()
def dense_add(values, begin, factor, weights, first, n):
    """Add factor times the row values[begin:begin + n] to the weights from `first` on."""
    x, w = values[begin : begin + n], weights[first : first + n]
    for at in range(n):
        w[at] += factor * x[at]


@kernel()
def prefetch_dense_row(dense, row):
    """Prefetch all cache lines of a dense row."""
    rows, values, n = dense
    begin = np.int64(rows[row]) * n
    for at in range(begin, begin + n, LINE):
        prefetch(values, at)


@kernel()
def add_dense_scores(dense, listed, w, scores):
    """Add x.w of the dense part of the row listed[t] to scores[t], in float64; w has the dense weights first."""
    rows, values, n = dense
    for at in range(listed.shape[0] if n > 0 else 0):
        if at + PREFETCH_DISTANCE < listed.shape[0]:
            prefetch_dense_row(dense, listed[at + PREFETCH_DISTANCE])
        scores[at] += dense_score(values, np.int64(rows[listed[at]]) * n, w, 0, n)


@kernel()
def add_dense_rows(dense, listed, factors, w):
    """Add factors[t] times the dense part of the row listed[t] to the first weights, in float64."""
    rows, values, n = dense
    for at in range(listed.shape[0] if n > 0 else 0):
        if at + PREFETCH_DISTANCE < listed.shape[0] and factors[at + PREFETCH_DISTANCE] != 0:
            prefetch_dense_row(dense, listed[at + PREFETCH_DISTANCE])
        factor = np.float64(factors[at])
        if factor != 0:
            begin = np.int64(rows[listed[at]]) * n
            x, out = values[begin : begin + n], w[:n]
            for feature in range(n):
                out[feature] += factor * np.float64(x[feature])


@kernel()
def add_dense_squares(dense, norms):
    """Add |x|^2 of the dense part of every row to `norms`; sums are float64."""
    rows, values, n = dense
    for row in range(norms.shape[0] if n > 0 else 0):
        begin = np.int64(rows[row]) * n
        norms[row] = np.float64(norms[row]) + dense_score(values, begin, values, begin, n)
