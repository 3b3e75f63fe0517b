"""Label indices of rows as tensors: padded to one width, or packed with offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmissed.losses.torch.tensors import PADDING
from unmissed.matrices import canonical_csr


def padded_indices(Y: Any, values: Any = None) -> Tensor | tuple[Tensor, Tensor]:
    """Return the labels of each row as int64 of shape (rows, width), padded with -1; and their values, if given.

    Parameters
    ----------
    Y : sparse matrix, (rows, n_labels); its nonzero entries are the present labels
    values : sparse matrix with the pattern of Y, such as a propensity per present label; padded with 1
    """
    matrix = canonical_csr(Y, "Y")
    lengths = np.diff(matrix.indptr)
    inside = np.arange(lengths.max(initial=0)) < lengths[:, None]
    labels = np.full(inside.shape, PADDING, np.int64)
    labels[inside] = matrix.indices
    if values is None:
        return torch.from_numpy(labels)
    numbers = np.ones(inside.shape, np.float32)
    numbers[inside] = canonical_csr(values, "values").data
    return torch.from_numpy(labels), torch.from_numpy(numbers)


def packed_indices(Y: Any) -> tuple[Tensor, Tensor]:
    """Return the column indices of all rows one after another, and the offset at which each row begins, int64.

    This is the form that `torch.nn.EmbeddingBag` takes.
    """
    matrix = canonical_csr(Y, "Y")
    return torch.from_numpy(matrix.indices.astype(np.int64)), torch.from_numpy(matrix.indptr[:-1].astype(np.int64))
