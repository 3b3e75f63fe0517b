"""Propensities estimated from evidence: p as a function of the frequency of a label, with its uncertainty."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from unmissed.errors import InputError
from unmissed.files import read_text
from unmissed.propensity.checked_counts import ImmutableParameters, check_counts
from unmissed.writing import atomic_file

Floats = npt.NDArray[np.float64]
_NORMAL_95 = 1.959964  # half-width of a 95 % interval in standard deviations
_COLUMNS = ("positives", "of_rows", "p", "low", "high")


@dataclass(frozen=True)
class FrequencyCurve(ImmutableParameters):
    """Propensities by label frequency: logit p, interpolated linearly over the logarithm of the positives.

    Labels rarer or more frequent than the first or last point have its p. Positives are counted per `of_rows` rows, so
    that a data set with twice the rows has twice the positives at the same p.

    Parameters
    ----------
    positives : increasing numbers of positives, above 0
    p, low, high : propensity at each of them, and its 95 % interval; 0 < low <= p <= high <= 1
    of_rows : number of rows in which positives were counted
    """

    positives: Sequence[float]
    p: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    of_rows: int

    def __post_init__(self) -> None:
        try:
            for name in ("positives", "p", "low", "high"):
                object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
            object.__setattr__(self, "of_rows", int(self.of_rows))
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"propensities by frequency: {error}") from error
        sizes = {len(values) for values in (self.positives, self.p, self.low, self.high)}
        if len(sizes) != 1 or sizes == {0}:
            raise InputError(
                "propensities by frequency: positives, p, low and high must have the same number of values"
            )
        at, (p, low, high) = np.array(self.positives), np.array([self.p, self.low, self.high])
        if not (np.isfinite(at).all() and at[0] > 0 and (np.diff(at) > 0).all() and self.of_rows > 0):
            raise InputError("propensities by frequency: positives must be above 0 and increase, and of_rows above 0")
        if not ((low > 0) & (low <= p) & (p <= high) & (high <= 1)).all():
            raise InputError("propensities by frequency: expected 0 < low <= p <= high <= 1")

    def estimate(self, label_counts: npt.ArrayLike, n_samples: float) -> Floats:
        """Return p of each label; labels without positives have the p of the rarest ones."""
        return self._interpolate(_logit(self.p), label_counts, n_samples)

    def draw(self, label_counts: npt.ArrayLike, n_samples: int, rng: np.random.Generator) -> Floats:
        """Return p of each label for one draw of the curve from its uncertainty.

        The logit at each point is drawn independently from a normal distribution whose two halves fit the interval.
        """
        middle, z = _logit(self.p), rng.standard_normal(len(self.p))
        below, above = middle - _logit(self.low), _logit(self.high) - middle
        return self._interpolate(middle + z / _NORMAL_95 * np.where(z < 0, below, above), label_counts, n_samples)

    def _interpolate(self, values: Floats, label_counts: npt.ArrayLike, n_samples: float) -> Floats:
        counts = check_counts(label_counts, n_samples) * (self.of_rows / max(n_samples, 1))
        return np.asarray(expit(np.interp(np.log(np.maximum(counts, 1e-9)), np.log(self.positives), values)))

    def to_json(self) -> dict[str, Any]:
        """Return the parameters as JSON values."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the curve as CSV, atomically; `--propensity audit:FILE` reads it."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(_COLUMNS)
        for at, p, low, high in zip(self.positives, self.p, self.low, self.high, strict=True):
            table.writerow([f"{at:.6g}", self.of_rows, *(f"{value:.6g}" for value in (p, low, high))])
        with atomic_file(path) as stream:
            stream.write(text.getvalue().encode())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> FrequencyCurve:
        """Read a curve that `write` wrote; raise InputError with the line of what is wrong."""
        table = csv.DictReader(io.StringIO(read_text(path, "a CSV file of propensities by frequency")))
        missing = [name for name in _COLUMNS if name not in (table.fieldnames or [])]
        if missing:
            raise InputError(
                f"{path}: has no column {missing[0]!r}; expected {', '.join(_COLUMNS)}, as `unmissed audit read --out` "
                "writes them"
            )
        values: dict[str, list[float]] = {name: [] for name in _COLUMNS}
        for line in table:
            for name in _COLUMNS:
                try:
                    values[name].append(float(line[name]))
                except (TypeError, ValueError) as error:
                    raise InputError(
                        f"{path}, line {table.line_num}: expected a number as {name}, found {str(line[name])[:40]!r}"
                    ) from error
        of_rows = set(values.pop("of_rows"))
        if len(of_rows) != 1:
            raise InputError(f"{path}: expected one number of rows in the column of_rows, found {len(of_rows)}")
        try:
            return cls(**values, of_rows=int(of_rows.pop()))
        except (InputError, ValueError, OverflowError) as error:
            raise InputError(f"{path}: {error}") from error


def _logit(p: Sequence[float]) -> Floats:
    return np.asarray(logit(np.minimum(p, 1 - 1e-9)))
