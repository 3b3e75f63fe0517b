"""Weights of labels, rounded to whole numbers, from label by label to feature by feature.

Eight features of eight labels are turned at a time, in vector registers. The plain loop stands in where kernels are
interpreted, and for the features that are left over; it gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, kernel, later
from unmissed.kernels.vectors import LANES, constant, mask, whole_place

ir, types, cgutils = later("llvmlite.ir"), later("numba.core.types"), later("numba.core.cgutils")

LARGEST = np.float32(32_000)  # whole number that a weight becomes
_SIDE = 8
_PIECE = 512  # features whose lines stay near until all lanes are written

_Value = Any  # of llvmlite


@kernel()
def round_weights(weights, steps, rounded):
    """Write weights (LANES, n_features) as whole numbers times their label's step, feature by feature.

    `rounded` has lines for all features, or for the first ones. Weights beyond the largest stop there; there are none
    where the step is that of their own length.
    """
    factors = np.zeros(LANES, np.float32)
    for lane in range(LANES):
        if steps[lane] > 0:
            factors[lane] = 1.0 / steps[lane]
    n = rounded.shape[0]
    in_eights = n // _SIDE * _SIDE
    for piece in range(0, in_eights, _PIECE):
        for place in range(0, LANES, _SIDE):
            for feature in range(piece, min(piece + _PIECE, in_eights), _SIDE):
                turn(weights, factors, feature, place, rounded)
    for feature in range(in_eights, n):
        for lane in range(LANES):
            rounded[feature, whole_place(lane)] = round_weight(weights[lane, feature], factors[lane])


@kernel()
def round_weight(weight, factor):
    """Return a weight as a whole number, at most the largest."""
    return np.int16(np.rint(min(max(weight * factor, -LARGEST), LARGEST)))


def plain_turn(weights, factors, feature, place, rounded):
    """Set eight places, from `place` on, of eight features' lines."""
    for column in range(place, place + _SIDE):
        lane = whole_place(column)  # lanes that change places do so in pairs
        for at in range(feature, feature + _SIDE):
            rounded[at, column] = round_weight(weights[lane, at], factors[lane])


def _turn(typingctx: Any, weights: Any, factors: Any, feature: Any, place: Any, rounded: Any) -> Any:
    """Do what `plain_turn` does."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, scales, target = (
            context.make_array(signature.args[at])(context, builder, arguments[at]) for at in (0, 1, 4)
        )
        feature, place = arguments[2:4]
        n_features = builder.extract_value(source.shape, 1)
        half = builder.and_(place, constant(_SIDE))  # of 16 lanes: 0 to 3 and 8 to 11, then the others
        first = builder.sub(place, builder.lshr(half, constant(1)))
        rows = []
        for at in range(_SIDE):
            lane = builder.add(first, constant(at % 4 + 2 * (at & 4)))
            begin = builder.add(builder.mul(lane, n_features), feature)
            factor = builder.load(builder.gep(scales.data, [lane]))
            rows.append(_rounded(builder, _load(builder, builder.gep(source.data, [begin])), factor))
        for _ in range(3):  # after three weaves of all with all, rows are columns
            rows = [_weave(builder, rows[at], rows[at + 4], half) for at in range(4) for half in (0, 4)]
        for at, row in enumerate(rows):
            line = builder.mul(builder.add(feature, constant(at)), constant(LANES))
            pointer = builder.gep(target.data, [builder.add(line, place)])
            builder.store(row, builder.bitcast(pointer, row.type.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(weights, factors, types.int64, types.int64, rounded), generate


def _load(builder: Any, pointer: _Value) -> _Value:
    return builder.load(builder.bitcast(pointer, ir.VectorType(ir.FloatType(), _SIDE).as_pointer()), align=4)


def _rounded(builder: Any, weights: _Value, factor: _Value) -> _Value:
    """Write the code of `round_weight` for eight weights."""
    floats = weights.type
    first = builder.insert_element(ir.Constant(floats, ir.Undefined), factor, ir.IntType(32)(0))
    numbers = builder.fmul(weights, builder.shuffle_vector(first, first, mask([0] * _SIDE)))
    for bound, beyond in ((-float(LARGEST), "<"), (float(LARGEST), ">")):
        limit = ir.Constant(floats, [bound] * _SIDE)
        numbers = builder.select(builder.fcmp_ordered(beyond, numbers, limit), limit, numbers)
    nearest = cgutils.get_or_insert_function(builder.module, ir.FunctionType(floats, [floats]), "llvm.rint.v8f32")
    found = builder.fptosi(builder.call(nearest, [numbers]), ir.VectorType(ir.IntType(32), _SIDE))
    return builder.trunc(found, ir.VectorType(ir.IntType(16), _SIDE))


def _weave(builder: Any, one: _Value, other: _Value, half: int) -> _Value:
    return builder.shuffle_vector(one, other, mask([at + line for at in range(half, half + 4) for line in (0, _SIDE)]))


turn = plain_turn if interpreted() else intrinsic(_turn)
