"""Bitsets of 64 lanes: compiled code and reference implementations agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmissed._jit import kernel
from unmissed.numerics import bitset
from unmissed.numerics.simd import LANES

pytestmark = pytest.mark.kernel


@kernel()
def count_ones(bits):
    return bitset.count_ones(bits)


@kernel()
def lowest_bit(bits):
    return bitset.lowest_bit(bits)


@kernel()
def mask_above(numbers, limit):
    return bitset.mask_above(numbers, limit)


@kernel()
def mask_not_equal(numbers, number):
    return bitset.mask_not_equal(numbers, number)


def test_a_bitset_has_a_bit_for_each_lane():
    assert bitset.SIZE == LANES


@given(st.integers(1, 2**64 - 1))
def test_set_bits_are_counted_and_the_lowest_is_found(bits):
    bits = np.uint64(bits)
    written = f"{bits:064b}"[::-1]
    assert count_ones(bits) == bitset.reference_count_ones(bits) == written.count("1")
    assert lowest_bit(bits) == bitset.reference_lowest_bit(bits) == written.index("1")
    assert count_ones(np.uint64(0)) == bitset.reference_count_ones(np.uint64(0)) == 0


@given(st.lists(st.sampled_from([-np.inf, -1.5, -1, -0.0, 0, 1e-30, np.inf, np.nan]), min_size=64, max_size=64))
def test_a_mask_has_the_lanes_that_satisfy_the_comparison(numbers):
    numbers = np.array(numbers, np.float32)
    for limit in np.array([-1, 0, np.nan], np.float32):
        expected = sum(1 << at for at, number in enumerate(numbers) if not number <= limit)
        assert mask_above(numbers, limit) == bitset.reference_mask_above(numbers, limit) == expected
        expected = sum(1 << at for at, number in enumerate(numbers) if number != limit)
        assert mask_not_equal(numbers, limit) == bitset.reference_mask_not_equal(numbers, limit) == expected
