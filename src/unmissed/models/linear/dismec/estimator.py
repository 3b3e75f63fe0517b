"""DiSMEC and PW-DiSMEC: one squared-hinge SVM per label, unweighted and propensity-weighted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Work
from unmissed.features import Features
from unmissed.models.cost_support import CostSupport
from unmissed.models.dense_support import DenseSupport
from unmissed.models.dual_variables import DualVariables
from unmissed.models.linear.dismec.solver import FreeBias, SquaredHinge
from unmissed.models.linear.one_vs_rest import OneVsRest, check_new_labels, weighted_costs
from unmissed.models.parameters import (
    WEIGHTING,
    BlockSize,
    Cost,
    DenseWeight,
    Help,
    Jobs,
    KeepDual,
    MaxRounds,
    Normalize,
    PropensityModel,
    Prune,
    RandomSeed,
    Tolerance,
)
from unmissed.models.training_data import TrainingData
from unmissed.numerics.simd import LANES
from unmissed.progress import Progress, describe, silent
from unmissed.propensity import Costs, WeightingName
from unmissed.propensity.weighting import CONVEX

_CHOICE = "choice"
_SAFE = ("none", "floored-tail", "auto")  # weightings that are not checked for a loss before training
AutoWeighting = Annotated[
    WeightingName | Literal["auto"],
    Help(
        f"{WEIGHTING}. The paper's tables use tail; auto selects the weighting and C together on held-out rows, "
        "without a shown loss in P@1, P@5 or PSP@5 against C = 1 without weighting; it keeps a C that differs from the "
        "default"
    ),
]


class DiSMEC(OneVsRest):
    """One-vs-rest squared-hinge SVMs with pruned weights (Babbar and Schölkopf, 2017).

    Each label minimizes 1/2 |w|^2 + 1/2 b^2 + C sum_i max(0, 1 - z_i (w.x_i + b))^2, LIBLINEAR's objective, to a
    relative duality gap of `tol`.
    """

    dense_support: ClassVar[DenseSupport] = DenseSupport.NATIVE
    cost_support: ClassVar[CostSupport] = CostSupport(weights=True)
    baseline_params: ClassVar[Mapping[str, Any]] = {"C": 1.0}
    fast_params: ClassVar[Mapping[str, Any]] = {"tol": 0.01, "block_size": LANES}  # small blocks use all threads
    row_exponents: ClassVar[Mapping[str, float]] = {"C": 0.5}
    compile_params = ({"C": 1e6, "normalize": False, "fit_bias": "free"},)  # ill-conditioned: Newton's method

    def __init__(
        self,
        *,
        C: Cost = 0.5,
        tol: Tolerance = 1e-3,
        prune: Prune = 0.01,
        normalize: Normalize = True,
        dense_weight: DenseWeight = 1.0,
        fit_bias: FreeBias = True,
        max_rounds: MaxRounds = 50,
        block_size: BlockSize = 256,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
        keep_dual: KeepDual = False,
    ) -> None:
        self.C = C
        self.tol = tol
        self.prune = prune
        self.normalize = normalize
        self.dense_weight = dense_weight
        self.fit_bias = fit_bias
        self.max_rounds = max_rounds
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.keep_dual = keep_dual

    @classmethod
    def compile_kernels(cls, X: sp.csr_matrix, Y: sp.csr_matrix) -> None:
        """Rank many rows, rescore candidates, and train a single label, which takes no lanes; then dense features."""
        model = cls().fit(X, Y)
        model.rank(X, 2, candidates=model.rank(X, 3))
        for n_features in (X.shape[1], 500):
            cls().fit(X[:, :n_features], Y[:, :1])
        dense = X[:, :24].toarray()
        for rows in (dense, Features(X[:, :500], dense)):
            for labels in (Y, Y[:, :1]):
                cls().fit(rows, labels).rank(rows, 2)

    def _solver(self) -> SquaredHinge:
        return SquaredHinge(self.tol, self.prune, self.fit_bias, self.max_rounds, self._seed, self.keep_dual)

    def dual_variables(self) -> DualVariables | None:
        """Return the dual variables of all labels, or of the first ones that have any; None if no label has."""
        self._check_fitted()
        found = (shard.dual_variables() for shard in self.shards_)
        parts = list(takewhile(lambda one: one is not None, found))
        return DualVariables.join([one for one in parts if one is not None]) if parts else None

    def _costs(self, rows: TrainingData) -> Costs:
        ones = np.ones(rows.n_labels)
        return self._scaled(Costs(ones, np.zeros_like(ones), ones))


class PWDiSMEC(DiSMEC):
    """PW-DiSMEC: DiSMEC that weights observed positives by inverse propensity.

    The less likely a label is to be observed, the more its observed positives cost. `PWDiSMEC.paper()` has the literal
    objective of the paper: costs 1/p - 1, C = 0.5, a bias without penalty, weights pruned at 0.01.
    """

    cost_support: ClassVar[CostSupport] = CostSupport(weights=True, cells=True)
    baseline_params: ClassVar[Mapping[str, Any]] = {"weighting": "none", "C": 1.0}
    paper_params: ClassVar[Mapping[str, Any]] = {"weighting": "tail", "C": 0.5, "fit_bias": "free", "prune": 0.01}
    preferred_params: ClassVar[Mapping[str, Any]] = {"weighting": "floored-tail", "C": 0.3}
    weighting_: WeightingName
    C_: float
    choice_: dict[str, Any] | None

    def __init__(
        self,
        *,
        weighting: AutoWeighting = "floored-tail",
        propensity: PropensityModel = None,
        C: Cost = 0.5,
        tol: Tolerance = 1e-3,
        prune: Prune = 0.01,
        normalize: Normalize = True,
        dense_weight: DenseWeight = 1.0,
        fit_bias: FreeBias = True,
        max_rounds: MaxRounds = 50,
        block_size: BlockSize = 256,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
        keep_dual: KeepDual = False,
    ) -> None:
        super().__init__(
            C=C,
            tol=tol,
            prune=prune,
            normalize=normalize,
            dense_weight=dense_weight,
            fit_bias=fit_bias,
            max_rounds=max_rounds,
            block_size=block_size,
            n_jobs=n_jobs,
            random_state=random_state,
            keep_dual=keep_dual,
        )
        self.weighting = weighting
        self.propensity = propensity

    def _fit(self, rows: TrainingData, work: Work) -> None:
        if self.weighting != "auto":
            super()._fit(rows, work)
            return
        self._with({"weighting": "none"})._costs(rows)  # refused before candidates are trained
        # every partition chooses for itself, with the same result, rather than wait for another
        own_work = work if work.partition.seconds == 0 else Work(work.pieces, work.executor)
        for piece in own_work.map([SelectionTask()], Selection(rows, clone(self), _SelectionProgress(work))):
            chosen = self._with(_chosen(piece))
            describe(work.progress, f"training labels with weighting {chosen.weighting}, C {chosen.C:g}")
            chosen._fit(rows, work)

    def _fit_labels(self, rows: TrainingData, work: Work) -> None:
        check_new_labels(self.propensity)
        self._with({"weighting": self.weighting_, "C": self.C_})._train(rows, self.n_labels_, work)

    def _open(self, pieces: Pieces) -> None:
        model, choice = self, None
        if self.weighting == "auto":
            piece = pieces.get(_CHOICE)
            if piece is None:
                raise InputError(f"the piece {_CHOICE} is missing; the run is damaged")
            model, choice = self._with(_chosen(piece)), dict(piece.metadata)
        super()._open(pieces)
        assert model.weighting != "auto"
        self.weighting_, self.C_, self.choice_ = model.weighting, float(model.C), choice

    def choice(self) -> dict[str, Any] | None:
        """Return the result of the selection by `weighting="auto"`; None for any other weighting."""
        self._check_fitted()
        return self.choice_

    def risky_params(self) -> tuple[str, ...]:
        """Return the weighting, unless it is one that hardly ever loses against plain costs."""
        return () if self.weighting in _SAFE else ("weighting",)

    def _with(self, params: Mapping[str, Any]) -> PWDiSMEC:
        """Return an unfitted model with other values of some parameters."""
        model: PWDiSMEC = clone(self).set_params(**params)
        return model

    def _costs(self, rows: TrainingData) -> Costs:
        assert self.weighting != "auto"
        return self._scaled(weighted_costs(self.weighting, self.propensity, rows))


@dataclass(frozen=True)
class Selection:
    """Shared state of the selection of a weighting and C: training data, unfitted model and progress callback."""

    rows: TrainingData
    model: PWDiSMEC
    progress: Progress = silent

    def __call__(self) -> Selection:
        """Return itself; candidates share no other state."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Selection, (self.rows, self.model)  # the progress callback stays in this process


