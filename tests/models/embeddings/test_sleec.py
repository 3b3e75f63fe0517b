"""Parts of SLEEC against reference implementations, and the neighbors that its embeddings preserve."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.models.embeddings.kmeans import cluster_rows, nearest_cluster
from unmissed.models.embeddings.products import SparseOperator, gram
from unmissed.models.embeddings.sleec.kernels import count_votes
from unmissed.models.embeddings.sleec.solver import ClusterSolver, neighbor_pairs, normalize_labels, project, regress
from unmissed.models.factor_products import FactorTiles, sparse_product
from unmissed.models.neighbor_search import normalize_rows


def labeled(seed: int, n: int = 300, n_labels: int = 80) -> Any:
    """Label vectors with frequent and rare labels that come in groups, some rows without any."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 30, n)
    usual = rng.permutation(np.resize(np.arange(n_labels), 30 * 4)).reshape(30, 4)
    Y = np.zeros((n, n_labels), np.float32)
    for row, group in enumerate(groups):
        Y[row, usual[group][: rng.integers(0, 5)]] = 1
        Y[row, rng.integers(0, n_labels)] = 1
    Y[:3] = 0
    return sp.csr_matrix(Y)


@pytest.mark.kernel
@pytest.mark.parametrize("k", [1, 4, 50])
def test_label_neighbors_match_a_sorted_dense_product(k):
    Y = normalize_labels(labeled(0, n=40, n_labels=12))
    dense = (Y @ Y.T).toarray()
    expected = np.zeros((40, 40), bool)
    for row in range(40):
        order = sorted(range(40), key=lambda other: (-np.float32(dense[row, other]).round(6), other))
        expected[row, [other for other in order[:k] if dense[row, other] > 0]] = True
    pairs = neighbor_pairs(Y, k).toarray()
    both = expected | expected.T
    assert (pairs[both] > 0).all()
    np.testing.assert_allclose(pairs, np.where(both, dense, 0), atol=1e-6)


@pytest.mark.kernel
@pytest.mark.parametrize(("n", "k", "rank"), [(1, 3, 5), (64, 2, 4), (150, 7, 9)])
def test_the_largest_products_match_a_sorted_dense_product(n, k, rank):
    rng = np.random.default_rng(n)
    factor = rng.integers(-2, 3, (n, rank)).astype(np.float32)  # integers: ties, and no rounding
    queries = rng.integers(-2, 3, (20, rank)).astype(np.float32)
    found, products = FactorTiles(factor).largest(queries, k, Threads(2))
    dense = queries @ factor.T
    for row in range(20):
        order = sorted(range(n), key=lambda other: (-dense[row, other], other))[:k]
        assert found[row, : len(order)].tolist() == order
        assert products[row, : len(order)].tolist() == dense[row, order].tolist()
        assert (found[row, len(order) :] == -1).all()


@pytest.mark.kernel
def test_votes_are_counted_per_label_and_ties_go_to_the_smaller_label():
    Y = labeled(1, n=30, n_labels=9)
    neighbors = np.random.default_rng(0).integers(-1, 30, (12, 6)).astype(np.int32)
    labels, best = np.full((12, 4), -1, np.int32), np.full((12, 4), -np.inf, np.float32)
    sums = np.zeros(9, np.int32)
    count_votes(neighbors, Y.indptr.astype(np.int64), Y.indices.astype(np.int32), 0.25, sums, labels, best)
    assert not sums.any()
    for row in range(12):
        votes = Y[[one for one in neighbors[row] if one >= 0]].toarray().sum(axis=0)
        order = sorted(np.flatnonzero(votes), key=lambda label: (-votes[label], label))[:4]
        assert labels[row].tolist() == [*order, *[-1] * (4 - len(order))]
        assert best[row, : len(order)].tolist() == [votes[label] / 4 for label in order]


