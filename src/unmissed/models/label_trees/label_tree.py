"""LabelTree: the base class of label trees. It trains node classifiers and ranks by beam search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Once, Partition, Piece, Pieces, Work
from unmissed.features import Features
from unmissed.models.base import Model
from unmissed.models.dense_support import DenseSupport
from unmissed.models.evidence import Certificate
from unmissed.models.label_trees.beam_search import BeamSearch
from unmissed.models.label_trees.label_clusters import LabelClusters, LabelRepresentations
from unmissed.models.label_trees.node_kernels import list_positives, list_rows
from unmissed.models.label_trees.node_problem import NodeRows, NodeWeights
from unmissed.models.label_trees.node_solver import MAX_COLUMNS, MaxSweeps, NodeSolver
from unmissed.models.label_trees.tree_drawing import describe, draw
from unmissed.models.label_trees.tree_file import SearchTree, clusters_piece, nodes_arrays, open_clusters, tree_piece
from unmissed.models.parameters import (
    WEIGHTING,
    Cost,
    DenseWeight,
    Group,
    Help,
    Jobs,
    Normalize,
    PropensityModel,
    Prune,
    RandomSeed,
    Tolerance,
    Weighting,
)
from unmissed.models.ranges import IntegerRange
from unmissed.models.training_data import TrainingData
from unmissed.numerics.workspace import borrowed_zeros, workspace, zeroed_workspace
from unmissed.propensity import as_propensity, costs
from unmissed.ranking import Ranking

_TASKS_PER_TREE = 48  # approximate; an interrupted training resumes after the last finished task
_ROW_COST = 16  # fixed cost of a row of a node, in columns

Trees = Annotated[int, IntegerRange(1), Help("number of trees, each with another random initialization")]
LeafSize = Annotated[int, IntegerRange(1, MAX_COLUMNS), Help("maximum number of labels of a leaf")]
Beam = Annotated[
    int, IntegerRange(1), Help("beam width: nodes per level and tree that the search expands"), Group.PREDICT
]
TreeWeighting = Annotated[
    Weighting, Help(f"{WEIGHTING}. Above the leaves a row has the highest cost among its labels below the child")
]


def tree_key(tree: int) -> str:
    """Return the key of a tree's piece."""
    return f"tree/{tree:03d}"


@dataclass(frozen=True)
class LabelClusterTask:
    """Task: cluster the labels for one tree."""

    tree: int
    size: int = 0

    @property
    def key(self) -> str:
        """The key of the clusters; the piece is deleted when the tree is complete."""
        return f"state/{self.tree:03d}-clusters"

    def run(self, shared: LabelClusterer) -> Piece:
        """Return the clusters as a piece."""
        return clusters_piece(self.key, shared.model.cluster(shared.representations, shared.n_labels, self.tree))


@dataclass(frozen=True)
class LabelClusterer:
    """Shared state of clustering tasks: the model and the label representations."""

    model: LabelTree
    representations: LabelRepresentations
    n_labels: int


@dataclass(frozen=True)
class ClusteringProblem:
    """Factory of the shared state of clustering tasks."""

    model: LabelTree
    rows: TrainingData

    def __call__(self) -> LabelClusterer:
        """Compute the label representations, once per process."""
        return LabelClusterer(self.model, self.model.representations(self.rows), self.rows.n_labels)


@dataclass(frozen=True)
class NodesTask:
    """Task: train the nodes from `begin` to `end` of a tree."""

    tree: int
    begin: int
    end: int
    size: int

    @property
    def key(self) -> str:
        """The key of the nodes; the piece is deleted when the tree is complete."""
        return f"state/{self.tree:03d}-nodes-{self.begin:08d}"

    def run(self, shared: NodeTrainer) -> Piece:
        """Train the nodes in order; return their weights as a piece."""
        clusters = shared.clusters[self.tree]
        trained = [shared.train(clusters, self.tree, node) for node in range(self.begin, self.end)]
        n_rows = [rows for _, rows in trained]
        return Piece(self.key, nodes_arrays([one for one, _ in trained], n_rows, shared.X.n_sparse))


@dataclass(frozen=True)
class NodeProblem:
    """Factory of the shared state of node tasks: features, labels in CSR and CSC, costs."""

    solver: NodeSolver
    rows: TrainingData
    clusters: dict[int, LabelClusters]
    positive_costs: npt.NDArray[np.float64]
    negative_cost: float

    def __call__(self) -> NodeTrainer:
        """Transpose the labels, once per process."""
        by_label = self.rows.Y.tocsc()
        arrays = (
            by_label.indptr.astype(np.int64),
            by_label.indices.astype(np.int32, copy=False),
            self.rows.Y.indptr.astype(np.int64),
            self.rows.Y.indices.astype(np.int32),
        )
        label_costs = self.positive_costs, self.negative_cost
        return NodeTrainer(self.solver, self.rows.features, self.clusters, *label_costs, *arrays)


