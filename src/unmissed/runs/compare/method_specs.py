"""Method specs: methods with parameters, parsed from strings such as `parabel:n_trees=1`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from unmissed.errors import InputError
from unmissed.models.base import Model
from unmissed.models.method_registry import find_method, find_model, known_methods, make_model
from unmissed.models.parameters import parameters_of
from unmissed.propensity import WEIGHTINGS, Propensity, costs, parse

WITHOUT = "none"  # the name of unweighted costs


@dataclass(frozen=True)
class MethodSpec:
    """A registered method, and the parameters that differ from its defaults."""

    method: str
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The name on the command line and in results: `pw-dismec:weighting=tail`."""
        values = ",".join(f"{name}={_word(value)}" for name, value in self.params.items())
        return ":".join(filter(None, [self.method, values]))

    @property
    def folder(self) -> str:
        """The name of its folder, made from the key."""
        return folder_name(self.key)

    @property
    def title(self) -> str:
        """The name in tables: `PW-DiSMEC, tail`."""
        values = [
            _word(value) if isinstance(value, str | tuple) else f"{name} {value}" for name, value in self.params.items()
        ]
        return ", ".join([find_method(self.method).title, *values])

    @property
    def family(self) -> str:
        """The family of the method in the registry."""
        return find_method(self.method).family

    def model(self, propensity: Propensity | None = None, n_jobs: int | None = None) -> Model:
        """Return the unfitted model; propensity and n_jobs are defaults for methods that have these parameters."""
        params = dict(self.params)
        for one in parameters_of(find_model(self.method)):
            if one.is_propensity:
                params[one.name] = parse(params[one.name]) if one.name in params else propensity
            elif one.name == "n_jobs":
                params.setdefault("n_jobs", n_jobs)
        return make_model(self.method, params)


def _word(value: Any) -> str:
    """Return a parameter as a word; a list of methods is joined by plus signs, because commas separate parameters."""
    return "+".join(value) if isinstance(value, tuple) else str(value)


def folder_name(key: str) -> str:
    """Return the folder name of a method from its key."""
    return re.sub(r"[^A-Za-z0-9.=-]", "_", key)


def read_method_specs(words: Iterable[str] = ()) -> list[MethodSpec]:
    """Parse methods separated by blanks or commas; `all`, or no word, means every registered method.

    Parameters follow a colon: `dismec,pw-dismec:weighting=tail,C=2 parabel`.
    """
    specs: dict[str, MethodSpec] = {}
    for word in _split(words) or ["all"]:
        for one in all_method_specs() if word == "all" else [_read(word)]:
            specs[one.key] = one
    return list(specs.values())


def all_method_specs() -> list[MethodSpec]:
    """Return every method that can be trained here; those that weight by default once per convex weighting.

    Methods that need the names of labels are left out.
    """
    return [
        MethodSpec(method, {} if weighting is None else {"weighting": weighting})
        for method, registered in known_methods().items()
        if registered.can_train and not find_model(method).uses_label_terms
        for weighting in _weightings(method)
    ]


def _weightings(method: str) -> Iterator[str | None]:
    """Yield the convex weightings of a method that weights by default; None for other methods."""
    own = next((one for one in parameters_of(find_model(method)) if one.name == "weighting"), None)
    if own is None or own.default == WITHOUT:
        yield None
        return
    for name in own.choices:
        if name != WITHOUT and not (name in WEIGHTINGS and costs(name, [0.5], [1]).counter.any()):
            yield name


def _split(words: Iterable[str]) -> list[str]:
    """Split at blanks, and at commas that precede another method."""
    parts: list[str] = []
    for part in re.split(r"[\s,]+", " ".join(words).strip()):
        if "=" in part and ":" not in part and parts:
            parts[-1] += f",{part}"
        elif part:
            parts.append(part)
    return parts


def _read(word: str) -> MethodSpec:
    method, _, rest = word.partition(":")
    known = {one.name: one for one in parameters_of(find_model(method))}
    params: dict[str, Any] = {}
    for pair in filter(None, rest.split(",")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{word}: expected METHOD:NAME=VALUE,NAME=VALUE, found {pair!r}")
        if name not in known:
            raise InputError(f"{method} has no parameter {name!r}; its parameters are {', '.join(known) or 'none'}")
        try:
            params[name] = known[name].parse(value)
        except InputError as error:
            raise InputError(f"{word}: {error}") from error
    return MethodSpec(method, params)
