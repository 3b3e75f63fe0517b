"""CalibratedRanking: the part of every model that turns scores into probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.metaestimators import available_if

from unmissed.calibration import CANDIDATES, LAST_RANK, Calibration
from unmissed.errors import InputError
from unmissed.execution import Work
from unmissed.models.checked_input import CheckedInput
from unmissed.models.frames import one_of
from unmissed.models.training_data import TrainingData
from unmissed.models.untrained import Mask
from unmissed.progress import Progress
from unmissed.ranking import Ranking

RankBy = Literal["score", "probability"]
"""What labels are ranked by."""


class CalibratedRanking(CheckedInput):
    """Methods of `Model` that fit and use its calibration."""

    untrained_: Mask
    calibration_: Calibration

    if TYPE_CHECKING:  # methods of `Model` that are used here

        def rank(self, X: Any, k: int = 5, *, rank_by: RankBy = "score", **params: Any) -> Ranking: ...  # noqa: D102
        def _check_fitted(self) -> None: ...
        def _reports(self, verbose: int, progress: Progress | None) -> Sequence[Progress]: ...

    def calibrate(
        self,
        X: Any,
        Y: Any = None,
        *,
        y: Any = None,
        sample_weight: Any = None,
        cell_propensity: Any = None,
        groups: Any = None,
        n_folds: int | None = None,
        seed: int = 0,
        verbose: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the probabilities of labels to out-of-fold scores of the training rows; the model itself stays.

        Each fold trains a model on the other rows, which takes two to three times as long as `fit`. Afterwards `rank`
        returns `probabilities` beside scores, and `predict_proba` is available. A probability is that of a label being
        *observed*, as in the training rows (`unmissed.calibration.true_probability` divides it by the propensity).

        Parameters
        ----------
        X, Y, y, sample_weight, cell_propensity : what the model was fitted on, as in `fit`; weights count in the
            trainings, not in the probabilities
        groups : one id per row; rows of a group are held out together. By default rows with nearly equal features
        n_folds : number of folds; by default 3, and from 200,000 rows on one held-out tenth
        seed : seed of the folds and of sampled cells
        verbose, progress : as in `fit`
        """
        self._check_fitted()
        rows = self._add_costs(self.check_rows(X, one_of(Y, y), like_fitted=True), sample_weight, cell_propensity)
        counts = getattr(self, "label_counts_", None)
        if rows.n_labels != self.n_labels_ or (counts is not None and (counts != rows.label_counts).any()):
            raise InputError("the labels of these rows are not those of training; calibrate with the training rows")
        work = Work()
        with work.reporting(*self._reports(verbose, progress)):
            return self.calibrate_rows(rows, groups=groups, n_folds=n_folds, seed=seed, work=work)

    def calibrate_rows(self, rows: TrainingData, *, work: Work, **options: Any) -> Self:
        """Calibrate with validated training rows; `options` are those of `calibrate`."""
        calibrate_model = import_module("unmissed.models.probabilities").calibrate_model
        self.calibration_ = calibrate_model(self, rows, work=work, **options)
        return self

    @available_if(lambda self: hasattr(self, "calibration_"))  # type: ignore[untyped-decorator]
    def predict_proba(
        self, X: Any, labels: npt.ArrayLike | None = None, *, k: int | None = None
    ) -> npt.NDArray[np.float32] | sp.csr_matrix:
        """Return the probability that each label is observed; available after `calibrate`.

        A probability depends on the rank of the label, so rows are also ranked: their 10 best labels of all.

        Parameters
        ----------
        X : the rows
        labels : chosen labels; the result has one column for each. None means all labels, refused if too large
        k : return a sparse matrix (n_samples, n_labels) of the k highest-scoring labels instead
        """
        if k is not None:
            if labels is not None:
                raise InputError("predict_proba takes labels or k, not both")
            as_matrix = import_module("unmissed.models.probabilities").as_probability_matrix
            return as_matrix(self.rank(X, k), self.n_labels_)
        if not hasattr(self, "decision_function"):
            raise InputError(f"{type(self).__name__} scores ranked labels only; use predict_proba(X, k=50)")
        scores = self.decision_function(X, labels)
        chosen = self._chosen(labels, len(scores))
        ranks = self._ranks_of(chosen, self.rank(X, LAST_RANK))
        probabilities = self.calibration_.probability(np.broadcast_to(chosen, scores.shape), scores, ranks)
        if self.untrained_ is not None:
            probabilities[:, self.untrained_[chosen]] = 0
        return probabilities

    def _ranks_of(self, labels: npt.NDArray[np.int64], ranking: Ranking) -> npt.NDArray[np.int32]:
        """Return the position of each label (n_samples, n) in a ranking; its width for labels that it does not list."""
        ranks = np.full((ranking.n_samples, len(labels)), ranking.k, np.int32)
        columns = np.full(self.n_labels_ + 1, -1)
        columns[labels] = np.arange(len(labels))
        found = columns[ranking.labels]  # -1, padding, selects the last entry
        rows, positions = np.nonzero(found >= 0)
        ranks[rows, found[rows, positions]] = positions
        return ranks

    def _depth(self, k: int, rank_by: RankBy) -> int:
        """Return the number of highest-scoring labels that are needed for k labels."""
        if rank_by not in ("score", "probability"):
            raise InputError(f"rank_by must be 'score' or 'probability'; got {rank_by!r}")
        if rank_by == "score":
            return k
        if not hasattr(self, "calibration_"):
            raise InputError(f"this {type(self).__name__} has no probabilities; call calibrate(X, Y) first")
        return max(k, CANDIDATES)

    def _finish(self, ranking: Ranking, k: int, rank_by: RankBy) -> Ranking:
        """Return a ranking with probabilities if the model is calibrated, and ordered by them if required."""
        if not hasattr(self, "calibration_"):
            return ranking
        p = self.calibration_.probability(ranking.labels, ranking.scores, np.arange(ranking.k))
        ranking = replace(ranking, probabilities=p)
        return ranking.by_probability().top(k) if rank_by == "probability" else ranking
