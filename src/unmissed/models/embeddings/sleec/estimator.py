"""SLEEC: local embeddings that preserve nearest neighbors in label space, and k-nearest-neighbor prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Threads, Work
from unmissed.matrices import check_compressed, rises
from unmissed.models.base import Model
from unmissed.models.dense_support import DenseSupport
from unmissed.models.embeddings.kmeans import cluster_rows, nearest_cluster
from unmissed.models.embeddings.sleec.kernels import count_votes
from unmissed.models.embeddings.sleec.solver import ClusterSolver
from unmissed.models.factor_products import Floats, sparse_product
from unmissed.models.neighbor_search import Search, SearchKind, make_search, normalize_rows
from unmissed.models.parameters import DenseWeight, Group, Help, Jobs, Normalize, RandomSeed
from unmissed.models.ranges import IntegerRange, NumberRange
from unmissed.models.training_data import TrainingData
from unmissed.ranking import Ranking

_LABELS = "row-labels"
_BATCH = 2**14  # Rows per batch of prediction.
_VOTERS = 512  # Rows per thread and chunk when votes are counted.

Dimension = Annotated[int, IntegerRange(1), Help("dimension of the embeddings")]
Learners = Annotated[int, IntegerRange(1), Help("number of learners in the ensemble, each with its own clustering")]
ClusterSize = Annotated[int, IntegerRange(1), Help("approximate number of rows per cluster")]
LabelNeighbors = Annotated[
    int, IntegerRange(1), Help("number of nearest neighbors in label space that the embeddings preserve")
]
Votes = Annotated[
    int, IntegerRange(1), Help("number of nearest training rows per learner in prediction"), Group.PREDICT
]
Penalty = Annotated[float, NumberRange(0, above=True), Help("regularization strength lambda of |V|^2")]
Sparsity = Annotated[float, NumberRange(0), Help("regularization strength mu of |X V|_1")]
MaxProjections = Annotated[int, IntegerRange(1), Help("maximum number of steps of singular value projection")]


def _clusters_key(learner: int) -> str:
    return f"learner/{learner:03d}/clusters"


def _cluster_key(learner: int, cluster: int) -> str:
    return f"learner/{learner:03d}/cluster/{cluster:04d}"


@dataclass(frozen=True)
class SLEECState:
    """State that tasks share: training data, solver, and the cluster of each row per learner. It is its own factory."""

    rows: TrainingData
    solver: ClusterSolver
    cluster_size: int
    seed: int
    of_row: tuple[npt.NDArray[np.int32], ...] = ()

    def __call__(self) -> SLEECState:
        """Return the shared state."""
        return self


@dataclass(frozen=True)
class RowClusterTask:
    """Cluster the rows for one learner."""

    learner: int
    size: int = 0

    @property
    def key(self) -> str:
        """The key of the clusters."""
        return _clusters_key(self.learner)

    def run(self, shared: SLEECState) -> Piece:
        """Return the centroids and the cluster of each row."""
        X = shared.rows.features.csr
        n_clusters = round(X.shape[0] / shared.cluster_size)
        found = cluster_rows(X, n_clusters, np.random.default_rng([shared.seed, self.learner]))
        return Piece(self.key, {"centroids": found.centroids, "of_row": found.of_row})


@dataclass(frozen=True)
class EmbedTask:
    """Learn the embeddings and the regressor of one cluster."""

    learner: int
    cluster: int
    size: int

    @property
    def key(self) -> str:
        """The key of the cluster."""
        return _cluster_key(self.learner, self.cluster)

    def run(self, shared: SLEECState) -> Piece:
        """Return the regressor and the normalized embeddings of the rows."""
        members = np.flatnonzero(shared.of_row[self.learner] == self.cluster)
        rng = np.random.default_rng([shared.seed, self.learner, self.cluster])
        found = shared.solver.solve(shared.rows.features.csr[members], shared.rows.Y[members], rng)
        arrays: dict[str, npt.NDArray[Any]] = {
            "features": found.features,
            "regressor": found.regressor,
            "rows": normalize_rows(found.rows),
            "misfits": found.misfits,
        }
        return Piece(self.key, arrays)


@dataclass(frozen=True)
class Cluster:
    """A cluster: its training rows, the search over their L2-normalized embeddings, and the regressor for new rows."""

    members: npt.NDArray[np.int32]
    features: npt.NDArray[np.int32]
    regressor: Floats
    search: Search
    misfit: float

    def neighbors(self, X: sp.csr_matrix, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the k nearest training rows of each row by cosine similarity of embeddings, padded with -1."""
        embedded = normalize_rows(sparse_product(sp.csr_matrix(X[:, self.features]), self.regressor, threads))
        positions = self.search.nearest(embedded, k, threads)
        return np.where(positions >= 0, self.members[positions], np.int32(-1))


