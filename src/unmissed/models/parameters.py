"""Parameters, declared once: type, range, help and group, in `Annotated` types that constructors refer to.

`C: Cost = 1.0` gives `C` the declaration `Cost` and a default. Validation, recipes, the command line, class docstrings
and the documentation all read `parameters_of(cls)`. A class that means something else by a parameter adds to its
declaration: in `Annotated[Cost, Help("...")]` the last help, range or group counts.

Constructors list the parameters of their base classes too, hence more than 8: scikit-learn and type checkers read the
signature.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from enum import Enum
from functools import cache
from sys import float_info
from textwrap import fill, indent
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from unmissed.errors import InputError, did_you_mean
from unmissed.models.label_blocks import MOST_LABELS
from unmissed.models.ranges import IntegerRange, NumberRange, Range
from unmissed.propensity import Propensity, PropensityLike, WeightingName

T = TypeVar("T")
LEAST_TOL = 1e-6
"""The smallest relative duality gap that float32 weights can certify."""


@dataclass(frozen=True)
class Help:
    """What a parameter is: a phrase that starts with a small letter and has no period at its end."""

    text: str


class Group(Enum):
    """When a parameter takes effect.

    Attributes
    ----------
    FIT : in training
    PREDICT : in ranking only, so that `rank` accepts another value
    EXECUTION : it changes the time, never the result; recipes leave it out
    """

    FIT = "fit"
    PREDICT = "predict"
    EXECUTION = "execution"


@dataclass(frozen=True)
class ModelList:
    """Declares that a parameter is a list of unfitted models or names of methods; a recipe holds their recipes."""


Cost = Annotated[float, NumberRange(0, above=True), Help("weight of the loss relative to the penalty")]
L1 = Annotated[float, NumberRange(0), Help("the l1 penalty; larger values give fewer weights")]
Tolerance = Annotated[
    float, NumberRange(LEAST_TOL), Help("relative duality gap at which the solver of a problem stops")
]
Prune = Annotated[float, NumberRange(0), Help("weights below this absolute value become 0 after training")]
Normalize = Annotated[bool, Help("L2-normalize each row, in training and in prediction")]
DenseWeight = Annotated[
    float,
    NumberRange(0, above=True),
    Help("weight of the dense part of X against the sparse part; no effect if X has one part"),
]
DENSE_WEIGHT = "dense_weight"
FitBias = Annotated[bool, Help("fit a bias per label, penalized like a weight")]
MaxRounds = Annotated[
    int, IntegerRange(1), Help("maximum number of rounds per label; a warning names labels that did not converge")
]
BlockSize = Annotated[
    int, IntegerRange(1, MOST_LABELS), Help("labels per task and per file; it does not change the ranking")
]
KeepDual = Annotated[
    bool,
    Help("store the dual variables, too, so that `update` starts from them and is faster; the run becomes larger"),
    Group.EXECUTION,
]
Jobs = Annotated[int | None, Help("number of threads; None and -1 mean all cores, -2 all but one"), Group.EXECUTION]
Seed = Annotated[int, IntegerRange(0, 2**62 - 1), Help("seed of random choices")]  # label numbers are added to it
RandomSeed = Annotated[
    int | np.random.RandomState | None,
    IntegerRange(0, 2**62 - 1),
    Help("seed of random choices; a RandomState is drawn from in `fit`, None draws a seed from numpy's global one"),
]
WEIGHTING = (
    "cost of a positive with propensity p: none (1), surrogate (2/p - 1, the convex bound of the unbiased loss), "
    "tail (1/p - 1), floored-tail (tail, but at least 1), balanced, or unbiased if the loss stays convex; "
    "negatives cost 1"
)
Weighting = Annotated[WeightingName, Help(WEIGHTING)]
PropensityModel = Annotated[
    PropensityLike | None,
    Help(
        "model of the propensity p of a label given its count: jain (the default), jain:A,B, "
        "flattened-jain, constant:P, table:FILE, audit:FILE or duplicates:DATA; pw-dismec also takes cells:FILE, "
        "a sparse matrix with p of each observed positive; in Python also a model such as Jain(), one p for all "
        "labels, or an array with one p per label"
    ),
]
_STANDARD: dict[str, Any] = {
    "n_jobs": Jobs,
    "normalize": Normalize,
    DENSE_WEIGHT: DenseWeight,
    "random_state": RandomSeed,
}
"""Declarations of the parameters that mean the same in every model, for classes that do not declare them."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a constructor; `annotation` is its type without the declaration."""

    name: str
    annotation: Any
    default: Any
    help: str = ""
    group: Group = Group.FIT
    range: Range | None = None
    holds_models: bool = False

    @property
    def changes_result(self) -> bool:
        """Whether the value can change a ranking; only such parameters are part of a recipe."""
        return self.group is not Group.EXECUTION

    @property
    def is_propensity(self) -> bool:
        """Whether the value is a propensity model."""
        return Propensity in (self.annotation, *get_args(self.annotation))

    @property
    def expected(self) -> str:
        """The values that the parameter accepts, in words; empty if its type is unknown."""
        words = ["a propensity model", "None"] if self.is_propensity else list(_words(self.annotation, self.range))
        words = ["a list of models or of names of methods"] if self.holds_models else words
        return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))

    @property
    def sentence(self) -> str:
        """The help as a sentence, with what the group implies."""
        more = {
            Group.FIT: "",
            Group.PREDICT: "; `rank` accepts another value",
            Group.EXECUTION: "; no effect on the result",
        }
        return f"{self.help[:1].upper()}{self.help[1:]}{more[self.group]}." if self.help else ""

    @property
    def choices(self) -> list[Any]:
        """The values of a parameter that has finitely many; empty for others."""
        return _choices(self.annotation)

    def takes(self, value: Any) -> bool:
        """Return whether a value has the type and the range of this parameter; unknown types accept all."""
        return _takes(self.annotation, self.range, value)

    def check(self, value: Any) -> None:
        """Raise unless the parameter takes the value."""
        if not self.takes(value):
            shown = repr(value)
            shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
            raise InputError(f"{self.name} must be {self.expected}; got {shown}")

    def parse(self, word: str) -> Any:
        """Return the value that a word of the command line stands for; raise if the parameter does not take it."""
        if self.is_propensity:
            return word
        if self.holds_models:
            return tuple(re.split("[,+]", word))
        values: list[Any] = []
        for read in (_parse_constant, int, float, str):
            with suppress(ValueError):
                values.append(read(word))
        found = next((value for value in values if self.takes(value)), values[0])
        self.check(found)
        return found


