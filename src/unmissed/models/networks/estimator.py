"""NeuralXMC: a network with one or two hidden layers, trained with a loss for missing labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Once, Piece, Pieces, Threads, Work
from unmissed.features import Features
from unmissed.models.base import Model
from unmissed.models.cost_support import CostSupport
from unmissed.models.dense_support import DenseSupport
from unmissed.models.factor_products import FactorTiles, Floats, ScoredByFactors
from unmissed.models.networks.layers import LAYOUT, HiddenLayers, NetworkShape, label_factor
from unmissed.models.parameters import DenseWeight, Help, Jobs, Normalize, PropensityModel, RandomSeed
from unmissed.models.ranges import IntegerRange, NumberRange
from unmissed.models.training_data import TrainingData
from unmissed.propensity import as_propensity
from unmissed.ranking import Ranking

_NETWORK = "network"
_ALL_LABELS = 8192  # labels up to which all are negatives of each batch
_DRAWS = 4096
_HELD_OUT = 10_000  # rows; ranking more after each epoch would take longer than the epoch if labels are many

LogitLoss = Annotated[Literal["logistic", "hinge", "squared-hinge"], Help("loss of a logit")]
LossCorrection = Annotated[
    Literal["none", "naive", "unbiased", "non-negative", "convex"],
    Help(
        "correction for missing labels: none, naive (positives cost 1/p), unbiased, non-negative (unbiased, kept from "
        "falling below zero), or convex (positives cost 2/p - 1; not for the logistic loss)"
    ),
]
MaxInverse = Annotated[float | None, NumberRange(1), Help("upper limit of 1/p; None for no limit")]
Hidden = Annotated[int, IntegerRange(1, 65_536), Help("units of each hidden layer")]
Layers = Annotated[Literal[1, 2], Help("number of hidden layers")]
Negatives = Annotated[
    int | None,
    IntegerRange(1),
    Help(
        "labels drawn by frequency per batch, in addition to the labels of the batch; None takes all labels up to "
        f"{_ALL_LABELS:,} and draws {_DRAWS:,} of more"
    ),
]
Rate = Annotated[float, NumberRange(0, above=True), Help("learning rate of Adam")]
Dropout = Annotated[float, NumberRange(0, 0.95), Help("fraction of hidden units that a training step leaves out")]
BatchSize = Annotated[
    int | None, IntegerRange(1), Help("rows per training step; None takes 1/64 of the rows, from 8 to 256")
]
MaxEpochs = Annotated[int, IntegerRange(1), Help("maximum number of passes over the training rows")]
HeldOut = Annotated[
    float,
    NumberRange(0, 0.5),
    Help(
        f"fraction of the rows, at most {_HELD_OUT:,}, held out for early stopping by PSP@5; 0 trains all epochs on "
        "all rows"
    ),
]
Device = Annotated[
    str,
    Help(
        "device of PyTorch for training, such as cpu or cuda:1; auto takes CUDA if there is one; ranking runs on the "
        "processor"
    ),
]
Patience = Annotated[int, IntegerRange(1), Help("epochs without a higher held-out PSP@5 after which training stops")]


@dataclass(frozen=True)
class NetworkProblem:
    """Factory of the shared state of an epoch: the training at the end of the epoch before."""

    settings: dict[str, Any]
    rows: TrainingData
    held_out: TrainingData | None
    p: npt.NDArray[np.float64]
    n_jobs: int | None
    last: Piece | None = None

    def __call__(self) -> Any:
        """Return the training; PyTorch is imported here."""
        epochs = import_module("unmissed.models.networks.epochs")
        settings = epochs.NetworkSettings(**self.settings)
        return epochs.Training(settings, self.rows, self.held_out, self.p, Threads(self.n_jobs), self.last)


@dataclass(frozen=True)
class EpochTask:
    """Train one epoch."""

    number: int
    best: int = 0
    best_score: float = -1.0
    size: int = 1

    @property
    def key(self) -> str:
        """The key of the state after the epoch."""
        return f"state/{self.number:05d}"

    def run(self, training: Any) -> Piece:
        """Return the state after the epoch; `best` is the epoch with the highest held-out score."""
        loss = training.run(self.number)
        score = training.held_out_score()
        better = training.held_out is None or score > self.best_score
        metadata = {
            "step": training.tables.step,
            "loss": loss,
            "number": self.number,
            "best": self.number if better else self.best,
            "best_score": score if better else self.best_score,
        }
        return Piece(self.key, training.tables.arrays(), metadata)


class NeuralXMC(ScoredByFactors, Model):
    """A network with one or two hidden ReLU layers and scores v_l . h(x) + c_l, trained by Adam.

    Sparse features meet a table of embeddings, whose weighted sum is the first layer; dense features are added by a
    matrix. The loss of each label is corrected for missing labels (`loss`, `correction`). With many labels, each batch
    takes its own labels and a sample of the others, weighted so that the expected gradient is that of all labels.
    Training needs PyTorch (extra `torch`), ranking does not.
    """

    unit = "epochs"
    dense_support = DenseSupport.NATIVE
    cost_support = CostSupport(cells=True)

    weights_: dict[str, Floats]
    hidden_layers_: Once[HiddenLayers]
    epochs_: int

    def __init__(
        self,
        *,
        loss: LogitLoss = "squared-hinge",
        correction: LossCorrection = "convex",
        propensity: PropensityModel = None,
        max_inverse: MaxInverse = None,
        n_hidden: Hidden = 256,
        n_layers: Layers = 1,
        n_negatives: Negatives = None,
        learning_rate: Rate = 2e-3,
        dropout: Dropout = 0.3,
        batch_size: BatchSize = None,
        max_epochs: MaxEpochs = 30,
        validation_fraction: HeldOut = 0.1,
        patience: Patience = 3,
        normalize: Normalize = True,
        dense_weight: DenseWeight = 1.0,
        device: Device = "auto",
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        self.loss = loss
        self.correction = correction
        self.propensity = propensity
        self.max_inverse = max_inverse
        self.n_hidden = n_hidden
        self.n_layers = n_layers
        self.n_negatives = n_negatives
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.normalize = normalize
        self.dense_weight = dense_weight
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, rows: TrainingData, work: Work) -> None:
        """Train from the last stored state; the states of the last and of the best epoch are stored."""
        problem = self._problem(rows)
        work.plan(self.max_epochs)
        number = 0
        if work.pieces.get(_NETWORK) is None:
            states = _states(work.pieces)
            last = work.pieces.get(states[-1]) if states else None
            number = 0 if last is None else _count(last, "number")
            work.tell(number)
            while last is None or not self._is_done(last):
                number += 1
                task = EpochTask(number)
                if last is not None:
                    task = EpochTask(number, _count(last, "best"), last.numbers("best_score")["best_score"])
                (last,) = work.map([task], replace(problem, last=last))
                for key in set(_states(work.pieces)) - {last.key, EpochTask(_count(last, "best")).key}:
                    work.pieces.drop(key)
            work.pieces.put(self._finished(work.pieces, last))
        for key in _states(work.pieces):
            work.pieces.drop(key)
        work.tell(self.max_epochs - number)

    def _problem(self, rows: TrainingData) -> NetworkProblem:
        if self.loss == "logistic" and self.correction == "convex":
            raise InputError("correction='convex' needs loss='hinge' or 'squared-hinge'; logistic has no convex bound")
        p = self._label_propensities(rows)
        held = self._held_out(rows)
        held_out = rows.take(np.flatnonzero(held)) if held.any() else None
        kept = rows.take(np.flatnonzero(~held)) if held.any() else rows
        n_negatives = self.n_negatives
        if n_negatives is None and rows.n_labels > _ALL_LABELS:
            n_negatives = _DRAWS
        settings = {
            "shape": NetworkShape(
                rows.n_features - rows.n_dense, rows.n_dense, self.n_hidden, self.n_layers, rows.n_labels
            ),
            "loss": self.loss,
            "correction": self.correction,
            "max_inverse": self.max_inverse,
            "n_negatives": n_negatives,
            "learning_rate": float(self.learning_rate),
            "dropout": float(self.dropout),
            "batch_size": self.batch_size or int(np.clip(rows.n_samples // 64, 8, 256)),
            "seed": self._seed,
            "device": self.device,
        }
        return NetworkProblem(settings, kept, held_out, p, self.n_jobs)

    def _held_out(self, rows: TrainingData) -> npt.NDArray[np.bool_]:
        """Return which rows are held out: random ones, except those with labels that no other row would have.

        A label without a positive would keep its initial score, and be ranked above labels that were trained.
        """
        order = np.random.default_rng(self._seed).permutation(rows.n_samples)
        held = np.zeros(rows.n_samples, np.bool_)
        held[order[: min(int(rows.n_samples * self.validation_fraction), _HELD_OUT)]] = True
        missing = np.asarray(rows.Y[~held].sum(axis=0)).ravel() == 0
        held[held] = rows.Y[held] @ missing.astype(np.float32) == 0
        return held

    def _label_propensities(self, rows: TrainingData) -> npt.NDArray[np.float64]:
        """Return p of each label; of cells, the observed positives over the expected true ones, the sum of 1/p."""
        cells = rows.cell_propensity
        if cells is None:
            return as_propensity(self.propensity).estimate(rows.label_counts, rows.total_weight)
        true = np.bincount(cells.indices, 1 / cells.data, minlength=rows.n_labels)
        shares: npt.NDArray[np.float64] = np.ones(rows.n_labels)
        np.divide(rows.label_counts, true, out=shares, where=true > 0)
        return shares.clip(max=1.0)

    def _is_done(self, last: Piece) -> bool:
        number, best = _count(last, "number"), _count(last, "best")
        return number >= self.max_epochs or number - best >= self.patience

    def _finished(self, pieces: Pieces, last: Piece) -> Piece:
        best = pieces.get(EpochTask(_count(last, "best")).key)
        if best is None:
            raise last.damaged("the state of its best epoch is missing; delete the run and train it again")
        arrays = {name: best.arrays[name] for name in LAYOUT}
        return Piece(_NETWORK, arrays, {"epochs": _count(last, "best"), **last.numbers("best_score")})

    def _open(self, pieces: Pieces) -> None:
        piece = pieces.get(_NETWORK)
        if piece is None:
            raise InputError(f"the piece {_NETWORK} is missing; the run is damaged, train it again")
        arrays = piece.expect(LAYOUT)
        shape = NetworkShape(
            self.n_features_in_ - self.n_dense_in_, self.n_dense_in_, self.n_hidden, self.n_layers, self.n_labels_
        )
        shape.check(piece, arrays)
        self.weights_ = dict(arrays)
        self.epochs_ = _count(piece, "epochs")
        self.hidden_layers_ = Once("tiles of hidden layers", partial(HiddenLayers, self.weights_))
        self.label_tiles_ = Once("tiles of label weights", partial(_label_tiles, self.weights_))

    def embed(self, X: Any) -> Floats:
        """Return the last hidden layer of each row, and a constant 1, (n_samples, n_hidden + 1)."""
        self._check_fitted()
        return self._embed(self._checked(X))

    def _embed(self, rows: Features) -> Floats:
        return self.hidden_layers_.get().apply(rows, Threads(self.n_jobs))

    def _label_factor(self) -> Floats:
        return label_factor(self.weights_)

    def _prepare(self) -> None:
        self.hidden_layers_.get()
        self.label_tiles_.get()

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        return self._rank_features(Features(X, trusted=True).in_parts(self.n_features_in_, self.n_dense_in_), k)

    def _rank_features(self, rows: Features, k: int) -> Ranking:
        found = self.label_tiles_.get().largest(self._embed(rows), k, Threads(self.n_jobs), self.untrained_)
        return Ranking(*found)

    def metadata(self) -> dict[str, Any]:
        """Return the numbers of epochs and of weights."""
        return {"epochs": self.epochs_, "weights": sum(int(array.size) for array in self.weights_.values())}


def _label_tiles(weights: Mapping[str, Floats]) -> FactorTiles:
    return FactorTiles(label_factor(weights))


def _states(pieces: Pieces) -> list[str]:
    return [key for key in pieces.listed() if key.startswith("state/")]


def _count(piece: Piece, name: str) -> int:
    """Return a number of epochs from the metadata of a piece."""
    number = piece.metadata.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise piece.damaged(f"its metadata has no valid {name}")
    return number
