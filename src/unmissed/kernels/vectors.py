"""Sums over the non-zeros of a row, for many labels at once, that stay in vector registers until the row is done.

Left to itself the compiler writes each sum back to memory after every four non-zeros, and waits for the weights. Here
both are spelt out: as many sums as fit are kept in registers, and weights are asked for before they are needed.
Products are added in a given order and nothing is fused, so the plain loops, which stand in where kernels are
interpreted, give the same bits. LLVM cuts the vectors to what a processor has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, kernel, later
from unmissed.kernels.prefetch import LINE, hint

ir, types, cgutils = later("llvmlite.ir"), later("numba.core.types"), later("numba.core.cgutils")

LANES = 64
_AHEAD = 64  # weights are asked for so many non-zeros before they are used
_REGISTER = 32  # bytes
_SUMS = 8  # registers that hold sums; the others hold products
_MOST_SUMS = 10  # so many, if that saves a second pass
_GROUP = 4  # non-zeros that are added at a time
_PAIRS = 16  # whole numbers of 16 bits in a register

_Value = Any  # of llvmlite


def plain_add_in_order(indices, values, begin, end, weights, score):
    """Add x.W of one row to `score`, one non-zero after the other."""
    kind = score.dtype.type
    for at in range(begin, end):
        score += kind(values[at]) * _line(weights, indices[at]).astype(kind)


def plain_add_places(places, values, begin, end, weights, score):
    """Add values times the weights from each of some places on to `score`, one after the other."""
    for at in range(begin, end):
        score += values[at] * weights[places[at] : places[at] + len(score)]


def plain_add_whole(indices, values, begin, end, weights, sums):
    """Set sums to x.W of one row, all in whole numbers; a feature's weights stand in the order of `whole_place`."""
    places = [whole_place(lane) for lane in range(LANES)]
    sums[:] = 0
    for at in range(begin, end):
        sums += np.int32(values[at]) * _line(weights, indices[at])[places].astype(np.int32)


def _line(weights: np.ndarray, feature: Any) -> np.ndarray:
    """The weights of a feature, one per lane."""
    return weights[int(feature) * LANES : (int(feature) + 1) * LANES]


@kernel()
def whole_place(lane):
    """Return where the whole weight of a lane stands: of 16 lanes, 4 to 7 and 8 to 11 change places.

    Vector units weave two registers half by half; so the sums come out in order.
    """
    return lane ^ 12 if (lane ^ (lane >> 1)) & 4 else lane


