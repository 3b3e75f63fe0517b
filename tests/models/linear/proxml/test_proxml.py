"""The solver of ProXML reaches the optimum of a reference implementation and of LIBLINEAR; its gap is a bound."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from tests.models.linear.problems import dense_weights, make_problem, solve
from unmissed.errors import InputError
from unmissed.models import ProXML
from unmissed.models.linear.proxml.full_pass import POSITIVE, optimize_bias
from unmissed.models.linear.proxml.newton_face import find_face, multiply_products, multiply_rows, update_products
from unmissed.models.linear.proxml.solver import L1SquaredHinge
from unmissed.models.linear.proxml.working_set import local_columns


def extended(X, fit_bias):
    """Return dense float64 rows with the constant feature last, 0 if there is no bias."""
    rows = X.toarray().astype(float)
    return np.column_stack([rows, np.full(len(rows), 1.0 if fit_bias else 0.0)])


def naive_objective(X, y, t, l1, positive, negative):
    """Return the objective of the weights t, bias last, row by row."""
    total = sum(l1 * abs(v) for v in t)
    for row, label in zip(extended(X, True), y, strict=True):
        cost = positive if label else negative
        total += cost * max(0.0, 1.0 - (1.0 if label else -1.0) * float(row @ t)) ** 2
    return total


def primal_optimum(X, y, l1, positive, negative, fit_bias):
    """Return the minimum of ProXML's objective: accelerated proximal gradient (FISTA) in dense float64."""
    z = np.where(y, 1.0, -1.0)
    rows = z[:, None] * extended(X, fit_bias)
    cost = np.where(y, positive, negative)
    step = 0.5 / max(np.linalg.norm(np.sqrt(cost)[:, None] * rows, 2) ** 2, 1e-12)
    t = ahead = np.zeros(rows.shape[1])
    momentum, best = 1.0, np.inf
    for _ in range(30_000):
        moved = ahead + 2 * step * (cost * np.maximum(0, 1 - rows @ ahead)) @ rows
        moved = np.sign(moved) * np.maximum(np.abs(moved) - step * l1, 0)
        converged = np.abs(moved - ahead).max() <= 1e-7 * step
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / grown * (moved - t)
        t, momentum = moved, grown
        best = min(best, l1 * np.abs(t).sum() + cost @ np.maximum(0, 1 - rows @ t) ** 2)
        if converged:
            break
    return best


@pytest.mark.kernel
@pytest.mark.parametrize("fit_bias", [True, False])
@pytest.mark.parametrize("l1", [0.05, 0.5])
def test_the_objective_equals_that_of_a_reference_implementation_and_the_gap_bounds_the_excess(fit_bias, l1):
    X, Y = make_problem(0, n_samples=60, n_features=12, n_labels=3)
    positive, negative = [1.0, 3.5, 0.4], [1.0, 1.0, 0.7]
    solver = L1SquaredHinge(l1=l1, tol=1e-5, prune=0.0, fit_bias=fit_bias)
    shard = solve(solver, X, Y, positive, negative)
    W = dense_weights(shard, X.shape[1])
    for label in range(3):
        y = Y[:, [label]].toarray().ravel() > 0
        t = np.append(W[label], shard.bias[label]).astype(float)
        assert fit_bias or t[-1] == 0
        reached = naive_objective(X, y, t, l1, positive[label], negative[label])
        best = primal_optimum(X, y, l1, positive[label], negative[label], fit_bias)
        assert shard.objective[label] == pytest.approx(reached, rel=1e-9), "the objective is that of the weights"
        assert reached == pytest.approx(best, rel=1e-4), "within 0.01 % of the reference implementation"
        assert reached - best <= shard.gap[label] * reached + 1e-7 * reached, "the gap bounds the excess"
        assert shard.gap[label] <= 1e-5


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_samples=st.integers(1, 80),
    cost=st.floats(0.05, 30),
    l1=st.floats(0.01, 3),
)
@example(seed=74, n_samples=11, cost=24.5, l1=0.015625)  # a derivative of 0.1 % of l1 moves the bias by 1e-7
def test_every_label_of_any_problem_is_certified(seed, n_samples, cost, l1):
    X, Y = make_problem(seed, n_samples=n_samples, n_features=9, n_labels=4)
    shard = solve(L1SquaredHinge(l1=l1, tol=1e-3), X, Y, positive=np.full(4, cost))
    assert (shard.gap <= 1e-3).all()
    assert np.isfinite(shard.objective).all()


