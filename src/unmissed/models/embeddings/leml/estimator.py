"""LEML: a low-rank linear model for many correlated, partially observed labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Once, Piece, Pieces, Threads, Work
from unmissed.matrices import canonical_csr
from unmissed.models.base import Model
from unmissed.models.dense_support import DenseSupport
from unmissed.models.embeddings.leml.solver import (
    AlternationState,
    HalfSteps,
    alternate,
    initial_state,
    make_half_steps,
)
from unmissed.models.embeddings.products import append_constant
from unmissed.models.evidence import Explanation
from unmissed.models.factor_products import FactorTiles, Floats, ScoredByFactors, sparse_product
from unmissed.models.frames import one_of
from unmissed.models.parameters import DenseWeight, FitBias, Help, Jobs, Normalize, PropensityModel, RandomSeed
from unmissed.models.ranges import IntegerRange, NumberRange
from unmissed.models.training_data import TrainingData
from unmissed.progress import Progress
from unmissed.propensity import as_propensity
from unmissed.ranking import Ranking

_FACTORS = "factors"
_LAYOUT = {
    "features": (np.float32, 2),
    "constant": (np.float32, 1),
    "labels": (np.float32, 2),
    "objectives": (np.float64, 1),
}
_STATE_LAYOUT = {name: _LAYOUT[name] for name in ("features", "labels", "objectives")}

EntryLoss = Annotated[
    Literal["squared", "logistic", "squared-hinge"], Help("loss of an entry of Y: squared, logistic or squared-hinge")
]
Rank = Annotated[int, IntegerRange(1), Help("rank of the model, the dimension of the embeddings")]
Penalty = Annotated[float, NumberRange(0, above=True), Help("regularization strength lambda of |W|^2 and |H|^2")]
EntryWeighting = Annotated[
    Literal["none", "unbiased"],
    Help(
        "none, or unbiased for the unbiased loss of Theorem 1, which is squared loss with targets 1/p for positives; "
        "it cannot be combined with a mask"
    ),
]
ConstantFeature = Annotated[FitBias, Help("append the constant feature 1, regularized like the others")]
MaxAlternations = Annotated[int, IntegerRange(1), Help("maximum number of alternations")]
Decrease = Annotated[
    float,
    NumberRange(0, above=True),
    Help("stop when the relative decrease of the objective by an alternation is below tol"),
]


@dataclass(frozen=True)
class MaskedTrainingData(TrainingData):
    """Training data with a mask: the stored entries of `observed` are the observed entries of Y."""

    observed: sp.csr_matrix | None = None


@dataclass(frozen=True)
class LEMLProblem:
    """Factory of the shared state of an alternation: half steps, current iterate and tolerance."""

    rows: TrainingData
    settings: Mapping[str, Any]
    seed: int
    n_components: int
    fit_bias: bool
    n_jobs: int | None
    tol: float
    last: Piece | None = None

    def __call__(self) -> tuple[HalfSteps, AlternationState, float]:
        """Return the half steps, the iterate to continue from, and the tolerance."""
        X = self.rows.features.csr
        X = append_constant(X) if self.fit_bias else X
        start = initial_state(X.shape[1], self.rows.n_labels, self.n_components, self.seed)
        half_steps = make_half_steps(X, self.rows.Y, Threads(self.n_jobs), **self.settings)
        return half_steps, start if self.last is None else _open_state(self.last, start), self.tol


@dataclass(frozen=True)
class AlternationTask:
    """Run one alternation: solve both factors."""

    number: int
    size: int = 1

    @property
    def key(self) -> str:
        """The key of the resulting state."""
        return f"state/{self.number:05d}"

    def run(self, shared: tuple[HalfSteps, AlternationState, float]) -> Piece:
        """Return the next state."""
        state = alternate(*shared)
        arrays = {"features": state.features, "labels": state.labels, "objectives": np.array(state.objectives)}
        return Piece(self.key, arrays, {"number": self.number, "done": state.done})


class LEML(ScoredByFactors, Model):
    """Low-rank linear model with scores x^T W h_j (Yu, Jain, Kar and Dhillon, 2014): W embeds rows, h_j is a label.

    W and H minimize the sum over the observed entries (i, j) of loss(Y_ij, x_i^T W h_j) + penalty/2 (|W|^2 + |H|^2) by
    alternating minimization. The problem is convex in each factor, and no half step increases the objective. Squared is
    (s - y)^2 / 2, logistic log(1 + exp(-z s)), squared-hinge max(0, 1 - z s)^2, with y in {0, 1} and z = 2y - 1.
    """

    unit = "alternations"
    dense_support = DenseSupport.CONVERTED

    features_: Floats
    constant_: Floats
    labels_: Floats
    objectives_: npt.NDArray[np.float64]

    def __init__(
        self,
        *,
        loss: EntryLoss = "squared",
        n_components: Rank = 100,
        penalty: Penalty = 3.0,
        weighting: EntryWeighting = "none",
        propensity: PropensityModel = None,
        fit_bias: ConstantFeature = True,
        max_alternations: MaxAlternations = 10,
        tol: Decrease = 1e-3,
        normalize: Normalize = True,
        dense_weight: DenseWeight = 1.0,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        self.loss = loss
        self.n_components = n_components
        self.penalty = penalty
        self.weighting = weighting
        self.propensity = propensity
        self.fit_bias = fit_bias
        self.max_alternations = max_alternations
        self.tol = tol
        self.normalize = normalize
        self.dense_weight = dense_weight
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def compile_kernels(cls, X: sp.csr_matrix, Y: sp.csr_matrix) -> None:
        """Fit with a mask of observed entries, which only the Python interface takes."""
        observed = sp.csr_matrix(np.ones((50, Y.shape[1])))
        cls(n_components=4, max_alternations=1).fit(X[:50], Y[:50], observed=observed)

    def fit(
        self,
        X: Any,
        Y: Any = None,
        *,
        y: Any = None,
        sample_weight: Any = None,
        cell_propensity: Any = None,
        observed: Any = None,
        verbose: int = 0,
        progress: Progress | None = None,
        work: Work | None = None,
    ) -> Self:
        """Fit the model to all entries of Y, or to the observed ones.

        Parameters
        ----------
        X, Y, y, sample_weight, cell_propensity : as in `Model.fit`; sample_weight cannot be combined with observed
        observed : mask, sparse matrix or array of the shape of Y; nonzero where Y is observed; all entries by default
        verbose, progress, work : as in `Model.fit`
        """
        if sample_weight is not None and observed is not None:
            raise InputError("sample_weight and observed cannot be given together; repeat the rows of both")

        def masked(rows: TrainingData) -> TrainingData:
            rows = self._add_costs(rows, sample_weight, cell_propensity)
            known = {one.name: getattr(rows, one.name) for one in fields(rows)}
            return MaskedTrainingData(**known, observed=_check_observed(observed, rows))

        return self._validate_and_fit(X, one_of(Y, y), masked, verbose, progress, work)

    def _fit(self, rows: TrainingData, work: Work) -> None:
        """Alternate from the last stored state until convergence; only the last state is stored."""
        problem = self._problem(rows, rows.observed if isinstance(rows, MaskedTrainingData) else None)
        work.plan(self.max_alternations)
        number = 0
        if work.pieces.get(_FACTORS) is None:
            states = _states(work.pieces)
            last = work.pieces.get(states[-1]) if states else None
            number = 0 if last is None else _number(last)
            work.tell(number)
            while last is None or (number < self.max_alternations and not last.metadata.get("done")):
                number += 1
                (last,) = work.map([AlternationTask(number)], replace(problem, last=last))
                for key in _states(work.pieces)[:-1]:
                    work.pieces.drop(key)
            work.pieces.put(self._finished(last, rows.n_features))
        for key in _states(work.pieces):
            work.pieces.drop(key)
        work.tell(self.max_alternations - number)

    def _check(self) -> None:
        """Raise InputError for invalid combinations of parameters."""
        if self.weighting == "unbiased" and self.loss != "squared":
            raise InputError(
                f"weighting='unbiased' needs the squared loss: with {self.loss} the half steps are not convex"
            )

    def _problem(self, rows: TrainingData, observed: sp.csr_matrix | None) -> LEMLProblem:
        self._check()
        if observed is not None and self.weighting == "unbiased":
            raise InputError(
                "weighting='unbiased' cannot be combined with a mask; give propensities or `observed`, not both"
            )
        inverse = None
        if self.weighting == "unbiased":
            inverse = 1 / as_propensity(self.propensity).estimate(rows.label_counts, rows.n_samples)
        settings = {"loss": self.loss, "penalty": float(self.penalty)}
        return LEMLProblem(
            rows,
            settings | {"observed": observed, "inverse_propensities": inverse},
            self._seed,
            self.n_components,
            self.fit_bias,
            self.n_jobs,
            self.tol,
        )

    def _finished(self, last: Piece, n_features: int) -> Piece:
        W = last.arrays["features"]
        arrays = {
            "features": np.array(W[:n_features]),
            "constant": np.array(W[n_features]) if self.fit_bias else np.zeros(W.shape[1], np.float32),
            "labels": np.array(last.arrays["labels"]),
            "objectives": np.array(last.arrays["objectives"]),
        }
        return Piece(_FACTORS, arrays)

    def _open(self, pieces: Pieces) -> None:
        piece = pieces.get(_FACTORS)
        if piece is None:
            raise InputError(f"the piece {_FACTORS} is missing; the run is damaged, train it again")
        arrays = piece.expect(_LAYOUT)
        rank = arrays["constant"].size
        if arrays["features"].shape != (self.n_features_in_, rank) or arrays["labels"].shape != (self.n_labels_, rank):
            raise piece.damaged(
                f"the shapes of its factors do not match {self.n_features_in_} features and {self.n_labels_} labels"
            )
        if not all(np.isfinite(arrays[name]).all() for name in ("features", "constant", "labels")):
            raise piece.damaged("it contains infinite or nan values")
        self.features_, self.constant_, self.labels_ = arrays["features"], arrays["constant"], arrays["labels"]
        self.objectives_ = arrays["objectives"]
        self.label_tiles_ = Once("tiles of label factors", partial(FactorTiles, self.labels_))

    def embed(self, X: Any) -> Floats:
        """Return the embedding W^T x of each row, (n_samples, n_components)."""
        self._check_fitted()
        return self._embed(self._checked(X).csr)

    def _embed(self, X: sp.csr_matrix) -> Floats:
        embedded = sparse_product(X, self.features_, Threads(self.n_jobs))
        embedded += self.constant_
        return embedded

    def _prepare(self) -> None:
        self.label_tiles_.get()

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        found = self.label_tiles_.get().largest(self._embed(X), k, Threads(self.n_jobs), self.untrained_)
        return Ranking(*found)

    def _label_factor(self) -> Floats:
        return self.labels_

    def explain(self, label: int) -> Explanation:
        """Return the weights W h of a label: the contribution of each feature to its score."""
        self._check_fitted()
        weights = self.features_ @ self.labels_[self._chosen([label])[0]]
        constant = float(self.constant_ @ self.labels_[label])
        return Explanation(np.arange(self.n_features_in_, dtype=np.int32), weights, constant)

    def metadata(self) -> dict[str, Any]:
        """Return the rank, the number of alternations and the final objective."""
        objectives = self.objectives_
        return {
            "components": int(self.constant_.size),
            "alternations": len(objectives) // 2,
            "objective": float(objectives[-1]) if len(objectives) else None,
        }


def _check_observed(observed: Any, rows: TrainingData) -> sp.csr_matrix | None:
    """Return the mask as a canonical CSR matrix without explicit zeros."""
    if observed is None:
        return None
    mask = canonical_csr(observed, "observed")
    if mask.shape != rows.Y.shape:
        raise InputError(f"observed has the shape {mask.shape}, but Y has the shape {rows.Y.shape}")
    return sp.csr_matrix(mask != 0)


def _states(pieces: Pieces) -> list[str]:
    return [key for key in pieces.listed() if key.startswith("state/")]


def _number(state: Piece) -> int:
    """Return the number of alternations of a stored state."""
    number = state.metadata.get("number")
    if not isinstance(number, int) or number < 1:
        raise state.damaged("its metadata has no valid number of alternations")
    return number


def _open_state(piece: Piece, start: AlternationState) -> AlternationState:
    """Return a stored state of an interrupted training."""
    arrays = piece.expect(_STATE_LAYOUT)
    if arrays["features"].shape != start.features.shape or arrays["labels"].shape != start.labels.shape:
        raise piece.damaged("its factors have other shapes than this problem")
    return AlternationState(
        np.array(arrays["features"]),
        np.array(arrays["labels"]),
        tuple(arrays["objectives"].tolist()),
        bool(piece.metadata.get("done")),
    )