class _Row:
    """The code that adds one row's products to the sums.

    `lanes` numbers are summed; a feature's weights begin at its number times `stride`.
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
        self.line = LINE * 32 // signature.args[4].dtype.bitwidth  # weights in a cache line

    def add(self) -> None:
        """Go over the row as often as its sums need it, each time with all registers filled."""
        once = (_SUMS if self.lanes > _MOST_SUMS * self.width else _MOST_SUMS) * self.width
        for first in range(0, self.lanes, once):
            self._add_lanes(range(first, min(self.lanes, first + once), self.width))

    def _add_lanes(self, lanes: range) -> None:
        builder, sums = self.builder, {}
        for lane in lanes:
            sums[lane] = cgutils.alloca_once(builder, self.sums)  # LLVM keeps these in registers
            builder.store(self._vector(self.score, constant(lane), self.number), sums[lane])
        whole = builder.add(self.begin, builder.and_(builder.sub(self.end, self.begin), constant(-_GROUP)))
        for start, stop, together in ((self.begin, whole, _GROUP), (whole, self.end, 1)):
            with cgutils.for_range_slice(builder, start, stop, constant(together), inc=True) as (at, _):
                places = [builder.add(at, constant(next_one)) for next_one in range(together)]
                if together > 1:
                    for place in places:
                        self._ask(builder.add(place, constant(_AHEAD)), lanes)
                factors = [self._factor(place) for place in places]
                begins = [self._place_of_weights(place) for place in places]
                for lane in lanes:
                    weights = [self._weights(builder.add(begin, constant(lane))) for begin in begins]
                    products = [builder.fmul(*pair) for pair in zip(factors, weights, strict=True)]
                    total = builder.load(sums[lane])
                    for product in products:
                        total = builder.fadd(total, product)
                    builder.store(total, sums[lane])
        for lane in lanes:
            builder.store(builder.load(sums[lane]), self._pointer(self.score, constant(lane), self.number), align=4)

    def _pointer(self, array: _Value, place: _Value, number: Any) -> _Value:
        return self.builder.bitcast(self.builder.gep(array, [place]), ir.VectorType(number, self.width).as_pointer())

    def _vector(self, array: _Value, place: _Value, number: Any) -> _Value:
        return self.builder.load(self._pointer(array, place, number), align=4)

    def _weights(self, place: _Value) -> _Value:
        weights = self._vector(self.weights, place, ir.FloatType())
        return weights if self.number == ir.FloatType() else self.builder.fpext(weights, self.sums)

    def _factor(self, place: _Value) -> _Value:
        """A value of the row in every lane of a register."""
        value = self.builder.load(self.builder.gep(self.values, [place]))
        if self.number != value.type:
            value = self.builder.fpext(value, self.number)
        nothing = ir.Constant(self.sums, ir.Undefined)
        first = self.builder.insert_element(nothing, value, ir.IntType(32)(0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        return self.builder.shuffle_vector(first, nothing, everywhere)

    def _place_of_weights(self, place: _Value) -> _Value:
        index = self.builder.load(self.builder.gep(self.indices, [place]))
        if index.type.width < 64:
            index = (self.builder.sext if self.signed else self.builder.zext)(index, ir.IntType(64))
        return self.builder.mul(index, constant(self.stride))

    def _ask(self, place: _Value, lanes: range) -> None:
        """Ask for the weights of a non-zero ahead, or of the last one there is."""
        last = self.builder.sub(self.n_indices, constant(1))
        inside = self.builder.icmp_signed("<", place, last)
        begin = self._place_of_weights(self.builder.select(inside, place, last))
        for lane in range(lanes.start, lanes.stop, self.line):
            hint(self.builder, self.builder.gep(self.weights, [self.builder.add(begin, constant(lane))]))


class _WholeRow(_Row):
    """The code for rows and weights of 16-bit whole numbers: products of two non-zeros are added in one step."""

    def add_whole(self) -> None:
        """Set the sums to those of the row; each register of weights serves two registers of sums."""
        builder = self.builder
        lanes = range(0, self.lanes, _PAIRS)
        nothing = ir.Constant(ir.VectorType(ir.IntType(32), _PAIRS // 2), [0] * (_PAIRS // 2))
        sums = [cgutils.alloca_once(builder, nothing.type) for _ in range(2 * len(lanes))]
        for total in sums:
            builder.store(nothing, total)
        whole = builder.add(self.begin, builder.and_(builder.sub(self.end, self.begin), constant(-2)))
        for start, stop, together in ((self.begin, whole, 2), (whole, self.end, 1)):
            with cgutils.for_range_slice(builder, start, stop, constant(together), inc=True) as (at, _):
                places = [builder.add(at, constant(next_one)) for next_one in range(together)]
                if together > 1:
                    for place in places:
                        self._ask(builder.add(place, constant(_AHEAD)), range(self.lanes))
                factors = self._factors(at, together)
                begins = [self._place_of_weights(place) for place in places]
                for number, lane in enumerate(lanes):
                    pair = [self._line(builder.add(begin, constant(lane))) for begin in begins]
                    self._add_pair([*pair, ir.Constant(factors.type, [0] * _PAIRS)], factors, sums[2 * number :])
        for number, total in enumerate(sums):
            target = builder.gep(self.score, [constant(number * _PAIRS // 2)])
            builder.store(builder.load(total), builder.bitcast(target, nothing.type.as_pointer()), align=4)

    def _factors(self, at: _Value, together: int) -> _Value:
        """Two values of the row, or one and 0, side by side all over a register."""
        builder, two = self.builder, ir.VectorType(ir.IntType(16), 2)
        first = builder.gep(self.values, [at])
        if together > 1:
            pair = builder.load(builder.bitcast(first, two.as_pointer()), align=2)
        else:
            pair = builder.insert_element(ir.Constant(two, [0, 0]), builder.load(first), ir.IntType(32)(0))
        return builder.shuffle_vector(pair, pair, mask([0, 1] * (_PAIRS // 2)))

    def _line(self, place: _Value) -> _Value:
        kind = ir.VectorType(ir.IntType(16), _PAIRS)
        pointer = self.builder.gep(self.weights, [place])
        return self.builder.load(self.builder.bitcast(pointer, kind.as_pointer()), align=2)

    def _add_pair(self, lines: list[_Value], factors: _Value, sums: list[_Value]) -> None:
        """Add both products of each lane to its sum."""
        builder, wide = self.builder, ir.VectorType(ir.IntType(32), _PAIRS)
        for half, total in zip((0, 4), sums, strict=False):
            order = [base + half + lane + line for base in (0, 8) for lane in range(4) for line in (0, _PAIRS)]
            woven = builder.shuffle_vector(lines[0], lines[1], mask(order))
            products = builder.mul(builder.sext(woven, wide), builder.sext(factors, wide))
            first, second = (builder.shuffle_vector(products, products, mask(range(at, _PAIRS, 2))) for at in (0, 1))
            builder.store(builder.add(builder.load(total), builder.add(first, second)), total)


def mask(places: Iterable[int]) -> _Value:
    """Which lanes a shuffle takes."""
    places = list(places)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)


def constant(number: int) -> _Value:
    """A number of 64 bits in code that is being written."""
    return ir.IntType(64)(number)


def _compiled(write: Callable[[Any], None], lanes: int = LANES, stride: int = LANES, row: type[_Row] = _Row) -> Any:
    """An intrinsic of a row (indices, values, begin, end), the flat weights, and as many numbers as there are lanes."""

    def function(typingctx: Any, indices: Any, values: Any, begin: Any, end: Any, weights: Any, numbers: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write(row(lanes, stride, context, builder, signature, arguments))
            return context.get_dummy_value()

        return types.void(indices, values, types.int64, types.int64, weights, numbers), generate

    return intrinsic(function)


if interpreted():
    add_in_order = plain_add_in_order
    add_16 = add_32 = add_64 = add_72 = add_80 = plain_add_places
    add_whole = plain_add_whole
else:
    add_in_order = _compiled(lambda row: row.add())
    add_16, add_32, add_64, add_72, add_80 = (
        _compiled(lambda row: row.add(), lanes, 1) for lanes in (16, 32, 64, 72, 80)
    )
    add_whole = _compiled(_WholeRow.add_whole, row=_WholeRow)
