"""Certificates are rigorous bounds for features and costs of any scale."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.models.linear.problems import dense_weights, solve
from unmissed.features import Features
from unmissed.models.linear.design import lay_out
from unmissed.models.linear.dismec.label_state import InitialSolution, LabelState
from unmissed.models.linear.dismec.newton import Newton
from unmissed.models.linear.dismec.solver import SquaredHinge

WIDE = np.longdouble


def split(X, n_dense):
    """Return the last features of an array as dense ones; CSR if there are none."""
    sparse = sp.csr_matrix(X[:, : X.shape[1] - n_dense])
    return Features(sparse, np.ascontiguousarray(X[:, X.shape[1] - n_dense :])) if n_dense else sparse


def wide_objective(X, y, point, costs, fit_bias):
    """Return the objective of a point (weights, bias last) in extended precision."""
    extended = np.column_stack([X, np.full(len(X), fit_bias is not False)]).astype(WIDE)
    slack = np.maximum(0, 1 - np.where(y, 1, -1) * (extended @ point))
    penalized = point[:-1] if fit_bias == "free" else point
    return (penalized**2).sum() / 2 + (np.where(y, *costs) * slack**2).sum()


def lower_points(X, y, costs, fit_bias, start):
    """Yield points of low objective by Newton's method in float64, independently of the solver."""
    extended = np.column_stack([X, np.full(len(X), fit_bias is not False)]).astype(float)
    z, cost = np.where(y, 1.0, -1.0), np.where(y, *map(float, costs))
    ridge = np.ones(extended.shape[1])
    ridge[-1] = 0.0 if fit_bias == "free" else 1.0
    point = start.astype(float)
    for _ in range(15):
        slack = np.maximum(0, 1 - z * (extended @ point))
        gradient = ridge * point - 2 * extended.T @ (cost * z * slack)
        active = extended[slack > 0]
        H = np.diag(ridge) + 2 * active.T @ (cost[slack > 0, None] * active)
        toward = -np.linalg.lstsq(H, gradient, rcond=None)[0]
        for power in (0, 1, 3):
            yield point + 0.5**power * toward
        point = point + toward


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([1e-2, 1.0, 1e2, 1e4, 1e6]),
    cost=st.sampled_from([1e-2, 1.0, 1e2, 1e4, 1e6]),
    fit_bias=st.sampled_from([True, False, "free"]),
    shift=st.sampled_from([0.0, 10.0]),
    dense=st.sampled_from([0.0, 0.5, 1.0]),
)
@example(seed=0, scale=1e5, cost=1e4, fit_bias=False, shift=0.0, dense=0.0)
@example(seed=0, scale=1e5, cost=1e4, fit_bias=False, shift=0.0, dense=1.0)
def test_certificates_bound_the_objective_and_the_optimum(seed, scale, cost, fit_bias, shift, dense):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(2, 30), rng.integers(1, 6)
    X = (scale * (rng.standard_normal((n, d)) + shift)).astype(np.float32)
    y = X @ rng.standard_normal(d) + rng.choice([0, 0.5]) * scale * rng.standard_normal(n) > 0
    costs = cost * rng.uniform(0.1, 10), cost
    solver = SquaredHinge(prune=0.0, fit_bias=fit_bias)
    shard = solve(solver, split(X, int(dense * d)), y[:, None], [costs[0]], [costs[1]])
    point = np.append(dense_weights(shard, d)[0], shard.bias[0])
    reached = wide_objective(X, y, point.astype(WIDE), costs, fit_bias)
    assert reached <= shard.objective[0], "the reported objective is an upper bound"
    assert shard.gap[0] > 1e-3 or shard.objective[0] <= reached * (1 + 1e-4), "the upper bound is tight"
    least = (1 - WIDE(shard.gap[0])) * WIDE(shard.objective[0])
    for other in lower_points(X, y, costs, fit_bias, point):
        assert wide_objective(X, y, other.astype(WIDE), costs, fit_bias) >= least, "no point is below the lower bound"


