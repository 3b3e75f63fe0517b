"""Models equal LIBLINEAR, through scikit-learn, over a grid of C, costs and biases; a free bias a slow optimizer."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from tests.models.linear.problems import dense_weights, make_problem, naive_objective, naive_optimum, solve
from unmissed.models import DiSMEC, PWDiSMEC
from unmissed.models.linear.dismec.solver import SquaredHinge
from unmissed.propensity import Constant


@pytest.fixture(scope="module")
def problem():
    return make_problem(21, n_samples=80, n_features=15, n_labels=3)


def liblinear_objective(X, y, C, positive, fit_bias):
    """The objective that LIBLINEAR reaches with a cost of C, C times `positive` for positives."""
    svc = LinearSVC(
        C=C, class_weight={0: 1.0, 1: positive}, fit_intercept=fit_bias, dual=False, tol=1e-10, max_iter=10_000
    )
    svc.fit(X.astype(float), y)
    bias = float(svc.intercept_[0]) if fit_bias else 0.0
    return naive_objective(X, y, svc.coef_[0], bias, C * positive, C, "regularized"), svc.decision_function(X)


@pytest.mark.parametrize("C", [0.03, 1.0, 25.0])
@pytest.mark.parametrize("p", [1.0, 0.2])
@pytest.mark.parametrize("fit_bias", [True, False])
def test_models_reach_the_optimum_of_liblinear(problem, C, p, fit_bias):
    X, Y = problem
    shared = {"C": C, "fit_bias": fit_bias, "tol": 1e-6, "prune": 0.0, "normalize": False, "n_jobs": 1}
    models = [PWDiSMEC(weighting="surrogate", propensity=Constant(p), **shared)]
    if p == 1.0:
        models.append(DiSMEC(**shared))
    for model in models:
        model.fit(X, Y)
        shard = model.shards_[0]
        for label in range(Y.shape[1]):
            y = Y[:, [label]].toarray().ravel() > 0
            best, scores = liblinear_objective(X, y, C, 2 / p - 1, fit_bias)
            assert shard.objective[label] == pytest.approx(best, rel=1e-5)
            reached = naive_objective(
                X,
                y,
                dense_weights(shard, X.shape[1])[label],
                float(shard.bias[label]),
                C * (2 / p - 1),
                C,
                "regularized",
            )
            assert reached == pytest.approx(best, rel=1e-5), "the weights are those of the objective"
            assert model.decision_function(X, [label])[:, 0] == pytest.approx(scores, abs=0.02)


@pytest.mark.parametrize("C", [0.03, 25.0])
def test_a_free_bias_reaches_the_optimum(problem, C):
    X, Y = problem
    model = DiSMEC(C=C, fit_bias="free", tol=1e-5, prune=0.0, normalize=False, n_jobs=1).fit(X, Y)
    for label in range(Y.shape[1]):
        best = naive_optimum(X, Y[:, [label]].toarray().ravel() > 0, C, C, "free")
        assert model.shards_[0].objective[label] == pytest.approx(best, rel=3e-5)


@pytest.mark.parametrize("fit_bias", [True, False, "free"])
def test_a_gap_is_not_far_above_nor_below_the_truth(fit_bias):
    X, Y = make_problem(22, n_samples=300, n_features=20, n_labels=8)
    shard = solve(SquaredHinge(tol=1e-6, prune=0.0, fit_bias=fit_bias, max_rounds=1), X, Y)
    kind = {True: "regularized", False: "none", "free": "free"}[fit_bias]
    for label in range(8):
        best = naive_optimum(X, Y[:, [label]].toarray().ravel() > 0, 1.0, 1.0, kind)
        excess = (shard.objective[label] - best) / shard.objective[label]
        assert excess <= shard.gap[label] <= 50 * excess + 1e-6


def test_costs_are_those_of_the_rows_they_name():
    """One row each, no bias: 1/2 w^2 + c (1 - w x)^2 has its least value at w = 2 c x / (1 + 2 c x^2)."""
    X = sp.csr_matrix(np.diag([1.0, 2.0]).astype(np.float32))
    shard = solve(SquaredHinge(tol=1e-6, prune=0.0, fit_bias=False), X, [[1], [0]], [3.0], [0.5])
    expected = [2 * 3 * 1 / (1 + 2 * 3), -2 * 0.5 * 2 / (1 + 2 * 0.5 * 4)]
    assert dense_weights(shard, 2)[0] == pytest.approx(expected, rel=1e-3)
