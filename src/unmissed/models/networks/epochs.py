"""Training of a network in PyTorch, epoch by epoch; the only module of the family that imports PyTorch.

An epoch depends on the state before it, the seed and its number only, so a training resumes after any epoch. Matrix
products use one thread, because sums of several threads may be rounded in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import UnmissedError
from unmissed.execution import Piece, Threads
from unmissed.features import Features
from unmissed.metrics import evaluate
from unmissed.models.factor_products import FactorTiles, Floats, sparse_product
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

    def __init__(self, weights: Tensor, mean: Tensor, square: Tensor) -> None:
        self.weights, self.mean, self.square = weights, mean, square

    def take(self, rows: Tensor | None) -> Tensor:
        """Return some rows, or all, as a leaf of the graph."""
        taken = self.weights.detach() if rows is None else self.weights[rows]
        return taken.requires_grad_()

    def update(self, rows: Tensor | None, gradient: Tensor, step: int, rate: float) -> None:
        """Take a step with the gradient of the rows."""
        mean = self.mean if rows is None else self.mean[rows]
        square = self.square if rows is None else self.square[rows]
        mean.lerp_(gradient, 1 - BETAS[0])
        square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        bound = (square / (1 - BETAS[1] ** step)).sqrt_().add_(EPSILON)
        scale = -rate / (1 - BETAS[0] ** step)
        if rows is None:
            self.weights.addcdiv_(mean, bound, value=scale)
            return
        self.mean[rows], self.square[rows] = mean, square
        self.weights.index_add_(0, rows, mean.div_(bound), alpha=scale)


class SparseLayer(torch.autograd.Function):
    """The product of sparse rows with a table, with a gradient for the table."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, X: sp.csr_matrix, threads: Threads) -> Tensor:
        """Return X table."""
        ctx.X, ctx.threads = X, threads
        return torch.from_numpy(sparse_product(X, table.detach().numpy(), threads))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Return X^T gradient."""
        transposed = sp.csr_matrix(ctx.X.T)
        found = sparse_product(transposed, np.ascontiguousarray(gradient.numpy()), ctx.threads)
        return torch.from_numpy(found), None, None


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
            self.step = 0
        else:
            state = {name: np.array(array) for name, array in last.expect(STATE_LAYOUT).items()}
            settings.shape.check(last, state)
            self.step = int(last.numbers("step")["step"])
        self.tables = {
            name: AdamTable(*(torch.from_numpy(state[f"{name}{part}"]) for part in ("", "-mean", "-square")))
            for name in LAYOUT
        }
        self.criterion = CorrectedLoss(p, settings)
        n_draws = settings.n_negatives
        self.sampler = None if n_draws is None else NegativeSampler(rows.label_counts, n_draws)

    def run(self, number: int) -> float:
        """Train one epoch; return its mean loss per row."""
        rng = np.random.default_rng([self.settings.seed, number])
        order = rng.permutation(self.rows.n_samples)
        total = 0.0
        with _one_thread():
            for begin in range(0, len(order), self.settings.batch_size):
                total += self._batch(np.sort(order[begin : begin + self.settings.batch_size]), rng)
        return total / max(len(order), 1)

    def held_out_score(self) -> float:
        """Return PSP@5 on the held-out rows; 0 without any."""
        if self.held_out is None:
            return 0.0
        weights = {name: table.weights.numpy() for name, table in self.tables.items()}
        hidden = HiddenLayers(weights).apply(self.held_out.features, self.threads)
        tiles = FactorTiles(label_factor(weights))
        found = Ranking(*tiles.largest(hidden, min(5, self.settings.shape.n_labels), self.threads)).padded(5)
        return float(np.nan_to_num(evaluate(found, self.held_out.Y, 1 / self.p, k=(5,))["PSP@5"]))

    def arrays(self) -> dict[str, Floats]:
        """Return the state as arrays."""
        parts = (("", "weights"), ("-mean", "mean"), ("-square", "square"))
        return {
            f"{name}{part}": getattr(table, field).numpy()
            for name, table in self.tables.items()
            for part, field in parts
        }

    def _batch(self, chosen: npt.NDArray[np.int64], rng: np.random.Generator) -> float:
        """Take a step on some rows; return the sum of their losses."""
        self.step += 1
        leaves: dict[str, tuple[Tensor | None, Tensor]] = {}
        hidden = self._hidden(self.rows.features[chosen], leaves, rng)
        Y, cells = self.rows.Y[chosen], self.rows.cell_propensity
        target, of_cells = (padded_indices(Y), None) if cells is None else padded_indices(Y, cells[chosen])
        labels, weights = (None, None) if self.sampler is None else self.sampler.draw(Y.indices, rng)
        table, shift = (self._leaf(name, labels, leaves) for name in ("labels", "label_bias"))
        logits = linear(hidden, table, shift)
        total = self.criterion(logits, target, of_cells, labels=labels, negative_weight=weights)
        gradients = torch.autograd.grad(total / len(chosen), [leaf for _, leaf in leaves.values()])
        with torch.no_grad():
            for (name, (rows, _)), gradient in zip(leaves.items(), gradients, strict=True):
                self.tables[name].update(rows, gradient, self.step, self.settings.learning_rate)
        return float(total.detach())

    def _hidden(
        self, rows: Features, leaves: dict[str, tuple[Tensor | None, Tensor]], rng: np.random.Generator
    ) -> Tensor:
        """Return the last hidden layer of a batch, with dropout."""
        sparse, dense = rows.both
        total = self._leaf("bias", None, leaves)
        if sparse.nnz:
            columns, local = np.unique(sparse.indices, return_inverse=True)
            X = sp.csr_matrix((sparse.data, local.astype(np.int32), sparse.indptr), (sparse.shape[0], len(columns)))
            table = self._leaf("sparse_features", torch.from_numpy(columns.astype(np.int64)), leaves)
            total = total + SparseLayer.apply(table, X, self.threads)  # type: ignore[no-untyped-call]
        if dense.shape[1]:
            total = total + torch.from_numpy(dense) @ self._leaf("dense_features", None, leaves)
        hidden = self._dropped(relu(total).expand(sparse.shape[0], -1), rng)
        if self.settings.shape.n_layers == 2:
            hidden = hidden @ self._leaf("second", None, leaves) + self._leaf("second_bias", None, leaves)
            hidden = self._dropped(relu(hidden), rng)
        return hidden

    def _dropped(self, hidden: Tensor, rng: np.random.Generator) -> Tensor:
        rate = self.settings.dropout
        if not rate:
            return hidden
        kept = rng.random(hidden.shape, np.float32) >= rate
        return hidden * torch.from_numpy(kept.astype(np.float32) / np.float32(1 - rate))

    def _leaf(self, name: str, rows: Tensor | None, leaves: dict[str, tuple[Tensor | None, Tensor]]) -> Tensor:
        leaf = self.tables[name].take(rows)
        leaves[name] = rows, leaf
        return leaf


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let PyTorch use one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
