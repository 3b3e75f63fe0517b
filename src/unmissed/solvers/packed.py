"""Packed: rows of a design as coordinate ascent reads them, a feature and its value in one word of 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed.kernels.ascent import pack
from unmissed.solvers.design import Design

_MOST_BITS = 19  # for features; four are then left for the digits of a value, which is off by a thirtieth at most


class Packed:
    """Rows whose values are rounded so that features fit into the same words, beside the rows as they are.

    A label is solved over `rows` first, which takes half of the memory traffic; `exact` is for those that come back.
    Where there are too many features for that, both are the same.
    """

    def __init__(self, design: Design) -> None:
        self.exact: tuple[Any, ...] = (*design.rows, np.uint32(2**32 - 1))
        self.rows = self.exact
        n_bits = max(design.n_features - 1, 1).bit_length()
        if n_bits <= _MOST_BITS:
            words = np.empty(len(design.values), np.uint32)
            pack(design.indices, design.values.view(np.uint32), n_bits, words)
            self.rows = (design.indptr, words, words.view(np.float32), np.uint32(2**n_bits - 1))