@pytest.mark.parametrize("fill", [0.0, 1.0])
def test_labels_without_positives_and_without_negatives_are_solved(fill):
    X, _ = make_problem(8)
    Y = np.full((X.shape[0], 1), fill, np.float32)
    shard = solve(L1SquaredHinge(tol=1e-4, prune=0.0), X, Y)
    assert shard.gap[0] <= 1e-4
    scores = X @ dense_weights(shard, X.shape[1])[0] + shard.bias[0]
    assert (np.sign(scores) == (1 if fill else -1)).all()


def test_bits_depend_neither_on_the_other_labels_nor_on_threads():
    X, Y = make_problem(7, n_labels=20)
    straight, other = (ProXML(block_size=size, n_jobs=jobs).fit(X, Y) for size, jobs in ((20, 1), (3, 2)))
    for field in ("bias", "objective", "gap", "epochs"):
        one, two = (np.concatenate([getattr(shard, field) for shard in fit.shards_]) for fit in (straight, other))
        assert np.array_equal(one, two), field
    one, two = (np.vstack([dense_weights(shard, X.shape[1]) for shard in fit.shards_]) for fit in (straight, other))
    assert np.array_equal(one, two)


def test_an_integer_cost_equals_that_many_duplicated_rows():
    X, Y = make_problem(5, n_labels=1)
    y = Y.toarray().ravel() > 0
    thrice = np.concatenate([np.arange(len(y)), np.flatnonzero(y), np.flatnonzero(y)])
    solver = L1SquaredHinge(tol=1e-6, prune=0.0)
    weighted, repeated = solve(solver, X, Y, positive=[3.0]), solve(solver, X[thrice], Y[thrice])
    assert weighted.objective == pytest.approx(repeated.objective, rel=3e-6)


def test_a_larger_l1_penalty_gives_fewer_weights_and_a_huge_one_none():
    X, Y = make_problem(4)
    sizes = [solve(L1SquaredHinge(l1=l1, prune=0.0), X, Y).weights.size for l1 in (0.01, 0.5, 1e4)]
    assert sizes[0] > sizes[1] > sizes[2] == 0


def test_proxml_equals_liblinear_s_5():
    X, Y = make_problem(2)
    shard = solve(L1SquaredHinge(l1=0.2, tol=1e-6), X, Y)
    liblinear = LinearSVC(penalty="l1", dual=False, C=1 / 0.2, tol=1e-6, max_iter=100_000, random_state=0)
    for label in range(Y.shape[1]):
        y = Y[:, [label]].toarray().ravel() > 0
        liblinear.fit(X.astype(np.float64), y)
        theirs = naive_objective(X, y, np.append(liblinear.coef_[0], liblinear.intercept_[0]), 0.2, 1.0, 1.0)
        assert shard.objective[label] <= theirs * (1 + 2e-6)
        assert shard.objective[label] == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize(
    ("parameter", "value"), [("l1", -1.0), ("l1", np.nan), ("tol", 0), ("fit_bias", "free"), ("max_rounds", 0)]
)
def test_invalid_parameters_are_rejected_by_name(parameter, value):
    with pytest.raises(InputError, match=f"{parameter} must be"):
        L1SquaredHinge(**{parameter: value})


def test_the_weighting_raises_the_scores_of_positives():
    X, Y = make_problem(9, n_labels=2)
    plain, weighted = ProXML(normalize=False).fit(X, Y), ProXML(weighting="surrogate", normalize=False).fit(X, Y)
    rows = [np.flatnonzero(Y[:, [label]].toarray().ravel()) for label in range(2)]
    for label in range(2):
        before, after = (model.decision_function(X[rows[label]], [label]).mean() for model in (plain, weighted))
        assert after > before, "positives of higher cost get higher scores"


