"""Weights of the members of an ensemble, chosen on held-out rows by greedy ensemble selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone

from unmissed.calibration import Calibration
from unmissed.execution import Piece
from unmissed.metrics import Difference, Evaluation, compare
from unmissed.models.base import Model
from unmissed.models.ensembles.calibration import Floats, calibrate, standardize
from unmissed.models.ensembles.fusion import Fusion
from unmissed.models.parameters import DENSE_WEIGHT
from unmissed.models.selection import Goal, HeldOut, Sampling
from unmissed.models.training_data import TrainingData
from unmissed.progress import Progress, describe, silent
from unmissed.propensity import PropensityLike
from unmissed.ranking import Ranking

KEY = "weights"
_LEAST_ROWS = 100  # below, nothing is held out
_LEAST_HELD = 1000  # held-out rows; more folds are held out in turn until there are as many
_STEPS = 20  # of the greedy selection at most


@dataclass(frozen=True)
class Weighing:
    """Shared state of `WeightsTask`: training rows, unfitted members and what is maximized."""

    rows: TrainingData
    members: tuple[Model, ...]
    goal: Goal
    propensity: PropensityLike | None
    depth: int
    progress: Progress = silent

    def __call__(self) -> Weighing:
        """Return itself."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        kept = self.rows, self.members, self.goal, self.propensity, self.depth
        return Weighing, kept  # the progress callback stays in this process


@dataclass(frozen=True)
class WeightsTask:
    """Train the members on part of the rows, and choose weights and calibrations on the others."""

    key: str = KEY
    size: int = 0

    def run(self, shared: Weighing) -> Piece:
        """Return weights and calibrations of the members, and the gain over the best member on held-out rows."""
        held_out = HeldOut(shared.rows, shared.goal, shared.propensity, Sampling())
        if shared.rows.n_samples < _LEAST_ROWS or not held_out.n_held(1):
            return self._equal(shared)
        n_folds = next((n for n in range(1, 5) if held_out.n_held(n) >= _LEAST_HELD), 5)
        rankings = [self._rank_held(shared, held_out, number, n_folds) for number in range(len(shared.members))]
        truth = sp.csr_matrix(sp.vstack([held_out.truth(fold) for fold in range(n_folds)]))
        counts = shared.rows.label_counts[held_out.labels]
        calibrations = [calibrate(ranking, truth, counts) for ranking in rankings]
        search = GreedySearch(_fuse_crosswise(rankings, truth, counts), rankings, held_out, truth)
        weights, best, gains = search.choose()
        metadata = {
            "rows_held_out": truth.shape[0],
            "best_member": best,
            "gains": {name: list(one)[:3] for name, one in gains.items()},
        }
        everywhere = [one.among(held_out.labels, shared.rows.label_counts) for one in calibrations]
        return self._piece(weights, everywhere, metadata)

    def _rank_held(self, shared: Weighing, held_out: HeldOut, number: int, n_folds: int) -> Ranking:
        """Return the ranking of all held-out rows by a member that has not seen them."""
        member, parts = shared.members[number], []
        depth = min(shared.depth, len(held_out.labels))
        n_fit = held_out.part(1.0).n_fit
        for fold in range(n_folds):
            name = f"{type(member).__name__} ({number + 1} of {len(shared.members)})"
            describe(shared.progress, f"{name} on {n_fit:,} rows, fold {fold + 1} of {n_folds}")
            shared.progress(0, None)
            fitted, _ = held_out.fit_fold(member, n_fit, fold)
            parts.append(held_out.rank_fold(fitted, fold, depth))
        return Ranking.join(parts, depth)

    def _equal(self, shared: Weighing) -> Piece:
        """Return equal weights and standardized scores, for so few rows that none can be held out."""
        calibrations = []
        for member in shared.members:
            fitted = clone(member).fit_rows(member_rows(member, shared.rows))
            ranking = fitted.rank(shared.rows.X, min(shared.depth, shared.rows.n_labels))
            calibrations.append(standardize(ranking, shared.rows.n_labels))
        n_members = len(shared.members)
        return self._piece(np.full(n_members, 1 / n_members), calibrations, {"rows_held_out": 0})

    def _piece(self, weights: Floats, calibrations: Sequence[Calibration], metadata: dict[str, Any]) -> Piece:
        arrays = {
            f"{name}_{number}": array
            for number, one in enumerate(calibrations)
            for name, array in one.to_piece().arrays.items()
        }
        return Piece(self.key, {"weights": weights, **arrays}, metadata)


