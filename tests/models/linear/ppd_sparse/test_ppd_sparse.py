"""The solver of PPD-Sparse reaches the optimum of a slow reference implementation, and its duality gap is a bound."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.linear.problems import dense_weights, make_problem, solve
from unmissed.errors import InputError
from unmissed.models import PPDSparse
from unmissed.models.linear.dismec.solver import SquaredHinge
from unmissed.models.linear.ppd_sparse.solver import SparseHinge


def extended(X, fit_bias):
    """Return dense float64 rows with the constant feature last, 0 if there is no bias."""
    rows = X.toarray().astype(float)
    return np.column_stack([rows, np.full(len(rows), 1.0 if fit_bias else 0.0)])


def naive_objective(X, y, t, l1, positive, negative, loss):
    """Return the objective of the weights t, bias last, row by row."""
    total = sum(l1 * abs(v) for v in t[:-1]) + 0.5 * sum(v * v for v in t)
    for row, label in zip(extended(X, True), y, strict=True):
        cost = positive if label else negative
        total += cost * max(0.0, 1.0 - (1.0 if label else -1.0) * float(row @ t)) ** (1 if loss == "hinge" else 2)
    return total


def dual_optimum(X, y, l1, positive, negative, fit_bias, loss):
    """Return the maximum of PPD-Sparse's dual: accelerated projected gradient in dense float64."""
    z = np.where(y, 1.0, -1.0)
    rows = z[:, None] * extended(X, fit_bias)
    cost = np.where(y, positive, negative)
    threshold = np.append(np.full(rows.shape[1] - 1, l1), 0.0)
    cap, h = (cost, 0.0 * cost) if loss == "hinge" else (np.inf, 0.5 / cost)
    step = 1.0 / (np.linalg.norm(rows, 2) ** 2 + max(h) + 1e-12)

    def weights(a):
        v = a @ rows
        return np.sign(v) * np.maximum(np.abs(v) - threshold, 0)

    a = ahead = np.zeros(len(z))
    momentum, best = 1.0, -np.inf
    for _ in range(30_000):
        moved = np.clip(ahead + step * (1 - rows @ weights(ahead) - h * ahead), 0, cap)
        converged = np.abs(moved - ahead).max() <= 1e-7 * step
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / grown * (moved - a)
        a, momentum = moved, grown
        best = max(best, a.sum() - 0.5 * h @ a**2 - 0.5 * np.sum(weights(a) ** 2))
        if converged:
            break
    return best


