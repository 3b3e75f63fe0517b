"""Rows of a data set as a PyTorch `Dataset`, and the function that collates them into batches; import it explicitly.

rows = RowDataset(open_store("corpus/train"))
batches = DataLoader(rows, batch_size=256, shuffle=True, collate_fn=collate_rows)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unmissed.data.dataset import Dataset
from unmissed.losses.torch.tensors import PADDING


class Row(NamedTuple):
    """A row: the sparse features that it has and their values, the dense features, and its labels."""

    features: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]
    dense: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]


class RowBatch(NamedTuple):
    """A batch of rows.

    Parameters
    ----------
    features, offsets, values : the sparse features, as `torch.nn.EmbeddingBag(features, offsets, values)` takes them
    dense : the dense features, (rows, n_dense)
    target : label indices, (rows, width), padded with -1: the targets of losses with `targets="indices"`
    """

    features: Tensor
    offsets: Tensor
    values: Tensor
    dense: Tensor
    target: Tensor


class RowDataset(torch.utils.data.Dataset[Row]):
    """The rows of a data set, in memory or memory-mapped from a store; rows are read on access.

    Parameters
    ----------
    dataset : a data set, such as `open_store` returns
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._sparse, self._dense = dataset.features.both

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.dataset.n_samples)

    def __getitem__(self, row: int) -> Row:
        """Return one row."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row}; there are {len(self)} rows")
        X, Y = self._sparse, self.dataset.Y
        entries = slice(X.indptr[row], X.indptr[row + 1])
        labels = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
        return Row(
            X.indices[entries].astype(np.int64),
            np.array(X.data[entries], np.float32),
            np.array(self._dense[row], np.float32),
            labels.astype(np.int64),
        )


def collate_rows(rows: Sequence[Row]) -> RowBatch:
    """Return a batch of rows; the `collate_fn` of a `torch.utils.data.DataLoader`."""
    lengths = [len(row.features) for row in rows]
    offsets = np.cumsum([0, *lengths[:-1]], dtype=np.int64)[: len(rows)]
    target = np.full((len(rows), max((len(row.labels) for row in rows), default=0)), PADDING, np.int64)
    for number, row in enumerate(rows):
        target[number, : len(row.labels)] = row.labels
    return RowBatch(
        torch.from_numpy(np.concatenate([row.features for row in rows])),
        torch.from_numpy(offsets),
        torch.from_numpy(np.concatenate([row.values for row in rows])),
        torch.from_numpy(np.stack([row.dense for row in rows])),
        torch.from_numpy(target),
    )
