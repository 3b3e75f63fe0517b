"""CostSupport: whether the costs of a model may depend on rows (sample weights) and on cells (propensities)."""

from __future__ import annotations

from dataclasses import dataclass

from unmissed.errors import InputError
from unmissed.models.training_data import TrainingData


@dataclass(frozen=True)
class CostSupport:
    """What a model declares to take besides rows and labels.

    Parameters
    ----------
    weights : weights of rows multiply their costs; a model without this repeats rows, by integer weights
    cells : a propensity per observed positive, in place of one per label
    """

    weights: bool = False
    cells: bool = False

    def check(self, name: str, rows: TrainingData) -> None:
        """Raise InputError if the model called `name` cannot use the weights or the propensities of the rows."""
        if rows.cell_propensity is not None and not self.cells:
            raise InputError(f"{name} takes no propensities per cell (cell_propensity); PW-DiSMEC does")
        if rows.weights is not None and not self.weights:
            raise InputError(f"{name} takes no weights of rows; repeat rows, or use DiSMEC or PW-DiSMEC")