@pytest.mark.kernel
@pytest.mark.parametrize("fit_bias", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
@pytest.mark.parametrize("l1", [0.05, 0.5])
def test_the_objective_equals_that_of_a_reference_implementation_and_the_gap_bounds_the_excess(fit_bias, l1, loss):
    X, Y = make_problem(0, n_samples=60, n_features=12, n_labels=3)
    positive, negative = [1.0, 3.5, 0.4], [1.0, 1.0, 0.7]
    solver = SparseHinge(l1=l1, loss=loss, tol=1e-5, prune=0.0, fit_bias=fit_bias)
    shard = solve(solver, X, Y, positive, negative)
    W = dense_weights(shard, X.shape[1])
    for label in range(3):
        y = Y[:, [label]].toarray().ravel() > 0
        t = np.append(W[label], shard.bias[label]).astype(float)
        assert fit_bias or t[-1] == 0
        reached = naive_objective(X, y, t, l1, positive[label], negative[label], loss)
        best = dual_optimum(X, y, l1, positive[label], negative[label], fit_bias, loss)
        assert shard.objective[label] == pytest.approx(reached, rel=1e-9), "the objective is that of the weights"
        assert reached == pytest.approx(best, rel=1e-4), "within 0.01 % of the reference implementation"
        assert reached - best <= shard.gap[label] * reached + 1e-7 * reached, "the gap bounds the excess"
        assert shard.gap[label] <= 1e-5


def exact_objective(X, y, t, l1, loss):
    """Return the objective of the weights t, bias last, with costs of 1, in exact rational arithmetic."""
    point = [Fraction(float(v)) for v in t]
    total = sum(v * v for v in point) / 2 + Fraction(l1) * sum(map(abs, point[:-1]))
    for row, label in zip(extended(X, True), y, strict=True):
        score = sum(Fraction(float(x)) * v for x, v in zip(row, point, strict=True) if x)
        total += max(Fraction(0), 1 - (1 if label else -1) * score) ** (1 if loss == "hinge" else 2)
    return total


@pytest.mark.parametrize("fit_bias", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_the_objective_is_exact_and_the_gap_is_a_bound_for_features_of_any_scale(scale, loss, fit_bias):
    X, Y = make_problem(0, n_samples=200, n_features=30, n_labels=4)
    X = X * np.float32(scale)
    shards = [
        solve(SparseHinge(l1=0.2, loss=loss, prune=0.0, fit_bias=fit_bias, max_rounds=rounds), X, Y)
        for rounds in (1, 100)
    ]
    for label in range(4):
        y = Y[:, [label]].toarray().ravel() > 0
        points = [np.append(dense_weights(shard, 30)[label], shard.bias[label]) for shard in shards]
        true = [exact_objective(X, y, point, 0.2, loss) for point in points]
        for shard, value in zip(shards, true, strict=True):
            reported, gap = float(shard.objective[label]), float(shard.gap[label])
            assert value * (1 - Fraction(1, 10**12)) <= reported <= value * (1 + Fraction(1, 10**7))
            assert Fraction(reported) * (1 - Fraction(gap)) <= min(true), "no point is below the certified bound"


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_samples=st.integers(1, 80),
    cost=st.floats(0.05, 30),
    l1=st.floats(0.01, 3),
    loss=st.sampled_from(["hinge", "squared-hinge"]),
)
def test_every_label_of_any_problem_is_certified(seed, n_samples, cost, l1, loss):
    X, Y = make_problem(seed, n_samples=n_samples, n_features=9, n_labels=4)
    shard = solve(SparseHinge(l1=l1, loss=loss, tol=1e-3), X, Y, positive=np.full(4, cost))
    assert (shard.gap <= 1e-3).all()
    assert np.isfinite(shard.objective).all()


@pytest.mark.parametrize("fill", [0.0, 1.0])
def test_labels_without_positives_and_without_negatives_are_solved(fill):
    X, _ = make_problem(8)
    Y = np.full((X.shape[0], 1), fill, np.float32)
    shard = solve(SparseHinge(tol=1e-4, prune=0.0), X, Y)
    assert shard.gap[0] <= 1e-4
    scores = X @ dense_weights(shard, X.shape[1])[0] + shard.bias[0]
    assert (np.sign(scores) == (1 if fill else -1)).all()


def test_bits_depend_neither_on_the_other_labels_nor_on_threads():
    X, Y = make_problem(7, n_labels=20)
    straight, other = (PPDSparse(block_size=size, n_jobs=jobs).fit(X, Y) for size, jobs in ((20, 1), (3, 2)))
    for field in ("bias", "objective", "gap", "epochs"):
        one, two = (np.concatenate([getattr(shard, field) for shard in fit.shards_]) for fit in (straight, other))
        assert np.array_equal(one, two), field
    one, two = (np.vstack([dense_weights(shard, X.shape[1]) for shard in fit.shards_]) for fit in (straight, other))
    assert np.array_equal(one, two)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_an_integer_cost_equals_that_many_duplicated_rows(loss):
    X, Y = make_problem(5, n_labels=1)
    y = Y.toarray().ravel() > 0
    thrice = np.concatenate([np.arange(len(y)), np.flatnonzero(y), np.flatnonzero(y)])
    solver = SparseHinge(loss=loss, tol=1e-6, prune=0.0)
    weighted, repeated = solve(solver, X, Y, positive=[3.0]), solve(solver, X[thrice], Y[thrice])
    assert weighted.objective == pytest.approx(repeated.objective, rel=3e-6)


def test_the_squared_hinge_without_an_l1_penalty_equals_dismec():
    X, Y = make_problem(6)
    ours = solve(SparseHinge(l1=0.0, loss="squared-hinge", tol=1e-6, prune=0.0), X, Y)
    theirs = solve(SquaredHinge(tol=1e-6, prune=0.0), X, Y)
    assert ours.objective == pytest.approx(theirs.objective, rel=2e-6)


def test_a_larger_l1_penalty_gives_fewer_weights_and_a_huge_one_none():
    X, Y = make_problem(4)
    sizes = [solve(SparseHinge(l1=l1, prune=0.0), X, Y).weights.size for l1 in (0.01, 0.5, 1e4)]
    assert sizes[0] > sizes[1] > sizes[2] == 0


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("l1", -1.0), ("l1", np.nan), ("loss", "hinges"), ("tol", 0), ("fit_bias", "free"), ("max_rounds", 0)],
)
def test_invalid_parameters_are_rejected_by_name(parameter, value):
    with pytest.raises(InputError, match=f"{parameter} must be"):
        SparseHinge(**{parameter: value})
