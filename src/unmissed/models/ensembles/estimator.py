"""Ensemble: a weighted mean of the calibrated scores of several models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Self

import numpy as np
import scipy.sparse as sp

from unmissed.calibration import Calibration
from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, PrefixedPieces, Unfinished, Work
from unmissed.features import Features
from unmissed.models.base import Model
from unmissed.models.dense_support import DenseSupport
from unmissed.models.ensembles.calibration import Floats
from unmissed.models.ensembles.fusion import Fusion
from unmissed.models.ensembles.member_weights import KEY, Weighing, WeightsTask, member_rows
from unmissed.models.method_registry import as_models, method_of
from unmissed.models.parameters import Group, Help, Jobs, ModelList, PropensityModel
from unmissed.models.ranges import IntegerRange
from unmissed.models.selection import Goal
from unmissed.models.training_data import TrainingData
from unmissed.models.untrained import Counts
from unmissed.progress import describe
from unmissed.ranking import Ranking

_CELLS = 2**22  # listed labels of a batch of rows, over all members
Members = Annotated[
    Sequence[Any],
    Help("models, or names of methods with their default parameters; on the command line names with commas"),
    ModelList(),
]
Metrics = Annotated[str, Help("metrics with cut-offs, separated by commas, whose mean the weights maximize")]
Depth = Annotated[
    int,
    IntegerRange(1, 10_000),
    Help("labels per row that each member contributes; a ranking lists no other labels"),
    Group.PREDICT,
]


class Ensemble(Model):
    """Score a label by the weighted mean of its probabilities by several models, its members.

    A calibration per member turns scores into probabilities (`unmissed.calibration`). Calibrations and weights are
    chosen on held-out rows, by members that have not seen these rows (Caruana et al., 2004). The best member gets all
    the weight unless a combination is likely better there. Members that differ, such as a linear one and trees, gain
    most.
    """

    unit = "members"
    dense_support = DenseSupport.NATIVE  # each member checks what it takes
    members_: list[Model]
    weights_: Floats
    calibrations_: list[Calibration]
    choice_: dict[str, Any]
    _fitted: tuple[Model, ...]

    def __init__(
        self,
        *,
        members: Members = ("pw-dismec", "fastxml"),
        metric: Metrics = "P@1,P@5,PSP@5",
        propensity: PropensityModel = None,
        depth: Depth = 50,
        n_jobs: Jobs = None,
    ) -> None:
        self.members = members
        self.metric = metric
        self.propensity = propensity
        self.depth = depth
        self.n_jobs = n_jobs

    @property
    def uses_label_terms(self) -> bool:  # type: ignore[override]
        """Whether a member takes the names of labels as features."""
        return any(one.uses_label_terms for one in self._unfitted())

    @property
    def ranks_untrained(self) -> bool:  # type: ignore[override]
        """Whether a member ranks labels without a training positive."""
        return any(one.ranks_untrained for one in self._unfitted())

    @classmethod
    def of(cls, fitted: Sequence[Model], **params: Any) -> Self:
        """Return an unfitted ensemble of fitted models: its `fit` keeps them and chooses only their weights.

        `fit` takes the rows that they were fitted on. Copies by `clone`, and a new training of a run by `update`, train
        all members.
        """
        for one in fitted:
            one._check_fitted()
        ensemble = cls(members=list(fitted), **params)
        ensemble._fitted = tuple(fitted)
        return ensemble

    def _fit(self, rows: TrainingData, work: Work) -> None:
        members = self._unfitted()
        self._check_members(members, rows)
        goal = Goal(self.metric)
        work.plan(len(members))
        # every partition chooses for itself, with the same result, rather than wait for another
        own_work = work if work.partition.seconds == 0 else Work(work.pieces, work.executor)
        shared = Weighing(rows, members, goal, self.propensity, self.depth, _MemberProgress(work, "weights"))
        own_work.run([WeightsTask()], shared)
        unfinished = []
        for number, member in enumerate(members):
            name = f"{type(member).__name__} ({number + 1} of {len(members)})"
            below = work.below(_prefix(number), _MemberProgress(work, name))
            try:
                self._fit_member(number, member, rows, below)
            except Unfinished as error:
                unfinished.append((number, error))
            else:
                work.tell(1)
        if unfinished:
            raise _joined(unfinished)

    def _fit_member(self, number: int, member: Model, rows: TrainingData, work: Work) -> None:
        """Train a member, or copy the pieces of a fitted one."""
        fitted = getattr(self, "_fitted", None)
        if fitted is None:
            describe(work.progress, "training")
            member._fit(member_rows(member, rows), member._ready(work))
            return
        pieces = fitted[number].pieces_
        for key in pieces.listed():
            piece = pieces.get(key)
            assert piece is not None  # it was listed
            work.pieces.put(piece)

    def _check_members(self, members: Sequence[Model], rows: TrainingData) -> None:
        """Raise unless there are two members with fixed seeds, and fitted ones were fitted on these rows."""
        if len(members) < 2:
            raise InputError(f"an ensemble has at least 2 members; got {len(members)}")
        for number, one in enumerate(members):
            one.dense_support.check(f"member {number}, {type(one).__name__},", rows.X)
            if not isinstance(getattr(one, "random_state", 0), int | np.integer):
                raise InputError(f"member {number} has random_state {one.random_state!r}; expected an integer")
        for number, one in enumerate(getattr(self, "_fitted", ())):
            where = f"member {number}, {type(one).__name__},"
            if one.n_dense_in_ != rows.X.n_dense:
                raise InputError(f"{where} was fitted on {one.n_dense_in_} dense features; X has {rows.X.n_dense}")
            if one.n_features_in_ != rows.n_features:
                raise InputError(f"{where} was fitted on {one.n_features_in_} features; X has {rows.n_features}")
            if one.n_labels_ != rows.n_labels:
                raise InputError(f"{where} was fitted on {one.n_labels_} labels; Y has {rows.n_labels}")
            if (
                rows.label_names is not None
                and one.classes_.dtype == object
                and list(one.classes_) != list(rows.label_names)
            ):
                raise InputError(f"{where} was fitted on labels with other names, or in another order")
            if hasattr(one, "label_counts_") and not np.array_equal(one.label_counts_, rows.label_counts):
                raise InputError(f"{where} was fitted on other rows: its labels have other numbers of positives")

    def _open(self, pieces: Pieces) -> None:
        members = self._unfitted()
        piece = pieces.get(KEY)
        if piece is None:
            raise InputError(f"the piece {KEY} is missing; the run is damaged")
        self.weights_, self.calibrations_ = _read_weights(piece, len(members), self.n_labels_)
        self.choice_ = _read_choice(piece, len(members))
        counts = Counts(self.label_counts_, self.n_samples_) if hasattr(self, "label_counts_") else None
        sizes = self.n_features_in_, self.n_labels_
        self.members_ = [
            member._open_pieces(PrefixedPieces(pieces, _prefix(number)), *sizes, counts, self.n_dense_in_)
            for number, member in enumerate(members)
        ]

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        return self._rank_features(Features(X), k)

    def _rank_features(self, rows: Features, k: int) -> Ranking:
        used = np.flatnonzero(self.weights_)
        if len(used) == 1:
            only: Model = self.members_[used[0]]
            return only.rank(rows, k)
        depth = min(self.depth, self.n_labels_)
        size = max(_CELLS // (depth * len(used) ** 2), 1)
        parts = []
        for begin in range(0, rows.shape[0], size):
            batch = rows[begin : begin + size]
            rankings = [self.members_[number].rank(batch, depth) for number in used]
            fused = Fusion.of(rankings, [self.calibrations_[number] for number in used])
            parts.append(fused.rank(self.weights_[used], k))
        return Ranking.join(parts, k)

    def _prepare(self) -> None:
        for number in np.flatnonzero(self.weights_):
            self.members_[number].prepare()

    def _warn_of_missed(self, first: int) -> None:
        for member in self.members_:
            member._warn_of_missed(first)

    def metadata(self) -> dict[str, Any]:
        """Return the weights of the members, and the gain over the best one on held-out rows."""
        self._check_fitted()
        named = [f"{number}, {method_of(member)}" for number, member in enumerate(self.members_)]
        weights = {
            f"weight of member {name}": round(float(weight), 3)
            for name, weight in zip(named, self.weights_, strict=True)
        }
        if not self.choice_["rows_held_out"]:
            return {**weights, "held-out rows": 0}
        gains = {
            f"held-out {metric}, points over the best member": "{:+.2f} [{:+.2f}, {:+.2f}]".format(
                *(100 * one for one in gain)
            )
            for metric, gain in self.choice_["gains"].items()
        }
        best = named[self.choice_["best_member"]]
        return {**weights, "held-out rows": self.choice_["rows_held_out"], "best member": best, **gains}

    def _unfitted(self) -> tuple[Model, ...]:
        """Return unfitted copies of the members; `n_jobs` of the ensemble counts for all of them."""
        return tuple(one.with_jobs(self.n_jobs) for one in as_models("members", self.members))


class _MemberProgress:
    """Passes on what a member does; the ensemble itself counts members."""

    def __init__(self, work: Work, name: str) -> None:
        self._work, self._name = work, name

    def __call__(self, done: int, total: int | None) -> None:
        """Describe the progress of a member."""
        if total:
            self.describe(f"{done:,} of {total:,}")
        self._work.tell(0)

    def describe(self, text: str) -> None:
        """Show what a member does."""
        describe(self._work.progress, f"{self._name}: {text}")


def _prefix(number: int) -> str:
    """Return the prefix of the keys of a member's pieces."""
    return f"members/{number}"


