"""Products of dense rows and dense weights: exact ones in a fixed order, and bounds on those that BLAS computes.

An exact score is the float32 score of the sparse part (`tiles`), plus the product of the dense parts in float64,
rounded once to float32. Feature j of the dense part adds to partial sum j mod 16; the sums are added in order, then the
features that are left. A product of two float32 numbers is exact in float64, so a fused multiply-add changes no bit.

BLAS adds the d products of float32 numbers in some order. With u = 2^-24 its result is off by at most

    d u / (1 - d u) |x| |w|,

fused or not. A label whose upper bound is below the k-th best exact score so far is not scored exactly. The rounding of
base + product and of the exact score is relative to them, so it is subtracted from the score that they are compared to.
"""

from typing import Any

import numpy as np

from unmissed._jit import interpreted, intrinsic, kernel, lazy_module
from unmissed.numerics.topk import put

ir, types, cgutils = lazy_module("llvmlite.ir"), lazy_module("numba.core.types"), lazy_module("numba.core.cgutils")

_N_SUMS = 16  # partial sums, a multiple of every SIMD width
_BLOCK = 64  # labels that are compared to the bound together
_ROUNDING = 2.0**-22  # relative; it bounds 3.2 roundings to float32
_LOWEST = np.float32(-np.inf)


def reference_product(x, w):
    """Return x.w in float64, in the order of this module."""
    sums, end = np.zeros(_N_SUMS), len(x) // _N_SUMS * _N_SUMS
    for begin in range(0, end, _N_SUMS):
        sums += x[begin : begin + _N_SUMS].astype(np.float64) * w[begin : begin + _N_SUMS].astype(np.float64)
    total = np.float64(0)
    for number in sums:
        total += number
    for at in range(end, len(x)):
        total += np.float64(x[at]) * np.float64(w[at])
    return total


def _emit_product(typingctx: Any, x: Any, w: Any) -> Any:
    """Emit `reference_product` with all partial sums in vector registers; Numba would keep them in memory."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        double, single, index = ir.DoubleType(), ir.FloatType(), ir.IntType(64)
        kinds = zip(signature.args, arguments, strict=True)
        arrays = [context.make_array(kind)(context, builder, array) for kind, array in kinds]
        vectors = ir.VectorType(single, _N_SUMS).as_pointer()
        sums = cgutils.alloca_once_value(builder, ir.Constant(ir.VectorType(double, _N_SUMS), [0.0] * _N_SUMS))
        size = builder.extract_value(arrays[0].shape, 0)
        end = builder.and_(size, index(-_N_SUMS))

        def add(total: Any, at: Any, pointer: Any, number: Any) -> None:
            """Emit total += x[at] w[at]; `contract` allows a fused multiply-add."""
            addresses = [builder.bitcast(builder.gep(array.data, [at]), pointer) for array in arrays]
            factors = [builder.fpext(builder.load(address, align=4), number) for address in addresses]
            product = builder.fmul(*factors, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)

        with cgutils.for_range_slice(builder, index(0), end, index(_N_SUMS), inc=True) as (at, _):
            add(sums, at, vectors, ir.VectorType(double, _N_SUMS))
        partial = builder.load(sums)
        value = ir.Constant(double, 0.0)
        for lane in range(_N_SUMS):
            value = builder.fadd(value, builder.extract_element(partial, ir.IntType(32)(lane)))
        total = cgutils.alloca_once_value(builder, value)
        with cgutils.for_range_slice(builder, end, size, index(1), inc=True) as (at, _):
            add(total, at, single.as_pointer(), double)
        return builder.load(total)

    return types.float64(x, w), generate


product = reference_product if interpreted() else intrinsic(_emit_product)


@kernel()
def set_norms(vectors, norms):
    """Set norms[i] to the L2 norm of vectors[i], in float64."""
    for at in range(vectors.shape[0]):
        norms[at] = np.sqrt(product(vectors[at], vectors[at]))


@kernel()
def add_products(X, W, scores):
    """Add x_i.w_l to scores[i, l] exactly."""
    for row in range(X.shape[0]):
        for label in range(W.shape[0]):
            scores[row, label] = add_product(scores[row, label], X[row], W[label])


@kernel()
def add_products_of(X, W, rows, labels, cells, scores):
    """Add x_i.w_l exactly to scores[cells[t]], where i = rows[t] and l = labels[t]."""
    for at in range(rows.shape[0]):
        scores[cells[at]] = add_product(scores[cells[at]], X[rows[at]], W[labels[at]])


@kernel()
def merge_bounded(base, products, X, W, factors, norms, smallest, first, labels, best):
    """Merge base[i, l] + x_i.w_l of the labels first, first + 1, ... into each row's top k, exactly.

    products[i, l] is x_i.w_l, off by at most factors[i] norms[l] + smallest. The result is that of
    `topk.merge_best` with all scores exact.
    """
    last = best.shape[1] - 1
    for row in range(X.shape[0]):
        row_labels, row_best, factor = labels[row], best[row], factors[row]
        bound = _just_below(row_best[last])
        for begin in range(0, base.shape[1], _BLOCK):
            end = min(begin + _BLOCK, base.shape[1])
            some = base[row, begin:end], products[row, begin:end], norms[begin:end]
            if row_best[last] > _LOWEST and _count_reaching(some[0], some[1], some[2], factor, smallest, bound) == 0:
                continue
            for label in range(begin, end):
                upper_bound = (base[row, label] + products[row, label]) + (factor * norms[label] + smallest)
                if row_best[last] > _LOWEST and upper_bound < bound:
                    continue
                score = base[row, label]
                if score != _LOWEST:
                    score = add_product(score, X[row], W[label])
                put(row_labels, row_best, first + label, score)
                bound = _just_below(row_best[last])


@kernel()
def add_product(score, x, w):
    """Return the exact score of a label, given that of the sparse part."""
    return np.float32(np.float64(score) + product(x, w))


@kernel()
def _just_below(score):
    """Return a score less the rounding errors of bounds that are compared to it."""
    return np.float32(np.float64(score) - _ROUNDING * abs(np.float64(score)))


@kernel()
def _count_reaching(base, products, norms, factor, smallest, bound):
    """Return the number of labels whose upper bound reaches `bound`; it has no branch, so it is vectorized."""
    count = np.int32(0)
    for label in range(base.shape[0]):
        upper_bound = (base[label] + products[label]) + (factor * norms[label] + smallest)
        count += np.int32(not upper_bound < bound)  # NaN reaches every bound
    return count
