"""SLEEC: embeddings that keep rows of like labels near, and the votes of a row's nearest training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Threads, Work
from unmissed.kernels.neighbours import count_votes
from unmissed.matrices import check_compressed, rises
from unmissed.models.base import Model
from unmissed.models.rows import Rows
from unmissed.ranking import Ranking
from unmissed.solvers.kmeans import cluster_rows, nearest_cluster
from unmissed.solvers.parameters import Count, NotNegative, Positive, Seed
from unmissed.solvers.products import Floats, sparse_product
from unmissed.solvers.search import Search, make_search, unit_rows
from unmissed.solvers.sleec import ClusterSolver

_LABELS = "row-labels"
_BATCH = 2**14  # rows whose neighbours are held at once
_VOTERS = 512  # rows that one thread counts votes for at a time


def _clusters_key(learner: int) -> str:
    return f"learner/{learner:03d}/clusters"


def _cluster_key(learner: int, cluster: int) -> str:
    return f"learner/{learner:03d}/cluster/{cluster:04d}"


@dataclass(frozen=True)
class Given:
    """Makes what tasks share, which is itself: rows, settings, and the clusters found so far, per learner."""

    rows: Rows
    solver: ClusterSolver
    cluster_size: int
    seed: int
    of_row: tuple[npt.NDArray[np.int32], ...] = ()

    def __call__(self) -> Given:
        """Return what is shared."""
        return self


@dataclass(frozen=True)
class ClusterTask:
    """Put the rows into the clusters of one learner."""

    learner: int
    size: int = 0

    @property
    def key(self) -> str:
        """The key of the clusters."""
        return _clusters_key(self.learner)

    def run(self, shared: Given) -> Piece:
        """Cluster."""
        X = shared.rows.features
        n_clusters = round(X.shape[0] / shared.cluster_size)
        found = cluster_rows(X, n_clusters, np.random.default_rng([shared.seed, self.learner]))
        return Piece(self.key, {"centroids": found.centroids, "of_row": found.of_row})


@dataclass(frozen=True)
class EmbedTask:
    """Embed the rows of one cluster."""

    learner: int
    cluster: int
    size: int

    @property
    def key(self) -> str:
        """The key of the cluster."""
        return _cluster_key(self.learner, self.cluster)

    def run(self, shared: Given) -> Piece:
        """Embed and regress."""
        members = np.flatnonzero(shared.of_row[self.learner] == self.cluster)
        rng = np.random.default_rng([shared.seed, self.learner, self.cluster])
        found = shared.solver.solve(shared.rows.features[members], shared.rows.Y[members], rng)
        arrays: dict[str, npt.NDArray[Any]] = {
            "features": found.features,
            "regressor": found.regressor,
            "rows": unit_rows(found.rows),
            "misfits": found.misfits,
        }
        return Piece(self.key, arrays)


@dataclass(frozen=True)
class Cluster:
    """The rows of a cluster, their embeddings of length 1 behind a search, and what embeds new rows."""

    members: npt.NDArray[np.int32]
    features: npt.NDArray[np.int32]
    regressor: Floats
    search: Search
    misfit: float

    def neighbours(self, X: sp.csr_matrix, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the k nearest training rows of each row by the cosine of their embeddings; -1 beyond the last."""
        embedded = unit_rows(sparse_product(sp.csr_matrix(X[:, self.features]), self.regressor, threads))
        places = self.search.nearest(embedded, k, threads)
        return np.where(places >= 0, self.members[places], np.int32(-1))


