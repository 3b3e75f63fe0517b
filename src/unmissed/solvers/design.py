"""Design: X laid out once for all label blocks, and LabelBlock, the unit of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.kernels.arrange import count_features, reorder

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LabelBlock:
    """Consecutive labels with their positive rows and the costs of a loss.

    Label l of the block has the positives `rows[starts[l]:starts[l + 1]]`; a positive costs `positive[l]`, any other
    row `negative[l]`, both with the constant C multiplied in.
    """

    first: int
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    positive: npt.NDArray[np.float64]
    negative: npt.NDArray[np.float64]

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return len(self.positive)

    def positives(self, label: int) -> npt.NDArray[np.int32]:
        """The positive rows of one label."""
        return self.rows[self.starts[label] : self.starts[label + 1]]


@dataclass(frozen=True)
class Design:
    """The rows of X in random order, their features in falling order of frequency.

    Frequent features first keeps the hot part of every weight vector in cache; the random order of rows is what
    coordinate ascent wants. `norms` are |x|^2 with the constant feature counted in.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.uint32]
    values: Floats
    norms: Floats
    place_of_row: npt.NDArray[np.int32]
    place_of_feature: npt.NDArray[np.int32]
    use_bias: np.float32

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return len(self.norms)

    @property
    def n_features(self) -> int:
        """The number of features, without the constant one."""
        return len(self.place_of_feature)

    @property
    def rows(self) -> tuple[Any, ...]:
        """What every kernel that walks over rows begins with."""
        return self.indptr, self.indices, self.values


def by_frequency(indices: npt.NDArray[np.int32], n_features: int) -> npt.NDArray[np.int32]:
    """Return the place of each feature when the most frequent come first, which keeps what is hot together."""
    counts = np.zeros(n_features, np.int64)
    count_features(np.ascontiguousarray(indices), counts)
    place = np.empty(n_features, np.int32)
    place[np.argsort(-counts, kind="stable")] = np.arange(n_features, dtype=np.int32)
    return place


def lay_out(X: Any, *, bias: bool, seed: int) -> Design:
    """Copy the CSR matrix X (float32, canonical) into the layout that the kernels want."""
    n_samples, n_features = X.shape
    indptr = X.indptr.astype(np.int64)
    indices = np.ascontiguousarray(X.indices)
    place_of_feature = by_frequency(indices, n_features)
    order = np.random.default_rng(seed).permutation(n_samples)
    place_of_row = np.empty(n_samples, np.int32)
    place_of_row[order] = np.arange(n_samples, dtype=np.int32)
    new_indptr = np.empty(n_samples + 1, np.int64)
    new_indices = np.empty(len(indices), np.uint32)
    values = np.empty(len(indices), np.float32)
    norms = np.empty(n_samples, np.float32)
    reorder(
        indptr, indices, np.ascontiguousarray(X.data), order, place_of_feature, new_indptr, new_indices, values, norms
    )
    if not np.isfinite(norms).all():
        raise InputError("X holds a row too long for float32; scale its features down")
    use_bias = np.float32(1 if bias else 0)
    return Design(new_indptr, new_indices, values, norms + use_bias, place_of_row, place_of_feature, use_bias)
