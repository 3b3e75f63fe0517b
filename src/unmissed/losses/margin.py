"""Margin losses phi(m) with slope phi'(m) and curvature phi''(m): the one place where this mathematics is written.

Each function is plain arithmetic that numpy takes for arrays and Numba for scalars, so that the solvers' kernels wrap
these very functions with `numba.njit` and the losses of this package evaluate them on matrices. The constants are
float32 because they then never widen a float32 margin, neither in numpy nor in compiled code; 0, 1 and 2 are exact.
Every result has the dtype of its margin: a numpy array or numpy scalar (a bare Python float counts as float32).
"""

from typing import Any

import numpy as np

_ZERO = np.float32(0)
_ONE = np.float32(1)
_TWO = np.float32(2)


def hinge_value(m: Any) -> Any:
    """Return max(0, 1 - m)."""
    return np.maximum(_ONE - m, _ZERO)


def hinge_slope(m: Any) -> Any:
    """Return -1 for m < 1 and 0 from there on: at the kink m = 1 the subgradient of least length."""
    return np.sign(np.minimum(m - _ONE, _ZERO))


def hinge_curvature(m: Any) -> Any:
    """Return 0: the hinge is linear on both sides of its kink."""
    return np.minimum(np.abs(m), _ZERO)


def squared_hinge_value(m: Any) -> Any:
    """Return max(0, 1 - m)^2."""
    slack = np.maximum(_ONE - m, _ZERO)
    return slack * slack


def squared_hinge_slope(m: Any) -> Any:
    """Return -2 max(0, 1 - m)."""
    return -_TWO * np.maximum(_ONE - m, _ZERO)


def squared_hinge_curvature(m: Any) -> Any:
    """Return 2 for m < 1 and 0 from there on (the generalised second derivative of Newton methods)."""
    return _TWO * np.sign(np.maximum(_ONE - m, _ZERO))


def logistic_value(m: Any) -> Any:
    """Return log(1 + exp(-m)), without overflow for any m."""
    return np.maximum(-m, _ZERO) + np.log1p(np.exp(-np.abs(m)))


def logistic_slope(m: Any) -> Any:
    """Return -1 / (1 + exp(m)), without overflow and without cancellation for any m."""
    return -np.exp(-np.maximum(m, _ZERO)) / (_ONE + np.exp(-np.abs(m)))


def logistic_curvature(m: Any) -> Any:
    """Return sigma(m) sigma(-m), where sigma is the logistic function."""
    decay = np.exp(-np.abs(m))
    return decay / ((_ONE + decay) * (_ONE + decay))
