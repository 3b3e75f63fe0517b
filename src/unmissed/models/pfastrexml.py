"""PfastreXML: PfastXML whose proposals are weighed by how near a row is to the mean of a label's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Task
from unmissed.kernels.row_forest import temper
from unmissed.matrices import rises
from unmissed.models.pfastxml import PfastXML
from unmissed.models.row_tree import Array, Arrays
from unmissed.propensity import PropensityLike
from unmissed.solvers.parameters import check_count, check_positive, check_share
from unmissed.solvers.row_tree import Growth, frozen

_KEY = "tail"
_LAYOUT = {
    "starts": (np.int64, 1),
    "labels": (np.int32, 1),
    "means": (np.float32, 1),
    "squares": (np.float32, 1),
}


@dataclass(frozen=True)
class TailTask:
    """Average the rows of every label, and list the means by feature."""

    key: str = _KEY
    size: int = 0

    def run(self, shared: Growth) -> Piece:
        """Average."""
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
    """PfastXML with tail classifiers: the score of a label is P_trees^alpha P_tail^(1 - alpha) (Jain et al., 2016).

    P_tail = 1 / (1 + exp(gamma/2 |x - m_l|^2)) with m_l the mean of label l's rows. Labels that no tree proposes are
    left out.

    Parameters
    ----------
    propensity : as in PfastXML
    gamma : how fast a tail classifier falls with the distance of a row from a label's mean row
    alpha : the weight of the trees against the tail classifiers, from 0 to 1
    candidates : labels per row that the trees propose at most
    n_trees, max_leaf, leaf_labels, C, tol, max_steps, unit_rows, n_jobs, random_state : as in RowForest
    """

    tail_: Arrays

    def __init__(
        self,
        *,
        propensity: PropensityLike | None = None,
        gamma: float = 30.0,
        alpha: float = 0.8,
        candidates: int = 1000,
        n_trees: int = 50,
        max_leaf: int = 10,
        leaf_labels: int = 10,
        C: float = 1.0,
        tol: float = 0.01,
        max_steps: int = 10,
        unit_rows: bool = True,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            propensity=propensity,
            n_trees=n_trees,
            max_leaf=max_leaf,
            leaf_labels=leaf_labels,
            C=C,
            tol=tol,
            max_steps=max_steps,
            unit_rows=unit_rows,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.gamma = gamma
        self.alpha = alpha
        self.candidates = candidates

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("gamma", self.gamma)
        check_share("alpha", self.alpha)
        check_count("candidates", self.candidates)

    def _tasks(self) -> list[Task]:
        return [*super()._tasks(), TailTask()]

    def _open(self, pieces: Pieces) -> None:
        super()._open(pieces)
        piece = pieces.get(_KEY)
        if piece is None:
            raise InputError(f"the piece {_KEY} is missing; the run is damaged")
        arrays = piece.expect(_LAYOUT)
        starts, labels = arrays["starts"], arrays["labels"]
        if len(starts) != self.n_features_in_ + 1 or starts[0] != 0 or not rises(starts):
            raise piece.damaged("its lists do not begin where they should")
        if not starts[-1] == len(labels) == len(arrays["means"]) or len(arrays["squares"]) != self.n_labels_:
            raise piece.damaged("its lists are not as long as they should be")
        if labels.size and (labels.min() < 0 or labels.max() >= self.n_labels_):
            raise piece.damaged(f"it has a label not below {self.n_labels_}")
        self.tail_ = tuple(frozen(one) for one in (starts, labels.view(np.uint32), arrays["means"], arrays["squares"]))

    @property
    def _most_candidates(self) -> int:
        return self.candidates

    def _settle(self, rows: Arrays, counts: Array, labels: Array, scores: Array) -> None:
        dots = np.zeros(self.n_labels_, np.float32)
        temper(*rows, *self.tail_, float(self.gamma) / 2, float(self.alpha), dots, counts, labels, scores)

    def facts(self) -> dict[str, Any]:
        """Return what PfastXML tells, and the size of the tail classifiers."""
        return {**super().facts(), "weights of a tail classifier, mean": round(self.tail_[1].size / self.n_labels_, 1)}
