"""LabelTree: what trees over labels share: nodes trained over the rows that reach them, and a beam search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Share, Work
from unmissed.kernels.node_lanes import list_positives, list_rows
from unmissed.models.base import Certificate, Model
from unmissed.models.label_clusters import Clusters, Directions
from unmissed.models.rows import Rows
from unmissed.models.searching import search
from unmissed.models.tree_drawing import describe, draw
from unmissed.models.tree_file import Tree, clusters_piece, nodes_arrays, open_clusters, tree_piece
from unmissed.propensity import PropensityLike, as_propensity, costs
from unmissed.propensity.weighting import WeightingName
from unmissed.ranking import Ranking
from unmissed.solvers.buffers import clean_scratch, lent_zeros, scratch
from unmissed.solvers.node import MOST_COLUMNS, NodeRows, NodeSolver, NodeWeights
from unmissed.solvers.parameters import check_positive, check_whole

_TASKS = 48  # per tree, about; also the number of pieces between which a killed training loses work
_FIXED = 16  # a row of a node costs as much as this many columns more


def tree_key(tree: int) -> str:
    """Return the key of a tree's piece."""
    return f"tree/{tree:03d}"


@dataclass(frozen=True)
class ClusterTask:
    """Cluster the labels for one tree."""

    tree: int
    size: int = 0

    @property
    def key(self) -> str:
        """The key of the clusters, which are kept until the tree is whole."""
        return f"state/{self.tree:03d}-clusters"

    def run(self, shared: Clustering) -> Piece:
        """Cluster."""
        return clusters_piece(self.key, shared.model.cluster(shared.directions, shared.n_labels, self.tree))


@dataclass(frozen=True)
class Clustering:
    """What clustering needs."""

    model: LabelTree
    directions: Directions
    n_labels: int


@dataclass(frozen=True)
class LabelRows:
    """Makes what clustering needs from the rows."""

    model: LabelTree
    rows: Rows

    def __call__(self) -> Clustering:
        """Return the directions of labels; done once where tasks run."""
        return Clustering(self.model, self.model.directions(self.rows), self.rows.n_labels)


@dataclass(frozen=True)
class NodesTask:
    """Train the nodes `begin` to `end` of a tree."""

    tree: int
    begin: int
    end: int
    size: int

    @property
    def key(self) -> str:
        """The key of the nodes, which are kept until the tree is whole."""
        return f"state/{self.tree:03d}-nodes-{self.begin:08d}"

    def run(self, shared: NodeTrainer) -> Piece:
        """Train node after node."""
        clusters = shared.clusters[self.tree]
        trained = [shared.train(clusters, self.tree, node) for node in range(self.begin, self.end)]
        n_rows = [rows for _, rows in trained]
        return Piece(self.key, nodes_arrays([one for one, _ in trained], n_rows, shared.n_features))


@dataclass(frozen=True)
class NodeProblem:
    """Makes what nodes share: the rows, labels by row and by column, and what positives cost."""

    solver: NodeSolver
    rows: Rows
    clusters: dict[int, Clusters]
    positive: npt.NDArray[np.float64]
    negative: float

    def __call__(self) -> NodeTrainer:
        """Turn the labels; done once where tasks run."""
        by_label = self.rows.Y.tocsc()
        arrays = (
            by_label.indptr.astype(np.int64),
            by_label.indices.astype(np.int32, copy=False),
            self.rows.Y.indptr.astype(np.int64),
            self.rows.Y.indices.astype(np.int32),
        )
        return NodeTrainer(self.solver, self.rows.features, self.clusters, self.positive, self.negative, *arrays)


