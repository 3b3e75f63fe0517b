"""Ranges of numbers: what a parameter accepts, and how a message calls it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from unmissed.matrices import LARGEST

_LARGEST_FLOAT = float(np.finfo(np.float64).max)


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
        value = value.item() if isinstance(value, np.integer | np.floating) else value  # comparisons do not overflow
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        if not self.least <= value <= self.most or abs(value) > _LARGEST_FLOAT:
            return False
        return not (self.above and value == self.least)


Range = IntegerRange | NumberRange
