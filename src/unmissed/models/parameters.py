"""Parameters of a model class: name, type, default, range and help, for the command line, recipes and docs."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from sys import float_info
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from unmissed.models.base import Model
from unmissed.models.ranges import IntegerRange as IntegerRange
from unmissed.models.ranges import NumberRange as NumberRange
from unmissed.models.ranges import Range, ranges_of
from unmissed.propensity import Propensity

_ENTRY = re.compile(r"(?P<names>\w+(?:, \w+)*) : (?P<text>.+)")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a model's constructor."""

    name: str
    annotation: Any
    default: Any
    help: str
    changes_result: bool
    range: Range | None = None

    @property
    def is_propensity(self) -> bool:
        """Whether the value is a propensity model."""
        return Propensity in (self.annotation, *get_args(self.annotation))

    def takes(self, value: Any) -> bool:
        """Return whether a JSON value has the type and the range of this parameter; unknown types accept all."""
        return _takes(self.annotation, value) and (self.range is None or self.range.holds(value))


def _takes(annotation: Any, value: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(_takes(one, value) for one in get_args(annotation))
    if get_origin(annotation) is Literal:
        return any(type(one) is type(value) and one == value for one in get_args(annotation))
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation in (bool, str):
        return isinstance(value, annotation)
    return value is None if annotation in (None, NoneType) else True


def parameters_of(cls: type[Model]) -> list[Parameter]:
    """Return the parameters of a model class, in the order of its constructor."""
    if cls.__init__ is object.__init__:
        return []
    hints = get_type_hints(cls.__init__)
    texts, ranges = _texts(cls), ranges_of(cls.__init__)
    return [
        Parameter(
            name, hints.get(name, Any), one.default, texts.get(name, ""), name not in cls.no_effect, ranges.get(name)
        )
        for name, one in inspect.signature(cls.__init__).parameters.items()
        if name != "self"
    ]


def _texts(cls: type[Model]) -> dict[str, str]:
    """Return the help of each parameter from the docstrings; "as in ..." refers to the base class."""
    texts: dict[str, str] = {}
    for one in cls.__mro__:
        for name, text in _entries(inspect.cleandoc(one.__doc__ or "")).items():
            if not text.startswith("as in "):
                texts.setdefault(name, text)
    return texts


def _entries(doc: str) -> dict[str, str]:
    """Parse the section "Parameters" of a docstring: lines `name : text`, continued on indented lines."""
    lines = doc.splitlines()
    if "Parameters" not in lines:
        return {}
    found: dict[str, str] = {}
    names: list[str] = []
    for line in lines[lines.index("Parameters") + 2 :]:
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            names = entry["names"].split(", ")
            found |= dict.fromkeys(names, entry["text"])
        elif line.startswith(" ") and names:
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
        else:
            break
    return found