def _parse_constant(word: str) -> bool | None:
    constants = {"true": True, "false": False, "none": None}
    if word.lower() not in constants:
        raise ValueError(word)
    return constants[word.lower()]


def _takes(annotation: Any, limits: Range | None, value: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(_takes(one, limits, value) for one in get_args(annotation))
    if get_origin(annotation) is Literal:
        same = [one for one in get_args(annotation) if isinstance(value, type(one)) and value == one]
        return any(isinstance(one, bool) == isinstance(value, bool) for one in same)
    if annotation in (int, float) and limits is not None:
        return limits.holds(value)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max
    if annotation is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if annotation is bool:
        return isinstance(value, bool | np.bool_)
    if annotation in (None, NoneType):
        return value is None
    return isinstance(value, annotation) if annotation in (str, np.random.RandomState) else True


def _words(annotation: Any, limits: Range | None) -> list[str]:
    """Return what a type accepts, as words of a message."""
    if get_origin(annotation) in (Union, UnionType):
        return [word for one in get_args(annotation) for word in _words(one, limits)]
    if _choices(annotation):
        return [repr(one) for one in _choices(annotation)]
    if annotation in (int, float):
        return [str(limits) if limits is not None else {int: "an integer", float: "a number"}[annotation]]
    if annotation in (None, NoneType):
        return ["None"]
    return [f"a {annotation.__name__}"] if isinstance(annotation, type) else []


def _choices(annotation: Any) -> list[Any]:
    if annotation is bool:
        return [True, False]
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if get_origin(annotation) not in (Union, UnionType):
        return []
    parts = [_choices(one) for one in get_args(annotation) if one is not NoneType]
    return [value for part in parts for value in part] if all(parts) else []


def parameters_of(cls: Any) -> tuple[Parameter, ...]:
    """Return the parameters of a model class, or of a dataclass of solver parameters, in the constructor's order."""
    return _read_parameters(cls)


@cache
def _read_parameters(cls: Any) -> tuple[Parameter, ...]:
    if cls.__init__ is object.__init__:
        return ()
    declared: Any = cls if is_dataclass(cls) else cls.__init__
    try:
        hints = get_type_hints(declared, include_extras=True)
    except NameError:  # a class defined in a function: its annotations cannot be resolved
        hints = {}
    return tuple(
        _declared(name, hints.get(name, Any), one.default)
        for name, one in inspect.signature(cls).parameters.items()
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    )


def _declared(name: str, annotation: Any, default: Any) -> Parameter:
    if name in _STANDARD and not _found(annotation, Help):
        annotation = _STANDARD[name]
    found = {kind: _found(annotation, kind) for kind in (Help, Group, Range, ModelList)}
    text = found[Help].text if found[Help] else ""
    plain = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    group = found[Group] or Group.FIT
    return Parameter(name, plain, default, text, group, found[Range], found[ModelList] is not None)


def _found(annotation: Any, kind: Any) -> Any:
    """Return the last part of a declaration that is of a kind; None if there is none."""
    return next((one for one in reversed(getattr(annotation, "__metadata__", ())) if isinstance(one, kind)), None)


def check_parameters(owner: Any) -> None:
    """Raise if a parameter of a model or of a solver has not its declared type and range."""
    for one in parameters_of(type(owner)):
        one.check(getattr(owner, one.name))


def describe_parameters(cls: type[Any]) -> None:
    """Append the section "Parameters", made from the declarations, to a class docstring that does not have it."""
    parameters = parameters_of(cls)
    own = vars(cls).get("__doc__")
    if not parameters or own is None or "\nParameters\n" in inspect.cleandoc(own):
        return
    lines = ["", "", "Parameters", "----------"]
    for one in parameters:
        default = "" if one.default is inspect.Parameter.empty else f"default {one.default!r}"
        lines.append(f"{one.name} : {', '.join(filter(None, [one.expected, default]))}")
        lines += [indent(fill(one.sentence, 96, break_on_hyphens=False), "    ")] if one.help else []
    cls.__doc__ = inspect.cleandoc(own) + "\n".join(lines)


def replaced(model: T, values: Mapping[str, Any]) -> T:
    """Return a copy of a model with other parameter values; fitted attributes are shared, not copied."""
    copy = object.__new__(type(model))
    vars(copy).update(vars(model), **values)
    return copy


def with_predict_params(model: T, params: Mapping[str, Any]) -> T:
    """Return the model with other prediction parameters: itself if there are none, else a copy without retraining."""
    known = {one.name: one for one in parameters_of(type(model)) if one.group is Group.PREDICT}
    for name, value in params.items():
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(
                f"{type(model).__name__} has no prediction parameter {name!r}; {has}{did_you_mean(name, known)}"
            )
        known[name].check(value)
    return replaced(model, params) if params else model


def seeded(model: T, seed: int | None = None) -> T:
    """Return the model with an integer `random_state`: itself, or a copy with `seed` or a newly drawn one.

    A seed is drawn from a RandomState, or from numpy's global one for None, as scikit-learn does.
    """
    given = getattr(model, "random_state", 0)
    if not (given is None or isinstance(given, np.random.RandomState)):
        return model
    if seed is None:
        from sklearn.utils import check_random_state

        seed = int(check_random_state(given).randint(np.iinfo(np.int32).max))
    return replaced(model, {"random_state": seed})
