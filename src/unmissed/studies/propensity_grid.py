"""What studies share that train under several losses and propensities: names of cells, summaries over seeds, tables."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unmissed.errors import InputError
from unmissed.losses.inverse import check_propensities


@dataclass(frozen=True)
class TrainingCell:
    """A training of the grid: the key of its loss, the propensity and the seed. Subclasses add `run`."""

    variant: str
    propensity: float
    seed: int
    size: int = 1

    @property
    def key(self) -> str:
        """The key of its piece."""
        return f"{self.variant}/p{cell_name(self.propensity)}/seed{self.seed}"


def check_grid(propensities: Sequence[float]) -> None:
    """Raise InputError unless there are propensities, in (0, 1], that have different names."""
    if not propensities:
        raise InputError("a study needs at least one propensity")
    for p in propensities:
        check_propensities(p)
    if len({cell_name(p) for p in propensities}) < len(propensities):
        raise InputError("propensities must differ in their first four decimals")


def check_counts(settings: object, names: Iterable[str]) -> None:
    """Raise InputError unless the named settings are at least 1."""
    for name in names:
        if getattr(settings, name) < 1:
            raise InputError(f"{name} must be at least 1, not {getattr(settings, name)}")


def cell_name(propensity: float) -> str:
    """Return a propensity as a part of the key of a piece."""
    return f"{propensity:.4f}"


def finite(value: float) -> float | None:
    """Return a finite number, or None, because JSON has no infinity."""
    return value if math.isfinite(value) else None


def summarize_seeds(ends: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """Return mean, standard deviation, minimum and maximum of each figure over seeds; None stands for infinity."""
    row: dict[str, Any] = {"seeds": len(ends)}
    for name in names:
        values = np.array([math.inf if end[name] is None else end[name] for end in ends])
        is_finite = bool(np.isfinite(values).all())
        row[f"{name}_mean"] = float(values.mean()) if is_finite else None
        row[f"{name}_std"] = float(values.std(ddof=1)) if is_finite and len(values) > 1 else None
        row[f"{name}_min"] = finite(float(values.min()))
        row[f"{name}_max"] = finite(float(values.max()))
    return row


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows with the same names as CSV."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
