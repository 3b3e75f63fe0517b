"""Contenders: the methods of a comparison with their parameters, read from words such as `parabel:n_trees=1`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from unmissed.errors import InputError
from unmissed.models.base import Model
from unmissed.models.parameters import parameters_of
from unmissed.models.registry import find_model, known_methods, make_model
from unmissed.propensity import WEIGHTINGS, Propensity, costs, parse

WITHOUT = "none"  # the weighting that weighs nothing


@dataclass(frozen=True)
class Contender:
    """A method of the registry and those of its parameters that are not left at their defaults."""

    method: str
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What it is called on the command line and in results: `pw-dismec:weighting=tail`."""
        return ":".join(filter(None, [self.method, ",".join(f"{name}={value}" for name, value in self.params.items())]))

    @property
    def folder(self) -> str:
        """The key as the name of a folder."""
        return re.sub(r"[^A-Za-z0-9.=-]", "_", self.key)

    @property
    def title(self) -> str:
        """The name in print: `PW-DiSMEC, tail`."""
        told = [value if isinstance(value, str) else f"{name} {value}" for name, value in self.params.items()]
        return ", ".join([known_methods()[self.method].title, *told])

    @property
    def family(self) -> str:
        """The family that the registry puts the method into."""
        return known_methods()[self.method].family

    def model(self, propensity: Propensity | None = None, n_jobs: int | None = None) -> Model:
        """Make the model; a propensity model and a number of threads go to those that take them and say nothing."""
        params = dict(self.params)
        for one in parameters_of(find_model(self.method)):
            if one.is_propensity:
                params[one.name] = parse(params[one.name]) if one.name in params else propensity
            elif one.name == "n_jobs":
                params.setdefault("n_jobs", n_jobs)
        return make_model(self.method, params)


def read_contenders(words: Iterable[str] = ()) -> list[Contender]:
    """Read methods with blanks or commas between; `all`, or no word, stands for every method of the registry.

    A method has its parameters behind a colon: `dismec,pw-dismec:weighting=tail,C=2 parabel`.
    """
    found: dict[str, Contender] = {}
    for word in _split(words) or ["all"]:
        for one in all_contenders() if word == "all" else [_read(word)]:
            found[one.key] = one
    return list(found.values())


def all_contenders() -> list[Contender]:
    """Return every method of the registry; one that weights labels by default, with each weighting that it can use."""
    return [
        Contender(method, {} if weighting is None else {"weighting": weighting})
        for method in known_methods()
        for weighting in _weightings(method)
    ]


def _weightings(method: str) -> Iterator[str | None]:
    """Give the weightings to try: those that are convex, where a method does weight unless it is told not to."""
    own = next((one for one in parameters_of(find_model(method)) if one.name == "weighting"), None)
    if own is None or own.default == WITHOUT:
        yield None
        return
    for name in _words(own.annotation):
        if name != WITHOUT and not (name in WEIGHTINGS and costs(name, [0.5], [1]).counter.any()):
            yield name


def _words(annotation: Any) -> list[str]:
    """Return the words that an annotation of one or several `Literal` allows."""
    return [word for one in get_args(annotation) for word in ([one] if isinstance(one, str) else _words(one))]


def _split(words: Iterable[str]) -> list[str]:
    """Split at blanks, and at commas behind which another method begins."""
    parts: list[str] = []
    for part in re.split(r"[\s,]+", " ".join(words).strip()):
        if "=" in part and ":" not in part and parts:
            parts[-1] += f",{part}"
        elif part:
            parts.append(part)
    return parts


def _read(word: str) -> Contender:
    method, _, rest = word.partition(":")
    known = {one.name: one for one in parameters_of(find_model(method))}
    params: dict[str, Any] = {}
    for pair in filter(None, rest.split(",")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{word}: expected METHOD:NAME=VALUE,NAME=VALUE, found {pair!r}")
        if name not in known:
            raise InputError(f"{method} has no parameter {name!r}; its parameters are {', '.join(known) or 'none'}")
        params[name] = value if known[name].is_propensity else _value(value)
        if not known[name].is_propensity and not known[name].takes(params[name]):
            raise InputError(f"{word}: {value!r} is no value of {name}")
    return Contender(method, params)


def _value(word: str) -> Any:
    """Read a value as Python writes it, or true and false as commands take them; else it is a word."""
    try:
        return ast.literal_eval(word.capitalize() if word in ("true", "false") else word)
    except (ValueError, SyntaxError):
        return word
