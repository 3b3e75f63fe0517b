"""LEML: a linear map from features to labels of low rank, for labels that are many, related and partly unobserved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Threads, Work
from unmissed.matrices import canonical_csr
from unmissed.models.base import Explanation, Model
from unmissed.models.frames import one_of
from unmissed.models.rows import Rows
from unmissed.propensity import PropensityLike, as_propensity
from unmissed.ranking import Ranking
from unmissed.solvers.entries import LOSSES
from unmissed.solvers.leml import Halves, State, advance, begin, make_halves
from unmissed.solvers.parameters import check_count, check_positive, check_seed
from unmissed.solvers.products import Floats, sparse_product, with_constant
from unmissed.solvers.search import each_tile, largest_products

_FACTORS = "factors"
_LAYOUT = {
    "features": (np.float32, 2),
    "constant": (np.float32, 1),
    "labels": (np.float32, 2),
    "objectives": (np.float64, 1),
}
_STATE_LAYOUT = {name: _LAYOUT[name] for name in ("features", "labels", "objectives")}


@dataclass(frozen=True)
class ObservedRows(Rows):
    """Rows of which only some labels are known; `observed` is a CSR matrix whose stored entries are those."""

    observed: sp.csr_matrix | None = None


@dataclass(frozen=True)
class Problem:
    """Makes what an alternation needs: the halves of the problem and the state to go on from."""

    rows: Rows
    settings: Mapping[str, Any]
    seed: int
    n_components: int
    fit_bias: bool
    n_jobs: int | None
    tol: float
    last: Piece | None = None

    def __call__(self) -> tuple[Halves, State, float]:
        """Lay out the rows and open the state."""
        X = with_constant(self.rows.features) if self.fit_bias else self.rows.features
        start = begin(X.shape[1], self.rows.n_labels, self.n_components, self.seed)
        halves = make_halves(X, self.rows.Y, Threads(self.n_jobs), **self.settings)
        return halves, start if self.last is None else _open_state(self.last, start), self.tol


@dataclass(frozen=True)
class AlternationTask:
    """Solve both factors once more."""

    number: int
    size: int = 1

    @property
    def key(self) -> str:
        """The key of the state that it leaves."""
        return f"state/{self.number:05d}"

    def run(self, shared: tuple[Halves, State, float]) -> Piece:
        """Advance."""
        state = advance(*shared)
        arrays = {"features": state.features, "labels": state.labels, "objectives": np.array(state.objectives)}
        return Piece(self.key, arrays, {"number": self.number, "done": state.done})


class LEML(Model):
    """Scores x^T W h_j of low rank (Yu, Jain, Kar and Dhillon, 2014): W embeds rows, H has a row per label.

    W and H minimise the sum over the observed entries (i, j) of loss(Y_ij, x_i^T W h_j) + penalty/2 (|W|^2 + |H|^2),
    one while the other stands still: each half is convex, and the objective falls at every half. Squared is
    (s - y)^2 / 2, logistic log(1 + exp(-z s)), squared-hinge max(0, 1 - z s)^2, with y in {0, 1} and z = 2y - 1.

    Parameters
    ----------
    loss : squared, logistic or squared-hinge
    n_components : the rank, the length of an embedding
    penalty : lambda, the weight of |W|^2 and |H|^2
    weighting : none, or unbiased for Theorem 1's loss of labels that are missing with their propensities, which is
        squared loss with 1/p in place of 1; it takes the place of a mask
    propensity : how p comes from label counts: jain (the default), jain:A,B, constant:P or table:FILE; in Python also a
        model such as Jain(), one p for all labels, or an array with one per label
    fit_bias : append the constant feature 1, penalised like the others
    max_alternations : how often both factors are solved at most
    tol : stop when an alternation lowers the objective by less than this share of it
    unit_rows : scale each row to length 1 first, in training and in prediction
    n_jobs : threads; all cores by default
    random_state : seed of the factor to start from
    """

    unit = "alternations"

    features_: Floats
    constant_: Floats
    labels_: Floats
    objectives_: npt.NDArray[np.float64]

    def __init__(
        self,
        *,
        loss: Literal["squared", "logistic", "squared-hinge"] = "squared",
        n_components: int = 100,
        penalty: float = 1.0,
        weighting: Literal["none", "unbiased"] = "none",
        propensity: PropensityLike | None = None,
        fit_bias: bool = True,
        max_alternations: int = 10,
        tol: float = 1e-3,
        unit_rows: bool = True,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.loss = loss
        self.n_components = n_components
        self.penalty = penalty
        self.weighting = weighting
        self.propensity = propensity
        self.fit_bias = fit_bias
        self.max_alternations = max_alternations
        self.tol = tol
        self.unit_rows = unit_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        Y: Any = None,
        *,
        y: Any = None,
        sample_weight: Any = None,
        work: Work | None = None,
        observed: Any = None,
    ) -> Self:
        """Learn from rows and their labels, or from those of their labels that were observed.

        Parameters
        ----------
        X, Y, y, sample_weight : as in `Model.fit`; a weight goes with rows that were observed as a whole
        observed : sparse matrix or array of the shape of Y; an entry of Y counts where it is not 0; all by default
        work : as in `Model.fit`
        """
        if sample_weight is not None and observed is not None:
            raise InputError("sample_weight and observed cannot be given together; repeat the rows of both")

        def masked(rows: Rows) -> Rows:
            rows = rows.repeated(sample_weight)
            return ObservedRows(rows.X, rows.Y, rows.unit_rows, _check_observed(observed, rows), store=rows.store)

        return self._fit_as_brought(X, one_of(Y, y), work, masked)

    def _fit(self, rows: Rows, work: Work) -> None:
        """Advance from the last state that is kept until it is done; the state before is then forgotten."""
        problem = self._problem(rows, rows.observed if isinstance(rows, ObservedRows) else None)
        work.plan(self.max_alternations)
        number = 0
        if work.pieces.get(_FACTORS) is None:
            states = _states(work.pieces)
            last = work.pieces.get(states[-1]) if states else None
            number = 0 if last is None else _number(last)
            work.tell(number)
            while last is None or (number < self.max_alternations and not last.facts.get("done")):
                number += 1
                (last,) = work.map([AlternationTask(number)], replace(problem, last=last))
                for key in _states(work.pieces)[:-1]:
                    work.pieces.drop(key)
            work.pieces.put(self._finished(last, rows.n_features))
        for key in _states(work.pieces):
            work.pieces.drop(key)
        work.tell(self.max_alternations - number)

    def _check(self) -> None:
        """Refuse parameters that make no problem."""
        if self.loss not in LOSSES:
            raise InputError(f"unknown loss {self.loss!r}; known: {', '.join(LOSSES)}")
        if self.weighting not in ("none", "unbiased"):
            raise InputError(f"unknown weighting {self.weighting!r}; known: none, unbiased")
        if self.weighting == "unbiased" and self.loss != "squared":
            raise InputError(f"weighting='unbiased' needs the squared loss: with {self.loss} the halves are not convex")
        check_count("n_components", self.n_components)
        check_positive("penalty", self.penalty)
        check_count("max_alternations", self.max_alternations)
        check_positive("tol", self.tol)
        check_seed(self.random_state)

    def _problem(self, rows: Rows, observed: sp.csr_matrix | None) -> Problem:
        self._check()
        if observed is not None and self.weighting == "unbiased":
            raise InputError(
                "weighting='unbiased' takes the place of a mask; give propensities or `observed`, not both"
            )
        inverse = None
        if self.weighting == "unbiased":
            inverse = 1 / as_propensity(self.propensity).fit(rows.label_counts, rows.n_samples)
        settings = {"loss": self.loss, "penalty": float(self.penalty)}
        return Problem(
            rows,
            settings | {"observed": observed, "inverse_propensities": inverse},
            self.random_state,
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
            raise InputError(f"the piece {_FACTORS} is missing; the run is damaged")
        arrays = piece.expect(_LAYOUT)
        rank = arrays["constant"].size
        if arrays["features"].shape != (self.n_features_in_, rank) or arrays["labels"].shape != (self.n_labels_, rank):
            raise piece.damaged("its factors are not those of this many features and labels")
        if not all(np.isfinite(arrays[name]).all() for name in ("features", "constant", "labels")):
            raise piece.damaged("it holds a value that is infinite or not a number")
        self.features_, self.constant_, self.labels_ = arrays["features"], arrays["constant"], arrays["labels"]
        self.objectives_ = arrays["objectives"]

    def embed(self, X: Any) -> Floats:
        """Return W^T x of each row, (n_samples, n_components)."""
        self._check_fitted()
        return self._embed(self._checked(X))

    def _embed(self, X: sp.csr_matrix) -> Floats:
        embedded = sparse_product(X, self.features_, Threads(self.n_jobs))
        embedded += self.constant_
        return embedded

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        return Ranking(*largest_products(self._embed(X), self.labels_, k, Threads(self.n_jobs)))

    def predict(self, X: Any, threshold: float = 0.0) -> sp.csr_matrix:
        """Return the sparse 0/1 matrix of labels whose score is at least `threshold`."""
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]

        def one(rows: slice, first: int, scores: Floats) -> None:
            row, label = np.nonzero(scores >= threshold)
            found.append((row + rows.start, label + first))

        embedded = self.embed(X)
        each_tile(embedded, self.labels_, one, Threads(self.n_jobs))
        rows, labels = (np.concatenate(part) for part in zip(*found, strict=True))
        ones = np.ones(len(rows), np.float32)
        return sp.csr_matrix((ones, (rows, labels)), shape=(len(embedded), self.n_labels_))

    def decision_function(self, X: Any, labels: npt.ArrayLike | None = None) -> npt.NDArray[np.float32]:
        """Return the scores of all labels, or of chosen ones: (n_samples, len(labels))."""
        self._check_fitted()
        embedded = self.embed(X)
        chosen = self._chosen(labels, len(embedded))
        out = np.empty((len(embedded), len(chosen)), np.float32)

        def one(rows: slice, first: int, scores: Floats) -> None:
            out[rows, first : first + scores.shape[1]] = scores

        each_tile(embedded, self.labels_[chosen], one, Threads(self.n_jobs))
        return out

    def explain(self, label: int) -> Explanation:
        """Return W h of a label: what each feature adds to its score."""
        self._check_fitted()
        weights = self.features_ @ self.labels_[self._chosen([label])[0]]
        constant = float(self.constant_ @ self.labels_[label])
        return Explanation(np.arange(self.n_features_in_, dtype=np.int32), weights, constant)

    def facts(self) -> dict[str, Any]:
        """Return how far the alternation came."""
        objectives = self.objectives_
        return {
            "components": int(self.constant_.size),
            "alternations": len(objectives) // 2,
            "objective": float(objectives[-1]) if len(objectives) else None,
        }


def _check_observed(observed: Any, rows: Rows) -> sp.csr_matrix | None:
    """Return the mask as a canonical CSR matrix without zeros."""
    if observed is None:
        return None
    mask = canonical_csr(observed, "observed")
    if mask.shape != rows.Y.shape:
        raise InputError(f"observed has the shape {mask.shape}, Y has {rows.Y.shape}")
    return sp.csr_matrix(mask != 0)


def _states(pieces: Pieces) -> list[str]:
    return [key for key in pieces.listed() if key.startswith("state/")]


def _number(state: Piece) -> int:
    """Return how many alternations a state has behind it."""
    number = state.facts.get("number")
    if not isinstance(number, int) or number < 1:
        raise state.damaged("it does not say which alternation it is of")
    return number


def _open_state(piece: Piece, start: State) -> State:
    """Return the state that a killed training left."""
    arrays = piece.expect(_STATE_LAYOUT)
    if arrays["features"].shape != start.features.shape or arrays["labels"].shape != start.labels.shape:
        raise piece.damaged("its factors are of other sizes")
    return State(
        np.array(arrays["features"]),
        np.array(arrays["labels"]),
        tuple(arrays["objectives"].tolist()),
        bool(piece.facts.get("done")),
    )
