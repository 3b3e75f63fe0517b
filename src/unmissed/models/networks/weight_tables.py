"""The weight tables of a network in training, with the moments of Adam, on the processor or on another device.

A batch takes the rows that it needs as leaves of its graph, and gives their gradients back: rows without a gradient do
not change (lazy Adam).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from unmissed.errors import InputError
from unmissed.execution import Threads
from unmissed.models.factor_products import Floats, sparse_product
from unmissed.models.networks.adam_kernel import adam_step
from unmissed.models.networks.layers import LAYOUT

BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam
ROWS = 2048  # rows of a table that a thread updates at a time
PARTS = ("", "-mean", "-square")
STATE_LAYOUT = {f"{name}{part}": kind for name, kind in LAYOUT.items() for part in PARTS}
Rows = npt.NDArray[np.int64]


class Leaf(NamedTuple):
    """A leaf of the graph of a batch, and the step of Adam that its gradient causes."""

    tensor: Tensor
    update: Callable[[Tensor], None]


class Tables(ABC):
    """The weights of a network and their moments; `step` is the number of the current step of Adam."""

    def __init__(self, rate: float, step: int, device: torch.device) -> None:
        self.rate, self.step, self.device = rate, step, device

    def tensor(self, array: npt.NDArray[Any] | Tensor) -> Tensor:
        """Return an array as a tensor on the device."""
        return torch.as_tensor(array).to(self.device)

    @abstractmethod
    def leaf(self, name: str, rows: Rows | None = None) -> Leaf:
        """Return some rows of a table, or all, as a leaf whose gradient updates them."""

    @abstractmethod
    def sparse_layer(self, X: sp.csr_matrix) -> tuple[Tensor, Leaf]:
        """Return the product of sparse rows and the table of sparse features, and a leaf that updates the table."""

    @abstractmethod
    def arrays(self, names: Iterable[str] = STATE_LAYOUT) -> dict[str, Floats]:
        """Return weights and moments, or those that are named, as arrays."""

    def weights(self) -> dict[str, Floats]:
        """Return the weights as arrays."""
        return self.arrays(LAYOUT)

    def _constants(self) -> tuple[float, ...]:
        """Return 1 - beta1, beta2, 1 - beta2, the correction of the second moment, epsilon and the step size."""
        first, second = BETAS
        step_size = self.rate / (1 - first**self.step)
        return 1 - first, second, 1 - second, 1 / (1 - second**self.step), EPSILON, step_size


class ProcessorTables(Tables):
    """Tables as numpy arrays, updated in compiled code by all threads: no sum depends on their number."""

    def __init__(self, state: Mapping[str, Floats], rate: float, step: int, threads: Threads) -> None:
        super().__init__(rate, step, torch.device("cpu"))
        self._state, self._threads = state, threads

    def leaf(self, name: str, rows: Rows | None = None) -> Leaf:
        """Return rows of a table: a copy, or if all are wanted the table itself."""
        weights = self._state[name] if rows is None else self._state[name][rows]
        return Leaf(torch.from_numpy(weights).requires_grad_(), partial(self._update, name, rows))

    def sparse_layer(self, X: sp.csr_matrix) -> tuple[Tensor, Leaf]:
        """Return the product as the leaf: its gradient gives that of the table."""
        product = torch.from_numpy(sparse_product(X, self._state["sparse_features"], self._threads)).requires_grad_()

        def update(gradient: Tensor) -> None:
            columns, own = own_columns(X)
            in_table = sparse_product(sp.csr_matrix(own.T), np.ascontiguousarray(gradient.numpy()), self._threads)
            self._update("sparse_features", columns, torch.from_numpy(in_table))

        return product, Leaf(product, update)

    def arrays(self, names: Iterable[str] = STATE_LAYOUT) -> dict[str, Floats]:
        """Return the arrays themselves."""
        return {name: self._state[name] for name in names}

    def _update(self, name: str, rows: Rows | None, gradient: Tensor) -> None:
        weights, mean, square = (self._state[f"{name}{part}"] for part in PARTS)
        weights, mean, square = (array.reshape(len(array), -1) for array in (weights, mean, square))
        rows = np.arange(len(weights)) if rows is None else rows
        gradients = np.ascontiguousarray(gradient.numpy()).reshape(len(rows), -1)
        numbers = tuple(np.float32(value) for value in self._constants())

        def update_rows(begin: int) -> None:
            part = slice(begin, begin + ROWS)
            adam_step(rows[part], gradients[part], weights, mean, square, numbers)

        for _ in self._threads.each(update_rows, range(0, len(rows), ROWS)):
            pass


class DeviceTables(Tables):
    """Tables as tensors on a device of PyTorch."""

    def __init__(self, state: Mapping[str, Floats], rate: float, step: int, device: torch.device) -> None:
        super().__init__(rate, step, device)
        self._state = {name: self.tensor(array) for name, array in state.items()}

    def leaf(self, name: str, rows: Rows | None = None) -> Leaf:
        """Return a copy of rows of a table."""
        index = None if rows is None else self.tensor(rows)
        weights = self._state[name].clone() if index is None else self._state[name][index]
        return Leaf(weights.requires_grad_(), partial(self._update, name, index))

    def sparse_layer(self, X: sp.csr_matrix) -> tuple[Tensor, Leaf]:
        """Return the product with the rows of the table that X has; they are the leaf."""
        columns, own = own_columns(X)
        leaf = self.leaf("sparse_features", columns)
        indices, begins = (self.tensor(part.astype(np.int64)) for part in (own.indices, own.indptr[:-1]))
        values = self.tensor(own.data)
        return embedding_bag(indices, leaf.tensor, begins, mode="sum", per_sample_weights=values), leaf

    def arrays(self, names: Iterable[str] = STATE_LAYOUT) -> dict[str, Floats]:
        """Return copies."""
        return {name: self._state[name].to("cpu", copy=True).numpy() for name in names}

    @torch.no_grad()
    def _update(self, name: str, index: Tensor | None, gradient: Tensor) -> None:
        weights, mean, square = (self._state[f"{name}{part}"] for part in PARTS)
        fresh, keep, new, correction, epsilon, step_size = self._constants()
        m, v, w = (table if index is None else table[index] for table in (mean, square, weights))
        m = m + fresh * (gradient - m)
        v = keep * v + new * gradient.square()
        w = w - step_size * (m / ((v * correction).sqrt() + epsilon))
        for table, rows in ((mean, m), (square, v), (weights, w)):
            if index is None:
                table.copy_(rows)
            else:
                table.index_copy_(0, index, rows)


def own_columns(X: sp.csr_matrix) -> tuple[Rows, sp.csr_matrix]:
    """Return the features that X has, in increasing order, and X with these columns only."""
    columns, local = np.unique(X.indices, return_inverse=True)
    own = sp.csr_matrix((X.data, local.astype(np.int32), X.indptr), (X.shape[0], len(columns)))
    return columns.astype(np.int64), own


def chosen_device(name: str) -> torch.device:
    """Return a device by its name; auto is CUDA if there is one. Raise InputError if it cannot be used."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError) as error:  # the second if PyTorch was built without the device
        reason = str(error).partition("\n")[0]
        raise InputError(f"device={name!r} cannot be used: {reason}") from error
    return device


def make_tables(state: Mapping[str, Floats], rate: float, step: int, device: str, threads: Threads) -> Tables:
    """Return the tables on a device; `state` has the names of STATE_LAYOUT, and is updated on the processor."""
    found = chosen_device(device)
    if found.type == "cpu":
        return ProcessorTables(state, rate, step, threads)
    return DeviceTables(state, rate, step, found)
