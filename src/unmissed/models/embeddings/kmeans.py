"""Spherical k-means of sparse rows, from random initial centroids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.models.embeddings.products import SparseOperator
from unmissed.models.factor_products import Floats, sparse_product


@dataclass(frozen=True)
class RowClusters:
    """L2-normalized centroids, the columns of an (n_features, n_clusters) array, and the cluster of each row."""

    centroids: Floats
    of_row: npt.NDArray[np.int32]


def cluster_rows(X: sp.csr_matrix, n_clusters: int, rng: np.random.Generator, *, max_rounds: int = 20) -> RowClusters:
    """Return the spherical k-means clustering of rows. Empty clusters are removed."""
    threads = Threads(1)
    n_clusters = max(1, min(n_clusters, X.shape[0]))
    operator = SparseOperator(X, threads)
    initial = np.sort(rng.choice(X.shape[0], n_clusters, replace=False))
    centroids = _normalize_columns(np.ascontiguousarray(X[initial].toarray().T))
    of_row = nearest_cluster(X, centroids, threads)
    for _ in range(max_rounds):
        members = (of_row[:, None] == np.arange(n_clusters)).astype(np.float32)
        centroids = _normalize_columns(operator.transposed_times(members))
        assigned = nearest_cluster(X, centroids, threads)
        if (assigned == of_row).all():
            break
        of_row = assigned
    used, renumbered = np.unique(of_row, return_inverse=True)
    return RowClusters(np.ascontiguousarray(centroids[:, used]), renumbered.astype(np.int32))


def nearest_cluster(X: sp.csr_matrix, centroids: Floats, threads: Threads) -> npt.NDArray[np.int32]:
    """Return the cluster of largest inner product of each row; ties go to the first."""
    return np.asarray(sparse_product(X, centroids, threads).argmax(axis=1), np.int32)


def _normalize_columns(centroids: Floats) -> Floats:
    norms = np.sqrt((centroids.astype(np.float64) ** 2).sum(axis=0))
    return np.asarray(centroids * np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0), np.float32)
