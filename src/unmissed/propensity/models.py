"""Propensity models: estimate the probability p that a true label is observed, from label counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, log
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.errors import InputError
from unmissed.files import read_npy, read_text
from unmissed.losses.inverse import check_propensities
from unmissed.propensity.cell_propensities import CellPropensities
from unmissed.propensity.checked_counts import ImmutableParameters, check_counts
from unmissed.propensity.frequency_curve import FrequencyCurve
from unmissed.registry import Registry

Floats = npt.NDArray[np.float64]


class Propensity(Protocol):
    """Protocol of an immutable propensity model, p = P(label is observed | label is true)."""

    def estimate(self, label_counts: npt.ArrayLike, n_samples: float) -> Floats:
        """Return p of each label, 0 < p <= 1, from label counts and the number of training rows, or sums of weights."""


PropensityLike: TypeAlias = (
    Propensity | str | float | Sequence[float] | npt.NDArray[np.floating[Any]] | sparse.csr_matrix
)
"""A propensity model, or what `as_propensity` converts: a string, one p for all labels, one per label, or per cell."""


@dataclass(frozen=True)
class Jain(ImmutableParameters):
    """Propensity model of Jain et al. (2016): 1/p = 1 + (ln N - 1) (b + 1)^a (n + b)^-a.

    n is the number of positives of a label, N the number of rows.

    Usual values: a = 0.55, b = 1.5; 0.5, 0.4 for WikiLSHTC-325K and Wikipedia-500K; 0.6, 2.6 for Amazon-670K and
    Amazon-3M. A label with one positive has p = 1/ln N; p increases with n.

    Parameters
    ----------
    a : float, at least 0
        How fast p decreases toward tail labels.
    b : float, above 0
        Added to the counts. With 0, labels without positives would have propensity 0.
    """

    a: float = 0.55
    b: float = 1.5

    def __post_init__(self) -> None:
        if not (isfinite(self.a) and self.a >= 0):
            raise InputError(f"jain propensity: a must be a finite number of at least 0, not {self.a}")
        if not (isfinite(self.b) and self.b > 0):
            raise InputError(f"jain propensity: b must be a finite number above 0, not {self.b}")

    def estimate(self, label_counts: npt.ArrayLike, n_samples: float) -> Floats:
        """Return p of each label; labels without positives have the smallest p."""
        counts = check_counts(label_counts, n_samples)
        if n_samples < 3:
            raise InputError(
                f"{n_samples} sample{'s are' if n_samples != 1 else ' is'} too few for the jain propensity "
                "model, which needs 3; add rows, or use another propensity model (--propensity constant:0.5)"
            )
        with np.errstate(over="ignore"):
            p = 1.0 / (1.0 + (log(n_samples) - 1.0) * np.power((self.b + 1.0) / (counts + self.b), self.a))
        if counts.size and not p.min() > 0:
            raise InputError(
                f"jain propensity: a = {self.a} and b = {self.b} make a propensity of 0; choose a smaller a"
            )
        return p


@dataclass(frozen=True)
class FlattenedJain(ImmutableParameters):
    """Odds of missing that depend less on frequency than in Jain's model; the assumption of `unmissed missing`.

    (1 - p) / p = (2 / 3)^(1 - share) odds^share, where odds is (1 - p) / p of Jain's model with its usual constants. A
    share of 0 is p = 0.6 for all labels, a share of 1 is Jain's model.

    Parameters
    ----------
    share : float, 0 to 1
        How much of Jain's slope is kept; the default was chosen by `benchmarks.missing` (docs/notes/missing.md).
    """

    share: float = 0.125

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InputError(f"flattened-jain propensity: share must be between 0 and 1, not {self.share}")

    def estimate(self, label_counts: npt.ArrayLike, n_samples: float) -> Floats:
        """Return p of each label."""
        p = Jain().estimate(label_counts, n_samples)
        return np.asarray(1 / (1 + (2 / 3) ** (1 - self.share) * ((1 - p) / p) ** self.share))


@dataclass(frozen=True)
class Constant(ImmutableParameters):
    """The same p for all labels; with p = 1 no label is missing."""

    p: float

    def __post_init__(self) -> None:
        check_propensities(self.p, "constant propensity")

    def estimate(self, label_counts: npt.ArrayLike, n_samples: float) -> Floats:
        """Return an array of p, one entry per label."""
        return np.full(check_counts(label_counts, n_samples).shape, self.p, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class FromTable(ImmutableParameters):
    """Known propensities: one p per label, in label order.

    Parameters
    ----------
    values : array of p, or the path of a file that holds it
        A `.npy` file, or a text file with one number per line.

    Attributes
    ----------
    source : the path of that file, or "" if values is an array
    """

    values: Floats
    source: str = field(init=False)

    def __init__(self, values: npt.ArrayLike | str | os.PathLike[str]) -> None:
        table: npt.ArrayLike = _read_table(Path(values)) if isinstance(values, str | os.PathLike) else values
        origin = os.fspath(values) if isinstance(values, str | os.PathLike) else ""
        source = origin or "propensity table"
        array = np.array(table, dtype=np.float64)
        if array.ndim != 1 or not array.size:
            raise InputError(f"{source}: one propensity per label was expected, found an array of shape {array.shape}")
        check_propensities(array, source)
        array.setflags(write=False)
        object.__setattr__(self, "values", array)
        object.__setattr__(self, "source", origin)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FromTable) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash(self.values.tobytes())

    def estimate(self, label_counts: npt.ArrayLike, n_samples: float) -> Floats:
        """Return the table; raise InputError unless it has one entry per label."""
        n_labels = check_counts(label_counts, n_samples).size
        if n_labels != self.values.size:
            raise InputError(f"the propensity table has {self.values.size} labels, the data has {n_labels}")
        return self.values.copy()

    def entries(self, first: int, n_labels: int) -> FromTable:
        """Return the table of labels first to first + n_labels - 1."""
        if first + n_labels > self.values.size:
            raise InputError(
                f"the propensity table has {self.values.size} labels, but labels {first} to {first + n_labels - 1} "
                "are needed"
            )
        return FromTable(self.values[first : first + n_labels])


def default_propensity() -> Propensity:
    """Return the default model: `Jain()` with its usual constants."""
    return Jain()


def as_propensity(value: PropensityLike | None) -> Propensity:
    """Return the propensity model that a parameter value specifies.

    Parameters
    ----------
    value
        A propensity model (an object with `estimate(label_counts, n_samples)`), a string as on the command line
        (see `parse`), a number (one p for all labels), an array (one p per label), a sparse matrix (one p per
        observed positive), or None for the default model.
    """
    if value is None:
        return default_propensity()
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, type):
        raise InputError(f"propensity is the class {value.__name__}; give an object, such as {value.__name__}()")
    if hasattr(value, "estimate"):
        return value
    if sparse.issparse(value):
        return CellPropensities(value)
    try:
        return Constant(float(value)) if np.ndim(value) == 0 else FromTable(value)  # type: ignore[arg-type]
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            f"propensity is {repr(value)[:60]}; expected a model such as Jain(), a string such as 'jain' or "
            "'constant:0.5', one p for all labels, or one per label"
        ) from error


def cells_of(value: PropensityLike | None) -> sparse.csr_matrix | None:
    """Return the propensities per cell that a parameter value specifies; None if it specifies none."""
    if isinstance(value, str) and not value.startswith("cells:"):
        return None
    return getattr(as_propensity(value), "matrix", None)


def estimate_range(model: Propensity, label_counts: npt.ArrayLike, n_samples: int, first: int) -> Floats:
    """Return p of consecutive labels, from label `first` on, whose positives were counted in `n_samples` rows.

    A table is indexed by label; other models use the counts only.
    """
    counts = check_counts(label_counts, n_samples, first)
    if isinstance(model, FromTable):
        model = model.entries(first, counts.size)
    return model.estimate(counts, n_samples)


def estimate_parts(model: Propensity, label_counts: npt.ArrayLike, parts: Iterable[tuple[int, int]]) -> Floats:
    """Return p of labels whose positives were counted in parts, as in an extended run.

    Parameters
    ----------
    model
        The propensity model. A table must have one entry per label of all parts.
    label_counts
        One count per label of all parts, in label order.
    parts
        The number of labels and the number of rows of each part.
    """
    counts = np.asarray(label_counts)
    sizes = list(parts)
    n_labels = sum(size for size, _ in sizes)
    if counts.shape != (n_labels,):
        raise InputError(f"label counts have the shape {counts.shape}; the parts have {n_labels} labels together")
    if isinstance(model, FromTable) and model.values.size != n_labels:
        raise InputError(f"the propensity table has {model.values.size} labels, the data has {n_labels}")
    estimates, first = [np.zeros(0)], 0
    for size, n_samples in sizes:
        estimates.append(estimate_range(model, counts[first : first + size], n_samples, first))
        first += size
    return np.concatenate(estimates)


SPECS = "jain, jain:A,B, flattened-jain, constant:P, table:FILE, audit:FILE, duplicates:DATA or cells:FILE"
"""The strings that `parse` takes, for messages and help texts."""

_FROM_DATA: Registry[Callable[[str], Propensity]] = Registry(
    "unmissed.propensities", "propensity", {"duplicates": "unmissed.audit.duplicates:propensity_of_duplicates"}
)


def parse(spec: str) -> Propensity:
    """Return the model that a string specifies.

    `jain`, `jain:0.55,1.5`, `flattened-jain`, `flattened-jain:0.125`, `constant:0.5`, `table:FILE` (one p per label),
    `audit:FILE` (p by frequency, as `unmissed audit` writes it), `duplicates:DATA` (estimated from rows with the same
    text) or `cells:FILE` (one p per observed positive of the training rows, a sparse matrix).
    """
    name, _, argument = spec.partition(":")
    if name == "table" and argument:
        return FromTable(argument)
    if name == "audit" and argument:
        return FrequencyCurve.read(argument)
    if name == "cells" and argument:
        return CellPropensities.read(argument)
    if name == "duplicates" and argument:
        return _FROM_DATA.find(name)(argument)
    numbers = _numbers(argument, spec)
    if name == "jain" and len(numbers) in (0, 2):
        return Jain(*numbers)
    if name == "flattened-jain" and len(numbers) < 2:
        return FlattenedJain(*numbers)
    if name == "constant" and len(numbers) == 1:
        return Constant(*numbers)
    raise InputError(f"unknown propensity {spec!r}; expected {SPECS}")


def describe(model: Propensity) -> dict[str, Any]:
    """Return a JSON-serializable description; `from_description` restores an equal model."""
    match model:
        case Jain():
            return {"model": "jain", "a": model.a, "b": model.b}
        case FlattenedJain():
            return {"model": "flattened-jain", "share": model.share}
        case Constant():
            return {"model": "constant", "p": model.p}
        case FromTable():
            return {"model": "table", "values": model.values.tolist()}
        case FrequencyCurve():
            return {"model": "frequency", **model.to_json()}
        case CellPropensities():
            return {"model": "cells", "values": None, "source": model.source, "digest": model.digest}
    raise InputError(f"{type(model).__name__} is not a propensity model that can be described")


def from_description(description: Mapping[str, Any]) -> Propensity:
    """Return the model that a description from `describe` specifies."""
    constructors: dict[str, Callable[..., Propensity]] = {
        "jain": Jain,
        "flattened-jain": FlattenedJain,
        "constant": Constant,
        "table": FromTable,
        "frequency": FrequencyCurve,
        "cells": CellPropensities,
    }
    if not isinstance(description, Mapping) or description.get("model") not in list(constructors):
        raise InputError(f"unknown propensity model {str(description)[:60]!r}; known: {', '.join(constructors)}")
    arguments = dict(description)
    name = arguments.pop("model")
    if isinstance(arguments.get("values"), str):  # a description must not open files
        raise InputError(f"propensity model {name!r} cannot be constructed from the path {arguments['values'][:60]!r}")
    try:
        return constructors[name](**arguments)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"propensity model {name!r} cannot be constructed from {sorted(arguments)}") from error


def _numbers(text: str, spec: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")] if text else []
    except ValueError as error:
        raise InputError(f"propensity {spec!r}: {text!r} is not a number or a comma-separated pair") from error


def _read_table(path: Path) -> Floats:
    """Return the propensities in a `.npy` file or in a text file with one number per line."""
    what = "a table of propensities"
    if path.suffix == ".npy":
        table = read_npy(path, what)
        if table.dtype.kind not in "biuf":
            raise InputError(f"{path}: not {what}: it holds {table.dtype}, expected numbers")
        return np.asarray(table, dtype=np.float64)
    values = []
    for number, line in enumerate(read_text(path, what).splitlines(), start=1):
        try:
            values.append(float(line))
        except ValueError as error:
            raise InputError(f"{path}, line {number}: expected one number, found {line[:40]!r}") from error
    return np.array(values)
