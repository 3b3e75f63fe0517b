"""Training of a network in PyTorch, epoch by epoch; it and `weight_tables` alone import PyTorch in this family.

An epoch depends on the state before it, the seed and its number only, so a training resumes after any epoch. On the
processor, PyTorch computes in one thread, because sums of several threads may be rounded in another order; products of
sparse rows and steps of Adam use all, because each of their sums is computed by one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError, UnmissedError
from unmissed.execution import Piece, Threads
from unmissed.features import Features
from unmissed.metrics import evaluate
from unmissed.models.factor_products import FactorTiles, Floats
from unmissed.models.networks.layers import HiddenLayers, NetworkShape, label_factor
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
from unmissed.models.networks.weight_tables import STATE_LAYOUT, Leaf, make_tables


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
    device: str


class CorrectedLoss(PropensityLoss):
    """The loss of the settings, with label indices as targets, summed over labels."""

    def __init__(self, p: Any, settings: NetworkSettings) -> None:
        non_negative = settings.correction == "non-negative"
        super().__init__(
            p, reduction="sum", max_inverse=settings.max_inverse, non_negative=non_negative, targets="indices"
        )
        self.pair = PAIRS[settings.loss]
        self.correction = "unbiased" if non_negative else settings.correction  # type: ignore[assignment]


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
            step = 0
        else:
            state = {name: np.array(array) for name, array in last.expect(STATE_LAYOUT).items()}
            settings.shape.check(last, state)
            step = int(last.numbers("step")["step"])
        self.tables = make_tables(state, settings.learning_rate, step, settings.device, threads)
        self.criterion = CorrectedLoss(p.astype(np.float32), settings).to(self.tables.device)
        n_draws = settings.n_negatives
        self.sampler = None if n_draws is None else NegativeSampler(rows.label_counts, n_draws)

    def run(self, number: int) -> float:
        """Train one epoch; return its mean loss per row. Raise InputError if it diverges."""
        rng = np.random.default_rng([self.settings.seed, number])
        order = rng.permutation(self.rows.n_samples)
        total = 0.0
        with _own_settings(self.tables.device.type):
            for begin in range(0, len(order), self.settings.batch_size):
                total += self._batch(np.sort(order[begin : begin + self.settings.batch_size]), rng)
        if not (np.isfinite(total) and all(np.isfinite(array).all() for array in self.tables.weights().values())):
            raise InputError(
                f"training diverged in epoch {number}: its loss or weights are no longer finite; lower learning_rate, "
                "or limit 1/p (max_inverse)"
            )
        return total / max(len(order), 1)

    def held_out_score(self) -> float:
        """Return PSP@5 on the held-out rows; 0 without any."""
        if self.held_out is None:
            return 0.0
        weights = self.tables.weights()
        hidden = HiddenLayers(weights).apply(self.held_out.features, self.threads)
        tiles = FactorTiles(label_factor(weights))
        k, untrained = min(5, self.settings.shape.n_labels), self.rows.label_counts == 0
        found = Ranking(*tiles.largest(hidden, k, self.threads, untrained)).padded(5)
        return float(np.nan_to_num(evaluate(found, self.held_out.Y, 1 / self.p, k=(5,))["PSP@5"]))

    def _batch(self, chosen: npt.NDArray[np.int64], rng: np.random.Generator) -> float:
        """Take a step on some rows; return the sum of their losses."""
        self.tables.step += 1
        leaves: list[Leaf] = []
        hidden = self._hidden(self.rows.features[chosen], leaves, rng)
        Y, cells = self.rows.Y[chosen], self.rows.cell_propensity
        padded = padded_indices(Y, None if cells is None else cells[chosen])
        target, of_cells = padded if isinstance(padded, tuple) else (padded, None)
        labels, weights = (None, None) if self.sampler is None else self.sampler.draw(Y.indices, rng)
        rows = None if labels is None else labels.numpy()
        table, shift = (self._leaf(name, leaves, rows) for name in ("labels", "label_bias"))
        given = (of_cells, labels, weights)
        of_cells, labels, weights = (None if part is None else self.tables.tensor(part) for part in given)
        logits, target = linear(hidden, table, shift), self.tables.tensor(target)
        total = self.criterion(logits, target, of_cells, labels=labels, negative_weight=weights)
        gradients = torch.autograd.grad(total / len(chosen), [leaf.tensor for leaf in leaves])
        for leaf, gradient in zip(leaves, gradients, strict=True):
            leaf.update(gradient)
        return float(total.detach())

    def _hidden(self, rows: Features, leaves: list[Leaf], rng: np.random.Generator) -> Tensor:
        """Return the last hidden layer of a batch, with dropout."""
        sparse, dense = rows.both
        total = self._leaf("bias", leaves)
        if sparse.nnz:
            product, leaf = self.tables.sparse_layer(sparse)
            leaves.append(leaf)
            total = total + product
        if dense.shape[1]:
            total = total + self.tables.tensor(dense) @ self._leaf("dense_features", leaves)
        hidden = self._dropped(relu(total).expand(sparse.shape[0], -1), rng)
        if self.settings.shape.n_layers == 2:
            hidden = hidden @ self._leaf("second", leaves) + self._leaf("second_bias", leaves)
            hidden = self._dropped(relu(hidden), rng)
        return hidden

    def _dropped(self, hidden: Tensor, rng: np.random.Generator) -> Tensor:
        rate = self.settings.dropout
        if not rate:
            return hidden
        kept = rng.random(hidden.shape, np.float32) >= rate
        return hidden * self.tables.tensor(kept.astype(np.float32) / np.float32(1 - rate))

    def _leaf(self, name: str, leaves: list[Leaf], rows: npt.NDArray[np.int64] | None = None) -> Tensor:
        """Return some rows of a table, or all, and note the leaf."""
        leaf = self.tables.leaf(name, rows)
        leaves.append(leaf)
        return leaf.tensor


@contextmanager
def _own_settings(device_type: str) -> Iterator[None]:
    """Let PyTorch use one thread, and compute as if the caller had set nothing: no autocast, gradients on."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.autocast(device_type, enabled=False), torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(before)