@dataclass(frozen=True)
class Learner:
    """One member of the ensemble: a clustering and its clusters."""

    centroids: Floats
    clusters: tuple[Cluster, ...]

    def neighbors(self, X: sp.csr_matrix, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the k nearest training rows of each row within its cluster."""
        found = np.full((X.shape[0], k), -1, np.int32)
        nearest = nearest_cluster(X, self.centroids, threads)
        for number, cluster in enumerate(self.clusters):
            rows = np.flatnonzero(nearest == number)
            if len(rows):
                found[rows] = cluster.neighbors(X[rows], k, threads)
        return found


class SLEEC(Model):
    """Sparse local embeddings with k-nearest-neighbor prediction (Bhatia, Jain, Kar, Varma and Jain, 2015).

    Each learner clusters the rows by their features. In a cluster, the embeddings z_i approximate the cosine similarity
    of label vectors, z_i . z_j = y_i . y_j / |y_i| |y_j|, for pairs of nearest neighbors in label space. The regressor
    V minimizes |Z - X V|^2 + penalty |V|^2 + sparsity |X V|_1. The score of a label is the fraction of nearest training
    rows that have it, by cosine similarity of V^T x within the cluster of the row, over all learners.
    """

    unit = "rows"
    dense_support = DenseSupport.CONVERTED

    learners_: list[Learner]
    row_labels_: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]

    def __init__(  # nine parameters of its own, one or two per stage: clusters, embeddings, regressors, votes
        self,
        *,
        n_components: Dimension = 100,
        n_learners: Learners = 5,
        cluster_size: ClusterSize = 6000,
        neighbors: LabelNeighbors = 100,
        votes: Votes = 25,
        penalty: Penalty = 3.0,
        sparsity: Sparsity = 1e-3,
        projections: MaxProjections = 20,
        search: SearchKind = "exact",
        normalize: Normalize = True,
        dense_weight: DenseWeight = 1.0,
        n_jobs: Jobs = None,
        random_state: RandomSeed = 0,
    ) -> None:
        self.n_components = n_components
        self.n_learners = n_learners
        self.cluster_size = cluster_size
        self.neighbors = neighbors
        self.votes = votes
        self.penalty = penalty
        self.sparsity = sparsity
        self.projections = projections
        self.search = search
        self.normalize = normalize
        self.dense_weight = dense_weight
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, rows: TrainingData, work: Work) -> None:
        shared = SLEECState(rows, self._solver(), self.cluster_size, self._seed)
        work.plan(self.n_learners * rows.n_samples)
        labels = {"starts": rows.Y.indptr.astype(np.int64), "labels": rows.Y.indices.astype(np.int32)}
        work.pieces.put(Piece(_LABELS, labels))
        found = {
            piece.key: piece for piece in work.map([RowClusterTask(one) for one in range(self.n_learners)], shared)
        }
        of_row = tuple(np.array(found[_clusters_key(one)].arrays["of_row"]) for one in range(self.n_learners))
        tasks = [
            EmbedTask(learner, cluster, int(size))
            for learner, clusters in enumerate(of_row)
            for cluster, size in enumerate(np.bincount(clusters))
        ]
        tasks.sort(key=lambda task: -task.size)  # largest first, for load balance
        work.run(tasks, SLEECState(rows, shared.solver, self.cluster_size, self._seed, of_row))

    def _solver(self) -> ClusterSolver:
        make_search(self.search, np.zeros((1, 1), np.float32))  # raises an error before training
        return ClusterSolver(
            self.n_components, self.neighbors, self.projections, float(self.penalty), float(self.sparsity)
        )

    def _open(self, pieces: Pieces) -> None:
        self.row_labels_ = _open_labels(_piece(pieces, _LABELS), self.n_labels_)
        n_samples = len(self.row_labels_[0]) - 1
        self.learners_ = [self._open_learner(pieces, learner, n_samples) for learner in range(self.n_learners)]

    def _open_learner(self, pieces: Pieces, learner: int, n_samples: int) -> Learner:
        piece = _piece(pieces, _clusters_key(learner))
        arrays = piece.expect({"centroids": (np.float32, 2), "of_row": (np.int32, 1)})
        centroids, of_row = arrays["centroids"], arrays["of_row"]
        n_clusters = centroids.shape[1]
        if centroids.shape[0] != self.n_features_in_ or of_row.size != n_samples or not np.isfinite(centroids).all():
            raise piece.damaged(f"its clusters do not match {self.n_features_in_} features and {n_samples} rows")
        if not np.array_equal(np.unique(of_row), np.arange(n_clusters)):
            raise piece.damaged("a row has no cluster, or a cluster has no rows")
        order = np.argsort(of_row, kind="stable").astype(np.int32)
        members = np.split(order, np.cumsum(np.bincount(of_row))[:-1])
        return Learner(
            centroids,
            tuple(
                _open_cluster(
                    _piece(pieces, _cluster_key(learner, one)), members[one], self.n_features_in_, self.search
                )
                for one in range(n_clusters)
            ),
        )

    def _prepare(self) -> None:
        for learner in self.learners_:
            for cluster in learner.clusters:
                cluster.search.prepare()

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        labels = np.full((X.shape[0], k), -1, np.int32)
        best = np.full((X.shape[0], k), -np.inf, np.float32)
        threads = Threads(self.n_jobs)
        votes = min(self.votes, len(self.row_labels_[0]) - 1)  # limited by the number of training rows
        for begin in range(0, X.shape[0], _BATCH):
            rows = slice(begin, begin + _BATCH)
            found = [learner.neighbors(X[rows], votes, threads) for learner in self.learners_]
            self._count_votes(np.ascontiguousarray(np.hstack(found)), labels[rows], best[rows], threads)
        return Ranking(labels, best)

    def _count_votes(self, neighbors: npt.NDArray[np.int32], labels: Any, best: Any, threads: Threads) -> None:
        starts, row_labels = self.row_labels_
        weight = 1 / (self.votes * len(self.learners_))

        def one(begin: int) -> None:
            rows = slice(begin, begin + _VOTERS)
            sums = np.zeros(self.n_labels_, np.int32)
            count_votes(neighbors[rows], starts, row_labels, weight, sums, labels[rows], best[rows])

        for _ in threads.each(one, range(0, len(neighbors), _VOTERS)):
            pass

    def metadata(self) -> dict[str, Any]:
        """Return the number and sizes of clusters and the fit of their embeddings."""
        clusters = [cluster for learner in self.learners_ for cluster in learner.clusters]
        sizes = np.array([len(cluster.members) for cluster in clusters])
        misfits = np.array([cluster.misfit for cluster in clusters])
        return {
            "learners": len(self.learners_),
            "clusters": len(clusters),
            "rows per cluster, most": int(sizes.max()),
            "misfit on neighbor pairs": round(float((sizes * misfits).sum() / sizes.sum()), 4),
        }


def _piece(pieces: Pieces, key: str) -> Piece:
    piece = pieces.get(key)
    if piece is None:
        raise InputError(f"the piece {key} is missing; the run is damaged, train it again")
    return piece


def _open_labels(piece: Piece, n_labels: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return the validated labels of the training rows, as starts and labels."""
    arrays = piece.expect({"starts": (np.int64, 1), "labels": (np.int32, 1)})
    starts, labels = arrays["starts"], arrays["labels"]
    if not starts.size:
        raise piece.damaged("it has no rows")
    try:
        check_compressed("the labels of rows", labels, labels, starts, starts.size - 1, n_labels)
    except InputError as error:
        raise piece.damaged(str(error)) from error
    return starts, labels


def _open_cluster(piece: Piece, members: npt.NDArray[np.int32], n_features: int, search: str) -> Cluster:
    """Return the cluster of a piece, after validation."""
    arrays = piece.expect(
        {"features": (np.int32, 1), "regressor": (np.float32, 2), "rows": (np.float32, 2), "misfits": (np.float64, 1)}
    )
    features, regressor, rows = arrays["features"], arrays["regressor"], arrays["rows"]
    if regressor.shape[0] != features.size or rows.shape != (members.size, regressor.shape[1]):
        raise piece.damaged("its arrays have inconsistent shapes")
    if features.size and (features[0] < 0 or features[-1] >= n_features or not rises(features, strictly=True)):
        raise piece.damaged(f"its features are not sorted, or outside 0 to {n_features - 1}")
    if not (np.isfinite(regressor).all() and np.isfinite(rows).all()):
        raise piece.damaged("it contains infinite or nan values")
    misfits = arrays["misfits"]
    return Cluster(members, features, regressor, make_search(search, rows), float(misfits[-1]) if misfits.size else 1.0)
