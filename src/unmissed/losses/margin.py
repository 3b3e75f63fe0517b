"""Margin losses phi(m) with derivative phi'(m) and curvature phi''(m).

This module is the only definition of these formulas. numpy evaluates them on arrays, Numba compiles them for the
kernels of the solvers. The constants are float32, so a float32 margin is never promoted; 0, 1 and 2 are exact. Each
result has the dtype of the margin, a numpy array or scalar. (A Python float counts as float32.)
"""

from typing import Any

import numpy as np

_ZERO = np.float32(0)
_ONE = np.float32(1)
_TWO = np.float32(2)


def hinge_value(m: Any) -> Any:
    """Return max(0, 1 - m)."""
    return np.maximum(_ONE - m, _ZERO)


def hinge_derivative(m: Any) -> Any:
    """Return -1 for m < 1, else 0. At the kink m = 1 this is the subgradient of smallest norm."""
    return np.sign(np.minimum(m - _ONE, _ZERO))


def hinge_curvature(m: Any) -> Any:
    """Return 0: the hinge is piecewise linear."""
    return np.minimum(np.abs(m), _ZERO)


def squared_hinge_value(m: Any) -> Any:
    """Return max(0, 1 - m)^2."""
    slack = np.maximum(_ONE - m, _ZERO)
    return slack * slack


def squared_hinge_derivative(m: Any) -> Any:
    """Return -2 max(0, 1 - m)."""
    return -_TWO * np.maximum(_ONE - m, _ZERO)


def squared_hinge_curvature(m: Any) -> Any:
    """Return 2 for m < 1, else 0: the generalized second derivative of Newton methods."""
    return _TWO * np.sign(np.maximum(_ONE - m, _ZERO))


def logistic_value(m: Any) -> Any:
    """Return log(1 + exp(-m)) without overflow."""
    return np.maximum(-m, _ZERO) + np.log1p(np.exp(-np.abs(m)))


def logistic_derivative(m: Any) -> Any:
    """Return -1 / (1 + exp(m)) without overflow or cancellation."""
    return -np.exp(-np.maximum(m, _ZERO)) / (_ONE + np.exp(-np.abs(m)))


def logistic_curvature(m: Any) -> Any:
    """Return sigma(m) sigma(-m), where sigma is the logistic function."""
    decay = np.exp(-np.abs(m))
    return decay / ((_ONE + decay) * (_ONE + decay))
