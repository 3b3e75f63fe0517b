"""Grids: the values that a search tries, and which of them it tries first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from unmissed.errors import InputError
from unmissed.models.base import Model
from unmissed.models.parameters import parameters_of
from unmissed.propensity.weighting import CONVEX

MOST_CANDIDATES = 1000
_FACTORS = {"C": (0.1, 0.3, 0.5, 1.0, 3.0), "l1": (0.1, 0.3, 1.0, 3.0), "penalty": (0.1, 0.3, 1.0, 3.0)}
Params = dict[str, Any]
Tries = Mapping[str, Sequence[Any]]


def default_tries(model: Model) -> dict[str, list[Any]]:
    """Return the values to try by default: the convex weightings, and multiples of C, l1 or penalty.

    Multiples are those of the baseline's value, or else of the model's own. Empty if the model has none of these.
    """
    known = {one.name: one for one in parameters_of(type(model))}
    start = baseline_of(model, known)
    tries: dict[str, list[Any]] = {}
    if "weighting" in known:
        tries["weighting"] = [one for one in CONVEX if known["weighting"].takes(one)]
    for name, factors in _FACTORS.items():
        if name in known and isinstance(start[name], int | float) and start[name] > 0:
            tries[name] = [float(f"{factor * start[name]:.6g}") for factor in factors]
    return {name: values for name, values in tries.items() if len(values) > 1}


def baseline_of(model: Model, names: Sequence[str] | Mapping[str, Any]) -> Params:
    """Return the baseline's values of some parameters: `Model.baseline_params`, or else the model's own."""
    own = model.get_params(deep=False)
    return {name: model.baseline_params.get(name, own[name]) for name in names}


class SearchSpace:
    """All combinations of the values to try, with the baseline and the preferred candidate among them.

    Parameters
    ----------
    model : an unfitted model
    tries : for each parameter the values to try
    """

    def __init__(self, model: Model, tries: Tries) -> None:
        self._axes = {name: list(dict.fromkeys(values)) for name, values in tries.items()}
        size = 1
        for values in self._axes.values():
            size *= len(values)
        if not 0 < size <= MOST_CANDIDATES:
            raise InputError(f"{size:,} combinations of values to try; expected 1 to {MOST_CANDIDATES:,}")
        self.baseline = baseline_of(model, tries)
        own = model.get_params(deep=False)
        self.preferred = {name: model.preferred_params.get(name, own[name]) for name in tries}
        if any(value == "auto" for value in self.preferred.values()):
            self.preferred = self.baseline
        combined = [dict(zip(self._axes, values, strict=True)) for values in product(*self._axes.values())]
        self.every = _distinct([self.baseline, self.preferred, *combined])

    def coarse(self, *, middle: bool = False) -> list[Params]:
        """Return every second value of the ordered parameters, in all combinations, and the two named candidates.

        With `middle`, only the middle value of each ordered parameter.
        """
        thinned = []
        for name, values in self._axes.items():
            half = len(values) // 2
            some = slice(half, half + 1) if middle else slice(1, None, 2)
            thinned.append(values[some] if self._is_ordered(name) else values)
        combined = [dict(zip(self._axes, values, strict=True)) for values in product(*thinned)]
        return _distinct([self.baseline, self.preferred, *combined])

    def neighbors(self, params: Params) -> list[Params]:
        """Return the candidates that differ by one step in one ordered parameter."""
        found = []
        for name, values in self._axes.items():
            if self._is_ordered(name) and params[name] in values:
                at = values.index(params[name])
                found += [
                    {**params, name: values[next_to]} for next_to in (at - 1, at + 1) if 0 <= next_to < len(values)
                ]
        return found

    def _is_ordered(self, name: str) -> bool:
        values = self._axes[name]
        numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
        return numbers and len(values) > 2 and values == sorted(values)


def _distinct(candidates: Sequence[Params]) -> list[Params]:
    """Return the candidates without repetitions, in their order."""
    found: list[Params] = []
    for one in candidates:
        if one not in found:
            found.append(one)
    return found