@dataclass(frozen=True)
class SelectionTask:
    """Select the weighting and C on held-out rows."""

    key: str = _CHOICE
    size: int = 0

    def run(self, shared: Selection) -> Piece:
        """Train and compare the candidates."""
        from unmissed.models.selection import Sampling, choose, default_tries

        model = shared.model
        tries = default_tries(model)
        if model.C != type(model)().C:
            del tries["C"]
        sampling = Sampling(seed=model._seed)
        found = choose(model, shared.rows, tries, sampling=sampling, progress=shared.progress)
        return Piece(self.key, metadata=found.to_json())


@dataclass(frozen=True)
class _SelectionProgress:
    """Passes what a search does on to the progress of a training, which counts labels."""

    work: Work

    def __call__(self, done: int, total: int | None) -> None:
        """Report that the training goes on."""
        self.work.tell(0)

    def describe(self, text: str) -> None:
        """Show the candidate that is being tried."""
        describe(self.work.progress, text)


def _chosen(piece: Piece) -> dict[str, Any]:
    """Return the selected weighting, and C if it was searched; raise if the piece has no valid ones."""
    params = piece.metadata.get("params")
    if not isinstance(params, dict) or params.get("weighting") not in CONVEX or not params.keys() <= {"weighting", "C"}:
        raise piece.damaged("it has no valid weighting")
    C = params.get("C", 1.0)
    if isinstance(C, bool) or not isinstance(C, int | float) or not 0 < C < float("inf"):
        raise piece.damaged("it has no valid C")
    return params
