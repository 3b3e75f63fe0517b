"""Sparse row times weight matrix for many lanes, with the sums kept in vector registers.

Left to itself, the compiler stores each sum after every four non-zeros and stalls on loading weights. These intrinsics
keep as many sums in registers as fit, and prefetch the weights. Products are added in a fixed order without fused
multiply-add, so the reference loops, which run where kernels are interpreted, give the same bits. LLVM splits the
vectors to the width of the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, kernel, lazy_module
from unmissed.numerics.prefetch import LINE, emit_prefetch

ir, types, cgutils = lazy_module("llvmlite.ir"), lazy_module("numba.core.types"), lazy_module("numba.core.cgutils")

LANES = 64  # Labels that a kernel handles at a time.
_PREFETCH_DISTANCE = 64  # Prefetch distance, in non-zeros.
_REGISTER = 32  # Bytes per vector register.
_SUM_REGISTERS = 8  # Registers that hold sums; the others hold products.
_MAX_SUM_REGISTERS = 10  # The same where it saves a second pass over the row.
_UNROLL = 4  # Non-zeros per iteration.
_INT16_PER_REGISTER = 16
DENSE_ROWS = 4  # Dense rows that a load of weights serves.
DENSE_LANES = LANES // 4  # Lanes whose sums for DENSE_ROWS rows fit into registers.

_Value = Any  # An llvmlite value.


def reference_add_in_order(indices, values, begin, end, weights, score):
    """Add x.W of one row to `score`, in the order of its non-zeros."""
    kind = score.dtype.type
    for at in range(begin, end):
        score += kind(values[at]) * _line(weights, indices[at]).astype(kind)


def reference_add_at_offsets(positions, values, begin, end, weights, score):
    """Add values[t] * weights[positions[t]:][:len(score)] to `score` for every t, in order."""
    for at in range(begin, end):
        score += values[at] * weights[positions[at] : positions[at] + len(score)]


def reference_add_int16(indices, values, begin, end, weights, sums):
    """Set `sums` (int32) to x.W of one row, both int16; the weights of a line are in the order of `lane_slot`."""
    positions = [lane_slot(lane) for lane in range(LANES)]
    sums[:] = 0
    for at in range(begin, end):
        sums += np.int32(values[at]) * _line(weights, indices[at])[positions].astype(np.int32)


def reference_add_dense_int16(rows, values, begin, end, weights, sums):
    """Set `sums` (int32) to x.W of one dense row, both int16.

    The row is values[begin:end], of even length; `rows` is ignored. Weights of two features are interleaved: those of
    features 2 p and 2 p + 1 in lane l are at 2 (LANES p + l) and after it.
    """
    numbers = values[begin:end].astype(np.int32).reshape(-1, 1, 2)
    pairs = weights[: LANES * (end - begin)].astype(np.int32).reshape(-1, LANES, 2)
    sums[:LANES] = (numbers * pairs).sum(axis=(0, 2), dtype=np.int32)


def reference_add_dense_rows_int16(rows, values, begin, end, weights, sums):
    """Set the first DENSE_LANES sums of each of DENSE_ROWS consecutive dense rows to x.W.

    The first row is values[begin:end]. There are LANES sums per row, and weights as in `add_dense_int16`; a caller
    passes both from a later lane on for the next lanes.
    """
    of_row = np.empty(LANES, np.int32)
    padded = np.append(weights, np.zeros(-len(weights) % (2 * LANES), weights.dtype))
    for row in range(DENSE_ROWS):
        shift = row * (end - begin)
        reference_add_dense_int16(rows, values, begin + shift, end + shift, padded, of_row)
        sums[row * LANES : row * LANES + DENSE_LANES] = of_row[:DENSE_LANES]


def _line(weights: np.ndarray, feature: Any) -> np.ndarray:
    """Return the line of a feature: its weights, one per lane."""
    return weights[int(feature) * LANES : (int(feature) + 1) * LANES]


@kernel()
def lane_slot(lane):
    """Return the position of a lane's int16 weight in a line: of 16 lanes, 4 to 7 and 8 to 11 are swapped.

    AVX2 interleaves registers within their 128-bit halves; with this order the sums come out in lane order.
    """
    return lane ^ 12 if (lane ^ (lane >> 1)) & 4 else lane


class _RowCode:
    """Code generator for score += x.W of one row.

    There are `lanes` sums; the weights of index i begin at i * stride.
    """

    def __init__(self, lanes: int, stride: int, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.builder, self.lanes, self.stride = builder, lanes, stride
        data = [context.make_array(signature.args[at])(context, builder, arguments[at]) for at in (0, 1, 4, 5)]
        self.indices, self.values, self.weights, self.score = (array.data for array in data)
        self.n_indices = builder.extract_value(data[0].shape, 0)
        self.begin, self.end = arguments[2:4]
        self.signed = signature.args[0].dtype.signed
        self.number = context.get_data_type(signature.args[5].dtype)
        self.width = _REGISTER * 8 // signature.args[5].dtype.bitwidth
        self.sums = ir.VectorType(self.number, self.width)
        self.line = LINE * 32 // signature.args[4].dtype.bitwidth  # weights per cache line

    def add(self) -> None:
        """Emit one pass over the row for each group of lanes whose sums fit into registers."""
        lanes_per_pass = (
            _SUM_REGISTERS if self.lanes > _MAX_SUM_REGISTERS * self.width else _MAX_SUM_REGISTERS
        ) * self.width
        for first in range(0, self.lanes, lanes_per_pass):
            self._add_lanes(range(first, min(self.lanes, first + lanes_per_pass), self.width))

    def _add_lanes(self, lanes: range) -> None:
        builder, sums = self.builder, {}
        for lane in lanes:
            sums[lane] = cgutils.alloca_once(builder, self.sums)  # LLVM keeps these in registers
            builder.store(self._vector(self.score, constant(lane), self.number), sums[lane])
        unrolled_end = builder.add(self.begin, builder.and_(builder.sub(self.end, self.begin), constant(-_UNROLL)))
        for start, stop, unroll in ((self.begin, unrolled_end, _UNROLL), (unrolled_end, self.end, 1)):
            with cgutils.for_range_slice(builder, start, stop, constant(unroll), inc=True) as (at, _):
                positions = [builder.add(at, constant(offset)) for offset in range(unroll)]
                if unroll > 1:
                    for position in positions:
                        self._prefetch_weights(builder.add(position, constant(_PREFETCH_DISTANCE)), lanes)
                factors = [self._factor(position) for position in positions]
                begins = [self._weights_offset(position) for position in positions]
                for lane in lanes:
                    weights = [self._weights(builder.add(begin, constant(lane))) for begin in begins]
                    products = [builder.fmul(*pair) for pair in zip(factors, weights, strict=True)]
                    total = builder.load(sums[lane])
                    for product in products:
                        total = builder.fadd(total, product)
                    builder.store(total, sums[lane])
        for lane in lanes:
            builder.store(builder.load(sums[lane]), self._pointer(self.score, constant(lane), self.number), align=4)

    def _pointer(self, array: _Value, position: _Value, number: Any) -> _Value:
        return self.builder.bitcast(self.builder.gep(array, [position]), ir.VectorType(number, self.width).as_pointer())

    def _vector(self, array: _Value, position: _Value, number: Any) -> _Value:
        return self.builder.load(self._pointer(array, position, number), align=4)

    def _weights(self, position: _Value) -> _Value:
        weights = self._vector(self.weights, position, ir.FloatType())
        return weights if self.number == ir.FloatType() else self.builder.fpext(weights, self.sums)

    def _factor(self, position: _Value) -> _Value:
        """Emit a broadcast of one value of the row to a register."""
        value = self.builder.load(self.builder.gep(self.values, [position]))
        if self.number != value.type:
            value = self.builder.fpext(value, self.number)
        undefined = ir.Constant(self.sums, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.IntType(32)(0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        return self.builder.shuffle_vector(first, undefined, everywhere)

    def _weights_offset(self, position: _Value) -> _Value:
        index = self.builder.load(self.builder.gep(self.indices, [position]))
        if index.type.width < 64:
            index = (self.builder.sext if self.signed else self.builder.zext)(index, ir.IntType(64))
        return self.builder.mul(index, constant(self.stride))

    def _prefetch_weights(self, position: _Value, lanes: range) -> None:
        """Emit a prefetch of the weights of a non-zero; positions past the end mean the last one."""
        last = self.builder.sub(self.n_indices, constant(1))
        inside = self.builder.icmp_signed("<", position, last)
        begin = self._weights_offset(self.builder.select(inside, position, last))
        for lane in range(lanes.start, lanes.stop, self.line):
            emit_prefetch(self.builder, self.builder.gep(self.weights, [self.builder.add(begin, constant(lane))]))


class _Int16RowCode(_RowCode):
    """Code generator for int16 rows and weights: one multiply-add (vpmaddwd) handles two non-zeros."""

    def add_int16(self) -> None:
        """Emit sums = x.W; each register of weights feeds two registers of sums."""
        builder = self.builder
        lanes = range(0, self.lanes, _INT16_PER_REGISTER)
        undefined = ir.Constant(
            ir.VectorType(ir.IntType(32), _INT16_PER_REGISTER // 2), [0] * (_INT16_PER_REGISTER // 2)
        )
        sums = [cgutils.alloca_once(builder, undefined.type) for _ in range(2 * len(lanes))]
        for total in sums:
            builder.store(undefined, total)
        unrolled_end = builder.add(self.begin, builder.and_(builder.sub(self.end, self.begin), constant(-2)))
        for start, stop, unroll in ((self.begin, unrolled_end, 2), (unrolled_end, self.end, 1)):
            with cgutils.for_range_slice(builder, start, stop, constant(unroll), inc=True) as (at, _):
                positions = [builder.add(at, constant(offset)) for offset in range(unroll)]
                if unroll > 1:
                    for position in positions:
                        self._prefetch_weights(builder.add(position, constant(_PREFETCH_DISTANCE)), range(self.lanes))
                factors = self._factors(at, unroll)
                begins = [self._weights_offset(position) for position in positions]
                for number, lane in enumerate(lanes):
                    pair = [self._line(builder.add(begin, constant(lane))) for begin in begins]
                    self._add_pair(
                        [*pair, ir.Constant(factors.type, [0] * _INT16_PER_REGISTER)], factors, sums[2 * number :]
                    )
        for number, total in enumerate(sums):
            target = builder.gep(self.score, [constant(number * _INT16_PER_REGISTER // 2)])
            builder.store(builder.load(total), builder.bitcast(target, undefined.type.as_pointer()), align=4)

    def _factors(self, at: _Value, unroll: int) -> _Value:
        """Emit a broadcast of two values of the row, or of one value and 0, to a register."""
        builder, two = self.builder, ir.VectorType(ir.IntType(16), 2)
        first = builder.gep(self.values, [at])
        if unroll > 1:
            pair = builder.load(builder.bitcast(first, two.as_pointer()), align=2)
        else:
            pair = builder.insert_element(ir.Constant(two, [0, 0]), builder.load(first), ir.IntType(32)(0))
        return builder.shuffle_vector(pair, pair, shuffle_mask([0, 1] * (_INT16_PER_REGISTER // 2)))

    def _line(self, position: _Value) -> _Value:
        kind = ir.VectorType(ir.IntType(16), _INT16_PER_REGISTER)
        pointer = self.builder.gep(self.weights, [position])
        return self.builder.load(self.builder.bitcast(pointer, kind.as_pointer()), align=2)

    def _add_pair(self, lines: list[_Value], factors: _Value, sums: list[_Value]) -> None:
        """Emit the addition of two products per lane to its sum."""
        for half, total in zip((0, 4), sums, strict=False):
            order = [
                base + half + lane + line for base in (0, 8) for lane in range(4) for line in (0, _INT16_PER_REGISTER)
            ]
            interleaved = self.builder.shuffle_vector(lines[0], lines[1], shuffle_mask(order))
            self._add_products(interleaved, factors, total)

    def _add_products(self, pairs: _Value, factors: _Value, total: _Value) -> None:
        """Emit the addition of the products of interleaved weights to the sums of eight lanes."""
        builder, wide = self.builder, ir.VectorType(ir.IntType(32), _INT16_PER_REGISTER)
        products = builder.mul(builder.sext(pairs, wide), builder.sext(factors, wide))
        first, second = (
            builder.shuffle_vector(products, products, shuffle_mask(range(at, _INT16_PER_REGISTER, 2))) for at in (0, 1)
        )
        builder.store(builder.add(builder.load(total), builder.add(first, second)), total)


class _DenseInt16Code(_Int16RowCode):
    """Code generator for dense int16 rows: the weights of two features are interleaved in memory, not in registers."""

    def add_dense_int16(self) -> None:
        """Emit sums = x.W of one row, all lanes at a time."""
        self._add_rows(1, range(0, self.lanes, _INT16_PER_REGISTER // 2))

    def add_dense_rows_int16(self) -> None:
        """Emit sums = x.W of several rows for the first lanes, whose sums fit into registers."""
        self._add_rows(DENSE_ROWS, range(0, DENSE_LANES, _INT16_PER_REGISTER // 2))

    def _add_rows(self, n_rows: int, lanes: range) -> None:
        """Emit the sums of some lanes, two features per iteration."""
        builder, size = self.builder, _INT16_PER_REGISTER // 2
        zero = ir.Constant(ir.VectorType(ir.IntType(32), size), [0] * size)
        sums = {(row, lane): cgutils.alloca_once(builder, zero.type) for row in range(n_rows) for lane in lanes}
        for total in sums.values():
            builder.store(zero, total)
        length = builder.sub(self.end, self.begin)
        starts = [builder.add(self.begin, builder.mul(length, constant(row))) for row in range(n_rows)]
        with cgutils.for_range_slice(builder, constant(0), length, constant(2), inc=True) as (at, _):
            factors = [self._factors(builder.add(start, at), 2) for start in starts]
            first = builder.mul(at, constant(self.stride))
            for lane in lanes:
                pairs = self._line(builder.add(first, constant(2 * lane)))
                for row in range(n_rows):
                    self._add_products(pairs, factors[row], sums[row, lane])
        for (row, lane), total in sums.items():
            target = builder.gep(self.score, [constant(row * self.lanes + lane)])
            builder.store(builder.load(total), builder.bitcast(target, zero.type.as_pointer()), align=4)


def shuffle_mask(positions: Iterable[int]) -> _Value:
    """Return the mask of a vector shuffle."""
    positions = list(positions)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(positions)), positions)


def constant(number: int) -> _Value:
    """Return an int64 constant of the emitted code."""
    return ir.IntType(64)(number)


def _compiled(
    write: Callable[[Any], None], lanes: int = LANES, stride: int = LANES, row: type[_RowCode] = _RowCode
) -> Any:
    """Return an intrinsic with the arguments (indices, values, begin, end, flat weights, one number per lane)."""

    def function(typingctx: Any, indices: Any, values: Any, begin: Any, end: Any, weights: Any, numbers: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write(row(lanes, stride, context, builder, signature, arguments))
            return context.get_dummy_value()

        return types.void(indices, values, types.int64, types.int64, weights, numbers), generate

    return intrinsic(function)


if interpreted():
    add_in_order = reference_add_in_order
    add_16 = add_32 = add_64 = add_72 = add_80 = reference_add_at_offsets
    add_int16 = reference_add_int16
    add_dense_int16 = reference_add_dense_int16
    add_dense_rows_int16 = reference_add_dense_rows_int16
else:
    add_in_order = _compiled(lambda row: row.add())
    add_16, add_32, add_64, add_72, add_80 = (
        _compiled(lambda row: row.add(), lanes, 1) for lanes in (16, 32, 64, 72, 80)
    )
    add_int16 = _compiled(_Int16RowCode.add_int16, row=_Int16RowCode)
    add_dense_int16 = _compiled(_DenseInt16Code.add_dense_int16, row=_DenseInt16Code)
    add_dense_rows_int16 = _compiled(_DenseInt16Code.add_dense_rows_int16, row=_DenseInt16Code)
