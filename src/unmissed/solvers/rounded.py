"""Rounded: rows of a design as passes in lanes read them, in 16-bit whole numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from unmissed.kernels.near import round_rows
from unmissed.kernels.rare import count_frequent, give, split_rows
from unmissed.solvers.design import Design, Floats

FREQUENT = 2**14  # features whose weights have lines in lanes: so many stay in cache, and fit into 16 bits
RARE = 0.05  # where the others have less than this share of the non-zeros, their lines are seldom read, and stay
_GIVEN = 8  # rare features give to a piece about so many numbers per row of X, at most


class Rounded:
    """Rows in whole numbers, what rounding did to them (see `kernels.near`), and features apart that are rare.

    The first `n_frequent` features are frequent: `frequent` has these row by row, `rare` has the others feature by
    feature, and `rare_squares` what they have of |x|^2 (see `kernels.rare`). All are frequent where that costs less,
    and where X has values below 0.
    """

    def __init__(self, design: Design) -> None:
        n, size = design.n_samples, len(design.values)
        numbers = np.empty(size, np.int16)
        self.steps, self.sizes, self.errors = (np.empty(n, np.float32) for _ in range(3))
        self._nothing = np.zeros(n, np.float32)
        round_rows(design.indptr, design.values, numbers, *self.bounds)
        n_rare = _count_rare(design)
        self.n_frequent = FREQUENT if n_rare else design.n_features
        self.frequent: tuple[Any, ...] = design.indptr, design.indices, numbers
        self.rare: tuple[Any, ...] = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int16)
        self.rare_squares = self._nothing
        if n_rare:
            starts, rare_starts = np.empty(n + 1, np.int64), np.empty(design.n_features - FREQUENT + 1, np.int64)
            count_frequent(design.indptr, design.indices, FREQUENT, starts, rare_starts)
            self.frequent = starts, np.empty(size - n_rare, np.uint16), np.empty(size - n_rare, np.int16)
            self.rare = rare_starts, np.empty(n_rare, np.int32), np.empty(n_rare, np.int16)
            self.rare_squares = np.empty(n, np.float32)
            split_rows(*design.rows, numbers, FREQUENT, self.frequent, self.rare, self.rare_squares)

    @property
    def bounds(self) -> tuple[Floats, Floats, Floats]:
        """The step of each row, and bounds of its size and of its error."""
        return self.steps, self.sizes, self.errors

    @property
    def steps_alone(self) -> tuple[Floats, Floats, Floats]:
        """The same where what rounding did does not count."""
        return self.steps, self._nothing, self._nothing

    def pieces(self, part: slice, listed: tuple[Any, ...]) -> Iterator[tuple[slice, tuple[Any, ...], tuple[Any, ...]]]:
        """Go over some rows in pieces: which they are, their frequent features, and what listed weights give to them.

        There is one piece, unless what is given would take much memory.
        """
        features, begins, *_ = listed
        n_given = int((self.rare[0][features + 1] - self.rare[0][features]) @ np.diff(begins))  # to all rows
        size = part.stop - part.start
        n_pieces = 1 + n_given * size // max(_GIVEN * len(self.steps) ** 2, 1)
        size = max(-(-size // n_pieces), 1)
        for first in range(part.start, part.stop, size):
            last = min(first + size, part.stop)
            frequent = self.frequent[0][first : last + 1], *self.frequent[1:]
            yield slice(first, last), frequent, give(first, last, self.rare, listed)


def _count_rare(design: Design) -> int:
    """Return how many non-zeros rare features have, or 0 where these are better kept with the others."""
    n_rare = int(np.count_nonzero(design.indices >= FREQUENT))
    return 0 if n_rare < RARE * len(design.values) or (n_rare and design.values.min() < 0) else n_rare
