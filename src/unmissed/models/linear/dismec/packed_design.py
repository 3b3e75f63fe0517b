"""PackedDesign: the rows of a design with feature and value packed into one 32-bit entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed.models.linear.design import Design
from unmissed.numerics.packed_rows import pack
from unmissed.settings import SETTINGS


class PackedDesign:
    """The rows of a design, packed (`rows`) and unpacked (`exact`), as kernels take them; dense features are the same.

    A label is first solved over packed rows, with half the memory traffic; later rounds use the exact values. If there
    are too many features to pack, both are the same.
    """

    def __init__(self, design: Design) -> None:
        self.exact: tuple[Any, ...] = (*design.rows, np.uint32(2**32 - 1), design.dense)
        self.rows = self.exact
        n_bits = max(design.n_features - 1, 1).bit_length()
        if n_bits <= SETTINGS.feature_bits:
            entries = np.empty(len(design.values), np.uint32)
            pack(design.indices, design.values.view(np.uint32), n_bits, entries)
            mask = np.uint32(2**n_bits - 1)
            self.rows = (design.indptr, entries, entries.view(np.float32), mask, design.dense)
