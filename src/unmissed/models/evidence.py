"""What a fitted model says about itself: certificates of optimality, and explanations of scores."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError


class UncertifiedWarning(UserWarning):
    """Some problems stopped with a relative duality gap above the tolerance."""


@dataclass(frozen=True)
class Certificate:
    """Upper bounds on the suboptimality of each optimization problem that training solved.

    Parameters
    ----------
    tol : the required relative duality gap
    gap : the relative duality gap of each problem
    objective : the sum of the objective values
    unit : what a problem stands for: "labels", or "classifiers" if several labels share one
    columns : further numbers per problem, by title; `inspect` shows them next to the gap
    """

    tol: float
    gap: npt.NDArray[np.float64]
    objective: float
    unit: str = "labels"
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def missed(self) -> npt.NDArray[np.int64]:
        """Indices of the problems whose gap exceeds the tolerance."""
        return np.flatnonzero(~(self.gap <= self.tol))

    def warn_of_missed(self, first: int) -> None:
        """Warn the caller of `fit` of the problems whose gap exceeds the tolerance, of labels from `first` on."""
        missed = self.missed
        if self.unit == "labels":
            missed = missed[missed >= first]
        if len(missed):
            named = ", ".join(map(str, missed[:10])) + (", ..." if len(missed) > 10 else "")
            warnings.warn(
                f"{len(missed)} {self.unit} missed the relative duality gap {self.tol:g}: {named}; "
                "allow more iterations, raise tol or lower C",
                UncertifiedWarning,
                stacklevel=4,
            )


@dataclass(frozen=True)
class Explanation:
    """The linear score of a label: features, their weights, and a constant."""

    features: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    constant: float

    def strongest(self, top: int) -> Explanation:
        """Return the `top` features of largest absolute weight, in falling order; ties by feature index."""
        if top < 1:
            raise InputError(f"top is {top}; expected at least 1")
        order = np.lexsort((self.features, -np.abs(self.weights)))[:top]
        return Explanation(self.features[order], self.weights[order], self.constant)
