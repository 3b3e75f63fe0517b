"""Sums in vector registers have the same bits as the reference loops."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed._jit import kernel
from unmissed.numerics import simd
from unmissed.numerics.simd import LANES

N_FEATURES = 7


@kernel()
def add_in_order(indices, values, begin, end, weights, score):
    simd.add_in_order(indices, values, begin, end, weights, score)


def draw(seed, length, index):
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, N_FEATURES, length).astype(index)
    values = rng.standard_normal(length).astype(np.float32)
    weights = (rng.standard_normal(N_FEATURES * LANES) * 10.0 ** rng.integers(-3, 4)).astype(np.float32)
    return indices, values, weights, rng.standard_normal(LANES)


@pytest.mark.parametrize("index", [np.int32, np.uint32, np.int64])
@pytest.mark.parametrize("number", [np.float32, np.float64])
@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), bounds=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_sums_have_the_bits_of_the_reference_loop(number, index, seed, bounds):
    begin, end = sorted(bounds)
    indices, values, weights, score = draw(seed, 40, index)
    score = score.astype(number)
    expected = score.copy()
    before = weights.copy()
    add_in_order(indices, values, begin, end, weights, score)
    simd.reference_add_in_order(indices, values, begin, end, weights, expected)
    assert score.tobytes() == expected.tobytes()
    assert weights.tobytes() == before.tobytes()


@kernel()
def add_16(positions, values, begin, end, weights, score):
    simd.add_16(positions, values, begin, end, weights, score)


@kernel()
def add_72(positions, values, begin, end, weights, score):
    simd.add_72(positions, values, begin, end, weights, score)


@pytest.mark.parametrize(("add", "width"), [(add_16, 16), (add_72, 72)])
@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), bounds=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_sums_of_blocks_begin_at_any_offset(add, width, seed, bounds):
    begin, end = sorted(bounds)
    _, values, weights, score = draw(seed, 40, np.int64)
    positions = np.random.default_rng(seed).integers(0, len(weights) - width, 40)
    score = np.resize(score, width).astype(np.float32)
    expected = score.copy()
    add(positions, values, begin, end, weights, score)
    simd.reference_add_at_offsets(positions, values, begin, end, weights, expected)
    assert score.tobytes() == expected.tobytes()


@kernel()
def add_int16(indices, numbers, begin, end, weights, sums):
    simd.add_int16(indices, numbers, begin, end, weights, sums)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    bounds=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    largest=st.sampled_from([5_000, 32_767]),
)
def test_int16_products_are_summed_exactly_in_lane_order(seed, bounds, largest):
    begin, end = sorted(bounds)
    end = end if largest < 32_767 else min(end, begin + 2)  # no sum is above 2^31
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, N_FEATURES, 40).astype(np.uint32)
    numbers = rng.integers(-largest, largest + 1, 40).astype(np.int16)
    table = rng.integers(-largest, largest + 1, (N_FEATURES, LANES)).astype(np.int16)
    stored = np.empty_like(table)
    stored[:, [simd.lane_slot(lane) for lane in range(LANES)]] = table
    sums = rng.integers(-9, 9, LANES).astype(np.int32)  # what it holds before does not matter
    reference = sums.copy()
    add_int16(indices, numbers, begin, end, stored.reshape(-1), sums)
    simd.reference_add_int16(indices, numbers, begin, end, stored.reshape(-1), reference)
    expected = numbers[begin:end].astype(np.int64) @ table[indices[begin:end]].astype(np.int64)
    assert np.array_equal(sums, expected)
    assert np.array_equal(reference, expected)


def test_the_reference_loop_adds_products_in_order():
    indices, values, weights, score = draw(0, 6, np.int32)
    expected = score.astype(np.float32)
    ordered = expected.copy()
    simd.reference_add_in_order(indices, values, 0, 6, weights, ordered)
    for product in values[:, None] * weights.reshape(N_FEATURES, LANES)[indices]:
        expected = expected + product
    np.testing.assert_array_equal(ordered, expected)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="kernels are interpreted")
def test_compiled_code_keeps_its_sums_in_vectors():
    indices, values, weights, score = draw(0, 8, np.int32)
    compiled = numba.njit(lambda *arguments: simd.add_in_order(*arguments))
    compiled(indices, values, 0, 8, weights, score.astype(np.float32))
    (code,) = compiled.inspect_llvm().values()
    assert "<8 x float>" in code
