"""Rows in clusters: k-means on the sphere over sparse rows, from a random start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.solvers.products import Floats, Products, sparse_product


@dataclass(frozen=True)
class Clusters:
    """Centroids of length 1 as the columns of an (n_features, n_clusters) array, and the cluster of each row."""

    centroids: Floats
    of_row: npt.NDArray[np.int32]


def cluster_rows(X: sp.csr_matrix, n_clusters: int, rng: np.random.Generator, *, max_rounds: int = 20) -> Clusters:
    """Put each row where the inner product with the centroid is largest; ends when nothing moves. Empty ones go."""
    threads = Threads(1)
    n_clusters = max(1, min(n_clusters, X.shape[0]))
    design = Products(X, threads)
    chosen = np.sort(rng.choice(X.shape[0], n_clusters, replace=False))
    centroids = _unit_columns(np.ascontiguousarray(X[chosen].toarray().T))
    of_row = nearest_cluster(X, centroids, threads)
    for _ in range(max_rounds):
        members = (of_row[:, None] == np.arange(n_clusters)).astype(np.float32)
        centroids = _unit_columns(design.transposed_times(members))
        moved = nearest_cluster(X, centroids, threads)
        if (moved == of_row).all():
            break
        of_row = moved
    used, numbered = np.unique(of_row, return_inverse=True)
    return Clusters(np.ascontiguousarray(centroids[:, used]), numbered.astype(np.int32))


def nearest_cluster(X: sp.csr_matrix, centroids: Floats, threads: Threads) -> npt.NDArray[np.int32]:
    """Return the cluster of each row: the largest inner product, among equals the first."""
    return np.asarray(sparse_product(X, centroids, threads).argmax(axis=1), np.int32)


def _unit_columns(centroids: Floats) -> Floats:
    lengths = np.sqrt((centroids.astype(np.float64) ** 2).sum(axis=0))
    return np.asarray(centroids * np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0), np.float32)
