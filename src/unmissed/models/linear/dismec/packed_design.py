"""PackedDesign: the rows of a design in half the memory, sparse entries in 32 bits and dense ones in 16."""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed.models.linear.design import Design
from unmissed.models.linear.dismec.quantized_rows import QuantizedRows
from unmissed.numerics.packed_rows import pack
from unmissed.settings import SETTINGS


class PackedDesign:
    """The rows of a design, packed (`rows`) and unpacked (`exact`), as kernels take them.

    A label is first solved over packed rows, with half the memory traffic; later rounds use the exact values. Packed
    rows have the int16 numbers of dense features, unless a row is not quantized. If there are too many features to
    pack, the sparse part is the same in both.
    """

    def __init__(self, design: Design, quantized: QuantizedRows) -> None:
        unpacked = *design.rows, np.uint32(2**32 - 1)
        dense = design.dense
        if design.n_dense and np.isfinite(quantized.errors).all():
            begins = np.arange(design.n_samples) * quantized.dense.shape[1]
            dense = begins, quantized.dense.reshape(-1), design.n_dense, quantized.steps
        self.exact: tuple[Any, ...] = *unpacked, design.dense
        self.rows: tuple[Any, ...] = *unpacked, dense
        n_bits = max(design.n_features - 1, 1).bit_length()
        if n_bits <= SETTINGS.feature_bits:
            entries = np.empty(len(design.values), np.uint32)
            pack(design.indices, design.values.view(np.uint32), n_bits, entries)
            mask = np.uint32(2**n_bits - 1)
            self.rows = design.indptr, entries, entries.view(np.float32), mask, dense
