"""DiSMEC and PW-DiSMEC: one squared-hinge SVM per label, unweighted and propensity-weighted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Work
from unmissed.models.linear.dismec.solver import FreeBias, SquaredHinge
from unmissed.models.linear.one_vs_rest import OneVsRest, check_new_labels
from unmissed.models.parameters import (
    WEIGHTING,
    BlockSize,
    Cost,
    Help,
    Jobs,
    MaxRounds,
    Normalize,
    PropensityModel,
    Prune,
    RandomSeed,
    Tolerance,
)
from unmissed.models.training_data import TrainingData
from unmissed.progress import Progress, silent
from unmissed.propensity import Costs, WeightingName, as_propensity, costs
from unmissed.propensity.weighting import CONVEX

_CHOICE = "choice/weighting"
CANDIDATES = CONVEX[1:]  # the baseline is "none"
AutoWeighting = Annotated[
    WeightingName | Literal["auto"],
    Help(
        f"{WEIGHTING}. The paper's tables use tail; auto keeps none unless another weighting is likely to "
        "raise held-out PSP@5 without a significant drop in P@1"
    ),
]


class DiSMEC(OneVsRest):
    """One-vs-rest squared-hinge SVMs with pruned weights (Babbar and Schölkopf, 2017).

    Each label minimizes 1/2 |w|^2 + 1/2 b^2 + C sum_i max(0, 1 - z_i (w.x_i + b))^2, LIBLINEAR's objective, to a
    relative duality gap of `tol`.
    """

    fast_params: ClassVar[Mapping[str, Any]] = {"tol": 0.01}
    compile_params = ({"C": 1e6, "normalize": False, "fit_bias": "free"},)  # ill-conditioned: Newton's method

    def __init__(
        self,
        *,
        C: Cost = 1.0,
        tol: Tolerance = 1e-3,
        prune: Prune = 0.01,
        normalize: Normalize = True,
        fit_bias: FreeBias = True,
        max_rounds: MaxRounds = 50,
        block_size: BlockSize = 256,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        self.C = C
        self.tol = tol
        self.prune = prune
        self.normalize = normalize
        self.fit_bias = fit_bias
        self.max_rounds = max_rounds
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def compile_kernels(cls, X: sp.csr_matrix, Y: sp.csr_matrix) -> None:
        """Rank many rows, rescore candidates, and train a single label, which takes no lanes."""
        model = cls().fit(X, Y)
        model.rank(X, 2, candidates=model.rank(X, 3))
        for n_features in (X.shape[1], 500):
            cls().fit(X[:, :n_features], Y[:, :1])

    def _solver(self) -> SquaredHinge:
        return SquaredHinge(self.tol, self.prune, self.fit_bias, self.max_rounds, self._seed)

    def _costs(self, label_counts: npt.NDArray[np.int64], n_samples: int) -> Costs:
        ones = np.ones(len(label_counts))
        return self._scaled(Costs(ones, np.zeros_like(ones), ones))


class PWDiSMEC(DiSMEC):
    """PW-DiSMEC: DiSMEC that weights observed positives by inverse propensity.

    The less likely a label is to be observed, the more its observed positives cost.
    """

    baseline_params: ClassVar[Mapping[str, Any]] = {"weighting": "none"}

    def __init__(
        self,
        *,
        weighting: AutoWeighting = "tail",
        propensity: PropensityModel = None,
        C: Cost = 1.0,
        tol: Tolerance = 1e-3,
        prune: Prune = 0.01,
        normalize: Normalize = True,
        fit_bias: FreeBias = True,
        max_rounds: MaxRounds = 50,
        block_size: BlockSize = 256,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        super().__init__(
            C=C,
            tol=tol,
            prune=prune,
            normalize=normalize,
            fit_bias=fit_bias,
            max_rounds=max_rounds,
            block_size=block_size,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.weighting = weighting
        self.propensity = propensity

    def _fit(self, rows: TrainingData, work: Work) -> None:
        if self.weighting != "auto":
            super()._fit(rows, work)
            return
        self._costs_of("none", rows.label_counts, rows.n_samples)  # refused before candidates are trained
        # every partition chooses for itself, with the same result, rather than wait for another
        own_work = work if work.partition.seconds == 0 else Work(work.pieces, work.executor)
        choosing = WeightingSelection(rows, clone(self), lambda *_: work.tell(0))
        for piece in own_work.map([WeightingTask()], choosing):
            clone(self).set_params(weighting=_chosen(piece))._fit(rows, work)

    def _fit_labels(self, rows: TrainingData, work: Work) -> None:
        check_new_labels(self.propensity)
        clone(self).set_params(weighting=self.weighting_)._train(rows, self.n_labels_, work)

    def _open(self, pieces: Pieces) -> None:
        weighting, choice = self.weighting, None
        if weighting == "auto":
            piece = pieces.get(_CHOICE)
            if piece is None:
                raise InputError(f"the piece {_CHOICE} is missing; the run is damaged")
            weighting, choice = _chosen(piece), dict(piece.metadata)
        super()._open(pieces)
        self.weighting_, self.choice_ = weighting, choice

    def choice(self) -> dict[str, Any] | None:
        """Return the result of the selection by `weighting="auto"`; None for any other weighting."""
        self._check_fitted()
        return self.choice_

    def metadata(self) -> dict[str, Any]:
        """Return the number of weights, and the selected weighting if it was selected automatically."""
        return {**super().metadata(), **({} if self.choice_ is None else {"weighting chosen": self.weighting_})}

    def _costs(self, label_counts: npt.NDArray[np.int64], n_samples: int) -> Costs:
        return self._costs_of(self.weighting, label_counts, n_samples)

    def _costs_of(self, weighting: str, label_counts: npt.NDArray[np.int64], n_samples: int) -> Costs:
        propensity = as_propensity(self.propensity)
        return self._scaled(costs(weighting, propensity.estimate(label_counts, n_samples), label_counts))


@dataclass(frozen=True)
class WeightingSelection:
    """Shared state of the selection of a weighting: training data, unfitted model and progress callback."""

    rows: TrainingData
    model: PWDiSMEC
    progress: Progress = silent

    def __call__(self) -> WeightingSelection:
        """Return itself; candidates share no other state."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return WeightingSelection, (self.rows, self.model)  # the progress callback stays in this process


@dataclass(frozen=True)
class WeightingTask:
    """Select the weighting on held-out rows."""

    key: str = _CHOICE
    size: int = 0

    def run(self, shared: WeightingSelection) -> Piece:
        """Train and compare the candidate weightings."""
        from unmissed.models.model_selection import Sampling, choose

        model = shared.model
        sampling = Sampling(seed=model._seed)
        found = choose(model, shared.rows, {"weighting": CANDIDATES}, sampling=sampling, progress=shared.progress)
        return Piece(self.key, metadata=found.to_json())


def _chosen(piece: Piece) -> WeightingName:
    """Return the selected weighting; raise if the piece has none."""
    params = piece.metadata.get("params")
    chosen = params.get("weighting") if isinstance(params, dict) else None
    for name in CONVEX:
        if name == chosen:
            return name
    raise piece.damaged("it has no valid weighting")
