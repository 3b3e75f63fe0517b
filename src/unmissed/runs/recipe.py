"""Recipe: everything that decides what training gives, apart from the data; the registry of methods by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from unmissed.errors import InputError
from unmissed.propensity import Jain, Propensity, describe, from_description

METHODS: dict[str, str] = {
    "dismec": "unmissed.models.dismec:DiSMEC",
    "pw-dismec": "unmissed.models.dismec:PWDiSMEC",
    "popularity": "unmissed.models.popularity:Popularity",
}
"""Where each method's model class is; imported when it is needed."""

_NO_RESULT = ("n_jobs",)  # parameters that change the time it takes, and nothing else


@dataclass(frozen=True)
class Recipe:
    """A method, its parameters, its propensity model, its seed, and how text became features.

    Parameters
    ----------
    method : a name in METHODS
    params : every other parameter of the model, defaults included
    seed : the model's `random_state`, or None where it has none
    propensity : `unmissed.propensity.describe` of the model's propensity, or None where it has none
    text : `TextFeatures.options`, or None where the features did not come from text
    """

    method: str
    params: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    propensity: dict[str, Any] | None = None
    text: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as a value that JSON can hold."""
        return {
            "method": self.method,
            "params": self.params,
            "seed": self.seed,
            "propensity": self.propensity,
            "text": self.text,
        }

    @classmethod
    def from_json(cls, value: Any) -> Recipe:
        """Return the recipe that `to_json` gave."""
        try:
            return cls(**value)
        except TypeError as error:
            raise InputError(f"not a recipe: {error}") from error

    def constructor_params(self) -> dict[str, Any]:
        """Return what the model's constructor takes."""
        params = dict(self.params)
        if self.seed is not None:
            params["random_state"] = self.seed
        if self.propensity is not None:
            params["propensity"] = from_description(self.propensity)
        return params

    def differences(self, other: Recipe) -> list[str]:
        """Name what differs, as `C is 1.0 there and 2.0 here`."""
        there, here = _flat(self.to_json()), _flat(other.to_json())
        return [
            f"{name} is {_short(there.get(name))} there and {_short(here.get(name))} here"
            for name in {**there, **here}
            if there.get(name) != here.get(name)
        ]


def find_model(method: str) -> Any:
    """Return the model class of a method, or say which methods there are."""
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; known: {', '.join(METHODS)}")
    module, _, name = METHODS[method].partition(":")
    return getattr(import_module(module), name)


def make_model(method: str, params: Mapping[str, Any]) -> Any:
    """Make an unfitted model; a parameter that the method does not have is refused by name."""
    cls = find_model(method)
    known = cls._get_param_names()
    for name in params:
        if name not in known:
            has = f"its parameters are {', '.join(known)}" if known else "it has no parameters"
            raise InputError(f"{method} has no parameter {name!r}; {has}")
    return cls(**params)


def method_of(model: Any) -> str:
    """Return the name under which a model's class is registered."""
    for method, place in METHODS.items():
        if place == f"{type(model).__module__}:{type(model).__qualname__}":
            return method
    raise InputError(f"{type(model).__name__} is no method that a run can hold; known: {', '.join(METHODS)}")


def recipe_of(model: Any, text: Mapping[str, Any] | None = None) -> Recipe:
    """Write down a model's parameters as a recipe."""
    params = {name: _plain(value) for name, value in model.get_params(deep=False).items() if name not in _NO_RESULT}
    seed = params.pop("random_state", None)
    if seed is not None and not isinstance(seed, int):
        raise InputError(f"random_state is {seed!r}; a run can remember a whole number only")
    propensity = None
    if "propensity" in params:
        chosen: Propensity | None = params.pop("propensity")
        propensity = describe(Jain() if chosen is None else chosen)
    return Recipe(method_of(model), params, seed, propensity, None if text is None else dict(text))


def _plain(value: Any) -> Any:
    """Turn numpy's numbers into Python's, which JSON can hold and which read back equal."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def _flat(value: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, part in value.items():
        if name == "params":
            flat |= part
        else:
            flat[name] = part
    return flat


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