@dataclass(frozen=True)
class Learner:
    """One clustering and its clusters."""

    centroids: Floats
    clusters: tuple[Cluster, ...]

    def neighbours(self, X: sp.csr_matrix, k: int, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the k nearest training rows of each row within its cluster."""
        found = np.full((X.shape[0], k), -1, np.int32)
        nearest = nearest_cluster(X, self.centroids, threads)
        for number, cluster in enumerate(self.clusters):
            rows = np.flatnonzero(nearest == number)
            if len(rows):
                found[rows] = cluster.neighbours(X[rows], k, threads)
        return found


class SLEEC(Model):
    """Votes of nearest rows in local embeddings (Bhatia, Jain, Kar, Varma and Jain, 2015).

    Each learner puts the rows into clusters by their features. In a cluster, embeddings z_i of a row fit the cosine of
    label vectors, z_i . z_j = y_i . y_j / |y_i| |y_j|, on the pairs of rows nearest in labels; V minimises
    |Z - X V|^2 + penalty |V|^2 + sparsity |X V|_1. A label's score is the share of the row's nearest training rows that
    have it: nearest by the cosine of V^T x, within the row's cluster, over all learners.

    Parameters
    ----------
    n_components : the rank, the length of an embedding
    n_learners : how many clusterings vote
    cluster_size : about how many rows a cluster has
    neighbours : how many rows, by their labels, an embedding keeps a row near to
    votes : how many nearest training rows of each learner vote
    penalty : lambda, the weight of |V|^2
    sparsity : mu, the weight of |X V|_1
    projections : the most steps of singular value projection
    search : how nearest rows are found: exact, or hnsw for faiss's graph, which misses a few (extra `neighbours`)
    unit_rows : scale each row to length 1 first, in training and in prediction
    n_jobs : threads; all cores by default
    random_state : seed of clusters and embeddings
    """

    unit = "rows"
    no_effect = ("n_jobs",)

    learners_: list[Learner]
    row_labels_: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]

    def __init__(
        self,
        *,
        n_components: Count = 100,
        n_learners: Count = 5,
        cluster_size: Count = 6000,
        neighbours: Count = 100,
        votes: Count = 25,
        penalty: Positive = 1.0,
        sparsity: NotNegative = 1e-3,
        projections: Count = 20,
        search: Literal["exact", "hnsw"] = "exact",
        unit_rows: bool = True,
        n_jobs: int | None = None,
        random_state: Seed = 0,
    ) -> None:
        self.n_components = n_components
        self.n_learners = n_learners
        self.cluster_size = cluster_size
        self.neighbours = neighbours
        self.votes = votes
        self.penalty = penalty
        self.sparsity = sparsity
        self.projections = projections
        self.search = search
        self.unit_rows = unit_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, rows: Rows, work: Work) -> None:
        given = Given(rows, self._solver(), self.cluster_size, self.random_state)
        work.plan(self.n_learners * rows.n_samples)
        labels = {"starts": rows.Y.indptr.astype(np.int64), "labels": rows.Y.indices.astype(np.int32)}
        work.pieces.put(Piece(_LABELS, labels))
        found = {piece.key: piece for piece in work.map([ClusterTask(one) for one in range(self.n_learners)], given)}
        of_row = tuple(np.array(found[_clusters_key(one)].arrays["of_row"]) for one in range(self.n_learners))
        tasks = [
            EmbedTask(learner, cluster, int(size))
            for learner, clusters in enumerate(of_row)
            for cluster, size in enumerate(np.bincount(clusters))
        ]
        tasks.sort(
            key=lambda task: -task.size
        )  # the largest first, so that no thread is left alone with one at the end
        work.run(tasks, Given(rows, given.solver, self.cluster_size, self.random_state, of_row))

    def _solver(self) -> ClusterSolver:
        make_search(self.search, np.zeros((1, 1), np.float32))  # refused before the work, not after it
        return ClusterSolver(
            self.n_components, self.neighbours, self.projections, float(self.penalty), float(self.sparsity)
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
            raise piece.damaged("its clusters are not those of this many features and rows")
        if not np.array_equal(np.unique(of_row), np.arange(n_clusters)):
            raise piece.damaged("it has a row in no cluster, or a cluster without rows")
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

    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        labels = np.full((X.shape[0], k), -1, np.int32)
        best = np.full((X.shape[0], k), -np.inf, np.float32)
        threads = Threads(self.n_jobs)
        votes = min(self.votes, len(self.row_labels_[0]) - 1)  # there are no more training rows than that
        for begin in range(0, X.shape[0], _BATCH):
            rows = slice(begin, begin + _BATCH)
            found = [learner.neighbours(X[rows], votes, threads) for learner in self.learners_]
            self._count(np.ascontiguousarray(np.hstack(found)), labels[rows], best[rows], threads)
        return Ranking(labels, best)

    def _count(self, found: npt.NDArray[np.int32], labels: Any, best: Any, threads: Threads) -> None:
        starts, held = self.row_labels_
        share = 1 / (self.votes * len(self.learners_))

        def one(begin: int) -> None:
            rows = slice(begin, begin + _VOTERS)
            sums = np.zeros(self.n_labels_, np.int32)
            count_votes(found[rows], starts, held, share, sums, labels[rows], best[rows])

        for _ in threads.each(one, range(0, len(found), _VOTERS)):
            pass

    def facts(self) -> dict[str, Any]:
        """Return how many clusters there are and how well their embeddings fit."""
        clusters = [cluster for learner in self.learners_ for cluster in learner.clusters]
        sizes = np.array([len(cluster.members) for cluster in clusters])
        misfits = np.array([cluster.misfit for cluster in clusters])
        return {
            "learners": len(self.learners_),
            "clusters": len(clusters),
            "rows per cluster, most": int(sizes.max()),
            "misfit on neighbour pairs": round(float((sizes * misfits).sum() / sizes.sum()), 4),
        }


def _piece(pieces: Pieces, key: str) -> Piece:
    piece = pieces.get(key)
    if piece is None:
        raise InputError(f"the piece {key} is missing; the run is damaged")
    return piece


def _open_labels(piece: Piece, n_labels: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return the labels of the training rows, after checking that they are labels."""
    arrays = piece.expect({"starts": (np.int64, 1), "labels": (np.int32, 1)})
    starts, labels = arrays["starts"], arrays["labels"]
    if not starts.size:
        raise piece.damaged("it holds no rows")
    try:
        check_compressed("the labels of rows", labels, labels, starts, starts.size - 1, n_labels)
    except InputError as error:
        raise piece.damaged(str(error)) from error
    return starts, labels


def _open_cluster(piece: Piece, members: npt.NDArray[np.int32], n_features: int, search: str) -> Cluster:
    """Return the cluster that a piece holds, after checking that its arrays fit together."""
    arrays = piece.expect(
        {"features": (np.int32, 1), "regressor": (np.float32, 2), "rows": (np.float32, 2), "misfits": (np.float64, 1)}
    )
    features, regressor, rows = arrays["features"], arrays["regressor"], arrays["rows"]
    if regressor.shape[0] != features.size or rows.shape != (members.size, regressor.shape[1]):
        raise piece.damaged("its arrays do not fit together")
    if features.size and (features[0] < 0 or features[-1] >= n_features or not rises(features, strictly=True)):
        raise piece.damaged(f"it has a feature out of order or not below {n_features}")
    if not (np.isfinite(regressor).all() and np.isfinite(rows).all()):
        raise piece.damaged("it holds a value that is infinite or not a number")
    misfits = arrays["misfits"]
    return Cluster(members, features, regressor, make_search(search, rows), float(misfits[-1]) if misfits.size else 1.0)
