"""Margin losses: values, derivatives and curvatures, in numpy and compiled."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed.losses import margin

FAMILIES = ["hinge", "squared_hinge", "logistic"]
ORDERS = ["value", "derivative", "curvature"]
margins = st.floats(-30, 30).filter(lambda m: abs(m - 1) > 1e-3)


def function(family, order):
    return getattr(margin, f"{family}_{order}")


@pytest.mark.parametrize("family", FAMILIES)
@given(m=margins)
@settings(deadline=None)
def test_derivative_and_curvature_match_finite_differences(family, m):
    step = 1e-5
    for lower, upper in [("value", "derivative"), ("derivative", "curvature")]:
        rise = function(family, lower)(np.float64(m + step)) - function(family, lower)(np.float64(m - step))
        assert function(family, upper)(np.float64(m)) == pytest.approx(rise / (2 * step), abs=1e-6)


@pytest.mark.kernel
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_scalars_equal_numpy_arrays_and_keep_their_precision(family, order, dtype):
    plain = function(family, order)
    compiled = numba.njit(error_model="numpy")(plain)
    m = np.array([-1000, -1, 0, 0.25, 1, 1.5, 1000], dtype=dtype)
    expected = plain(m)
    assert expected.dtype == dtype
    np.testing.assert_allclose([compiled(value) for value in m], expected, rtol=4 * np.finfo(dtype).eps)
    if hasattr(compiled, "nopython_signatures"):  # absent if Numba interprets
        assert str(compiled.nopython_signatures[0].return_type) == np.dtype(dtype).name


@pytest.mark.parametrize("family", FAMILIES)
def test_infinite_margins_give_their_limits(family):
    ends = np.array([-np.inf, np.inf])
    np.testing.assert_array_equal(function(family, "value")(ends), [np.inf, 0])
    assert function(family, "derivative")(ends)[1] == 0
    np.testing.assert_array_equal(function(family, "curvature")(ends)[1], 0)


def test_known_values_at_the_corners():
    m = np.array([-1.0, 0.0, 1.0, 2.0])
    np.testing.assert_array_equal(margin.hinge_value(m), [2, 1, 0, 0])
    np.testing.assert_array_equal(margin.hinge_derivative(m), [-1, -1, 0, 0])
    np.testing.assert_array_equal(margin.squared_hinge_value(m), [4, 1, 0, 0])
    np.testing.assert_array_equal(margin.squared_hinge_derivative(m), [-4, -2, 0, 0])
    np.testing.assert_array_equal(margin.squared_hinge_curvature(m), [2, 2, 0, 0])
    assert margin.logistic_value(np.float64(0)) == pytest.approx(np.log(2))
    assert margin.logistic_value(np.float64(-800)) == 800
    assert margin.logistic_derivative(np.float64(40)) == pytest.approx(-np.exp(-40), rel=1e-12)
