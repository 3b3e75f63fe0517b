"""FeatureColumns: the CSC copy of a design, for solvers that read only the columns of non-zero weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.column_kernels import transpose
from unmissed.models.linear.design import Design, Floats, RowIndices


@dataclass(frozen=True)
class FeatureColumns:
    """X in CSC format: column j has the rows `rows[starts[j]:starts[j + 1]]`, ascending, and values in `entries`."""

    starts: npt.NDArray[np.int64]
    rows: RowIndices
    entries: Floats

    @classmethod
    def of(cls, design: Design) -> FeatureColumns:
        """Return the columns of a design."""
        size = len(design.indices)
        columns = cls(np.zeros(design.n_features + 1, np.int64), np.empty(size, np.int32), np.empty(size, np.float32))
        transpose(*design.rows, *columns.arrays)
        return columns

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays (column pointer, rows, values) in the order in which kernels take them."""
        return self.starts, self.rows, self.entries
