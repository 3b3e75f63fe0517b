"""Transpose label-major float32 weights to feature-major lines, quantized to int16 or as they are, and back.

Blocks of 8 x 8 weights are transposed in vector registers. The reference loop, which runs for the remaining features
and where kernels are interpreted, gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, kernel, lazy_module
from unmissed.numerics.simd import LANES, constant, lane_slot, shuffle_mask

ir, types, cgutils = lazy_module("llvmlite.ir"), lazy_module("numba.core.types"), lazy_module("numba.core.cgutils")

MAX_QUANTIZED = np.float32(32_000)  # Largest absolute value of a quantized weight.
_SIDE = 8
_COLUMNS = 16  # Features per block: one cache line of float32.
_BATCH = 512  # Features per batch; their lines stay in cache until all lanes are written.

_Value = Any  # An llvmlite value.


@kernel()
def quantize_weights(weights, steps, quantized):
    """Set quantized[f, lane_slot(l)] to weights[l, f] / steps[l], rounded and clipped to +-MAX_QUANTIZED.

    `weights` is (LANES, n_features); `quantized` has a line for all features or for the first ones. A step of 0 gives
    weights of 0. Nothing is clipped if the step is at least |w| / MAX_QUANTIZED.
    """
    factors = np.zeros(LANES, np.float32)
    for lane in range(LANES):
        if steps[lane] > 0:
            factors[lane] = 1.0 / steps[lane]
    n = quantized.shape[0]
    vector_end = n // _SIDE * _SIDE
    for batch in range(0, vector_end, _BATCH):
        for slot in range(0, LANES, _SIDE):
            for feature in range(batch, min(batch + _BATCH, vector_end), _SIDE):
                transpose_8x8(weights, factors, feature, slot, quantized)
    for feature in range(vector_end, n):
        for lane in range(LANES):
            quantized[feature, lane_slot(lane)] = quantize_weight(weights[lane, feature], factors[lane])


@kernel()
def pair_lines(lines, pairs):
    """Interleave lines of two features each, as `simd.add_dense_int16` takes them; pairs[f // 2] gets the line f.

    `pairs` is (number of features / 2, rounded up, 2 LANES); nothing is written for a feature that is missing.
    """
    for feature in range(lines.shape[0]):
        for lane in range(LANES):
            pairs[feature // 2, 2 * lane + feature % 2] = lines[feature, lane_slot(lane)]


@kernel()
def quantize_weight(weight, factor):
    """Return weight * factor rounded to int16, clipped to +-MAX_QUANTIZED."""
    return np.int16(np.rint(min(max(weight * factor, -MAX_QUANTIZED), MAX_QUANTIZED)))


def reference_transpose_8x8(weights, factors, feature, slot, quantized):
    """Quantize an 8 x 8 block: slots slot:slot+8 of the lines feature:feature+8."""
    for column in range(slot, slot + _SIDE):
        lane = lane_slot(column)  # lane_slot is its own inverse
        for at in range(feature, feature + _SIDE):
            quantized[at, column] = quantize_weight(weights[lane, at], factors[lane])


def _transpose_8x8(typingctx: Any, weights: Any, factors: Any, feature: Any, slot: Any, quantized: Any) -> Any:
    """Compile `reference_transpose_8x8` to vector instructions."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, scales, target = (
            context.make_array(signature.args[at])(context, builder, arguments[at]) for at in (0, 1, 4)
        )
        feature, slot = arguments[2:4]
        n_features = builder.extract_value(source.shape, 1)
        half = builder.and_(slot, constant(_SIDE))  # slots 0 to 7 of 16 hold lanes 0 to 3 and 8 to 11
        first = builder.sub(slot, builder.lshr(half, constant(1)))
        rows = []
        for at in range(_SIDE):
            lane = builder.add(first, constant(at % 4 + 2 * (at & 4)))
            begin = builder.add(builder.mul(lane, n_features), feature)
            factor = builder.load(builder.gep(scales.data, [lane]))
            rows.append(_quantized(builder, _load(builder, builder.gep(source.data, [begin])), factor))
        for _ in range(3):  # three rounds of interleaving transpose the block
            rows = [_interleave(builder, rows[at], rows[at + 4], half) for at in range(4) for half in (0, 4)]
        for at, row in enumerate(rows):
            line = builder.mul(builder.add(feature, constant(at)), constant(LANES))
            pointer = builder.gep(target.data, [builder.add(line, slot)])
            builder.store(row, builder.bitcast(pointer, row.type.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(weights, factors, types.int64, types.int64, quantized), generate


def _load(builder: Any, pointer: _Value) -> _Value:
    return builder.load(builder.bitcast(pointer, ir.VectorType(ir.FloatType(), _SIDE).as_pointer()), align=4)


def _quantized(builder: Any, weights: _Value, factor: _Value) -> _Value:
    """Emit `quantize_weight` for eight weights."""
    floats = weights.type
    first = builder.insert_element(ir.Constant(floats, ir.Undefined), factor, ir.IntType(32)(0))
    numbers = builder.fmul(weights, builder.shuffle_vector(first, first, shuffle_mask([0] * _SIDE)))
    for bound, beyond in ((-float(MAX_QUANTIZED), "<"), (float(MAX_QUANTIZED), ">")):
        limit = ir.Constant(floats, [bound] * _SIDE)
        numbers = builder.select(builder.fcmp_ordered(beyond, numbers, limit), limit, numbers)
    nearest = cgutils.get_or_insert_function(builder.module, ir.FunctionType(floats, [floats]), "llvm.rint.v8f32")
    integers = builder.fptosi(builder.call(nearest, [numbers]), ir.VectorType(ir.IntType(32), _SIDE))
    return builder.trunc(integers, ir.VectorType(ir.IntType(16), _SIDE))


def _interleave(builder: Any, one: _Value, other: _Value, half: int) -> _Value:
    return builder.shuffle_vector(
        one, other, shuffle_mask([at + line for at in range(half, half + 4) for line in (0, _SIDE)])
    )


transpose_8x8 = reference_transpose_8x8 if interpreted() else intrinsic(_transpose_8x8)


@kernel()
def interleave(by_label, by_feature):
    """Copy a (LANES, n_features) matrix to a flat feature-major one, in blocks that fit in the cache."""
    for begin in range(0, by_label.shape[1], _COLUMNS):
        for lane in range(LANES):
            for at in range(begin, min(begin + _COLUMNS, by_label.shape[1])):
                by_feature[at * LANES + lane] = by_label[lane, at]


@kernel()
def separate(by_feature, by_label):
    """Copy a flat feature-major matrix to a (LANES, n_features) one."""
    for begin in range(0, by_label.shape[1], _COLUMNS):
        for lane in range(LANES):
            for at in range(begin, min(begin + _COLUMNS, by_label.shape[1])):
                by_label[lane, at] = by_feature[at * LANES + lane]
