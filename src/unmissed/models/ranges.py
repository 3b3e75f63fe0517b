"""Ranges of parameters, declared in their type annotations; checked in `fit` and when a run is opened.

`C: Positive` is `C: Annotated[float, NumberRange(0, above=True)]`. `check_ranges` checks all parameters of a model or
of a solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Annotated, Any, get_type_hints

import numpy as np

from unmissed.errors import InputError
from unmissed.matrices import LARGEST
from unmissed.models.label_blocks import MOST_LABELS


@dataclass(frozen=True)
class IntegerRange:
    """The integers from `least` to `most`, both included."""

    least: int
    most: int = int(LARGEST)

    def __str__(self) -> str:
        return f"an integer from {self.least} to {self.most}"

    def holds(self, value: Any) -> bool:
        """Return whether a value is an integer in the range."""
        is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return is_integer and self.least <= int(value) <= self.most


@dataclass(frozen=True)
class NumberRange:
    """The finite numbers from `least` to `most`; `above` excludes `least`."""

    least: float
    most: float = inf
    above: bool = False

    def __str__(self) -> str:
        if self.above:
            return f"a number above {self.least:g}"
        bounds = f", at least {self.least:g}" if self.most == inf else f" from {self.least:g} to {self.most:g}"
        return f"a number{bounds}"

    def holds(self, value: Any) -> bool:
        """Return whether a value is a finite number in the range."""
        number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if not number or not self.least <= value <= self.most or abs(value) > _LARGEST_FLOAT:
            return False
        return not (self.above and value == self.least)


Range = IntegerRange | NumberRange
_LARGEST_FLOAT = float(np.finfo(np.float64).max)
LEAST_TOL = 1e-6
"""The smallest relative duality gap that float32 weights can certify."""

Count = Annotated[int, IntegerRange(1)]
BlockSize = Annotated[int, IntegerRange(1, MOST_LABELS)]
Seed = Annotated[int, IntegerRange(0, 2**62 - 1)]  # label and epoch numbers are added to it in 64 bits
Positive = Annotated[float, NumberRange(0, above=True)]
NotNegative = Annotated[float, NumberRange(0)]
Fraction = Annotated[float, NumberRange(0, 1)]
Tolerance = Annotated[float, NumberRange(LEAST_TOL)]


@cache
def ranges_of(declared: Callable[..., Any]) -> dict[str, Range]:
    """Return the declared range of each parameter of a constructor or dataclass."""
    try:
        annotations = get_type_hints(declared, include_extras=True)
    except NameError:  # a class defined in a function: its annotations cannot be resolved
        return {}
    extras = {name: getattr(annotation, "__metadata__", ()) for name, annotation in annotations.items()}
    return {name: one for name, many in extras.items() for one in many if isinstance(one, IntegerRange | NumberRange)}


def check_ranges(owner: Any, declared: Callable[..., Any]) -> None:
    """Raise if a parameter of `owner` is outside its declared range."""
    for name, one in ranges_of(declared).items():
        value = getattr(owner, name)
        if not one.holds(value):
            raise InputError(f"{name} must be {one}; got {value!r}")


def check_flag(name: str, value: Any) -> None:
    """Raise unless the value is a bool."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False; got {value!r}")


def check_bias(fit_bias: Any) -> None:
    """Raise unless `fit_bias` is True, False or 'free'."""
    if not (isinstance(fit_bias, bool) or (isinstance(fit_bias, str) and fit_bias == "free")):
        raise InputError(f"fit_bias must be True, False or 'free'; got {fit_bias!r}")
