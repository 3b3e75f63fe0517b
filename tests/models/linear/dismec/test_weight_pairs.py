"""Weights of one label as pairs of contributions of negatives and positives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed._jit import kernel
from unmissed.models.linear.dismec import weight_pairs
from unmissed.models.linear.dismec.weight_pairs import (
    merge_weights,
    pair_add,
    pair_move,
    reference_pair_dot,
    split_weights,
)


@kernel()
def pair_dot(entries, values, begin, end, mask, both):
    return weight_pairs.pair_dot(entries, values, begin, end, mask, both)


def draw(seed):
    rng = np.random.default_rng(seed)
    entries = rng.permutation(64)[:40].astype(np.uint32)
    values = rng.standard_normal(40).astype(np.float32)
    both = (rng.standard_normal(2 * 64) * 10.0 ** rng.integers(-3, 4)).astype(np.float32)
    return entries, values, both


@pytest.mark.kernel
@pytest.mark.parametrize("mask", [15, 2**32 - 1])
@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), bounds=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_both_scores_have_the_bits_of_the_reference_loop(mask, seed, bounds):
    begin, end = sorted(bounds)
    entries, values, both = draw(seed)
    mask = np.uint32(mask)
    found = pair_dot(entries, values, begin, end, mask, both)
    assert (
        np.float32(found).tobytes() == np.float32(reference_pair_dot(entries, values, begin, end, mask, both)).tobytes()
    )
    features = (entries & mask)[begin:end]
    expected = [values[begin:end].astype(float) @ both[part::2][features] for part in (0, 1)]
    assert np.array(found) == pytest.approx(np.array(expected), rel=1e-4, abs=1e-4 * float(np.abs(both).max()))


@pytest.mark.kernel
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("length", [0, 3, 4, 11])
def test_a_row_is_added_to_one_part(part, length):
    entries, values, both = draw(length)
    expected = both.copy()
    expected[2 * entries[5 : 5 + length].astype(int) + part] += np.float32(0.5) * values[5 : 5 + length]
    pair_add(entries, values, 5, 5 + length, np.uint32(63), np.float32(0.5), both, part)
    assert np.array_equal(both, expected)


@pytest.mark.kernel
def test_a_row_moves_from_one_part_to_the_other():
    entries, values, both = draw(3)
    expected = both.copy()
    features = 2 * entries[5:16].astype(int)
    expected[features] -= np.float32(0.5) * values[5:16]
    expected[features + 1] += np.float32(0.5) * values[5:16]
    square = pair_move(entries, values, 5, 16, np.uint32(63), np.float32(0.5), both)
    assert square == pytest.approx(values[5:16] @ values[5:16])
    assert np.array_equal(both, expected)


@pytest.mark.kernel
@pytest.mark.parametrize("n_features", [1, 63, 64, 200])
def test_weights_are_split_and_merged_again(n_features):
    rng = np.random.default_rng(n_features)
    w = rng.standard_normal(n_features).astype(np.float32)
    both = np.full(2 * n_features, np.nan, np.float32)
    assert split_weights(w, both, 0) == pytest.approx(w @ w, rel=1e-4)
    assert np.array_equal(both[::2], w)
    assert not both[1::2].any()
    both[1::2] = second = rng.standard_normal(n_features).astype(np.float32)
    joined = np.empty_like(w)
    square = merge_weights(np.float32(2), both, joined, 0)
    assert np.array_equal(joined, np.float32(2) * w + second)
    assert square == pytest.approx(joined @ joined, rel=1e-4)


@pytest.mark.kernel
@pytest.mark.parametrize("n_dense", [1, 70])
def test_dense_weights_are_split_into_two_vectors(n_dense):
    w = np.random.default_rng(n_dense).standard_normal(n_dense + 9).astype(np.float32)
    both = np.full(2 * len(w), np.nan, np.float32)
    assert split_weights(w, both, n_dense) == pytest.approx(w @ w, rel=1e-4)
    assert np.array_equal(both[:n_dense], w[:n_dense])
    assert not both[n_dense : 2 * n_dense].any()
    assert np.array_equal(both[2 * n_dense :: 2], w[n_dense:])
    both[n_dense : 2 * n_dense] = 1
    joined = np.empty_like(w)
    square = merge_weights(np.float32(2), both, joined, n_dense)
    assert np.array_equal(joined[:n_dense], np.float32(2) * w[:n_dense] + np.float32(1))
    assert np.array_equal(joined[n_dense:], np.float32(2) * w[n_dense:])
    assert square == pytest.approx(joined @ joined, rel=1e-4)