@pytest.mark.parametrize(("n_rows", "n_features"), [(40, 2), (2, 40)])
def test_the_working_set_has_the_same_entries_read_by_row_and_by_column(n_rows, n_features):
    X, _ = make_problem(6, n_samples=50, n_features=60)
    prepared = L1SquaredHinge().prepare(X)
    problem, buffers = prepared.problem, prepared.make_buffers()
    rng = np.random.default_rng(1)
    rows = rng.permutation(50)[:n_rows].astype(np.int32)
    features = rng.permutation(prepared.design.n_features)[:n_features].astype(np.int32)
    buffers.local_index[features] = np.arange(len(features))
    scale = rng.normal(size=n_rows)
    local = local_columns(problem.X, problem.columns, rows, features, buffers.local_index, buffers.position_of, scale)
    entries = sp.csc_matrix((local[2], local[1], local[0]), shape=(len(rows), len(features))).toarray()
    indptr, indices, values = problem.X
    dense = sp.csr_matrix((values, indices, indptr), shape=(50, prepared.design.n_features)).toarray()
    assert entries == pytest.approx(scale[:, None] * dense[rows][:, features], rel=1e-6)
    assert (buffers.position_of == -1).all(), "the work array is reset"


def small_face(n_rows, n_features, seed):
    """Return a working set (subset of X, its columns, scale and slack) and its dense matrix."""
    X, _ = make_problem(seed, n_samples=n_rows + 5, n_features=n_features + 5)
    prepared = L1SquaredHinge().prepare(X)
    problem, buffers = prepared.problem, prepared.make_buffers()
    rng = np.random.default_rng(seed)
    rows = rng.permutation(prepared.design.n_samples)[:n_rows].astype(np.int32)
    features = rng.permutation(prepared.design.n_features)[:n_features].astype(np.int32)
    buffers.local_index[features] = np.arange(len(features))
    scale, slack = rng.choice([-1.0, 2.0], n_rows), rng.choice([-2.0, -0.01, 0.5], n_rows)
    local = local_columns(problem.X, problem.columns, rows, features, buffers.local_index, buffers.position_of, scale)
    dense = sp.csc_matrix((local[2], local[1], local[0]), shape=(n_rows, len(features))).toarray()
    return (problem.X, rows, features, buffers.local_index), local, scale, slack, dense


@pytest.mark.kernel
@pytest.mark.parametrize(("n_rows", "n_features", "kept"), [(30, 20, 2), (30, 20, 18), (60, 150, 140)])
def test_products_of_columns_sum_over_the_rows_with_a_loss(n_rows, n_features, kept):
    subset, local, scale, slack, dense = small_face(n_rows, n_features, seed=3)
    w = np.zeros(dense.shape[1])
    w[np.random.default_rng(0).permutation(len(w))[:kept]] = 1.0
    face = find_face(subset, local, scale, slack, w)
    support, by_row, products, counted = face
    assert sorted(support) == list(np.flatnonzero(w))
    assert np.array_equal(subset[3][subset[2]], np.arange(len(w))), "local indices are restored"
    begins, columns, values = by_row
    values_by_row = sp.csr_matrix((values, columns, begins), shape=(n_rows, kept)).toarray()
    near = slack > -0.1
    assert values_by_row[near] == pytest.approx(dense[near][:, support], rel=1e-6)
    assert not values_by_row[~near].any()
    p, image = np.random.default_rng(1).normal(size=kept).astype(np.float32), np.empty(kept, np.float32)
    for now in (slack, np.where(near, -slack, slack)):  # rows with a loss change
        update_products(by_row, now, counted, products)
        part = dense[now > 0][:, support]
        multiply_products(products, p, image)
        assert image == pytest.approx(part.T @ (part @ p), rel=1e-4, abs=1e-4)
        multiply_rows(by_row, now, p, image)
        assert image == pytest.approx(part.T @ (part @ p), rel=1e-4, abs=1e-4)


@pytest.mark.kernel
def test_the_bias_is_optimal_for_the_scores_of_all_rows():
    rng = np.random.default_rng(2)
    raw, row_state = rng.normal(size=80), np.zeros(80, np.int8)
    positives = np.arange(0, 80, 7).astype(np.int32)
    row_state[positives] = POSITIVE
    z, cost = np.where(row_state == POSITIVE, 1.0, -1.0), np.where(row_state == POSITIVE, 3.0, 0.5)

    def objective(b):
        return 2.0 * abs(b) + cost @ np.maximum(0, 1 - z * (raw + b)) ** 2

    optimized = optimize_bias(row_state, positives, raw, 0.7, 3.0, 0.5, 2.0, 1e-9)
    grid = np.linspace(-2, 2, 4001)
    assert objective(optimized) <= min(objective(b) for b in grid) + 1e-9
