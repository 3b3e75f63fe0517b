"""Checks and scaling of CSR rows, next to slow reference implementations."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmissed.numerics.csr import NOT_FINITE, NOT_SORTED, OUT_OF_RANGE, find_faults, read_only, scale_to_unit

pytestmark = pytest.mark.kernel
VALUES = st.sampled_from([0.0, -1.5, 3e38, 1e-45, np.inf, -np.inf, np.nan])
ROWS = st.lists(st.lists(st.tuples(st.integers(-2, 6), VALUES), max_size=5), max_size=4)


def arrays_of(rows):
    indptr = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int32)
    indices = np.array([column for row in rows for column, _ in row], np.int32)
    return indptr, indices, np.array([value for row in rows for _, value in row], np.float32)


@given(ROWS)
def test_faults_are_those_that_a_reader_of_single_entries_finds(rows):
    expected = 0
    for row in rows:
        columns = [column for column, _ in row]
        expected |= OUT_OF_RANGE * any(not 0 <= column < 5 for column in columns)
        expected |= NOT_SORTED * any(after <= before for before, after in pairwise(columns))
        expected |= NOT_FINITE * any(not np.isfinite(value) for _, value in row)
    indptr, indices, values = arrays_of(rows)
    found = find_faults(read_only(indptr), read_only(indices), read_only(values.view(np.uint32)), 5)
    assert found == expected


def test_scaled_rows_have_the_bits_of_sums_in_float64_in_order():
    rng = np.random.default_rng(0)
    sizes = np.array([0, 1, 7, 30, 0])
    indptr = np.append(0, np.cumsum(sizes)).astype(np.int32)
    values = (rng.standard_normal(sizes.sum()) * 10.0 ** rng.integers(-18, 18, sizes.sum())).astype(np.float32)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    lengths = np.sqrt(np.bincount(rows, values.astype(np.float64) ** 2, minlength=len(sizes)))
    expected = (values * (1 / lengths[rows])).astype(np.float32)
    scaled = np.empty_like(values)
    scale_to_unit(read_only(indptr), read_only(values), scaled)
    assert np.array_equal(scaled.view(np.uint32), expected.view(np.uint32))


def test_rows_of_zeros_stay_zero():
    scaled = np.full(3, 9, np.float32)
    scale_to_unit(read_only(np.array([0, 2, 3], np.int32)), read_only(np.array([0, 0, 5], np.float32)), scaled)
    assert scaled.tolist() == [0, 0, 1]
