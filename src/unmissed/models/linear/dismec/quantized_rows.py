"""QuantizedRows: the rows of a design in int16, as passes in lanes read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from unmissed.models.linear.design import Design, Floats
from unmissed.models.linear.dismec.near_margin import quantize_rows
from unmissed.models.linear.dismec.rare_features import count_frequent, score_rare_features, split_rows
from unmissed.settings import SETTINGS

_MAX_FREQUENT = 2**16  # Indices of frequent features are 16-bit if there are rare ones.


class QuantizedRows:
    """Quantized rows, bounds of the quantization error (see `near_margin`), and rare features apart.

    The first `n_frequent` features are frequent and stored in `frequent` by row; `rare` has the others by feature, and
    `rare_squares` their part of |x|^2 (see `rare_features`). All features count as frequent if that is cheaper or if X
    has negative values. `dense` has the dense features by row, and a feature of zeros if their number is odd.
    """

    def __init__(self, design: Design) -> None:
        n, size = design.n_samples, len(design.values)
        numbers = np.empty(size, np.int16)
        self.steps, self.sizes, self.errors = (np.empty(n, np.float32) for _ in range(3))
        self._zeros = np.zeros(n, np.float32)
        self.dense = np.empty((n, -(-design.n_dense // 2) * 2), np.int16)
        quantize_rows(design.indptr, design.values, design.dense, numbers, self.dense, *self.bounds)
        most = design.n_dense + SETTINGS.frequent_features
        n_rare = _count_rare(design, most)
        self.n_frequent = most if n_rare else design.n_features
        self.frequent: tuple[Any, ...] = design.indptr, design.indices, numbers
        self.rare: tuple[Any, ...] = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int16)
        self.rare_squares = self._zeros
        if n_rare:
            starts, rare_starts = np.empty(n + 1, np.int64), np.empty(design.n_features - most + 1, np.int64)
            count_frequent(design.indptr, design.indices, most, starts, rare_starts)
            self.frequent = starts, np.empty(size - n_rare, np.uint16), np.empty(size - n_rare, np.int16)
            self.rare = rare_starts, np.empty(n_rare, np.int32), np.empty(n_rare, np.int16)
            self.rare_squares = np.empty(n, np.float32)
            split_rows(*design.rows, numbers, most, self.frequent, self.rare, self.rare_squares)

    @property
    def bounds(self) -> tuple[Floats, Floats, Floats]:
        """(steps, bounds of |s q|_1, bounds of |x - s q|), one of each per row."""
        return self.steps, self.sizes, self.errors

    @property
    def bounds_without_errors(self) -> tuple[Floats, Floats, Floats]:
        """The same with zero error bounds, for approximate passes."""
        return self.steps, self._zeros, self._zeros

    def row_batches(
        self, part: slice, rare_weights: tuple[Any, ...]
    ) -> Iterator[tuple[slice, tuple[Any, ...], tuple[Any, ...]]]:
        """Yield batches of a range of rows: the range, its frequent features, and the scores of its rare features.

        There is one batch, unless the rare-feature scores would take much memory.
        """
        features, begins, *_ = rare_weights
        n_rare_scores = int((self.rare[0][features + 1] - self.rare[0][features]) @ np.diff(begins))  # over all rows
        size = part.stop - part.start
        n_batches = 1 + n_rare_scores * size // max(SETTINGS.rare_scores * len(self.steps) ** 2, 1)
        size = max(-(-size // n_batches), 1)
        for first in range(part.start, part.stop, size):
            last = min(first + size, part.stop)
            frequent = self.frequent[0][first : last + 1], *self.frequent[1:], self.dense[first:last]
            yield slice(first, last), frequent, score_rare_features(first, last, self.rare, rare_weights)


def _count_rare(design: Design, n_frequent: int) -> int:
    """Return the number of non-zeros of rare features, or 0 if these should have lines like the others."""
    if n_frequent > _MAX_FREQUENT:
        return 0
    n_rare = int(design.counts[n_frequent:].sum())
    return 0 if n_rare < SETTINGS.rare_fraction * len(design.values) or (n_rare and design.values.min() < 0) else n_rare
