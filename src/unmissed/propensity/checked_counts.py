"""Checked label counts, and the parameter interface of propensity models."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError

Floats = npt.NDArray[np.float64]


class ImmutableParameters:
    """scikit-learn's parameter interface of immutable dataclasses; `clone` does not copy them."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor parameters by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}  # type: ignore[arg-type]

    def __sklearn_clone__(self) -> Self:
        return self


def check_counts(label_counts: npt.ArrayLike, n_samples: float, first: int = 0) -> Floats:
    """Return label counts as float64; raise InputError unless all lie between 0 and the number of rows."""
    counts = np.asarray(label_counts, dtype=np.float64)
    if counts.ndim != 1:
        raise InputError(f"label counts must be one number per label, not an array of shape {counts.shape}")
    wrong = np.flatnonzero(~((counts >= 0) & (counts <= n_samples)))
    if wrong.size:
        raise InputError(
            f"label {first + wrong[0]} has the count {counts[wrong[0]]:g}; "
            f"expected at least 0 and at most the number of rows, {n_samples}"
        )
    return counts
