"""Training of a network in PyTorch, epoch by epoch; the only module of the family that imports PyTorch.

An epoch depends on the state before it, the seed and its number only, so a training resumes after any epoch. PyTorch
computes in one thread, because sums of several threads may be rounded in another order; products of sparse rows and
steps of Adam use all, because each of their sums is computed by one thread.

The table of sparse features takes no part in the graph: the graph begins with the product of the batch and the table.
The gradient of that product gives the gradient of the rows that the batch has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError, UnmissedError
from unmissed.execution import Piece, Threads
from unmissed.features import Features
from unmissed.metrics import evaluate
from unmissed.models.factor_products import FactorTiles, Floats, sparse_product
from unmissed.models.networks.adam_kernel import adam_step
from unmissed.models.networks.layers import LAYOUT, HiddenLayers, NetworkShape, label_factor
from unmissed.models.training_data import TrainingData
from unmissed.ranking import Ranking

try:
    import torch
except ImportError as error:
    raise UnmissedError("neural needs PyTorch to train: pip install 'unmissed[torch]'") from error

from torch import Tensor
from torch.nn.functional import linear, relu

from unmissed.losses.torch import NegativeSampler, PropensityLoss, padded_indices
from unmissed.losses.torch.functional import PAIRS

BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam
ROWS = 2048  # rows of a table that a thread updates at a time
Rows = npt.NDArray[np.int64]
STATE_LAYOUT = {f"{name}{part}": kind for name, kind in LAYOUT.items() for part in ("", "-mean", "-square")}


@dataclass(frozen=True)
class NetworkSettings:
    """The settings of a training, as `NeuralXMC` declares them."""

    shape: NetworkShape
    loss: str
    correction: str
    max_inverse: float | None
    n_negatives: int | None
    learning_rate: float
    dropout: float
    batch_size: int
    seed: int


class CorrectedLoss(PropensityLoss):
    """The loss of the settings, with label indices as targets, summed over labels."""

    def __init__(self, p: Any, settings: NetworkSettings) -> None:
        non_negative = settings.correction == "non-negative"
        super().__init__(
            p, reduction="sum", max_inverse=settings.max_inverse, non_negative=non_negative, targets="indices"
        )
        self.pair = PAIRS[settings.loss]
        self.correction = "unbiased" if non_negative else settings.correction  # type: ignore[assignment]


class AdamTable:
    """A weight array with the moments of Adam; rows without a gradient do not change (lazy Adam)."""

    def __init__(self, weights: Floats, mean: Floats, square: Floats) -> None:
        self.weights, self.mean, self.square = weights, mean, square

    def take(self, rows: Rows | None) -> Tensor:
        """Return some rows, or all, as a leaf of the graph."""
        return torch.from_numpy(self.weights if rows is None else self.weights[rows]).requires_grad_()

    def update(self, rows: Rows | None, gradient: Floats, step: int, rate: float, threads: Threads) -> None:
        """Take a step with the gradient of the rows, or of all."""
        rows = np.arange(len(self.weights)) if rows is None else rows
        weights, mean, square = (array.reshape(len(array), -1) for array in (self.weights, self.mean, self.square))
        gradient = gradient.reshape(len(rows), -1)
        first, second = BETAS
        constants = (1 - first, second, 1 - second, 1 / (1 - second**step), EPSILON, rate / (1 - first**step))
        numbers = tuple(np.float32(value) for value in constants)

        def update_rows(begin: int) -> None:
            part = slice(begin, begin + ROWS)
            adam_step(rows[part], gradient[part], weights, mean, square, numbers)

        for _ in threads.each(update_rows, range(0, len(rows), ROWS)):
            pass


class Leaf(NamedTuple):
    """A leaf of the graph of a batch, and the step that its gradient causes."""

    tensor: Tensor
    update: Callable[[Floats], None]


def initial_state(settings: NetworkSettings, priors: npt.NDArray[np.float64]) -> dict[str, Floats]:
    """Return the weights before training: random hidden layers, labels at their prior, and empty moments of Adam."""
    shapes, rng = settings.shape.shapes, np.random.default_rng([settings.seed, 0])
    state = {name: np.zeros(shapes[name], np.float32) for name in shapes}
    for name, scale in (
        ("sparse_features", 0.1),
        ("dense_features", 0.1),
        ("second", (2 / settings.shape.n_hidden) ** 0.5),
    ):
        state[name] = np.multiply(rng.standard_normal(shapes[name], np.float32), np.float32(scale))
    priors = np.clip(priors, 1e-6, 0.5)
    state["label_bias"][:] = np.log(priors / (1 - priors)) if settings.loss == "logistic" else 2 * priors - 1
    moments = {f"{name}-{part}": np.zeros(shapes[name], np.float32) for name in shapes for part in ("mean", "square")}
    return state | moments


def table_gradient(X: sp.csr_matrix, gradient: Floats, threads: Threads) -> tuple[Rows, Floats]:
    """Return the features that X has, and the gradients of their rows in the table, from that of X times the table."""
    columns, local = np.unique(X.indices, return_inverse=True)
    own = sp.csr_matrix((X.data, local.astype(np.int32), X.indptr), (X.shape[0], len(columns)))
    return columns.astype(np.int64), sparse_product(sp.csr_matrix(own.T), gradient, threads)


class Training:
    """A training at the end of an epoch: the tables, the rows and the loss."""

    def __init__(
        self,
        settings: NetworkSettings,
        rows: TrainingData,
        held_out: TrainingData | None,
        p: npt.NDArray[np.float64],
        threads: Threads,
        last: Piece | None,
    ) -> None:
        self.settings, self.rows, self.held_out, self.p, self.threads = settings, rows, held_out, p, threads
        if last is None:
            factor = 1 if settings.correction == "none" else 1 / p
            state: dict[str, Any] = initial_state(settings, factor * rows.label_counts / max(rows.n_samples, 1))
            self.step = 0
        else:
            state = {name: np.array(array) for name, array in last.expect(STATE_LAYOUT).items()}
            settings.shape.check(last, state)
            self.step = int(last.numbers("step")["step"])
        self.tables = {
            name: AdamTable(*(state[f"{name}{part}"] for part in ("", "-mean", "-square"))) for name in LAYOUT
        }
        self.criterion = CorrectedLoss(torch.as_tensor(p, dtype=torch.float32), settings)
        n_draws = settings.n_negatives
        self.sampler = None if n_draws is None else NegativeSampler(rows.label_counts, n_draws)

    def run(self, number: int) -> float:
        """Train one epoch; return its mean loss per row. Raise InputError if it diverges."""
        rng = np.random.default_rng([self.settings.seed, number])
        order = rng.permutation(self.rows.n_samples)
        total = 0.0
        with _own_settings():
            for begin in range(0, len(order), self.settings.batch_size):
                total += self._batch(np.sort(order[begin : begin + self.settings.batch_size]), rng)
        if not (np.isfinite(total) and all(np.isfinite(table.weights).all() for table in self.tables.values())):
            raise InputError(
                f"training diverged in epoch {number}: its loss or weights are no longer finite; lower learning_rate, "
                "or limit 1/p (max_inverse)"
            )
        return total / max(len(order), 1)

    def held_out_score(self) -> float:
        """Return PSP@5 on the held-out rows; 0 without any."""
        if self.held_out is None:
            return 0.0
        weights = {name: table.weights for name, table in self.tables.items()}
        hidden = HiddenLayers(weights).apply(self.held_out.features, self.threads)
        tiles = FactorTiles(label_factor(weights))
        found = Ranking(*tiles.largest(hidden, min(5, self.settings.shape.n_labels), self.threads)).padded(5)
        return float(np.nan_to_num(evaluate(found, self.held_out.Y, 1 / self.p, k=(5,))["PSP@5"]))

    def arrays(self) -> dict[str, Floats]:
        """Return the state as arrays."""
        parts = (("", "weights"), ("-mean", "mean"), ("-square", "square"))
        return {f"{name}{part}": getattr(table, field) for name, table in self.tables.items() for part, field in parts}

    def _batch(self, chosen: npt.NDArray[np.int64], rng: np.random.Generator) -> float:
        """Take a step on some rows; return the sum of their losses."""
        self.step += 1
        leaves: list[Leaf] = []
        hidden = self._hidden(self.rows.features[chosen], leaves, rng)
        Y, cells = self.rows.Y[chosen], self.rows.cell_propensity
        target, of_cells = (padded_indices(Y), None) if cells is None else padded_indices(Y, cells[chosen])
        labels, weights = (None, None) if self.sampler is None else self.sampler.draw(Y.indices, rng)
        rows = None if labels is None else labels.numpy()
        table, shift = (self._leaf(name, leaves, rows) for name in ("labels", "label_bias"))
        logits = linear(hidden, table, shift)
        total = self.criterion(logits, target, of_cells, labels=labels, negative_weight=weights)
        gradients = torch.autograd.grad(total / len(chosen), [leaf.tensor for leaf in leaves])
        for leaf, gradient in zip(leaves, gradients, strict=True):
            leaf.update(np.ascontiguousarray(gradient.numpy()))
        return float(total.detach())

    def _hidden(self, rows: Features, leaves: list[Leaf], rng: np.random.Generator) -> Tensor:
        """Return the last hidden layer of a batch, with dropout."""
        sparse, dense = rows.both
        total = self._leaf("bias", leaves)
        if sparse.nnz:
            total = total + self._sparse_layer(sparse, leaves)
        if dense.shape[1]:
            total = total + torch.from_numpy(dense) @ self._leaf("dense_features", leaves)
        hidden = self._dropped(relu(total).expand(sparse.shape[0], -1), rng)
        if self.settings.shape.n_layers == 2:
            hidden = hidden @ self._leaf("second", leaves) + self._leaf("second_bias", leaves)
            hidden = self._dropped(relu(hidden), rng)
        return hidden

    def _sparse_layer(self, X: sp.csr_matrix, leaves: list[Leaf]) -> Tensor:
        """Return the product of sparse rows and the table of features, as a leaf that updates the table."""
        table = self.tables["sparse_features"]
        product = torch.from_numpy(sparse_product(X, table.weights, self.threads)).requires_grad_()

        def update(gradient: Floats) -> None:
            self._update("sparse_features", *table_gradient(X, gradient, self.threads))

        leaves.append(Leaf(product, update))
        return product

    def _dropped(self, hidden: Tensor, rng: np.random.Generator) -> Tensor:
        rate = self.settings.dropout
        if not rate:
            return hidden
        kept = rng.random(hidden.shape, np.float32) >= rate
        return hidden * torch.from_numpy(kept.astype(np.float32) / np.float32(1 - rate))

    def _leaf(self, name: str, leaves: list[Leaf], rows: Rows | None = None) -> Tensor:
        """Return some rows of a table, or all, as a leaf that updates them."""
        leaf = Leaf(self.tables[name].take(rows), partial(self._update, name, rows))
        leaves.append(leaf)
        return leaf.tensor

    def _update(self, name: str, rows: Rows | None, gradient: Floats) -> None:
        self.tables[name].update(rows, gradient, self.step, self.settings.learning_rate, self.threads)


@contextmanager
def _own_settings() -> Iterator[None]:
    """Let PyTorch use one thread, and compute as if the caller had set nothing: no autocast, gradients on."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.autocast("cpu", enabled=False), torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(before)
