"""Row trees: what FastXML and its relatives share, a forest of trees over rows whose leaves vote for labels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Task, Threads, Work
from unmissed.kernels.row_forest import pick, vote, walk
from unmissed.models.base import Model
from unmissed.models.rows import Rows
from unmissed.ranking import Ranking
from unmissed.solvers.crew import Crew
from unmissed.solvers.row_tree import Growth, Tree, csr_arrays

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
_CELLS = 2**21  # votes that one thread collects at a time: rows times labels of their leaves
_ROWS = 512

Array = npt.NDArray[Any]
Arrays = tuple[Array, ...]


def tree_key(number: int) -> str:
    """Return the key of a tree's piece."""
    return f"tree/{number:03d}"


@dataclass(frozen=True)
class TreeTask:
    """Grow the tree of a number."""

    number: int
    random_state: int
    size: int = 1

    @property
    def key(self) -> str:
        """The key of the tree."""
        return tree_key(self.number)

    def run(self, shared: Growth) -> Piece:
        """Grow it; nothing but the rows, the seed and the number decides how."""
        seed = np.random.SeedSequence([self.random_state, self.number]).generate_state(1, np.uint64)[0]
        return Piece(self.key, shared.tree(max(int(seed), 1)).arrays)


@dataclass(frozen=True)
class Ground:
    """Makes what trees share: the rows laid out for growing."""

    rows: Rows
    gains: npt.NDArray[np.float32]
    max_leaf: int
    leaf_labels: int
    C: float
    max_steps: int
    tol: float
    n_cores: int

    def __call__(self) -> Growth:
        """Lay out the rows; done once where tasks run."""
        return Growth(
            self.rows.features,
            self.rows.Y,
            self.gains,
            max_leaf=self.max_leaf,
            leaf_labels=self.leaf_labels,
            C=self.C,
            max_steps=self.max_steps,
            tol=self.tol,
            crew=Crew(self.n_cores),
        )


class RowForest(Model):
    """Grows trees over rows, one piece each; the score of a label is its mean over the leaves that a row ends in.

    A subclass says what labels gain, and may change the scores of the labels that the trees propose.

    Parameters
    ----------
    n_trees : trees, each a piece: the unit of work and of file
    max_leaf : a node of at most so many rows is a leaf
    leaf_labels : labels that a leaf keeps, the best
    C : the weight of a separator's loss against its penalty
    tol : a separator is done when its conditions of optimality are violated by this share of what they were at first
    max_steps : Newton steps that a separator takes at most
    unit_rows : scale each row to length 1 first, in training and in prediction
    n_jobs : threads; all cores by default
    random_state : seed of the sides that rows start from
    """

    unit: ClassVar[str] = "trees"

    n_trees: int
    max_leaf: int
    leaf_labels: int
    C: float
    tol: float
    max_steps: int
    n_jobs: int | None
    random_state: int
    trees_: list[Tree]
    walks_: list[Arrays]
    widest_: int

    @abstractmethod
    def _gains(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Return what each label counts for in orders, nDCG and leaves."""

    def _fit(self, rows: Rows, work: Work) -> None:
        gains = self._gains(rows).astype(np.float32)
        executor = work.executor
        n_cores = executor.n_jobs if isinstance(executor, Threads) else 1
        ground = Ground(rows, gains, self.max_leaf, self.leaf_labels, self.C, self.max_steps, self.tol, n_cores)
        work.run(self._tasks(), ground)

    def _tasks(self) -> list[Task]:
        return [TreeTask(number, int(self.random_state)) for number in range(self.n_trees)]

    def _open(self, pieces: Pieces) -> None:
        self.trees_ = [self._open_tree(pieces.get(tree_key(number)), number) for number in range(self.n_trees)]
        self.walks_ = [tree.walked for tree in self.trees_]
        self.widest_ = sum(int(np.diff(tree.leaf_starts).max()) for tree in self.trees_)

    def _open_tree(self, piece: Piece | None, number: int) -> Tree:
        if piece is None:
            raise InputError(f"the piece {tree_key(number)} is missing; the run is damaged")
        tree = Tree(**piece.expect(_LAYOUT))
        wrong = tree.wrong(self.n_features_in_, self.n_labels_)
        if wrong:
            raise piece.damaged(wrong)
        return tree

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        labels = np.full((X.shape[0], k), -1, np.int32)
        scores = np.full((X.shape[0], k), -np.inf, np.float32)
        size = min(max(_CELLS // max(self.widest_, 1), 1), _ROWS)
        parts = [slice(begin, min(begin + size, X.shape[0])) for begin in range(0, X.shape[0], size)]
        indptr, indices, data = csr_arrays(X)

        def one(part: slice) -> None:
            rows = (indptr[part.start : part.stop + 1], indices, data)
            votes = self._votes(rows)
            self._settle(rows, *votes)
            pick(*votes, labels[part], scores[part])

        for _ in Threads(self.n_jobs if len(parts) > 1 else 1).each(one, parts):
            pass
        return Ranking(labels, scores)

    def _votes(self, rows: Arrays) -> Arrays:
        """Return how many labels the trees propose for each row, those labels, and their mean over the trees."""
        n_rows = len(rows[0]) - 1
        counts = np.zeros(n_rows, np.int64)
        labels, means = (np.empty((n_rows, self.widest_), dtype) for dtype in (np.int32, np.float32))
        dense = np.zeros(self.n_features_in_, np.float32)
        for tree in self.walks_:
            walk(*rows, *tree, dense, counts, labels, means)
        vote(len(self.trees_), self._most_candidates, np.zeros(self.n_labels_, np.float32), counts, labels, means)
        return counts, labels, means

    @property
    def _most_candidates(self) -> int:
        """How many of the labels that the trees propose for a row are kept."""
        return self.n_labels_

    def _settle(self, rows: Arrays, counts: Array, labels: Array, scores: Array) -> None:
        """Change the scores of what the trees propose, in place; the trees have the last word by default."""

    def facts(self) -> dict[str, Any]:
        """Return how deep and how balanced the trees are, and the sizes of leaves and separators."""
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