@dataclass(frozen=True)
class NodeTrainer:
    """Rows and labels, from which any node can be trained."""

    solver: NodeSolver
    X: sp.csr_matrix
    clusters: dict[int, Clusters]
    positive: npt.NDArray[np.float64]
    negative: float
    label_starts: npt.NDArray[np.int64]
    label_rows: npt.NDArray[np.int32]
    row_starts: npt.NDArray[np.int64]
    row_labels: npt.NDArray[np.int32]

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.X.shape[1])

    def train(self, clusters: Clusters, tree: int, node: int) -> tuple[NodeWeights, int]:
        """Train one node; return its weights and the number of rows that reach it."""
        labels = clusters.below(node)
        n_columns = int(clusters.n_columns[node])
        reached = scratch("rows of a node", (self.X.shape[0],), np.int64)
        seen = clean_scratch("rows seen", self.X.shape[0], np.uint8)
        rows = np.sort(reached[: list_rows(labels, self.label_starts, self.label_rows, seen, reached)])
        seed = node + 1_000_003 * tree
        design, laid = self.solver.lay_out(self.X, rows, seed)
        starts = np.empty(len(laid) + 1, np.int64)
        most = int((self.row_starts[laid + 1] - self.row_starts[laid]).sum())
        of_row, cost = np.empty(most, np.int32), np.empty(most)
        with lent_zeros("columns of labels", len(self.positive), np.int16) as columns:
            columns[labels] = clusters.columns(node) + 1
            n = list_positives(
                laid, self.row_starts, self.row_labels, columns, self.positive, n_columns, starts, of_row, cost
            )
            columns[labels] = 0
        problem = NodeRows(design, starts, of_row[:n], cost[:n], self.negative, n_columns)
        return self.solver.solve(problem, seed), len(laid)


