"""SLEEC solver for one cluster: embeddings by singular value projection, and the regressor by ADMM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.execution.blas import one_blas_thread
from unmissed.models.embeddings.low_rank import sampled_products
from unmissed.models.embeddings.products import Doubles, SparseOperator
from unmissed.models.embeddings.ridge import solve_ridges
from unmissed.models.embeddings.sleec.kernels import most_similar
from unmissed.models.factor_products import Floats
from unmissed.numerics.factors import sparse_times_factor

_ONE_THREAD = Threads(1)  # clusters are solved in parallel, each by one thread


@dataclass(frozen=True)
class ClusterEmbedding:
    """The learned embedding of a cluster.

    Parameters
    ----------
    features : the features that occur in the cluster, sorted
    regressor : V, (len(features), rank)
    rows : the embeddings X V of the rows of the cluster, (n_rows, rank)
    misfits : the relative squared error on the neighbor pairs, after each step
    """

    features: npt.NDArray[np.int32]
    regressor: Floats
    rows: Floats
    misfits: Doubles


@dataclass(frozen=True)
class ClusterSolver:
    """Learns embeddings Z of the rows of one cluster and a regressor V with X V close to Z.

    Parameters
    ----------
    rank : dimension of the embeddings
    neighbors : number of nearest neighbors in label space
    projections : maximum number of steps of singular value projection
    penalty : lambda of |Z - X V|^2 + lambda |V|^2 + mu |X V|_1
    sparsity : mu
    """

    rank: int
    neighbors: int
    projections: int
    penalty: float
    sparsity: float

    def solve(self, X: sp.csr_matrix, Y: sp.csr_matrix, rng: np.random.Generator) -> ClusterEmbedding:
        """Return the embeddings and the regressor."""
        with one_blas_thread():
            pairs = neighbor_pairs(normalize_labels(Y), self.neighbors)
            Z, misfits = project(pairs, min(self.rank, X.shape[0]), self.projections, rng)
        features = np.unique(X.indices).astype(np.int32)
        compact = sp.csr_matrix(
            (X.data, np.searchsorted(features, X.indices).astype(np.int32), X.indptr), (X.shape[0], len(features))
        )
        operator = SparseOperator(compact, _ONE_THREAD)
        V = regress(operator, Z, self.penalty, self.sparsity)
        return ClusterEmbedding(features, V, operator.times(V), misfits)


def normalize_labels(Y: sp.csr_matrix) -> sp.csr_matrix:
    """Return L2-normalized label vectors, so that rows with many labels do not dominate the nearest neighbors."""
    counts = np.diff(Y.indptr)
    data = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts).astype(np.float32)
    return sp.csr_matrix((data, Y.indices, Y.indptr), shape=Y.shape)


def neighbor_pairs(Y: sp.csr_matrix, k: int) -> sp.csr_matrix:
    """Return the entries of Y Y^T for pairs of rows of which one is among the k nearest of the other; symmetric.

    Nearest is by inner product. A row counts as its own neighbor; rows without a common label are not neighbors.
    """
    n, k = Y.shape[0], min(k, Y.shape[0])
    columns = sp.csc_matrix(Y)
    found, products = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    most_similar(
        Y.indptr.astype(np.int64), Y.indices.astype(np.int32), Y.data,
        columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data,
        0, np.zeros(n, np.float32), found, products,
    )  # fmt: skip
    valid = found >= 0
    rows = np.repeat(np.arange(n), k).reshape(n, k)[valid]
    nearest = sp.csr_matrix((products[valid], (rows, found[valid])), shape=(n, n))
    return sp.csr_matrix(nearest.maximum(nearest.T))


def project(pairs: sp.csr_matrix, rank: int, steps: int, rng: np.random.Generator) -> tuple[Floats, Doubles]:
    """Return Z and the misfits: fit Z Z^T to the stored pairs by singular value projection.

    The iteration is M <- P_r(M + P_pairs(target - M)) with step length 1. The argument of P_r is low-rank plus sparse.
    P_r keeps the r largest positive eigenvalues, computed by subspace iteration with a warm start. The misfit never
    increases: the argument equals the target on the pairs and M elsewhere, so its best rank-r approximation fits the
    pairs at least as well as M.
    """
    n = pairs.shape[0]
    pattern = pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32)
    total = float((pairs.data.astype(np.float64) ** 2).sum())
    basis = np.linalg.qr(rng.standard_normal((n, rank)).astype(np.float32))[0]
    Z = np.zeros((n, rank), np.float32)
    residual, fitted, image = pairs.data.copy(), np.empty_like(pairs.data), np.empty_like(Z)
    misfits = [1.0]
    for step in range(steps if total else 0):
        for _ in range(1 if step else 4):
            basis = np.linalg.qr(_apply(pattern, residual, Z, basis, image))[0]
        small = basis.T.astype(np.float64) @ _apply(pattern, residual, Z, basis, image)
        values, rotation = np.linalg.eigh((small + small.T) / 2)
        basis = basis @ rotation.astype(np.float32)
        Z = basis * np.sqrt(np.maximum(values, 0)).astype(np.float32)
        sampled_products(*pattern, Z, Z, fitted)
        np.subtract(pairs.data, fitted, out=residual)
        misfits.append(float((residual.astype(np.float64) ** 2).sum()) / total)
        if misfits[-2] - misfits[-1] < 1e-3 * misfits[-2]:
            break
    return np.ascontiguousarray(Z), np.array(misfits)


def _apply(pattern: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]], residual: Floats, Z: Floats, basis: Floats,
           image: Floats) -> Floats:  # fmt: skip
    """Return (Z Z^T + residual) basis."""
    sparse_times_factor(*pattern, residual, np.ascontiguousarray(basis), image)
    return np.asarray(Z @ (Z.T @ basis) + image)


def regress(
    X: SparseOperator,
    Z: Floats,
    penalty: float,
    sparsity: float,
    *,
    rounds: int = 5,
    tol: float = 1e-2,
    max_steps: int = 30,
) -> Floats:
    """Return V that minimizes |Z - X V|^2 + penalty |V|^2 + sparsity |X V|_1, by ADMM with the constraint X V = A.

    The V update is a ridge regression on the targets (2 Z + rho (A - U)) / (2 + rho), by conjugate gradient with a warm
    start. The A update is soft thresholding. The initial V is the ridge solution for Z, which is final if sparsity = 0.
    """
    ones = np.ones(Z.shape[1])
    V = np.zeros((X.shape[1], Z.shape[1]), np.float32)
    V = solve_ridges(X, X.transposed_times(Z), ones, penalty, V, tol=tol, max_steps=max_steps)
    if sparsity == 0:
        return V
    rho = np.float32(1)
    A, U = X.times(V), np.zeros_like(Z)
    threshold = np.float32(sparsity) / rho
    for _ in range(rounds):
        right = X.transposed_times(2 * Z + rho * (A - U))
        V = solve_ridges(X, right, (2 + rho) * ones, 2 * penalty, V, tol=tol, max_steps=max_steps)
        predicted = X.times(V)
        shifted = predicted + U
        A = np.sign(shifted) * np.maximum(np.abs(shifted) - threshold, 0)
        U = shifted - A
    return V
