"""Propensity models: from label counts to the probability p that a true label was written down."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.files import read_npy, read_text
from unmissed.losses.inverse import check_propensities

Floats = npt.NDArray[np.float64]


class Propensity(Protocol):
    """A frozen description of p(label was written down | label is true)."""

    def fit(self, label_counts: npt.ArrayLike, n_samples: int) -> Floats:
        """Return p for every label, 0 < p <= 1, from the label's training count and the number of training rows."""


PropensityLike = Propensity | str | float | Sequence[float] | npt.NDArray[np.floating[Any]]
"""A propensity model, or what `as_propensity` makes one of: a word, one p for all labels, or one p per label."""


@dataclass(frozen=True)
class Jain:
    """1/p = 1 + (ln N - 1) (b + 1)^a (n + b)^-a for a label with n positives among N rows (Jain et al., 2016).

    Usual values: a = 0.55, b = 1.5; 0.5, 0.4 for WikiLSHTC-325K and Wikipedia-500K; 0.6, 2.6 for Amazon-670K and
    Amazon-3M. A label with one positive gets p = 1/ln N; p rises with the count.

    Parameters
    ----------
    a : float, at least 0
        How fast p falls towards the tail.
    b : float, above 0
        Shifts the counts; 0 would give labels without positives the propensity 0.
    """

    a: float = 0.55
    b: float = 1.5

    def __post_init__(self) -> None:
        if not (isfinite(self.a) and self.a >= 0):
            raise InputError(f"jain propensity: a must be a finite number of at least 0, not {self.a}")
        if not (isfinite(self.b) and self.b > 0):
            raise InputError(f"jain propensity: b must be a finite number above 0, not {self.b}")

    def fit(self, label_counts: npt.ArrayLike, n_samples: int) -> Floats:
        """Return p for every label; labels without a positive get the smallest p."""
        counts = _checked_counts(label_counts, n_samples)
        if n_samples < 3:
            raise InputError(
                f"{n_samples} sample{'s are' if n_samples != 1 else ' is'} too few for the jain propensity "
                "model, which needs 3; add rows, or name another propensity (--propensity constant:0.5)"
            )
        with np.errstate(over="ignore"):
            p = 1.0 / (1.0 + (log(n_samples) - 1.0) * np.power((self.b + 1.0) / (counts + self.b), self.a))
        if counts.size and not p.min() > 0:
            raise InputError(
                f"jain propensity: a = {self.a} and b = {self.b} make a propensity of 0; choose a smaller a"
            )
        return p


@dataclass(frozen=True)
class Constant:
    """The same p for every label; p = 1 says that no label is missing."""

    p: float

    def __post_init__(self) -> None:
        check_propensities(self.p, "constant propensity")

    def fit(self, label_counts: npt.ArrayLike, n_samples: int) -> Floats:
        """Return p once per label."""
        return np.full(_checked_counts(label_counts, n_samples).shape, self.p, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class FromTable:
    """Propensities known from elsewhere: one p per label, in label order.

    Parameters
    ----------
    values : array of p, or the path of a file that holds it
        A `.npy` file, or a text file with one number per line.

    Attributes
    ----------
    source : the path of that file, or "" where values were given
    """

    values: Floats
    source: str

    def __init__(self, values: npt.ArrayLike | str | os.PathLike[str]) -> None:
        table: npt.ArrayLike = _read_table(Path(values)) if isinstance(values, str | os.PathLike) else values
        origin = os.fspath(values) if isinstance(values, str | os.PathLike) else ""
        source = origin or "propensity table"
        held = np.array(table, dtype=np.float64)
        if held.ndim != 1 or not held.size:
            raise InputError(f"{source}: one propensity per label was expected, got an array of shape {held.shape}")
        check_propensities(held, source)
        held.setflags(write=False)
        object.__setattr__(self, "values", held)
        object.__setattr__(self, "source", origin)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FromTable) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash(self.values.tobytes())

    def fit(self, label_counts: npt.ArrayLike, n_samples: int) -> Floats:
        """Return the table, after checking that it has one entry per label."""
        n_labels = _checked_counts(label_counts, n_samples).size
        if n_labels != self.values.size:
            raise InputError(f"the propensity table has {self.values.size} labels, the data has {n_labels}")
        return self.values.copy()

    def entries(self, first: int, n_labels: int) -> FromTable:
        """Return the table of `n_labels` labels from label `first` on, or say that it does not reach so far."""
        if first + n_labels > self.values.size:
            raise InputError(
                f"the propensity table has {self.values.size} labels, and labels {first} to {first + n_labels - 1} "
                "were asked for"
            )
        return FromTable(self.values[first : first + n_labels])


def default_propensity() -> Propensity:
    """Return the model that is used where none is named: `Jain()`, with the field's usual constants."""
    return Jain()


def as_propensity(given: PropensityLike | None) -> Propensity:
    """Return the propensity model that a parameter stands for.

    Parameters
    ----------
    given
        A propensity model (an object with `fit(label_counts, n_samples)`), a word as the command line takes it (see
        `parse`), a number (one p for all labels), an array (one p per label), or None for the default model.
    """
    if given is None:
        return default_propensity()
    if isinstance(given, str):
        return parse(given)
    if isinstance(given, type):
        raise InputError(f"propensity is the class {given.__name__}; give an object, such as {given.__name__}()")
    if hasattr(given, "fit"):
        return given
    try:
        return Constant(float(given)) if np.ndim(given) == 0 else FromTable(given)  # type: ignore[arg-type]
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            f"propensity is {repr(given)[:60]}; expected a model such as Jain(), a word such as 'jain' or "
            "'constant:0.5', one p for all labels, or one per label"
        ) from error