def _joined(unfinished: Sequence[tuple[int, Unfinished]]) -> Unfinished:
    """Return the error of all members whose pieces are missing."""
    missing = [f"{_prefix(number)}/{key}" for number, error in unfinished for key in error.missing]
    return Unfinished(
        sum(error.finished for _, error in unfinished), missing, sum(error.own for _, error in unfinished)
    )


def _read_weights(piece: Piece, n_members: int, n_labels: int) -> tuple[Floats, list[Calibration]]:
    """Return the weights and calibrations of a piece; raise unless there is one of each per member."""
    weights = piece.arrays.get("weights", np.empty(0))
    if weights.dtype != np.float64 or weights.shape != (n_members,) or not np.isfinite(weights).all():
        raise piece.damaged(f"it does not hold weights of {n_members} members")
    if weights.min() < 0 or not weights.sum() > 0:
        raise piece.damaged("its weights are not positive")
    return weights, [Calibration.from_piece(_of_member(piece, number), n_labels) for number in range(n_members)]


def _of_member(piece: Piece, number: int) -> Piece:
    """Return the part of a piece that holds the calibration of a member."""
    ending = f"_{number}"
    arrays = {name.removesuffix(ending): array for name, array in piece.arrays.items() if name.endswith(ending)}
    return replace(piece, arrays=arrays)


def _read_choice(piece: Piece, n_members: int) -> dict[str, Any]:
    """Return the metadata of a choice of weights; raise if it is invalid."""
    found = dict(piece.metadata)
    n_held = int(piece.numbers("rows_held_out")["rows_held_out"])
    if not n_held:
        return {"rows_held_out": 0}
    best, gains = found.get("best_member"), found.get("gains")
    is_sound = isinstance(gains, dict) and all(map(_are_numbers, gains.values()))
    if not is_sound or not isinstance(best, int) or not 0 <= best < n_members:
        raise piece.damaged("it does not say what the weights gain")
    return {"rows_held_out": n_held, "best_member": best, "gains": gains}


def _are_numbers(value: Any) -> bool:
    """Return whether a value is a difference with the bounds of its interval."""
    return isinstance(value, list) and len(value) == 3 and all(isinstance(one, int | float) for one in value)
