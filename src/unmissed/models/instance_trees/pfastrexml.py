"""PfastreXML: PfastXML whose candidate labels are re-ranked by tail classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Task
from unmissed.matrices import rises
from unmissed.models.instance_trees.forest import (
    Array,
    Arrays,
    LeafLabels,
    LeafRows,
    MaxSteps,
    SeparatorCost,
    SeparatorTolerance,
    Trees,
)
from unmissed.models.instance_trees.growth import TreeGrower
from unmissed.models.instance_trees.pfastxml import PfastXML
from unmissed.models.instance_trees.voting import rerank_by_centroids
from unmissed.models.parameters import Group, Help, Jobs, Normalize, PropensityModel, RandomSeed
from unmissed.models.ranges import IntegerRange, NumberRange
from unmissed.numerics.csr import read_only

_KEY = "tail"
_LAYOUT = {
    "starts": (np.int64, 1),
    "labels": (np.int32, 1),
    "means": (np.float32, 1),
    "squares": (np.float32, 1),
}

Gamma = Annotated[
    float,
    NumberRange(0, above=True),
    Help("decay rate of a tail classifier with the squared distance between a row and the centroid of a label"),
    Group.PREDICT,
]
Alpha = Annotated[float, NumberRange(0, 1), Help("weight of the trees against the tail classifiers"), Group.PREDICT]
Candidates = Annotated[
    int, IntegerRange(1), Help("maximum number of labels per row that the trees propose"), Group.PREDICT
]


@dataclass(frozen=True)
class TailTask:
    """Train the tail classifiers: the centroid (mean row) of each label, stored by feature."""

    key: str = _KEY
    size: int = 0

    def run(self, shared: TreeGrower) -> Piece:
        """Return the centroids and their squared norms."""
        X, Y = shared.X, shared.Y
        totals = sp.csr_matrix(Y.T @ X)
        counts = np.maximum(np.bincount(Y.indices, minlength=Y.shape[1]), 1)
        means = (totals.data / np.repeat(counts, np.diff(totals.indptr))).astype(np.float32)
        labels = np.repeat(np.arange(Y.shape[1]), np.diff(totals.indptr))
        squares = np.bincount(labels, weights=means.astype(np.float64) ** 2, minlength=Y.shape[1])
        by_feature = sp.csr_matrix((means, totals.indices, totals.indptr), shape=totals.shape).tocsc()
        by_feature.sort_indices()
        arrays = {
            "starts": by_feature.indptr.astype(np.int64),
            "labels": by_feature.indices.astype(np.int32),
            "means": by_feature.data,
            "squares": squares.astype(np.float32),
        }
        return Piece(self.key, arrays)


class PfastreXML(PfastXML):
    """PfastXML re-ranked by tail classifiers: score = P_trees^alpha P_tail^(1 - alpha) (Jain et al., 2016).

    P_tail = 1 / (1 + exp(gamma/2 |x - m_l|^2)), where m_l is the centroid of the rows of label l. Only the candidates
    of the trees are scored.
    """

    tail_: Arrays

    def __init__(
        self,
        *,
        propensity: PropensityModel = None,
        gamma: Gamma = 30.0,
        alpha: Alpha = 0.8,
        candidates: Candidates = 1000,
        n_trees: Trees = 50,
        max_leaf: LeafRows = 10,
        leaf_labels: LeafLabels = 10,
        C: SeparatorCost = 2.0,
        tol: SeparatorTolerance = 0.01,
        max_steps: MaxSteps = 10,
        normalize: Normalize = True,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        super().__init__(
            propensity=propensity,
            n_trees=n_trees,
            max_leaf=max_leaf,
            leaf_labels=leaf_labels,
            C=C,
            tol=tol,
            max_steps=max_steps,
            normalize=normalize,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.gamma = gamma
        self.alpha = alpha
        self.candidates = candidates

    def _tasks(self) -> list[Task]:
        return [*super()._tasks(), TailTask()]

    def _open(self, pieces: Pieces) -> None:
        super()._open(pieces)
        piece = pieces.get(_KEY)
        if piece is None:
            raise InputError(f"the piece {_KEY} is missing; the run is damaged, train it again")
        arrays = piece.expect(_LAYOUT)
        starts, labels = arrays["starts"], arrays["labels"]
        if len(starts) != self.n_features_in_ + 1 or starts[0] != 0 or not rises(starts):
            raise piece.damaged("starts is not a valid index pointer")
        if not starts[-1] == len(labels) == len(arrays["means"]) or len(arrays["squares"]) != self.n_labels_:
            raise piece.damaged("its arrays have inconsistent lengths")
        if labels.size and (labels.min() < 0 or labels.max() >= self.n_labels_):
            raise piece.damaged(f"it has a label outside 0 to {self.n_labels_ - 1}")
        self.tail_ = tuple(
            read_only(array) for array in (starts, labels.view(np.uint32), arrays["means"], arrays["squares"])
        )

    @property
    def _max_candidates(self) -> int:
        return self.candidates

    def _rescore(self, rows: Arrays, counts: Array, labels: Array, scores: Array) -> None:
        dots = np.zeros(self.n_labels_, np.float32)
        rerank_by_centroids(*rows, *self.tail_, float(self.gamma) / 2, float(self.alpha), dots, counts, labels, scores)

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of the trees and the size of the tail classifiers."""
        return {
            **super().metadata(),
            "weights of a tail classifier, mean": round(self.tail_[1].size / self.n_labels_, 1),
        }