class GreedySearch:
    """Greedy ensemble selection with replacement (Caruana et al., 2004), on held-out rows.

    Each step adds the member that raises the mean of the goal's metrics most, where a member may be added several
    times. The weight of a member is the fraction of steps that added it. The best of all steps counts.
    """

    def __init__(self, fusion: Fusion, rankings: Sequence[Ranking], held_out: HeldOut, truth: sp.csr_matrix) -> None:
        self.fusion, self.held_out, self.truth = fusion, held_out, truth
        self.members = [held_out.evaluate(one.top(held_out.goal.cuts[-1]), truth) for one in rankings]
        self._evaluated: dict[tuple[float, ...], Evaluation] = {}

    def evaluate(self, weights: Floats) -> Evaluation:
        """Return the evaluation of an ensemble with these weights."""
        key = tuple(weights)
        if key not in self._evaluated:
            ranking = self.fusion.rank(weights, self.held_out.goal.cuts[-1])
            self._evaluated[key] = self.held_out.evaluate(ranking, self.truth)
        return self._evaluated[key]

    def value(self, weights: Floats) -> float:
        """Return the mean of the goal's metrics."""
        return self._mean(self.evaluate(weights))

    def _mean(self, found: Evaluation) -> float:
        return fmean(found[name] for name in self.held_out.goal.metric)

    def choose(self) -> tuple[Floats, int, dict[str, Difference]]:
        """Return the weights, the best member, and the differences to it.

        The best member gets all the weight unless others are likely (80 %) to raise the mean without a loss.
        """
        single = np.eye(len(self.fusion.values))
        best = max(range(len(single)), key=lambda number: self._mean(self.members[number]))
        counts, weights = single[best], single[best]
        for step in range(2, _STEPS + 1):
            counts = max((counts + one for one in single), key=lambda tried: self.value(tried / step))
            weights = max((weights, counts / step), key=self.value)
        gains = self._gains(self.evaluate(weights), best)
        goal = self.held_out.goal
        if goal.falls(gains) or not goal.lead(gains).is_likely:
            weights, gains = single[best], self._gains(self.members[best], best)
        return weights, best, gains

    def _gains(self, found: Evaluation, best: int) -> dict[str, Difference]:
        differences = compare(found, self.members[best], level=self.held_out.goal.level)
        return {name: differences[name] for name in self.held_out.goal.names}


def _fuse_crosswise(rankings: Sequence[Ranking], truth: sp.csr_matrix, counts: npt.NDArray[np.int64]) -> Fusion:
    """Return the fusion of held-out rows; even rows are calibrated by odd ones and vice versa.

    A calibration fits its own rows better than others, so weights chosen with it would be too good to be true.
    """
    n_samples = truth.shape[0]
    order = np.argsort(np.append(np.arange(0, n_samples, 2), np.arange(1, n_samples, 2)))
    halves = []
    for own, other in ((0, 1), (1, 0)):
        calibrations = [calibrate(one.rows(slice(other, None, 2)), truth[other::2], counts) for one in rankings]
        halves.append(Fusion.of([one.rows(slice(own, None, 2)) for one in rankings], calibrations))
    labels, values = (np.concatenate([getattr(one, name) for one in halves], axis=-2) for name in ("labels", "values"))
    return Fusion(labels[order], values[:, order])


def member_rows(member: Model, rows: TrainingData) -> TrainingData:
    """Return training rows as a member takes them: normalized if it normalizes, with its weight of the dense part."""
    known = member.get_params(deep=False)
    return replace(
        rows, normalize=bool(known.get("normalize", False)), dense_weight=float(known.get(DENSE_WEIGHT, 1.0))
    )
