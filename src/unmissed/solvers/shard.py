"""Shard: the pruned, sparse weights of consecutive labels and their certificates; what is saved and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Shard:
    """The linear classifiers of labels `first` to `first + n_labels - 1`.

    Label l has the weights `weights[indptr[l]:indptr[l + 1]]` at the features `features[indptr[l]:indptr[l + 1]]`
    (rising), the constant `bias[l]`, and the certificate of its optimum before pruning.
    """

    indptr: npt.NDArray[np.int64]
    features: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]
    objective: npt.NDArray[np.float64]
    gap: npt.NDArray[np.float64]
    epochs: npt.NDArray[np.int32]
    first: int = 0

    @property
    def n_labels(self) -> int:
        """The number of labels in the shard."""
        return len(self.bias)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name, as an archive takes them."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "first"}

    @classmethod
    def from_arrays(cls, first: int, arrays: Mapping[str, npt.NDArray[Any]]) -> Shard:
        """Make a shard of what `arrays` gave; memory-mapped arrays stay mapped."""
        return cls(first=first, **arrays)


class Shards(Protocol):
    """Where finished shards go and come from: memory, or the folder of a run."""

    def get(self, first: int) -> Shard | None:
        """Return the shard that begins at label `first`, or None where it is not finished."""

    def put(self, shard: Shard) -> None:
        """Keep a finished shard; called once a shard, from one thread."""


class InMemory(dict[int, Shard]):
    """Shards kept in this process."""

    def put(self, shard: Shard) -> None:
        """Keep a finished shard."""
        self[shard.first] = shard
