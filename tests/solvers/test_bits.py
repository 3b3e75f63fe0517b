"""Words of 64 bits as sets, compiled and plain."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmissed._jit import kernel
from unmissed.kernels import bits
from unmissed.kernels.vectors import LANES

pytestmark = pytest.mark.kernel


@kernel()
def count_ones(word):
    return bits.count_ones(word)


@kernel()
def lowest(word):
    return bits.lowest(word)


@kernel()
def above(numbers, limit):
    return bits.above(numbers, limit)


@kernel()
def other(numbers, number):
    return bits.other(numbers, number)


def test_a_word_has_a_bit_for_each_lane():
    assert bits.SIZE == LANES


@given(st.integers(1, 2**64 - 1))
def test_set_bits_are_counted_and_the_lowest_is_found(word):
    word = np.uint64(word)
    written = f"{word:064b}"[::-1]
    assert count_ones(word) == bits.plain_count_ones(word) == written.count("1")
    assert lowest(word) == bits.plain_lowest(word) == written.index("1")
    assert count_ones(np.uint64(0)) == bits.plain_count_ones(np.uint64(0)) == 0


@given(st.lists(st.sampled_from([-np.inf, -1.5, -1, -0.0, 0, 1e-30, np.inf, np.nan]), min_size=64, max_size=64))
def test_a_set_has_the_numbers_that_pass(numbers):
    numbers = np.array(numbers, np.float32)
    for limit in np.array([-1, 0, np.nan], np.float32):
        expected = sum(1 << at for at, number in enumerate(numbers) if not number <= limit)
        assert above(numbers, limit) == bits.plain_above(numbers, limit) == expected
        expected = sum(1 << at for at, number in enumerate(numbers) if number != limit)
        assert other(numbers, limit) == bits.plain_other(numbers, limit) == expected