@dataclass(frozen=True)
class NodeTrainer:
    """Trains any node of any tree from shared features, labels and costs."""

    solver: NodeSolver
    X: Features
    clusters: dict[int, LabelClusters]
    positive_costs: npt.NDArray[np.float64]
    negative_cost: float
    label_starts: npt.NDArray[np.int64]
    label_rows: npt.NDArray[np.int32]
    row_starts: npt.NDArray[np.int64]
    row_labels: npt.NDArray[np.int32]

    def train(self, clusters: LabelClusters, tree: int, node: int) -> tuple[NodeWeights, int]:
        """Train one node; return its weights and the number of rows that reach it."""
        labels = clusters.below(node)
        n_columns = int(clusters.n_columns[node])
        reached = workspace("rows of a node", (self.X.shape[0],), np.int64)
        seen = zeroed_workspace("rows seen", self.X.shape[0], np.uint8)
        rows = np.sort(reached[: list_rows(labels, self.label_starts, self.label_rows, seen, reached)])
        seed = node + 1_000_003 * tree
        design, row_ids = self.solver.lay_out(self.X, rows, seed)
        starts = np.empty(len(row_ids) + 1, np.int64)
        capacity = int((self.row_starts[row_ids + 1] - self.row_starts[row_ids]).sum())
        positive_columns, cost = np.empty(capacity, np.int32), np.empty(capacity)
        with borrowed_zeros("columns of labels", len(self.positive_costs), np.int16) as columns:
            columns[labels] = clusters.columns(node) + 1
            n = list_positives(
                row_ids,
                self.row_starts,
                self.row_labels,
                columns,
                self.positive_costs,
                n_columns,
                starts,
                positive_columns,
                cost,
            )
            columns[labels] = 0
        problem = NodeRows(design, starts, positive_columns[:n], cost[:n], self.negative_cost, n_columns)
        return self.solver.solve(problem, seed), len(row_ids)


