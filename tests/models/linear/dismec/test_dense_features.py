"""Dense and mixed features are solved exactly, without a copy, with the same bits whatever the grouping of labels."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from tests.models.linear.problems import dense_weights, make_problem, naive_objective, naive_optimum, solve
from unmissed.features import Features
from unmissed.models.linear.design import LabelBlock
from unmissed.models.linear.dismec.label_state import LabelState
from unmissed.models.linear.dismec.solver import SquaredHinge
from unmissed.models.linear.shard import Shard

BIAS = {"regularized": True, "free": "free", "none": False}
EXACT = SquaredHinge(prune=0.0)


def mixed_problem(seed=0, n_samples=120, n_sparse=20, n_dense=7, n_labels=5):
    """Return features of both kinds, and labels that depend on them."""
    X, Y = make_problem(seed, n_samples, n_sparse + n_dense, n_labels)
    noise = np.random.default_rng(seed).standard_normal((n_samples, n_dense))
    dense = (X[:, n_sparse:].toarray() + 0.3 * noise).astype(np.float32)
    return Features(sp.csr_matrix(X[:, :n_sparse]) if n_sparse else None, dense), Y


def same_bits(one: Shard, other: Shard) -> bool:
    names = "features", "starts", "labels", "weights", "bias", "objective", "gap", "epochs", "dense"
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def blocks(Y, size, order=None):
    """Return the labels of Y, in this order, in blocks."""
    Y = sp.csc_matrix(Y)[:, np.arange(Y.shape[1]) if order is None else order]
    Y.sort_indices()
    for begin in range(0, Y.shape[1], size):
        part = Y[:, begin : begin + size]
        ones = np.ones(part.shape[1])
        yield LabelBlock(begin, part.indptr.astype(np.int64), part.indices.astype(np.int32), ones, ones)


@pytest.mark.parametrize("bias", BIAS)
@pytest.mark.parametrize("n_sparse", [0, 20])
def test_the_optimum_is_found(bias, n_sparse):
    features, Y = mixed_problem(n_sparse=n_sparse)
    positive, negative = np.array([3.0, 1, 2, 0.5, 1]), np.array([0.7, 1, 1, 2, 0.1])
    shard = solve(SquaredHinge(tol=1e-4, prune=0.0, fit_bias=BIAS[bias]), features, Y, positive, negative)
    assert shard.dense.shape == (5, 7)
    W, X, labels = dense_weights(shard, n_sparse + 7), features.csr, Y.toarray() > 0
    for at in range(5):
        problem = labels[:, at], positive[at], negative[at], bias
        best = naive_optimum(X, *problem)
        assert shard.gap[at] <= 1e-4
        assert shard.objective[at] == pytest.approx(
            naive_objective(X, labels[:, at], W[at], shard.bias[at], *problem[1:])
        )
        assert best * (1 - 1e-6) <= shard.objective[at] <= best * (1 + 2e-4)


@pytest.mark.parametrize("n_sparse", [0, 20])
def test_dense_features_have_the_optimum_of_the_same_features_as_csr(n_sparse):
    features, Y = mixed_problem(1, n_samples=400, n_sparse=n_sparse, n_dense=70, n_labels=70)
    shard, reference = solve(EXACT, features, Y), solve(EXACT, features.csr, Y)
    assert (shard.gap <= 1e-3).all()
    assert (shard.objective * (1 - shard.gap) <= reference.objective).all()
    assert (reference.objective * (1 - reference.gap) <= shard.objective).all()


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_frequent_labels_are_certified_to_any_tolerance(tol):
    """Some labels have more positives than are visited first; 1e-6 is below the error of quantized rows."""
    features, Y = mixed_problem(8, n_samples=1500, n_dense=21, n_labels=6)
    assert sp.csc_matrix(Y).getnnz(axis=0).max() > 300
    shard, reference = (solve(SquaredHinge(tol=tol, prune=0.0), X, Y) for X in (features, features.csr))
    assert (shard.gap <= tol).all()
    assert shard.objective == pytest.approx(reference.objective, rel=2 * tol)


@pytest.mark.parametrize("n_dense", [0, 21])
def test_positives_are_left_out_only_if_rows_are_dense(n_dense, monkeypatch):
    """Sparse rows are cheap to visit, and leaving some out takes more rounds."""
    left_out, ascend = [], LabelState.ascend

    def record(label, design, X, far, *arguments, **named):
        left_out.append(int(far.sum()))
        ascend(label, design, X, far, *arguments, **named)

    monkeypatch.setattr(LabelState, "ascend", record)
    features, Y = mixed_problem(8, n_samples=1500, n_dense=21, n_labels=6)
    solve(EXACT, features if n_dense else features.csr, Y)
    assert (max(left_out) > 0) == (n_dense > 0)


def test_the_bits_depend_neither_on_blocks_nor_on_the_order_of_labels_nor_on_threads():
    features, Y = mixed_problem(2, n_samples=300, n_labels=80)
    prepared = EXACT.prepare(features)
    (together,) = (prepared.solve(block) for block in blocks(Y, 80))
    W = dense_weights(together, 27)
    order = np.random.default_rng(0).permutation(80)
    for size, within in ((1, np.arange(3)), (7, order), (80, order)):
        with ThreadPoolExecutor(2) as threads:
            shards = list(threads.map(prepared.solve, blocks(Y, size, within)))
        assert np.array_equal(np.vstack([dense_weights(shard, 27) for shard in shards]), W[within])
        assert np.array_equal(np.concatenate([shard.gap for shard in shards]), together.gap[within])
    assert same_bits(together, next(EXACT.prepare(features).solve(block) for block in blocks(Y, 80)))


def test_duplicate_labels_get_the_same_dense_weights():
    features, Y = mixed_problem(3, n_labels=2)
    Y = sp.hstack([Y, Y], format="csr")
    (block,) = blocks(Y, 4)
    fields = {name: getattr(block, name) for name in ("first", "starts", "rows", "positive", "negative")}
    shard = EXACT.prepare(features).solve(LabelBlock(**fields, may_have_duplicate=np.ones(4, bool)))
    assert same_bits(shard, solve(EXACT, features, Y))
    assert np.array_equal(shard.dense[:2], shard.dense[2:])


def test_a_subset_of_rows_is_the_problem_of_these_rows():
    features, Y = mixed_problem(4)
    rows = np.flatnonzero(np.random.default_rng(0).random(120) < 0.5)
    part = sp.csc_matrix(Y[rows])
    ones = np.ones(5)
    block = LabelBlock(0, part.indptr.astype(np.int64), rows[part.indices].astype(np.int32), ones, ones)
    chosen = EXACT.prepare(features, rows).solve(block)
    by_itself = solve(EXACT, features[rows], Y[rows])
    assert (chosen.objective * (1 - chosen.gap) <= by_itself.objective).all()
    assert chosen.objective == pytest.approx(by_itself.objective, rel=2e-3)


def test_the_dense_part_is_neither_copied_nor_changed_and_may_be_read_only():
    features, Y = mixed_problem(5)
    expected = solve(EXACT, features, Y)
    before = features.dense.copy()
    before.flags.writeable = False
    read_only = Features(features.sparse, before)
    prepared = EXACT.prepare(read_only)
    assert np.shares_memory(prepared.design.dense[1], before)
    assert same_bits(expected, solve(EXACT, read_only, Y))
    assert np.array_equal(features.dense, before)


@pytest.mark.parametrize("n_sparse", [0, 20])
@pytest.mark.parametrize("cost", [1.0, 1e4])  # 1e4: by Newton's method
def test_rows_with_factors_are_the_problem_of_scaled_rows(n_sparse, cost):
    features, Y = mixed_problem(8, n_sparse=n_sparse)
    features.dense[:] *= 10.0 ** np.random.default_rng(0).uniform(-3, 3, (120, 1))
    with_factors, scaled = features.with_factors(True, 0.7), features.normalized(0.7)
    assert with_factors.features.dense is features.dense
    solver, costs = SquaredHinge(tol=1e-4, prune=0.0), np.full(5, cost)
    prepared = solver.prepare(with_factors)
    assert np.shares_memory(prepared.design.dense[1], features.dense)
    assert prepared.design.norms == pytest.approx(2, rel=1e-5)
    shard, expected = (solve(solver, X, Y, costs, costs) for X in (with_factors, scaled))
    assert (shard.gap <= 1e-4).all()
    assert shard.objective == pytest.approx(expected.objective, rel=3e-4)
    W, labels = dense_weights(shard, n_sparse + 7), Y.toarray() > 0
    for at in range(5):
        objective = naive_objective(scaled.csr, labels[:, at], W[at], shard.bias[at], cost, cost, "regularized")
        assert shard.objective[at] == pytest.approx(objective, rel=1e-4)


def test_dense_weights_are_not_pruned():
    features, Y = mixed_problem(6)
    exact, pruned = solve(EXACT, features, Y), solve(SquaredHinge(prune=0.2), features, Y)
    assert np.array_equal(exact.dense, pruned.dense)
    assert (abs(pruned.dense) < 0.1).any()
    assert len(pruned.weights) < len(exact.weights)
    assert pruned.features.max() < 20


DEGENERATE = {
    "one feature": np.random.default_rng(0).standard_normal((50, 1)),
    "fewer rows than features": np.random.default_rng(1).standard_normal((4, 30)),
    "one row": np.ones((1, 3)),
    "rows of zeros": np.zeros((20, 4)),
    "some rows of zeros": np.repeat([[0.0, 0], [1, 2], [0, 0], [-3, 1]], 5, axis=0),
    "no features": np.empty((9, 0)),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("fit_bias", [True, "free"])
def test_degenerate_problems_are_certified(name, fit_bias):
    E = np.ascontiguousarray(DEGENERATE[name], np.float32)
    n = len(E)
    Y = np.column_stack([np.zeros(n), np.ones(n), np.arange(n) % 2, np.arange(n) == 0])
    ones = np.array([1.0, 1, 1, 1e5])
    for sparse in (None, sp.identity(n, np.float32, format="csr")):
        shard = solve(SquaredHinge(prune=0.0, fit_bias=fit_bias), Features(sparse, E), Y, ones, ones)
        assert (shard.gap <= 1e-3).all()


def test_features_of_which_some_are_rare(monkeypatch):
    from unmissed.settings import SETTINGS

    features, Y = mixed_problem(7, n_samples=300, n_sparse=60, n_labels=70)
    monkeypatch.setattr(SETTINGS, "frequent_features", 20)
    prepared = EXACT.prepare(features)
    assert prepared._quantized.n_frequent == 27
    (shard,) = (prepared.solve(block) for block in blocks(Y, 70))
    assert (shard.gap <= 1e-3).all()
    reference = solve(EXACT, features.csr, Y)
    assert (shard.objective * (1 - shard.gap) <= reference.objective).all()


@pytest.mark.parametrize("rows", [None, np.arange(0, 120, 3)])
def test_a_design_of_rows_with_factors_has_the_bits_of_scaled_rows(rows):
    features, _ = mixed_problem(8)
    features.sparse.data *= np.random.default_rng(1).uniform(0.1, 9, features.sparse.nnz).astype(np.float32)
    before = features.sparse.data.copy()
    found, expected = (
        EXACT.prepare(X, rows).design for X in (features.with_factors(True, 0.7), features.scaled(True, 0.7))
    )
    assert np.array_equal(found.values, expected.values)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(features.sparse.data, before)
