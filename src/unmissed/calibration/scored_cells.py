"""Cells: scored (row, label) pairs, to which calibrations are fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

CANDIDATES = 50
"""Labels with the highest scores of each row, among which probable labels are looked for."""
CELL_LAYOUT: dict[str, tuple[Any, int]] = {
    "rows": (np.int32, 1),
    "labels": (np.int32, 1),
    "scores": (np.float32, 1),
    "weights": (np.float32, 1),
    "observed": (np.bool_, 1),
    "ranks": (np.int32, 1),
    "train_counts": (np.int32, 1),
}
"""Arrays of stored cells: type and number of axes."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Scored (row, label) pairs as parallel arrays, sorted by row; memory is proportional to the rows.

    Parameters
    ----------
    rows, labels : int32 arrays: the pairs
    scores : float32 array, finite: scores by the model of the row's fold
    weights : float32 array: 1, or the number of cells that a sampled cell represents
    observed : bool array: whether the label is observed in the row
    ranks : int32 array: position in the row's ranking, from 0; -1 for cells below the kept ones
    groups : int64 array: the group of the row
    n_labels : number of labels
    train_counts : int32 array: positives of the label among the rows on which the model of the row's fold was trained;
        None if they are not known
    """

    rows: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float32]
    observed: npt.NDArray[np.bool_]
    ranks: npt.NDArray[np.int32]
    groups: npt.NDArray[np.int64]
    n_labels: int
    train_counts: npt.NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.scores)

    def select(self, kept: npt.NDArray[Any]) -> Cells:
        """Return the cells of a mask or of indices."""
        arrays = ((name, getattr(self, name)) for name in (*CELL_LAYOUT, "groups"))
        parts: dict[str, Any] = {name: array[kept] for name, array in arrays if array is not None}
        return replace(self, **parts)