class LabelTree(Model):
    """Base class of label trees; a subclass defines how labels are clustered.

    Every node has a squared-hinge SVM per child, or per label if it is a leaf. It is trained on the rows that have a
    label below the node. A child or label with score s has the probability exp(-max(0, 1 - s)^2) given its node.
    Probabilities multiply along a path. A label's score is its mean probability over the trees; labels that the beam
    search does not reach count as 0. Weights are quantized to int16, with one scale per classifier.
    """

    unit: ClassVar[str] = "classifiers"
    dense_support: ClassVar[DenseSupport] = DenseSupport.NATIVE
    trees_: list[SearchTree]
    beam_search_: Once[BeamSearch]

    def __init__(
        self,
        *,
        n_trees: Trees = 3,
        max_leaf: LeafSize = 100,
        beam: Beam = 10,
        weighting: TreeWeighting = "none",
        propensity: PropensityModel = None,
        C: Cost = 1.0,
        tol: Tolerance = 0.05,
        prune: Prune = 0.1,
        max_sweeps: MaxSweeps = 100,
        normalize: Normalize = True,
        dense_weight: DenseWeight = 1.0,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
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
        self.normalize = normalize
        self.dense_weight = dense_weight
        self.n_jobs = n_jobs
        self.random_state = random_state

    @abstractmethod
    def representations(self, rows: TrainingData) -> LabelRepresentations:
        """Return the vectors by which labels are clustered."""

    @abstractmethod
    def cluster(self, representations: LabelRepresentations, n_labels: int, tree: int) -> LabelClusters:
        """Return the clusters of all labels for one tree."""

    def _fit(self, rows: TrainingData, work: Work) -> None:
        solver = NodeSolver(self.tol, self.prune, self.max_sweeps, self._seed)
        positive_costs, negative_cost = self._costs(rows)
        unfinished = [tree for tree in range(self.n_trees) if work.pieces.get(tree_key(tree)) is None]
        clusters = self._clusters(rows, work, unfinished)
        tasks = {tree: list(_node_tasks(tree, clusters[tree], rows)) for tree in unfinished}
        missing = {tree: len(tasks[tree]) for tree in unfinished}
        tree_of = {task.key: tree for tree in unfinished for task in tasks[tree]}
        ordered = sorted((task for many in tasks.values() for task in many), key=lambda task: (task.begin, task.tree))
        sole_worker = work.partition == Partition()  # with several workers, the parts stay until all exist
        for piece in work.map(ordered, NodeProblem(solver, rows, clusters, positive_costs, negative_cost)):
            tree = tree_of[piece.key]
            missing[tree] -= 1
            if sole_worker and not missing[tree]:
                _assemble_tree(tree, clusters[tree], tasks[tree], work.pieces)
        for tree in range(self.n_trees):
            if tree in unfinished and not sole_worker:
                _assemble_tree(tree, clusters[tree], tasks[tree], work.pieces)
            _drop_parts(tree, work.pieces)

    def _clusters(self, rows: TrainingData, work: Work, trees: list[int]) -> dict[int, LabelClusters]:
        """Return the clusters of the given trees; stored pieces are reused."""
        tasks = [LabelClusterTask(tree) for tree in trees]
        trees_of = {task.key: task.tree for task in tasks}
        return {trees_of[piece.key]: open_clusters(piece) for piece in work.map(tasks, ClusteringProblem(self, rows))}

    def _costs(self, rows: TrainingData) -> tuple[npt.NDArray[np.float64], float]:
        """Return the cost of a positive of each label, and the cost of a negative."""
        propensity = as_propensity(self.propensity)
        label_costs = costs(self.weighting, propensity.estimate(rows.label_counts, rows.n_samples), rows.label_counts)
        if np.any(label_costs.counter != 0):
            raise InputError(f"the weighting {self.weighting} is not convex; label trees need a convex one")
        return float(self.C) * label_costs.positive, float(self.C)

    def _open(self, pieces: Pieces) -> None:
        trees = []
        for tree in range(self.n_trees):
            piece = pieces.get(tree_key(tree))
            if piece is None:
                raise InputError(f"the piece {tree_key(tree)} is missing; the run is damaged")
            trees.append(SearchTree.open(piece, self.n_features_in_, self.n_dense_in_, self.n_labels_))
        self.trees_ = trees
        self.beam_search_ = Once("first levels of label trees", partial(BeamSearch, trees))

    def _prepare(self) -> None:
        self.beam_search_.get()

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        return self.beam_search_.get().rank(Features(X, trusted=True), self.beam, k, self.n_jobs)

    def _rank_features(self, rows: Features, k: int) -> Ranking:
        search = self.beam_search_.get()
        return search.rank(rows, self.beam, k, self.n_jobs) if search.n_dense else self._rank(rows.csr, k)

    def certificate(self) -> Certificate:
        """Return the relative duality gap of each classifier of each node, tree by tree, before pruning."""
        self._check_fitted()
        joined = {
            name: np.concatenate([tree.saved[name] for tree in self.trees_]) for name in ("gap", "objective", "sweeps")
        }
        objective = float(joined["objective"].sum())
        columns = {"sweeps": joined["sweeps"]}
        return Certificate(self.tol, joined["gap"], objective, "classifiers", columns)

    def metadata(self) -> dict[str, Any]:
        """Return depth, size and balance of the trees."""
        self._check_fitted()
        return describe(self.trees_, self.n_labels_)

    def draw(self, label_name: Callable[[int], str], feature_name: Callable[[int], str]) -> str:
        """Return the top of the first tree as text, one line per node."""
        self._check_fitted()
        return draw(self.trees_[0], label_name, feature_name)


def _node_tasks(tree: int, clusters: LabelClusters, rows: TrainingData) -> Iterator[NodesTask]:
    """Yield about _TASKS_PER_TREE tasks of similar cost; the split depends only on the labels."""
    counts = np.concatenate([np.zeros(1), np.cumsum(rows.label_counts[clusters.labels])])
    reached = np.minimum(counts[clusters.ends] - counts[clusters.begins], rows.n_samples)
    n_columns = clusters.n_columns
    effort = reached * (_ROW_COST + n_columns) + 1
    bound = effort.sum() / _TASKS_PER_TREE
    begin, gathered = 0, 0.0
    for node in range(clusters.n_nodes):
        gathered += effort[node]
        if gathered >= bound or node == clusters.n_nodes - 1:
            yield NodesTask(tree, begin, node + 1, int(n_columns[begin : node + 1].sum()))
            begin, gathered = node + 1, 0.0


def _assemble_tree(tree: int, clusters: LabelClusters, tasks: list[NodesTask], pieces: Pieces) -> None:
    """Store a complete tree and delete its parts."""
    parts = []
    for task in tasks:
        piece = pieces.get(task.key)
        assert piece is not None
        parts.append(piece.arrays)
    pieces.put(tree_piece(tree_key(tree), clusters, parts))
    _drop_parts(tree, pieces)


def _drop_parts(tree: int, pieces: Pieces) -> None:
    """Delete the parts of a complete tree."""
    for key in pieces.listed():
        if key.startswith(f"state/{tree:03d}-"):
            pieces.drop(key)
