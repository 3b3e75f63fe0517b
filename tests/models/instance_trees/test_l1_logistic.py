"""The separator of a node: L1-regularized logistic regression with row costs."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from unmissed.models.instance_trees.l1_logistic import fit_separator, line_search


def problem(n_rows, n_columns, seed):
    """Sparse columns, the constant 1 last, sides that depend on the first columns, and row costs."""
    rng = np.random.default_rng(seed)
    X = sp.random(n_rows, n_columns, 0.3, "csc", np.float32, random_state=seed)
    X = sp.csc_matrix(sp.hstack([X, np.ones((n_rows, 1))]), dtype=np.float32)
    signal = X[:, :3].sum(axis=1).A1 - X[:, 3:6].sum(axis=1).A1 + 0.3 * rng.normal(size=n_rows)
    side = np.where(signal > 0, 1, -1).astype(np.float32)
    return X, side, rng.uniform(0.5, 4, n_rows).astype(np.float32)


def solve(X, side, cost, steps=100, tol=1e-4, seed=7):
    w, score = np.empty(X.shape[1], np.float32), np.empty(X.shape[0], np.float32)
    starts, rows = X.indptr.astype(np.int64), X.indices.astype(np.uint32)
    n_steps = fit_separator(starts, rows, X.data, side, cost, np.uint64(seed), steps, tol, w, score)
    return w, score, n_steps


def objective(X, side, cost, w):
    w = w.astype(np.float64)
    return np.abs(w).sum() + (cost * np.logaddexp(0, -side * (X.astype(np.float64) @ w))).sum()


def violation(X, side, cost, w):
    """The sum over columns of the distance between 0 and the subdifferential."""
    X, w = X.astype(np.float64), w.astype(np.float64)
    gradient = X.T @ (-cost * side / (1 + np.exp(side * (X @ w))))
    return np.where(w != 0, np.abs(gradient + np.sign(w)), np.maximum(0, np.abs(gradient) - 1)).sum()


@pytest.mark.kernel
@pytest.mark.filterwarnings("ignore:.*penalty")
@pytest.mark.parametrize(("n_rows", "n_columns"), [(60, 12), (40, 90)])
def test_the_objective_matches_liblinear(n_rows, n_columns):
    X, side, cost = problem(n_rows, n_columns, n_columns)
    w, score, _ = solve(X, side, cost)
    reference = LogisticRegression(penalty="l1", solver="liblinear", fit_intercept=False, tol=1e-8, max_iter=10_000)
    best = reference.fit(X, side, sample_weight=cost).coef_[0]
    assert objective(X, side, cost, w) == pytest.approx(objective(X, side, cost, best), rel=1e-5)
    assert 0 < np.count_nonzero(w) < len(w)
    assert score == pytest.approx(X @ w, abs=1e-4)


@pytest.mark.kernel
@pytest.mark.parametrize("tol", [0.3, 0.01, 0.001])
def test_it_stops_at_the_requested_violation_of_optimality(tol):
    X, side, cost = problem(50, 30, 1)
    w, _, n_steps = solve(X, side, cost, tol=tol)
    first = violation(X, side, cost, np.zeros_like(w))
    assert violation(X, side, cost, w) <= 1.01 * tol * first
    assert n_steps < 100
    if tol < 0.1:
        assert violation(X, side, cost, w) > 0.01 * tol * first, "it does not solve more accurately than requested"


@pytest.mark.kernel
def test_the_number_of_steps_is_limited_and_each_one_lowers_the_objective():
    X, side, cost = problem(50, 30, 2)
    reached = [objective(X, side, cost, solve(X, side, cost, steps, 1e-6)[0]) for steps in range(6)]
    assert solve(X, side, cost, 3, 1e-6)[2] == 3
    assert (np.diff(reached) < 0).all()


@pytest.mark.kernel
@pytest.mark.parametrize(("length", "kept"), [(1, 1), (64, 1 / 64), (-1, 0)])
def test_a_step_that_is_too_long_is_halved_and_an_ascent_step_is_rejected(length, kept):
    X, side, cost = problem(50, 10, 4)
    step = (0.02 * length * (X.T @ (side * cost))).astype(np.float32)
    gradient = -0.5 * (X.T @ (side * cost))
    w, score, row_derivative, row_curvature = np.zeros(11, np.float32), *np.zeros((3, 50), np.float32)
    before = objective(X, side, cost, w)
    predicted = abs(step).sum() - abs(gradient @ step)
    arguments = (np.arange(11, dtype=np.int32), 11, step, (X @ step).astype(np.float32), before, predicted)
    loss = line_search(side, cost, *arguments, w, score, row_derivative, row_curvature)
    assert w == pytest.approx(w[0] / step[0] * step, rel=1e-5)
    assert w[0] / step[0] >= kept / 4
    assert (w[0] / step[0] <= kept * 4) or kept == 0
    assert loss + abs(w).sum() == pytest.approx(objective(X, side, cost, w), rel=1e-5)
    assert objective(X, side, cost, w) < before or kept == 0
    assert score == pytest.approx(X @ w, abs=1e-4)


@pytest.mark.kernel
def test_all_weights_are_0_if_no_derivative_exceeds_the_penalty():
    X, side, cost = problem(30, 5, 3)
    X = sp.csc_matrix(X[:, :5] * 1e-3)
    w, score, n_steps = solve(X, side, cost)
    assert n_steps == 0
    assert not w.any()
    assert not score.any()
