"""DualVariables: the dual solutions of labels by training row, from which a later training can start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DualVariables:
    """Dual variables above 0 in CSR form by label: label l has the entries `starts[l]:starts[l + 1]`.

    `rows` are numbers of training rows. `values` are signed: above 0 for positives of the label, below 0 for negatives.
    `same_features` is False if the features of the rows have changed since, so that hardly a label is still certified.
    """

    starts: Indices
    rows: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    same_features: bool = True

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return len(self.starts) - 1

    @classmethod
    def join(cls, parts: Sequence[DualVariables]) -> DualVariables:
        """Return the variables of consecutive labels, which were trained on the same rows."""
        lengths = [np.diff(part.starts) for part in parts]
        return cls(
            np.concatenate([[0], *lengths]).cumsum(),
            np.concatenate([np.empty(0, np.int32), *(part.rows for part in parts)]),
            np.concatenate([np.empty(0, np.float32), *(part.values for part in parts)]),
        )

    def of_labels(self, begin: int, end: int) -> DualVariables:
        """Return the variables of the labels `begin` to `end` (exclusive)."""
        first, last = self.starts[begin], self.starts[end]
        starts = self.starts[begin : end + 1] - first
        return DualVariables(starts, self.rows[first:last], self.values[first:last], self.same_features)

    def moved(self, new_rows: Indices, new_labels: Indices, n_labels: int) -> DualVariables:
        """Return the variables with other numbers of rows and of labels; -1 drops a row or a label.

        `new_rows[i]` is the new number of row i, `new_labels[l]` that of label l. A new label has no variables. If two
        rows become one, one of their variables is kept.
        """
        if self.rows.size and not 0 <= self.rows.min() <= self.rows.max() < len(new_rows):
            raise InputError(f"dual variables are of rows outside 0 to {len(new_rows) - 1}; the run is damaged")
        label, row = np.repeat(new_labels, np.diff(self.starts)), new_rows[self.rows]
        order = np.lexsort((row, label))
        label, row, values = label[order], row[order], self.values[order]
        is_first = np.append(True, (np.diff(label) != 0) | (np.diff(row) != 0))[: len(row)]
        kept = (label >= 0) & (row >= 0) & is_first & np.isfinite(values)
        label, row, values = label[kept], row[kept], values[kept]
        starts = np.append(0, np.cumsum(np.bincount(label, minlength=n_labels)))
        return DualVariables(starts, row.astype(np.int32), values, self.same_features)
