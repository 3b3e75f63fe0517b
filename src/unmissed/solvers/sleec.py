"""SLEEC inside one cluster: embeddings that keep nearest label vectors near, and regressors that reach them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.execution.blas import one_blas_thread
from unmissed.kernels.factors import chosen_products, sparse_times_factor
from unmissed.kernels.neighbours import most_similar
from unmissed.solvers.products import Doubles, Floats, Products
from unmissed.solvers.ridge import solve_ridges

_HERE = Threads(1)  # a cluster is one thread's work


@dataclass(frozen=True)
class Embedded:
    """What a cluster learned.

    Parameters
    ----------
    features : the features that occur in the cluster, rising
    regressor : V, (len(features), rank)
    rows : X V of the cluster's rows, (n_rows, rank)
    misfits : the share of |Y Y^T|^2 on the neighbour pairs that the embedding left unexplained, step by step
    """

    features: npt.NDArray[np.int32]
    regressor: Floats
    rows: Floats
    misfits: Doubles


@dataclass(frozen=True)
class ClusterSolver:
    """Embeds the rows of one cluster and learns V with X V near the embedding.

    Parameters
    ----------
    rank : the length of an embedding
    neighbours : how many rows by label inner product each row stays near to
    projections : the most steps of singular value projection
    penalty : lambda of |Z - X V|^2 + lambda |V|^2 + mu |X V|_1
    sparsity : mu
    """

    rank: int
    neighbours: int
    projections: int
    penalty: float
    sparsity: float

    def solve(self, X: sp.csr_matrix, Y: sp.csr_matrix, rng: np.random.Generator) -> Embedded:
        """Embed the rows, then regress."""
        with one_blas_thread():
            pairs = neighbour_pairs(unit_labels(Y), self.neighbours)
            Z, misfits = project(pairs, min(self.rank, X.shape[0]), self.projections, rng)
        features = np.unique(X.indices).astype(np.int32)
        narrow = sp.csr_matrix(
            (X.data, np.searchsorted(features, X.indices).astype(np.int32), X.indptr), (X.shape[0], len(features))
        )
        design = Products(narrow, _HERE)
        V = regress(design, Z, self.penalty, self.sparsity)
        return Embedded(features, V, design.times(V), misfits)


def unit_labels(Y: sp.csr_matrix) -> sp.csr_matrix:
    """Return label vectors of length 1, so that a row of many labels is not everybody's neighbour."""
    counts = np.diff(Y.indptr)
    data = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts).astype(np.float32)
    return sp.csr_matrix((data, Y.indices, Y.indptr), shape=Y.shape)


def neighbour_pairs(Y: sp.csr_matrix, k: int) -> sp.csr_matrix:
    """Return Y Y^T on the pairs of rows of which one is among the k nearest of the other, itself counted in; symmetric.

    Nearest is by inner product; rows that share no label are no neighbours.
    """
    n, k = Y.shape[0], min(k, Y.shape[0])
    columns = sp.csc_matrix(Y)
    found, products = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    most_similar(
        Y.indptr.astype(np.int64), Y.indices.astype(np.int32), Y.data,
        columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data,
        0, np.zeros(n, np.float32), found, products,
    )  # fmt: skip
    real = found >= 0
    rows = np.repeat(np.arange(n), k).reshape(n, k)[real]
    nearest = sp.csr_matrix((products[real], (rows, found[real])), shape=(n, n))
    return sp.csr_matrix(nearest.maximum(nearest.T))


def project(pairs: sp.csr_matrix, rank: int, steps: int, rng: np.random.Generator) -> tuple[Floats, Doubles]:
    """Fit Z Z^T of a rank to the stored pairs by singular value projection: M <- P_r(M + P_pairs(target - M)).

    The argument of P_r is a factor product and a sparse matrix, and P_r keeps its largest eigenvalues above 0, found
    by subspace iteration from the last ones. With step length 1 the misfit on the pairs never rises: the argument is
    the target on the pairs and M elsewhere, so its best approximation of the rank fits the pairs no worse than M.
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
        values, turn = np.linalg.eigh((small + small.T) / 2)
        basis = basis @ turn.astype(np.float32)
        Z = basis * np.sqrt(np.maximum(values, 0)).astype(np.float32)
        chosen_products(*pattern, Z, Z, fitted)
        np.subtract(pairs.data, fitted, out=residual)
        misfits.append(float((residual.astype(np.float64) ** 2).sum()) / total)
        if misfits[-2] - misfits[-1] < 1e-3 * misfits[-2]:
            break
    return np.ascontiguousarray(Z), np.array(misfits)


def _apply(pattern: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]], residual: Floats, Z: Floats, basis: Floats,
           image: Floats) -> Floats:  # fmt: skip
    """Return (Z Z^T + residual) times the basis."""
    sparse_times_factor(*pattern, residual, np.ascontiguousarray(basis), image)
    return np.asarray(Z @ (Z.T @ basis) + image)


def regress(
    X: Products, Z: Floats, penalty: float, sparsity: float, *, rounds: int = 5, tol: float = 1e-2, max_steps: int = 30
) -> Floats:
    """Minimise |Z - X V|^2 + penalty |V|^2 + sparsity |X V|_1 by ADMM on X V = A.

    The step for V is a ridge on X with the targets (2 Z + rho (A - U)) / (2 + rho), by conjugate gradient from the last
    V; the step for A is a soft threshold. It starts from the ridge on Z, which is all without sparsity.
    """
    ones = np.ones(Z.shape[1])
    V = np.zeros((X.shape[1], Z.shape[1]), np.float32)
    V = solve_ridges(X, X.transposed_times(Z), ones, penalty, V, tol=tol, max_steps=max_steps)
    if sparsity == 0:
        return V
    rho = np.float32(1)
    A, U = X.times(V), np.zeros_like(Z)
    shrink = np.float32(sparsity) / rho
    for _ in range(rounds):
        right = X.transposed_times(2 * Z + rho * (A - U))
        V = solve_ridges(X, right, (2 + rho) * ones, 2 * penalty, V, tol=tol, max_steps=max_steps)
        reached = X.times(V)
        moved = reached + U
        A = np.sign(moved) * np.maximum(np.abs(moved) - shrink, 0)
        U = moved - A
    return V
