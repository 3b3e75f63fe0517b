"""Checks of the parameters that solvers share; each names the parameter as users write it."""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed.errors import InputError

LEAST_TOL = 1e-6
_MOST_SEED = 2**62  # the numbers of labels and epochs are added to it in 64 bits


def check_positive(name: str, value: Any) -> None:
    """Refuse what is not a positive, finite number."""
    if not _is_number(value) or not 0 < value < np.inf:
        raise InputError(f"{name} must be a positive number; got {value!r}")


def check_not_negative(name: str, value: Any) -> None:
    """Refuse what is not a finite number of at least 0."""
    if not _is_number(value) or not 0 <= value < np.inf:
        raise InputError(f"{name} must be a number, at least 0; got {value!r}")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False; got {value!r}")


def check_tol(tol: Any) -> None:
    """Refuse a relative gap that weights of float32 cannot reach."""
    check_positive("tol", tol)
    if tol < LEAST_TOL:
        raise InputError(f"tol must be at least {LEAST_TOL:g}, what float32 weights can certify; got {tol!r}")


def check_prune(prune: Any) -> None:
    """Refuse a threshold below 0."""
    if not _is_number(prune) or not prune >= 0:
        raise InputError(f"prune must be at least 0; got {prune!r}")


def check_rounds(max_rounds: Any, name: str = "max_rounds") -> None:
    """Refuse a number of rounds that lets nothing happen."""
    check_whole(name, max_rounds, 1)


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Refuse what is not a whole number of at least `least` and at most `most`."""
    if not _is_whole(value) or value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name} must be a whole number, {bounds}; got {value!r}")


def check_share(name: str, value: Any) -> None:
    """Refuse what is not a number from 0 to 1."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise InputError(f"{name} must be a number from 0 to 1; got {value!r}")


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if not _is_whole(value) or value < least:
        raise InputError(f"{name} must be a whole number, at least {least}; got {value!r}")


def check_seed(random_state: Any) -> None:
    """Refuse a seed that is not a whole number of at most 62 bits."""
    if not _is_whole(random_state) or not 0 <= random_state < _MOST_SEED:
        raise InputError(f"random_state must be a whole number, at least 0 and below 2^62; got {random_state!r}")


def check_bias(fit_bias: Any) -> None:
    """Refuse a kind of bias that does not exist."""
    if not (isinstance(fit_bias, bool) or (isinstance(fit_bias, str) and fit_bias == "free")):
        raise InputError(f"fit_bias must be True, False or 'free'; got {fit_bias!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
