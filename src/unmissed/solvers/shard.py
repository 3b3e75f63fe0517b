"""Shard: the pruned, sparse weights of consecutive labels and their certificates; what is saved and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_LABELS = 2**16  # labels of a shard are numbered in 16 bits


@dataclass(frozen=True)
class Shard:
    """The linear classifiers of labels `first` to `first + n_labels - 1`, laid out feature by feature.

    Feature `features[j]` (rising) has the weights `weights[starts[j]:starts[j + 1]]` for the labels
    `first + labels[starts[j]:starts[j + 1]]` (rising): a row reads the weights of its own features and no others.
    Each label has a constant, `bias`, and the certificate of its optimum before pruning. `pruned` bounds by how much
    pruning moves the label's score of a row of typical length (1 where rows are scaled to it); None where nobody noted.
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

    @property
    def n_labels(self) -> int:
        """The number of labels in the shard."""
        return len(self.bias)

    def of_label(self, label: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return the features, rising, and weights of the label `first + label`."""
        places = np.flatnonzero(self.labels == label)
        at = np.searchsorted(self.starts, places, side="right") - 1
        return self.features[at], np.asarray(self.weights[places])

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name, as an archive takes them."""
        named = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "first"}
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def from_arrays(cls, first: int, arrays: Mapping[str, npt.NDArray[Any]]) -> Shard:
        """Make a shard of what `arrays` gave; memory-mapped arrays stay mapped."""
        return cls(first=first, **arrays)