def test_the_gap_is_a_bound_for_long_rows_and_large_costs():
    X = sp.csr_matrix([[1e5], [-1e5]], dtype=np.float32)
    shard = solve(SquaredHinge(prune=0.0, fit_bias=False), X, [[1], [0]], [1e4], [1e4])
    w = WIDE(dense_weights(shard, 1)[0, 0])
    best = WIDE(0.5e-10)  # w = 1e-5, up to 1 in 10^14
    reached = w**2 / 2 + 2 * WIDE(1e4) * max(0, 1 - WIDE(1e5) * w) ** 2
    assert (reached - best) / reached <= shard.gap[0]
    assert shard.gap[0] <= 1e-3


def hard_problems():
    rng = np.random.default_rng(0)
    toward = rng.standard_normal(12)
    counts = rng.poisson(50, (400, 12)).astype(np.float32)
    normal = rng.standard_normal((400, 12)).astype(np.float32)
    y = normal @ toward + 2 * rng.standard_normal(400) > 4
    return {
        "counts": (counts, (counts - 50) @ toward > 20, 1.0, True),
        "counts, free bias": (counts, (counts - 50) @ toward > 20, 1.0, "free"),
        "times 1000": (1000 * normal, y, 1.0, True),
        "plus 100": (normal + 100, y, 1.0, True),
        "large cost": (normal, y, 1e6, True),
        "no bias": (1000 * normal, y, 1.0, False),
        "free bias, small cost": (normal, y, 1e-4, "free"),
        "free bias, tiny cost": (normal, y, 1e-7, "free"),
    }


@pytest.mark.parametrize("name", hard_problems())
@pytest.mark.parametrize("n_dense", [0, 7, 12])
def test_features_of_any_scale_are_certified(name, n_dense):
    X, y, cost, fit_bias = hard_problems()[name]
    solver = SquaredHinge(tol=1e-4, prune=0.0, fit_bias=fit_bias)
    shard = solve(solver, split(X, n_dense), y[:, None], [cost], [cost])
    assert shard.gap[0] <= 1e-4


def test_bits_of_labels_that_newton_solves_do_not_depend_on_the_other_labels():
    rng = np.random.default_rng(1)
    X = sp.csr_matrix(rng.poisson(20, (150, 8)).astype(np.float32))
    Y = (rng.random((150, 12)) < 0.3).astype(np.float32)
    together = solve(SquaredHinge(), X, Y)
    single = solve(SquaredHinge(), X, Y[:, :1])
    assert single.objective[0] == together.objective[0]
    assert np.array_equal(dense_weights(single, 8)[0], dense_weights(together, 8)[0])


@pytest.mark.parametrize("seed", [30, 50, 78, 274])
def test_long_rows_of_few_features_do_not_diverge(seed):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((40, 1 + seed % 2)) * 5e4 * 10 ** rng.uniform(-1, 1)).astype(np.float32)
    y = X[:, 0] + X.std() * 3 * rng.standard_normal(40) > 0
    costs = np.array([0.02])
    shard = solve(SquaredHinge(fit_bias=False), sp.csr_matrix(X), sp.csr_matrix(y[:, None]), costs, negative=costs)
    assert shard.gap[0] <= 1e-3


def test_newton_restarts_at_0_if_coordinate_ascent_overflowed():
    X = sp.csr_matrix(np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32))
    design = lay_out(X, bias=True, seed=0)
    start = InitialSolution(
        np.zeros(4, np.float32), 0.0, np.float32(0), False, 0.0, np.empty(0, np.int32), np.empty(0, np.float32)
    )
    label = LabelState(0, np.arange(5, dtype=np.int32), (np.ones(5), 1.0), start, 0)
    label.w, label.bias = np.full(4, np.nan, np.float32), np.float32(np.inf)
    Newton(design, label).solve(1e-6)
    assert label.gap <= 1e-6


@pytest.mark.parametrize("fit_bias", [True, False])
def test_rows_with_tiny_norms_are_certified(fit_bias):
    X = 1e-20 * np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    shard = solve(SquaredHinge(fit_bias=fit_bias), sp.csr_matrix(X), sp.csr_matrix(np.arange(20)[:, None] < 5))
    assert shard.gap[0] <= 1e-3