class LabelTree(Model):
    """Trees whose leaves hold labels; a subclass says how labels are clustered.

    Every node has a squared-hinge SVM per child, or per label where it is a leaf, trained on the rows that have a label
    below the node. A child or label with the score s has the probability exp(-max(0, 1 - s)^2) given its node;
    probabilities multiply along a path, and a label's score is the mean over the trees of what a beam search finds.
    Weights are rounded to 16 bits per classifier.

    Parameters
    ----------
    n_trees : trees, each from another random start
    max_leaf : labels of a leaf at most, up to 112
    beam : nodes of a tree that are followed per level
    weighting : what a propensity p makes a positive cost: none (1), surrogate (2/p - 1), tail (1/p - 1), floored-tail
        or balanced; above the leaves a row costs as much as the dearest of its labels below the child
    propensity : how p comes from label counts: jain (the default), jain:A,B, constant:P or table:FILE; in Python also a
        model such as Jain(), one p for all labels, or an array with one per label
    C : the weight of the loss against the penalty
    tol : the relative duality gap at which the classifiers of a node are solved
    prune : weights smaller than this become 0 after training
    max_sweeps : how often a node may sweep over its rows before it is given up and named in a warning
    unit_rows : scale each row to length 1 first, in training and in prediction
    n_jobs : threads; all cores by default; no effect on the result
    random_state : seed of the clusters and of the order in which rows are visited
    """

    unit: ClassVar[str] = "classifiers"
    trees_: list[Tree]

    def __init__(
        self,
        *,
        n_trees: int = 3,
        max_leaf: int = 100,
        beam: int = 10,
        weighting: WeightingName = "none",
        propensity: PropensityLike | None = None,
        C: float = 1.0,
        tol: float = 0.05,
        prune: float = 0.1,
        max_sweeps: int = 100,
        unit_rows: bool = True,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaf = max_leaf
        self.beam = beam
        self.weighting = weighting
        self.propensity = propensity
        self.C = C
        self.tol = tol
        self.prune = prune
        self.max_sweeps = max_sweeps
        self.unit_rows = unit_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    @abstractmethod
    def directions(self, rows: Rows) -> Directions:
        """Return the directions by which labels are clustered."""

    @abstractmethod
    def cluster(self, directions: Directions, n_labels: int, tree: int) -> Clusters:
        """Cluster all labels for one tree."""

    def _fit(self, rows: Rows, work: Work) -> None:
        self._check()
        solver = NodeSolver(self.tol, self.prune, self.max_sweeps, self.random_state)
        positive, negative = self._costs(rows)
        waiting = [tree for tree in range(self.n_trees) if work.pieces.get(tree_key(tree)) is None]
        clusters = self._clusters(rows, work, waiting)
        tasks = {tree: list(_cut(tree, clusters[tree], rows)) for tree in waiting}
        missing = {tree: len(tasks[tree]) for tree in waiting}
        tree_of = {task.key: tree for tree in waiting for task in tasks[tree]}
        ordered = sorted((task for many in tasks.values() for task in many), key=lambda task: (task.begin, task.tree))
        alone = work.share == Share()  # where others work on the same tree, its parts stay until all are there
        for piece in work.map(ordered, NodeProblem(solver, rows, clusters, positive, negative)):
            tree = tree_of[piece.key]
            missing[tree] -= 1
            if alone and not missing[tree]:
                _join(tree, clusters[tree], tasks[tree], work.pieces)
        for tree in range(self.n_trees):
            if tree in waiting and not alone:
                _join(tree, clusters[tree], tasks[tree], work.pieces)
            _forget(tree, work.pieces)

    def _clusters(self, rows: Rows, work: Work, trees: list[int]) -> dict[int, Clusters]:
        """Return the clusters of each tree that is not whole yet, from their pieces where they are there."""
        tasks = [ClusterTask(tree) for tree in trees]
        trees_of = {task.key: task.tree for task in tasks}
        return {trees_of[piece.key]: open_clusters(piece) for piece in work.map(tasks, LabelRows(self, rows))}

    def _check(self) -> None:
        """Refuse parameters that make no tree."""
        check_whole("n_trees", self.n_trees, 1)
        check_whole("max_leaf", self.max_leaf, 1, MOST_COLUMNS)
        check_whole("beam", self.beam, 1)

    def _costs(self, rows: Rows) -> tuple[npt.NDArray[np.float64], float]:
        """Return what a positive of each label costs, and what any other row costs."""
        check_positive("C", self.C)
        propensity = as_propensity(self.propensity)
        found = costs(self.weighting, propensity.fit(rows.label_counts, rows.n_samples), rows.label_counts)
        if np.any(found.counter != 0):
            raise InputError(f"the weighting {self.weighting} is not convex, and only convex problems are solved")
        return float(self.C) * found.positive, float(self.C)

    def _open(self, pieces: Pieces) -> None:
        trees = []
        for tree in range(self.n_trees):
            piece = pieces.get(tree_key(tree))
            if piece is None:
                raise InputError(f"the piece {tree_key(tree)} is missing; the run is damaged")
            trees.append(Tree.open(piece, self.n_features_in_, self.n_labels_))
        self.trees_ = trees

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        return search(X, self.trees_, self.beam, k, self.n_labels_, self.n_jobs)

    def certificate(self) -> Certificate:
        """Return the relative duality gap of each classifier of each node, tree by tree, before pruning."""
        self._check_fitted()
        joined = {
            name: np.concatenate([tree.saved[name] for tree in self.trees_]) for name in ("gap", "objective", "sweeps")
        }
        objective = float(joined["objective"].sum())
        columns = {"sweeps": joined["sweeps"]}
        return Certificate(self.tol, joined["gap"], objective, "classifiers", columns)

    def facts(self) -> dict[str, Any]:
        """Return how deep, how large and how balanced the trees are."""
        self._check_fitted()
        return describe(self.trees_, self.n_labels_)

    def draw(self, label_name: Callable[[int], str], feature_name: Callable[[int], str]) -> str:
        """Return the top of the first tree, one line per node."""
        self._check_fitted()
        return draw(self.trees_[0], label_name, feature_name)


def _cut(tree: int, clusters: Clusters, rows: Rows) -> Iterator[NodesTask]:
    """Cut the nodes of a tree into about _TASKS tasks of similar work; the cut depends on nothing but the labels."""
    counts = np.concatenate([np.zeros(1), np.cumsum(rows.label_counts[clusters.labels])])
    reached = np.minimum(counts[clusters.ends] - counts[clusters.begins], rows.n_samples)
    n_columns = clusters.n_columns
    effort = reached * (_FIXED + n_columns) + 1
    bound = effort.sum() / _TASKS
    begin, gathered = 0, 0.0
    for node in range(clusters.n_nodes):
        gathered += effort[node]
        if gathered >= bound or node == clusters.n_nodes - 1:
            yield NodesTask(tree, begin, node + 1, int(n_columns[begin : node + 1].sum()))
            begin, gathered = node + 1, 0.0


def _join(tree: int, clusters: Clusters, tasks: list[NodesTask], pieces: Pieces) -> None:
    """Put a whole tree in the place of its parts."""
    parts = []
    for task in tasks:
        piece = pieces.get(task.key)
        assert piece is not None
        parts.append(piece.arrays)
    pieces.put(tree_piece(tree_key(tree), clusters, parts))
    _forget(tree, pieces)


def _forget(tree: int, pieces: Pieces) -> None:
    """Drop the parts of a tree that is whole."""
    for key in pieces.listed():
        if key.startswith(f"state/{tree:03d}-"):
            pieces.drop(key)