@pytest.mark.kernel
def test_products_with_factors_match_dense_matrices():
    A = sp.random(31, 17, density=0.3, random_state=0, format="csr", dtype=np.float32)
    A = sp.csr_matrix(sp.diags_array((np.arange(31) != 5).astype(np.float32)) @ A)
    A.eliminate_zeros()  # row 5 is empty
    factor = np.random.default_rng(0).standard_normal((17, 11)).astype(np.float32)
    product = SparseOperator(A, Threads(2))
    np.testing.assert_allclose(product.times(factor), A.toarray() @ factor, atol=1e-5)
    np.testing.assert_allclose(sparse_product(A, factor, Threads(1)), A.toarray() @ factor, atol=1e-5)
    other = np.random.default_rng(1).standard_normal((31, 5)).astype(np.float32)
    np.testing.assert_allclose(product.transposed_times(other), A.toarray().T @ other, atol=1e-5)
    np.testing.assert_allclose(product.column_squares(), (A.toarray() ** 2).sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(gram(factor, Threads(1)), factor.T @ factor, atol=1e-5)


def test_projection_matches_dense_singular_value_projection():
    pairs = neighbor_pairs(normalize_labels(labeled(2, n=60, n_labels=25)), 8)
    target, mask = pairs.toarray().astype(float), pairs.toarray() > 0
    M = np.zeros_like(target)
    for _ in range(6):
        values, vectors = np.linalg.eigh(M + np.where(mask, target - M, 0))
        M = (vectors[:, -10:] * np.maximum(values[-10:], 0)) @ vectors[:, -10:].T
    Z, misfits = project(pairs, 10, 400, np.random.default_rng(0))
    assert misfits[-1] <= (np.where(mask, target - M, 0) ** 2).sum() / (target**2).sum()
    left = np.where(mask, target - Z.astype(float) @ Z.T.astype(float), 0)
    assert misfits[-1] == pytest.approx((left**2).sum() / (target**2).sum(), rel=1e-3)
    assert (np.diff(misfits) <= 0).all()


def overlap(Y: Any, embedded: Any, k: int) -> float:
    """The share of the k nearest embedded rows that are at least as near in label space as its own k-th nearest row."""
    similar = (normalize_labels(Y) @ normalize_labels(Y).T).toarray()
    np.fill_diagonal(similar, -1)
    kth = np.maximum(-np.sort(-similar, axis=1)[:, k - 1], 1e-6)
    products = embedded @ embedded.T
    np.fill_diagonal(products, -np.inf)
    nearest = np.argsort(-products, axis=1, kind="stable")[:, :k]
    with_labels = np.diff(Y.indptr) > 0
    return float((np.take_along_axis(similar, nearest, 1) >= kth[:, None] - 1e-6)[with_labels].mean())


def test_embeddings_preserve_label_neighbors_better_than_chance_and_truncated_svd():
    Y = labeled(3, n=500, n_labels=120)
    rng = np.random.default_rng(0)
    Z, _ = project(neighbor_pairs(normalize_labels(Y), 15), 12, 100, rng)
    U, s, _ = np.linalg.svd(normalize_labels(Y).toarray(), full_matrices=False)
    ours, svd = overlap(Y, normalize_rows(Z), 10), overlap(Y, normalize_rows((U * s)[:, :12].astype(np.float32)), 10)
    chance = overlap(Y, normalize_rows(rng.standard_normal(Z.shape).astype(np.float32)), 10)
    assert ours > 7 * chance
    assert ours > svd + 0.05


@pytest.mark.parametrize("sparsity", [0.0, 0.3])
def test_regressors_minimize_the_objective_of_admm(sparsity):
    rng = np.random.default_rng(0)
    X = sp.random(60, 9, density=0.4, random_state=1, format="csr", dtype=np.float32)
    Z = (X @ rng.standard_normal((9, 3)) + 0.3 * rng.standard_normal((60, 3))).astype(np.float32)
    V = regress(SparseOperator(X, Threads(1)), Z, 0.5, sparsity, rounds=300, tol=1e-6, max_steps=100).astype(float)

    def objective(V):
        reached = X @ V
        return ((Z - reached) ** 2).sum() + 0.5 * (V**2).sum() + sparsity * np.abs(reached).sum()

    low = objective(V)
    for scale in (1e-1, 1e-2, 1e-3):
        for _ in range(200):
            assert objective(V + scale * rng.standard_normal(V.shape)) >= low * (1 - 1e-6)
    dense = X.toarray()
    ridge = np.linalg.solve(dense.T @ dense + 0.5 * np.eye(9), dense.T @ Z)
    if sparsity == 0:
        np.testing.assert_allclose(V, ridge, atol=1e-4)
    else:
        assert low < 0.999 * objective(ridge)


def test_clusters_are_a_fixed_point_and_no_cluster_is_empty():
    X = sp.random(200, 30, density=0.2, random_state=3, format="csr", dtype=np.float32)
    found = cluster_rows(X, 6, np.random.default_rng(0), max_rounds=100)
    n_clusters = found.centroids.shape[1]
    assert set(found.of_row) == set(range(n_clusters))
    for cluster in range(n_clusters):
        mean = X[np.flatnonzero(found.of_row == cluster)].toarray().sum(axis=0)
        np.testing.assert_allclose(found.centroids[:, cluster], mean / np.linalg.norm(mean), atol=1e-5)
    np.testing.assert_array_equal(nearest_cluster(X, found.centroids, Threads(1)), found.of_row)
    np.testing.assert_array_equal((X @ found.centroids).argmax(axis=1), found.of_row)


def test_a_cluster_without_labels_or_with_fewer_rows_than_the_rank_is_embedded():
    X = sp.random(5, 30, density=0.3, random_state=3, format="csr", dtype=np.float32)
    solver = ClusterSolver(rank=8, neighbors=3, projections=5, penalty=1.0, sparsity=0.0)
    none = solver.solve(X, sp.csr_matrix((5, 4), dtype=np.float32), np.random.default_rng(0))
    assert none.rows.shape == (5, 5)
    assert not none.rows.any()
    some = solver.solve(X, sp.csr_matrix(np.eye(5, 4, dtype=np.float32)), np.random.default_rng(0))
    np.testing.assert_allclose(some.rows, X[:, some.features] @ some.regressor, atol=1e-5)
    assert some.rows.any()
