"""Recipe: the method and parameters that determine the result of training, together with the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from unmissed.errors import InputError
from unmissed.models.base import Model
from unmissed.models.method_registry import COMPOSITES, as_models, find_model, make_model, method_of
from unmissed.models.parameters import DENSE_WEIGHT, Parameter, parameters_of
from unmissed.propensity import CellPropensities, Propensity, as_propensity, describe, from_description


@dataclass(frozen=True)
class Recipe:
    """A method, its parameters, and the options of the text features.

    Parameters
    ----------
    method : a registered name
    params : all parameters that can change the result, with defaults, as JSON values. Those of prediction are the
        defaults of `rank`
    text : `TextFeatures.options`; None if features are not made from text
    """

    method: str
    params: dict[str, Any] = field(default_factory=dict)
    text: dict[str, Any] | None = None

    @classmethod
    def of(
        cls,
        model: Model,
        text: Mapping[str, Any] | None = None,
        *,
        has_dense: bool = False,
        cells: CellPropensities | None = None,
    ) -> Recipe:
        """Return the recipe of a model, whose `random_state` is an integer (see `seeded`).

        The weight of the dense part belongs to it only if the data has a dense part. `cells` are the propensities per
        cell that `fit` was given, in place of the parameter.
        """
        values = model.get_params(deep=False)
        params = {
            one.name: _written(one, cells if one.is_propensity and cells is not None else values[one.name])
            for one in parameters_of(type(model))
            if one.changes_result and (has_dense or one.name != DENSE_WEIGHT)
        }
        return cls(method_of(model), params, None if text is None else dict(text))

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as JSON values."""
        return {"method": self.method, "params": self.params, "text": self.text}

    @classmethod
    def from_json(cls, value: Any) -> Recipe:
        """Return the recipe that `to_json` gave."""
        if not isinstance(value, dict) or not value.keys() <= {"method", "params", "text"}:
            raise InputError("its recipe is invalid")
        if not isinstance(value.get("method"), str) or not isinstance(value.get("params", {}), dict):
            raise InputError("its recipe has no valid method or parameters")
        if not isinstance(value.get("text"), dict | None):
            raise InputError("its recipe has invalid text options")
        return cls(**value)

    @property
    def propensity(self) -> Propensity | None:
        """The propensity model of training; None if the method has none."""
        described = next((self.params[name] for name in self._propensities() if name in self.params), None)
        return None if described is None else from_description(described)

    def constructor_params(self) -> dict[str, Any]:
        """Return the constructor arguments of the model; raise for unknown or invalid ones."""
        known = {one.name: one for one in parameters_of(find_model(self.method))}
        made: dict[str, Any] = {}
        for name, value in self.params.items():
            if name not in known:
                raise InputError(f"{self.method} has no parameter {name!r}; the run is damaged or of a later version")
            if known[name].is_propensity:
                made[name] = from_description(value)
                continue
            if known[name].holds_models:
                made[name] = _read_models(self.method, value)
                continue
            try:
                known[name].check(value)
            except InputError as error:
                raise InputError(f"{error}; the recipe of {self.method} is damaged") from error
            made[name] = value
        return made

    def differences(self, other: Recipe) -> list[str]:
        """Return the differences as text, such as `C is 1.0 there and 2.0 here`."""
        if self.method != other.method:
            return [f"method is {self.method!r} there and {other.method!r} here"]
        there, here = ({**one.params, "text": one.text} for one in (self, other))
        return [
            f"{name} is {_short(there.get(name))} there and {_short(here.get(name))} here"
            for name in {**there, **here}
            if there.get(name) != here.get(name)
        ]

    def _propensities(self) -> list[str]:
        return [one.name for one in parameters_of(find_model(self.method)) if one.is_propensity]


def _written(parameter: Parameter, value: Any) -> Any:
    """Return a parameter as a JSON value that reads back equal."""
    name = parameter.name
    if parameter.is_propensity:
        return describe(as_propensity(value))
    if parameter.holds_models:
        recipes = [Recipe.of(one, has_dense=True) for one in as_models(name, value)]
        return [{"method": one.method, "params": one.params} for one in recipes]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # numpy's numbers
        value = value.item()
    if isinstance(value, tuple):
        value = list(value)
    is_json = all(isinstance(one, str | int | float | None) for one in (value if isinstance(value, list) else [value]))
    if isinstance(value, float) and not isfinite(value):
        raise InputError(f"{name} is {value!r}; expected a finite number")
    if not is_json:
        raise InputError(f"{name} is {value!r}; a run can store numbers, strings and lists of them only")
    return value


def _read_models(method: str, value: Any) -> list[Model]:
    """Return the models that `_written` described; raise if they are invalid or consist of models themselves."""
    if not isinstance(value, list) or not value:
        raise InputError(f"the recipe of {method} is damaged: it lists no models")
    recipes = [Recipe.from_json(one) for one in value]
    for one in recipes:
        if one.method in COMPOSITES:
            raise InputError(f"the recipe of {method} is damaged: it contains the method {one.method!r}")
    return [make_model(one.method, one.constructor_params()) for one in recipes]


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
