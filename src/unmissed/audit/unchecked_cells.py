"""Cells (row, label) without an observed label, and the probability that the label is true all the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.calibration import Cells
from unmissed.errors import InputError
from unmissed.propensity import (
    Constant,
    FlattenedJain,
    FrequencyCurve,
    FromTable,
    Jain,
    Propensity,
    PropensityLike,
    as_propensity,
)
from unmissed.runs.run import Run

Floats = npt.NDArray[np.float64]


DEFAULT_PROPENSITY = FlattenedJain()
"""The propensities of `unmissed missing` if neither the caller nor the recipe of the run gives others."""


@dataclass(frozen=True, eq=False)
class UncheckedCells:
    """Cells without an observed label, as parallel arrays: the best-scored labels of each row.

    Parameters
    ----------
    rows, labels : int32 arrays: the pairs
    observed_probability : float64 array: P(label is observed | x), out of fold
    missing_probability : float64 array: P(label is true | it is not observed, x), at most 1
    clipped : bool array: where `missing_probability` was above 1 before it was clipped
    n_samples, n_labels : numbers of rows and labels of the data
    propensity : the propensity model of `missing_probability`
    """

    rows: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32]
    observed_probability: Floats
    missing_probability: Floats
    clipped: npt.NDArray[np.bool_]
    n_samples: int
    n_labels: int
    propensity: Propensity = DEFAULT_PROPENSITY

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, kept: npt.NDArray[Any]) -> UncheckedCells:
        """Return the cells of a mask or of indices."""
        names = ("rows", "labels", "observed_probability", "missing_probability", "clipped")
        chosen: dict[str, Any] = {name: getattr(self, name)[kept] for name in names}
        return replace(self, **chosen)


def missing_probability(observed: npt.ArrayLike, propensities: npt.ArrayLike) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return P(label is true | it is not observed, x) = pi (1 - p) / (p (1 - pi)), and where it was clipped at 1.

    Parameters
    ----------
    observed : pi, the probability that the label is observed
    propensities : p, the probability that a true label is observed, for each cell
    """
    pi, p = np.asarray(observed, dtype=np.float64), np.asarray(propensities, dtype=np.float64)
    if not ((p > 0) & (p <= 1)).all() or not ((pi >= 0) & (pi <= 1)).all():
        raise InputError("probabilities must be 0 to 1, and propensities above 0 and at most 1")
    posterior = pi * (1 - p)
    most = p * (1 - pi)
    clipped = posterior > most
    return np.where(clipped, 1.0, posterior / np.where(clipped, 1.0, np.maximum(most, 1e-300))), clipped


def unchecked_cells(run: Run, propensity: PropensityLike | None = None) -> UncheckedCells:
    """Return the training cells of a calibrated run that have no observed label.

    These are the 50 labels of each row with the highest out-of-fold scores; labels below them are left out.

    Parameters
    ----------
    run : a calibrated run
    propensity : the propensity model; None takes `missing_propensity`
    """
    return cells_without_label(run, run.held_out_cells(), propensity)


def missing_propensity(run: Run, propensity: PropensityLike | None = None) -> Propensity:
    """Return the propensity model by which missing labels are found.

    That is the given one, or that of the run's recipe. Jain's model with its usual constants is the default of training
    and no evidence; `DEFAULT_PROPENSITY` is taken in its stead.
    """
    if propensity is not None:
        return as_propensity(propensity)
    of_recipe = run.recipe.propensity
    return DEFAULT_PROPENSITY if of_recipe is None or of_recipe == Jain() else of_recipe


def say_propensity(model: Propensity) -> str:
    """Return what is known about propensities, for people who read probabilities that follow from them."""
    match model:
        case FlattenedJain():
            return f"assumed propensities (about 0.6, with a share of {model.share:g} of the slope of Jain's model)"
        case Jain():
            return f"assumed propensities (Jain's model, a = {model.a:g}, b = {model.b:g})"
        case Constant():
            return f"the propensity {model.p:g} for all labels"
        case FromTable():
            return "a table of propensities"
        case FrequencyCurve():
            return "propensities estimated from data, by label frequency"
    return f"propensities by {type(model).__name__}"


def cells_without_label(run: Run, cells: Cells, propensity: PropensityLike | None = None) -> UncheckedCells:
    """Return the unchecked cells among the held-out cells of a run, as `unchecked_cells` does."""
    entry = run.calibration
    if entry is None:
        raise run.not_calibrated()
    cells = cells.select(~cells.observed & (cells.ranks >= 0))
    observed = run.model.calibration_.probability(cells.labels, cells.scores, cells.ranks).astype(np.float64)
    model = missing_propensity(run, propensity)
    found, clipped = missing_probability(observed, run.propensities(model)[cells.labels])
    return UncheckedCells(cells.rows, cells.labels, observed, found, clipped, entry.n_samples, run.n_labels, model)
