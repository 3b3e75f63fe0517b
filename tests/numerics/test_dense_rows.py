"""Dense rows: compiled dot products give the bits of the reference loops."""

import numpy as np
import pytest

from unmissed._jit import kernel
from unmissed.numerics import dense_rows, simd

pytestmark = pytest.mark.kernel
LENGTHS = 1, 7, 16, 65, 100, 384


@kernel()
def dots(values, begin, weights, n):
    """Return all dot products of one row."""
    first, second = dense_rows.dense_pair_dot(values, begin, weights, n)
    single = dense_rows.dense_dot(values, begin, weights, n, n)
    return first, second, single, dense_rows.dense_score(values, begin, weights, n, n)


@kernel()
def lane_sums(numbers, n, weights, sums):
    """Set the sums of one row and of DENSE_ROWS rows."""
    simd.add_dense_int16(numbers, numbers, n, 2 * n, weights, sums[0, : simd.LANES])
    for lane in range(0, simd.LANES, simd.DENSE_LANES):
        simd.add_dense_rows_int16(numbers, numbers, 0, n, weights[2 * lane :], sums[1, lane:])


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
@pytest.mark.parametrize("n", LENGTHS)
def test_dot_products_have_the_bits_of_the_reference(n, dtype):
    rng = np.random.default_rng(n)
    values, weights = (50 * rng.standard_normal(3 * n)).astype(dtype), rng.standard_normal(2 * n).astype(np.float32)
    first, second, single, score = dots(values, n, weights, n)
    assert (first, second) == dense_rows.reference_dense_pair_dot(values, n, weights, n)
    assert single == dense_rows.reference_dense_dot(values, n, weights, n, n)
    assert score == dense_rows.reference_dense_score(values, n, weights, n, n)
    x = values[n : 2 * n].astype(np.float64)
    assert score == pytest.approx(x @ weights[n:], rel=1e-12, abs=1e-10)
    assert first == pytest.approx(x @ weights[:n], rel=1e-4, abs=5e-3)


@pytest.mark.parametrize("n", [2, 10, 384])
def test_sums_of_lanes_are_exact(n):
    rng = np.random.default_rng(n)
    rows = rng.integers(-2000, 2000, (simd.DENSE_ROWS, n)).astype(np.int16)
    weights = rng.integers(-1000, 1000, (n, simd.LANES)).astype(np.int16)
    pairs = weights.reshape(n // 2, 2, simd.LANES).transpose(0, 2, 1).reshape(-1)
    sums = np.zeros((2, simd.DENSE_ROWS * simd.LANES), np.int32)
    lane_sums(rows.reshape(-1), n, np.ascontiguousarray(pairs), sums)
    expected = rows.astype(np.int64) @ weights
    assert np.array_equal(sums[1], expected.reshape(-1))
    assert np.array_equal(sums[0, : simd.LANES], expected[1])


def test_scores_rows_and_squares_follow_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    E = rng.standard_normal((6, 5)).astype(np.float32)
    order, listed = np.array([4, 0, 2], np.int32), np.array([2, 0, 0], np.int32)
    steps = np.ones(3, np.float32)
    dense, picked = (5 * order.astype(np.int64), E.reshape(-1), 5, steps), E[order][listed].astype(np.float64)
    w, scores, norms = rng.standard_normal(9), np.ones(3), np.ones(3, np.float32)
    dense_rows.add_dense_scores(dense, listed, w, scores)
    assert scores == pytest.approx(1 + picked @ w[:5])
    factors, total = np.array([2.0, 0.0, -1.0]), np.zeros(9)
    dense_rows.add_dense_rows(dense, listed, factors, total)
    assert total == pytest.approx(np.append(factors @ picked, np.zeros(4)))
    dense_rows.add_dense_squares(dense, norms)
    assert norms == pytest.approx(1 + (E[order] ** 2).sum(axis=1), rel=1e-6)
