"""Dot products and axpy updates of dense rows, added in a fixed order.

Kernels take dense rows as a tuple (begins, values, n, steps): row r of a design is steps[r] times the n numbers that
begin at begins[r] in the flat array `values`. Float32 rows are those of the caller, and steps scale them: a design of
normalized rows, in another row order, or of some rows only, shares the array that it was made from. Quantized rows are
int16: coordinate ascent is bound by loading rows, and they take half the memory. Sums in float64 take float32 rows
only. Weights of dense features are n consecutive numbers.

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

_N_SUMS = 4  # Vectors of partial sums; half as many for each of two dot products.
_WIDTHS = {"float32": 16, "float64": 8}  # Numbers per vector.


def _reference_dot(values, begin, weights, first, n, dtype, n_sums=_N_SUMS):
    """Return x.w of the row values[begin:begin + n] and the weights from `first` on, in the order of `_emit_dots`."""
    width = _WIDTHS[dtype]
    products = values[begin : begin + n].astype(dtype) * weights[first : first + n].astype(dtype)
    sums = np.zeros((n_sums, width), dtype)
    long, short = n // (n_sums * width) * n_sums * width, n // width * width
    for at in range(0, long, n_sums * width):
        sums += products[at : at + n_sums * width].reshape(n_sums, width)
    for at in range(long, short, width):
        sums[0] += products[at : at + width]
    total = sums.reshape(-1)
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


def reference_dense_pair_dot(values, begin, weights, n):
    """Return x.w of one row with the first n weights and with the next n, in float32."""
    return tuple(_reference_dot(values, begin, weights, first, n, "float32", _N_SUMS // 2) for first in (0, n))


def _dot(dtype: str) -> Any:
    """Return an intrinsic that compiles the reference of one dot product to vector instructions."""

    def function(typingctx: Any, values: Any, begin: Any, weights: Any, first: Any, n: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = [context.make_array(signature.args[at])(context, builder, arguments[at]).data for at in (0, 2)]
            return _emit_dots(builder, data, arguments[1], [arguments[3]], arguments[4], dtype)[0]

        result = getattr(types, dtype)
        return result(values, types.int64, weights, types.int64, types.int64), generate

    return intrinsic(function)


def _dense_pair_dot(typingctx: Any, values: Any, begin: Any, weights: Any, n: Any) -> Any:
    """Compile `reference_dense_pair_dot` to vector instructions; the row is loaded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = [context.make_array(signature.args[at])(context, builder, arguments[at]).data for at in (0, 2)]
        dots = _emit_dots(builder, data, arguments[1], [constant(0), arguments[3]], arguments[3], "float32")
        return context.make_tuple(builder, signature.return_type, dots)

    both = types.UniTuple(types.float32, 2)
    return both(values, types.int64, weights, types.int64), generate


def _emit_dots(builder: Any, data: list[Any], begin: Any, firsts: list[Any], n: Any, dtype: str) -> list[Any]:
    """Emit the dot products of a row with the n weights from each of `firsts` on."""
    number, width, n_sums = _number(dtype), _WIDTHS[dtype], _N_SUMS // len(firsts)
    vector = ir.VectorType(number, width)
    sums = [[_zero(builder, vector) for _ in range(n_sums)] for _ in firsts]
    rests = [_zero(builder, number) for _ in firsts]
    long, short = (builder.and_(n, constant(-size)) for size in (n_sums * width, width))
    shortened = [totals[:1] for totals in sums]
    loops = (constant(0), long, sums, width), (long, short, shortened, width), (short, n, [[r] for r in rests], 1)
    for start, stop, totals, size in loops:
        with cgutils.for_range_slice(builder, start, stop, constant(len(totals[0]) * size), inc=True) as (at, _):
            for part in range(len(totals[0])):
                position = builder.add(at, constant(part * size))
                x = _load(builder, data[0], builder.add(begin, position), number, size)
                for first, of_dot in zip(firsts, totals, strict=True):
                    w = _load(builder, data[1], builder.add(first, position), number, size)
                    builder.store(builder.fadd(builder.load(of_dot[part]), builder.fmul(x, w)), of_dot[part])
    return [
        builder.fadd(_sum_up(builder, [builder.load(total) for total in totals], width), builder.load(rest))
        for totals, rest in zip(sums, rests, strict=True)
    ]


