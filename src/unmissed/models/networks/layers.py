"""The weights of a network as plain arrays, and its hidden layers in numpy: what ranking needs, without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unmissed.execution import Piece, Threads
from unmissed.features import Features
from unmissed.models.factor_products import FactorTiles, Floats, sparse_product

LAYOUT = {
    "sparse_features": (np.float32, 2),
    "dense_features": (np.float32, 2),
    "bias": (np.float32, 1),
    "second": (np.float32, 2),
    "second_bias": (np.float32, 1),
    "labels": (np.float32, 2),
    "label_bias": (np.float32, 1),
}
"""Names, dtypes and numbers of dimensions of the weights. A network with one hidden layer has an empty second one."""


@dataclass(frozen=True)
class NetworkShape:
    """The numbers of features, hidden units, layers and labels of a network."""

    n_sparse: int
    n_dense: int
    n_hidden: int
    n_layers: int
    n_labels: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight array."""
        second = self.n_hidden if self.n_layers == 2 else 0
        return {
            "sparse_features": (self.n_sparse, self.n_hidden),
            "dense_features": (self.n_dense, self.n_hidden),
            "bias": (self.n_hidden,),
            "second": (second, second),
            "second_bias": (second,),
            "labels": (self.n_labels, self.n_hidden),
            "label_bias": (self.n_labels,),
        }

    def check(self, piece: Piece, arrays: Mapping[str, Any]) -> None:
        """Raise InputError unless the arrays of a piece are the weights of such a network."""
        for name, shape in self.shapes.items():
            if arrays[name].shape != shape:
                raise piece.damaged(f"{name} has the shape {arrays[name].shape}, expected {shape}")
            if not np.isfinite(arrays[name]).all():
                raise piece.damaged(f"{name} contains infinite or nan values")


class HiddenLayers:
    """The hidden layers of a network: max(0, W x + b), once or twice."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        self._sparse, self._bias = weights["sparse_features"], weights["bias"]
        self._dense = FactorTiles(np.ascontiguousarray(weights["dense_features"].T))
        self._second_bias = weights["second_bias"]
        self._second = FactorTiles(np.ascontiguousarray(weights["second"].T))

    def apply(self, rows: Features, threads: Threads) -> Floats:
        """Return the last hidden layer of each row with a constant 1 appended, whose weight is a label's bias."""
        sparse, dense = rows.both
        hidden = sparse_product(sparse, self._sparse, threads)
        if rows.n_dense:
            hidden += self._dense.product(dense, threads)
        np.maximum(hidden + self._bias, 0, out=hidden)
        if self._second_bias.size:
            hidden = np.maximum(self._second.product(hidden, threads) + self._second_bias, 0)
        return np.concatenate([hidden, np.ones((len(hidden), 1), np.float32)], axis=1)


def label_factor(weights: Mapping[str, Floats]) -> Floats:
    """Return the vectors of the labels with their biases appended, (n_labels, n_hidden + 1)."""
    return np.column_stack([weights["labels"], weights["label_bias"]])
