"""Columns: the rows of a design by feature as well, for solvers that read only the features that have a weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.kernels.columns import transpose
from unmissed.solvers.design import Design, Floats, Rows


@dataclass(frozen=True)
class Columns:
    """The entries of feature j, by place: `rows[starts[j]:starts[j + 1]]`, rising, and their values."""

    starts: npt.NDArray[np.int64]
    rows: Rows
    entries: Floats

    @classmethod
    def of(cls, design: Design) -> Columns:
        """Lay out a design by feature."""
        size = len(design.indices)
        columns = cls(np.zeros(design.n_features + 1, np.int64), np.empty(size, np.int32), np.empty(size, np.float32))
        transpose(*design.rows, *columns.arrays)
        return columns

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What every kernel that walks over columns takes."""
        return self.starts, self.rows, self.entries
