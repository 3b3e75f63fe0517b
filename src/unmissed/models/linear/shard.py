"""Shard: the pruned, sparse weights of consecutive labels with their certificates, as stored on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.models.dual_variables import DualVariables
from unmissed.models.untrained import Mask


@dataclass(frozen=True)
class Shard:
    """The linear classifiers of labels `first` to `first + n_labels - 1`, in feature-major (inverted index) order.

    Feature `features[j]` (ascending) has the weights `weights[starts[j]:starts[j + 1]]` for the labels
    `first + labels[starts[j]:starts[j + 1]]` (ascending), so that scoring a row reads only the weights of its features.
    `bias`, `objective`, `gap` and `epochs` have one entry per label; the certificate is that before pruning. `pruned`
    bounds the change of a label's score by pruning, for a row of typical norm (1 if rows are L2-normalized). It is None
    if it was not recorded. `dense` has the weights of the dense features, one line per label, not pruned; None if X has
    no dense part. `features` are then those of the sparse part only. `full_objective` is the objective on all rows if
    training used some of them. `dual_starts`, `dual_rows` and `dual_values` are the `DualVariables` of the labels, None
    if they were not kept. `digest` is that of the piece that it was read from, None if it is not on disk.
    """

    features: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    labels: npt.NDArray[np.uint16]
    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]
    objective: npt.NDArray[np.float64]
    gap: npt.NDArray[np.float64]
    epochs: npt.NDArray[np.int32]
    first: int = 0
    pruned: npt.NDArray[np.float32] | None = None
    dense: npt.NDArray[np.float32] | None = None
    dual_starts: npt.NDArray[np.int64] | None = None
    dual_rows: npt.NDArray[np.int32] | None = None
    dual_values: npt.NDArray[np.float32] | None = None
    full_objective: npt.NDArray[np.float64] | None = None
    digest: str | None = None

    @property
    def n_labels(self) -> int:
        """The number of labels in the shard."""
        return len(self.bias)

    def dual_variables(self) -> DualVariables | None:
        """Return the dual variables of the labels; None if they were not kept."""
        if self.dual_starts is None or self.dual_rows is None or self.dual_values is None:
            return None
        return DualVariables(self.dual_starts, self.dual_rows, self.dual_values)

    def of_label(self, label: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return the features (ascending) and weights of the label `first + label`."""
        positions = np.flatnonzero(self.labels == label)
        at = np.searchsorted(self.starts, positions, side="right") - 1
        return self.features[at], np.asarray(self.weights[positions])

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name, as they are stored."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("first", "digest")}
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def from_arrays(cls, first: int, arrays: Mapping[str, npt.NDArray[Any]], digest: str | None = None) -> Shard:
        """Return the shard of stored arrays; memory-mapped arrays stay mapped."""
        return cls(first=first, digest=digest, **arrays)


def hide_untrained(shard: Shard, untrained: Mask) -> Shard:
    """Return the shard with bias -inf, and thus score -inf, for untrained labels."""
    mine = None if untrained is None else untrained[shard.first : shard.first + shard.n_labels]
    if mine is None or not mine.any():
        return shard
    return replace(shard, bias=np.where(mine, np.float32(-np.inf), shard.bias))