def _number(dtype: str) -> Any:
    return ir.FloatType() if dtype == "float32" else ir.DoubleType()


def _zero(builder: Any, kind: Any) -> Any:
    """Emit a variable with the value 0; LLVM keeps it in a register."""
    variable = cgutils.alloca_once(builder, kind)
    builder.store(ir.Constant(kind, [0.0] * kind.count if isinstance(kind, ir.VectorType) else 0.0), variable)
    return variable


def _sum_up(builder: Any, vectors: list[Any], width: int) -> Any:
    """Emit the sum of all elements: the second half is added to the first until one is left."""
    while len(vectors) > 1:
        half = len(vectors) // 2
        vectors = [builder.fadd(*pair) for pair in zip(vectors[:half], vectors[half:], strict=True)]
    both = vectors[0]
    while width > 1:
        width //= 2
        low, high = (builder.shuffle_vector(both, both, shuffle_mask(range(at, at + width))) for at in (0, width))
        both = builder.fadd(low, high)
    return builder.extract_element(both, ir.IntType(32)(0))


def _load(builder: Any, array: Any, position: Any, number: Any, size: int) -> Any:
    """Emit the load of `size` consecutive numbers, converted to the type `number` if they are shorter or integers."""
    pointer, stored, kind = builder.gep(array, [position]), array.type.pointee, number
    convert = builder.sitofp if isinstance(stored, ir.IntType) else builder.fpext
    if size > 1:
        pointer, kind = builder.bitcast(pointer, ir.VectorType(stored, size).as_pointer()), ir.VectorType(number, size)
    loaded = builder.load(pointer, align=2 if isinstance(stored, ir.IntType) else 4)
    return loaded if stored == number else convert(loaded, kind)


dense_dot = reference_dense_dot if interpreted() else _dot("float32")
dense_score = reference_dense_score if interpreted() else _dot("float64")
dense_pair_dot = reference_dense_pair_dot if interpreted() else intrinsic(_dense_pair_dot)


@kernel()
def dense_add(values, begin, factor, weights, first, n):
    """Add factor times the row values[begin:begin + n] to the weights from `first` on."""
    x, w = values[begin : begin + n], weights[first : first + n]
    for at in range(n):
        w[at] += factor * np.float32(x[at])


@kernel()
def prefetch_dense_row(dense, row):
    """Prefetch all cache lines of a dense row."""
    begins, values, n, _ = dense
    at, end, line = begins[row], begins[row] + n, LINE if values.itemsize == 4 else 2 * LINE
    while at < end:  # range would divide by the step
        prefetch(values, at)
        at += line


@kernel()
def add_dense_scores(dense, listed, w, scores):
    """Add x.w of the dense part of the row listed[t] to scores[t], in float64; w has the dense weights first."""
    begins, values, n, steps = dense
    for at in range(listed.shape[0] if n > 0 else 0):
        if at + PREFETCH_DISTANCE < listed.shape[0]:
            prefetch_dense_row(dense, listed[at + PREFETCH_DISTANCE])
        scores[at] += np.float64(steps[listed[at]]) * dense_score(values, begins[listed[at]], w, 0, n)


@kernel()
def add_dense_rows(dense, listed, factors, w):
    """Add factors[t] times the dense part of the row listed[t] to the first weights, in float64."""
    begins, values, n, steps = dense
    for at in range(listed.shape[0] if n > 0 else 0):
        if at + PREFETCH_DISTANCE < listed.shape[0] and factors[at + PREFETCH_DISTANCE] != 0:
            prefetch_dense_row(dense, listed[at + PREFETCH_DISTANCE])
        factor = np.float64(factors[at]) * np.float64(steps[listed[at]])
        if factor != 0:
            begin = begins[listed[at]]
            x, out = values[begin : begin + n], w[:n]
            for feature in range(n):
                out[feature] += factor * np.float64(x[feature])


@kernel()
def add_dense_squares(dense, norms):
    """Add |x|^2 of the dense part of every row to `norms`; sums are float64."""
    begins, values, n, steps = dense
    for row in range(norms.shape[0] if n > 0 else 0):
        square = np.float64(steps[row]) ** 2 * dense_score(values, begins[row], values, begins[row], n)
        norms[row] = np.float64(norms[row]) + square