def fit_range(model: Propensity, label_counts: npt.ArrayLike, n_samples: int, first: int) -> Floats:
    """Return p for some consecutive labels, from label `first` on, counted among `n_samples` rows of their own.

    A table gives the entries of these labels; any other model needs nothing but their counts.
    """
    counts = _checked_counts(label_counts, n_samples, first)
    if isinstance(model, FromTable):
        model = model.entries(first, counts.size)
    return model.fit(counts, n_samples)


def fit_parts(model: Propensity, label_counts: npt.ArrayLike, parts: Iterable[tuple[int, int]]) -> Floats:
    """Return p for labels that were counted in parts, as those of an extended run are.

    Parameters
    ----------
    model
        A table must have one entry per label of all parts together.
    label_counts
        One count per label of all parts, in label order.
    parts
        For each part its number of labels and the number of rows in which they were counted.
    """
    counts = np.asarray(label_counts)
    sizes = list(parts)
    n_labels = sum(size for size, _ in sizes)
    if counts.shape != (n_labels,):
        raise InputError(f"label counts have the shape {counts.shape}; the parts have {n_labels} labels together")
    if isinstance(model, FromTable) and model.values.size != n_labels:
        raise InputError(f"the propensity table has {model.values.size} labels, the data has {n_labels}")
    fitted, first = [np.zeros(0)], 0
    for size, n_samples in sizes:
        fitted.append(fit_range(model, counts[first : first + size], n_samples, first))
        first += size
    return np.concatenate(fitted)


def parse(spec: str) -> Propensity:
    """Read a model from a word: `jain`, `jain:0.55,1.5`, `constant:0.5`, `table:FILE`."""
    name, _, argument = spec.partition(":")
    if name == "table" and argument:
        return FromTable(argument)
    numbers = _numbers(argument, spec)
    if name == "jain" and len(numbers) in (0, 2):
        return Jain(*numbers)
    if name == "constant" and len(numbers) == 1:
        return Constant(*numbers)
    raise InputError(f"unknown propensity {spec!r}; expected jain, jain:A,B, constant:P or table:FILE")


def describe(model: Propensity) -> dict[str, Any]:
    """Return the model as a value that JSON can hold; `from_description` turns it back into an equal model."""
    match model:
        case Jain():
            return {"model": "jain", "a": model.a, "b": model.b}
        case Constant():
            return {"model": "constant", "p": model.p}
        case FromTable():
            return {"model": "table", "values": model.values.tolist()}
    raise InputError(f"{type(model).__name__} is not a propensity model that can be described")


def from_description(description: Mapping[str, Any]) -> Propensity:
    """Return the model that `describe` described."""
    makers: dict[str, Callable[..., Propensity]] = {"jain": Jain, "constant": Constant, "table": FromTable}
    if not isinstance(description, Mapping) or description.get("model") not in list(makers):
        raise InputError(f"unknown propensity model {str(description)[:60]!r}; known: {', '.join(makers)}")
    arguments = dict(description)
    name = arguments.pop("model")
    if isinstance(arguments.get("values"), str):  # a description names no files: what it needs is in it
        raise InputError(f"propensity model {name!r} cannot be made from the path {arguments['values'][:60]!r}")
    try:
        return makers[name](**arguments)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"propensity model {name!r} cannot be made from {sorted(arguments)}") from error


def _checked_counts(label_counts: npt.ArrayLike, n_samples: int, first: int = 0) -> Floats:
    """Return the counts as float64, one per label, each between 0 and the number of rows."""
    counts = np.asarray(label_counts, dtype=np.float64)
    if counts.ndim != 1:
        raise InputError(f"label counts must be one number per label, not an array of shape {counts.shape}")
    wrong = np.flatnonzero(~((counts >= 0) & (counts <= n_samples)))
    if wrong.size:
        raise InputError(
            f"label {first + wrong[0]} has the count {counts[wrong[0]]:g}; "
            f"between 0 and the {n_samples} rows was expected"
        )
    return counts


def _numbers(text: str, spec: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")] if text else []
    except ValueError as error:
        raise InputError(f"propensity {spec!r}: {text!r} is not a number or a comma-separated pair") from error


def _read_table(path: Path) -> Floats:
    """Read one number per label from a `.npy` file or from the lines of a text file."""
    what = "a table of propensities"
    if path.suffix == ".npy":
        table = read_npy(path, what)
        if table.dtype.kind not in "biuf":
            raise InputError(f"{path}: not {what}: it holds {table.dtype}")
        return np.asarray(table, dtype=np.float64)
    values = []
    for number, line in enumerate(read_text(path, what).splitlines(), start=1):
        try:
            values.append(float(line))
        except ValueError as error:
            raise InputError(f"{path}, line {number}: one number was expected, found {line[:40]!r}") from error
    return np.array(values)
