"""The common estimator of FastXML, PfastXML and PfastreXML: an ensemble of instance trees, averaged over leaves."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Task, Threads, Work
from unmissed.execution.work_stealing import WorkStealingPool
from unmissed.models.base import Model
from unmissed.models.instance_trees.growth import InstanceTree, TreeGrower
from unmissed.models.instance_trees.voting import average_votes, select_best, traverse
from unmissed.models.parameters import Cost, Help, Tolerance
from unmissed.models.ranges import IntegerRange
from unmissed.models.training_data import TrainingData
from unmissed.numerics.csr import csr_arrays
from unmissed.ranking import Ranking
from unmissed.settings import SETTINGS

_LAYOUT = {
    "children": (np.int32, 2),
    "starts": (np.int64, 1),
    "features": (np.int32, 1),
    "weights": (np.float32, 1),
    "constants": (np.float32, 1),
    "leaf_starts": (np.int64, 1),
    "labels": (np.int32, 1),
    "means": (np.float32, 1),
    "leaf_rows": (np.int32, 1),
}
_ROWS = 512  # Maximum number of rows per thread and batch.

Array = npt.NDArray[Any]
Arrays = tuple[Array, ...]

Trees = Annotated[int, IntegerRange(1), Help("number of trees; each tree is one task and one file")]
LeafRows = Annotated[int, IntegerRange(1), Help("a node of at most this many rows is a leaf")]
LeafLabels = Annotated[int, IntegerRange(1), Help("maximum number of labels that a leaf keeps")]
SeparatorCost = Annotated[Cost, Help("weight of the loss of a separator, relative to its l1 penalty")]
SeparatorTolerance = Annotated[
    Tolerance,
    Help("a separator has converged when its optimality conditions are violated by at most tol times the initial sum"),
]
MaxSteps = Annotated[int, IntegerRange(1), Help("maximum number of Newton steps of a separator")]


def tree_key(number: int) -> str:
    """Return the key of the piece of a tree."""
    return f"tree/{number:03d}"


@dataclass(frozen=True)
class TreeTask:
    """Grow one tree."""

    number: int
    random_state: int
    size: int = 1

    @property
    def key(self) -> str:
        """The key of the tree."""
        return tree_key(self.number)

    def run(self, shared: TreeGrower) -> Piece:
        """Return the tree. It depends only on the training data, the seed and the number of the tree."""
        seed = np.random.SeedSequence([self.random_state, self.number]).generate_state(1, np.uint64)[0]
        return Piece(self.key, shared.grow_tree(max(int(seed), 1)).arrays)


@dataclass(frozen=True)
class ForestState:
    """Factory of the state that tree tasks share: a `TreeGrower`."""

    data: TrainingData
    gains: npt.NDArray[np.float32]
    max_leaf: int
    leaf_labels: int
    C: float
    max_steps: int
    tol: float
    n_cores: int

    def __call__(self) -> TreeGrower:
        """Return the shared state; called once per process."""
        return TreeGrower(
            self.data.features.csr,
            self.data.Y,
            self.gains,
            max_leaf=self.max_leaf,
            leaf_labels=self.leaf_labels,
            C=self.C,
            max_steps=self.max_steps,
            tol=self.tol,
            pool=WorkStealingPool(self.n_cores),
        )


class InstanceForest(Model):
    """Ensemble of instance trees. The score of a label is its mean over the leaves that a row reaches.

    A subclass defines the gains of labels, and may change the scores of the candidates that the trees propose.
    """

    unit: ClassVar[str] = "trees"

    n_trees: int
    max_leaf: int
    leaf_labels: int
    C: float
    tol: float
    max_steps: int
    n_jobs: int | None
    trees_: list[InstanceTree]
    traversal_arrays_: list[Arrays]
    max_votes_: int

    @abstractmethod
    def _gains(self, data: TrainingData) -> npt.NDArray[np.float64]:
        """Return the gain of each label, used in rankings, nDCG and leaves."""

    def _fit(self, data: TrainingData, work: Work) -> None:
        gains = self._gains(data).astype(np.float32)
        executor = work.executor
        n_cores = executor.n_jobs if isinstance(executor, Threads) else 1
        shared = ForestState(data, gains, self.max_leaf, self.leaf_labels, self.C, self.max_steps, self.tol, n_cores)
        work.run(self._tasks(), shared)

    def _tasks(self) -> list[Task]:
        return [TreeTask(number, self._seed) for number in range(self.n_trees)]

    def _open(self, pieces: Pieces) -> None:
        self.trees_ = [self._open_tree(pieces.get(tree_key(number)), number) for number in range(self.n_trees)]
        self.traversal_arrays_ = [tree.traversal_arrays for tree in self.trees_]
        self.max_votes_ = sum(int(np.diff(tree.leaf_starts).max()) for tree in self.trees_)

    def _open_tree(self, piece: Piece | None, number: int) -> InstanceTree:
        if piece is None:
            raise InputError(f"the piece {tree_key(number)} is missing; the run is damaged, train it again")
        tree = InstanceTree(**piece.expect(_LAYOUT))
        damage = tree.find_damage(self.n_features_in_, self.n_labels_)
        if damage:
            raise piece.damaged(damage)
        return tree

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        labels = np.full((X.shape[0], k), -1, np.int32)
        scores = np.full((X.shape[0], k), -np.inf, np.float32)
        size = min(max(SETTINGS.vote_cells // max(self.max_votes_, 1), 1), _ROWS)
        parts = [slice(begin, min(begin + size, X.shape[0])) for begin in range(0, X.shape[0], size)]
        indptr, indices, data = csr_arrays(X)

        def rank_part(part: slice) -> None:
            rows = (indptr[part.start : part.stop + 1], indices, data)
            votes = self._votes(rows)
            self._rescore(rows, *votes)
            select_best(*votes, labels[part], scores[part])

        for _ in Threads(self.n_jobs if len(parts) > 1 else 1).each(rank_part, parts):
            pass
        return Ranking(labels, scores)

    def _votes(self, rows: Arrays) -> Arrays:
        """Return the number of candidates of each row, the candidates, and their mean scores over the trees."""
        n_rows = len(rows[0]) - 1
        counts = np.zeros(n_rows, np.int64)
        labels, means = (np.empty((n_rows, self.max_votes_), dtype) for dtype in (np.int32, np.float32))
        dense = np.zeros(self.n_features_in_, np.float32)
        for tree in self.traversal_arrays_:
            traverse(*rows, *tree, dense, counts, labels, means)
        average_votes(
            len(self.trees_), self._max_candidates, np.zeros(self.n_labels_, np.float32), counts, labels, means
        )
        return counts, labels, means

    @property
    def _max_candidates(self) -> int:
        """Maximum number of candidates per row."""
        return self.n_labels_

    def _rescore(self, rows: Arrays, counts: Array, labels: Array, scores: Array) -> None:
        """Change the scores of the candidates in place; by default they stay as they are."""

    def metadata(self) -> dict[str, Any]:
        """Return the depth and the balance of the trees, and the sizes of leaves and separators."""
        self._check_fitted()
        rows = np.concatenate([tree.leaf_rows for tree in self.trees_])
        depths = np.concatenate([tree.depths()[1] for tree in self.trees_])
        sides = np.concatenate([tree.rows_below() for tree in self.trees_])
        n_nodes, n_weights = len(sides), sum(len(tree.weights) for tree in self.trees_)
        n_labels = sum(len(tree.labels) for tree in self.trees_)
        return {
            "trees": len(self.trees_),
            "leaves per tree": round(len(rows) / len(self.trees_), 1),
            "depth of a row's leaf, mean": round(float((rows * depths).sum() / rows.sum()), 1),
            "depth, largest": int(depths.max()),
            "rows of a leaf, median": float(np.median(rows)),
            "rows of a leaf, largest": int(rows.max()),
            "labels of a leaf, mean": round(n_labels / len(rows), 1),
            "rows on the smaller side of a node, %": round(100 * float(sides.min(1).sum() / max(sides.sum(), 1)), 1),
            "weights of a node, mean": round(n_weights / max(n_nodes, 1), 1),
        }
