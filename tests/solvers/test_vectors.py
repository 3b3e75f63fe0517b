"""Sums kept in registers: the same bits as the plain loops that say what they are."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed._jit import kernel
from unmissed.kernels import vectors
from unmissed.kernels.vectors import LANES

N_FEATURES = 7


@kernel()
def add_in_order(indices, values, begin, end, weights, score):
    vectors.add_in_order(indices, values, begin, end, weights, score)


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
def test_sums_have_the_bits_of_the_plain_loop(number, index, seed, bounds):
    begin, end = sorted(bounds)
    indices, values, weights, score = draw(seed, 40, index)
    score = score.astype(number)
    expected = score.copy()
    before = weights.copy()
    add_in_order(indices, values, begin, end, weights, score)
    vectors.plain_add_in_order(indices, values, begin, end, weights, expected)
    assert score.tobytes() == expected.tobytes()
    assert weights.tobytes() == before.tobytes()


@kernel()
def add_16(places, values, begin, end, weights, score):
    vectors.add_16(places, values, begin, end, weights, score)


@kernel()
def add_72(places, values, begin, end, weights, score):
    vectors.add_72(places, values, begin, end, weights, score)


@pytest.mark.parametrize(("add", "width"), [(add_16, 16), (add_72, 72)])
@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), bounds=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_sums_of_blocks_begin_at_any_place(add, width, seed, bounds):
    begin, end = sorted(bounds)
    _, values, weights, score = draw(seed, 40, np.int64)
    places = np.random.default_rng(seed).integers(0, len(weights) - width, 40)
    score = np.resize(score, width).astype(np.float32)
    expected = score.copy()
    add(places, values, begin, end, weights, score)
    vectors.plain_add_places(places, values, begin, end, weights, expected)
    assert score.tobytes() == expected.tobytes()


@kernel()
def add_whole(indices, numbers, begin, end, weights, sums):
    vectors.add_whole(indices, numbers, begin, end, weights, sums)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    bounds=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    largest=st.sampled_from([5_000, 32_767]),
)
def test_whole_numbers_are_summed_exactly_and_in_the_order_of_lanes(seed, bounds, largest):
    begin, end = sorted(bounds)
    end = end if largest < 32_767 else min(end, begin + 2)  # no sum is above 2^31
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, N_FEATURES, 40).astype(np.uint32)
    numbers = rng.integers(-largest, largest + 1, 40).astype(np.int16)
    table = rng.integers(-largest, largest + 1, (N_FEATURES, LANES)).astype(np.int16)
    stored = np.empty_like(table)
    stored[:, [vectors.whole_place(lane) for lane in range(LANES)]] = table
    sums = rng.integers(-9, 9, LANES).astype(np.int32)  # what it holds before does not matter
    plain = sums.copy()
    add_whole(indices, numbers, begin, end, stored.reshape(-1), sums)
    vectors.plain_add_whole(indices, numbers, begin, end, stored.reshape(-1), plain)
    expected = numbers[begin:end].astype(np.int64) @ table[indices[begin:end]].astype(np.int64)
    assert np.array_equal(sums, expected)
    assert np.array_equal(plain, expected)


def test_the_plain_loop_is_what_it_says():
    indices, values, weights, score = draw(0, 6, np.int32)
    expected = score.astype(np.float32)
    ordered = expected.copy()
    vectors.plain_add_in_order(indices, values, 0, 6, weights, ordered)
    for product in values[:, None] * weights.reshape(N_FEATURES, LANES)[indices]:
        expected = expected + product
    np.testing.assert_array_equal(ordered, expected)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="kernels are interpreted")
def test_compiled_code_keeps_its_sums_in_vectors():
    indices, values, weights, score = draw(0, 8, np.int32)
    in_place = numba.njit(lambda *arguments: vectors.add_in_order(*arguments))
    in_place(indices, values, 0, 8, weights, score.astype(np.float32))
    (code,) = in_place.inspect_llvm().values()
    assert "<8 x float>" in code
