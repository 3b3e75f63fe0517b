"""LogisticOVR reaches the optimum of slow references, certifies it honestly, and keeps the unbiased loss convex."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from tests.models.linear.problems import dense_weights, make_problem
from unmissed import LogisticOVR
from unmissed.errors import InputError
from unmissed.losses.margin import logistic_curvature, logistic_derivative, logistic_value
from unmissed.models.linear.design import LabelBlock
from unmissed.models.linear.logistic.kernels import minimize_model, softplus
from unmissed.models.linear.logistic.solver import Logistic
from unmissed.numerics.float64_sums import dot
from unmissed.numerics.simd import LANES
from unmissed.numerics.transpose import interleave, separate
from unmissed.propensity import Constant, costs
from unmissed.settings import SETTINGS


def block_of(Y, positive=1.0, negative=1.0, counter=0.0, labels=None):
    """A block with the same costs for all labels, or for some."""
    Y = sp.csc_matrix(Y)
    Y = Y if labels is None else Y[:, labels]
    ones = np.ones(Y.shape[1])
    return LabelBlock(0, Y.indptr.astype(np.int64), Y.indices, positive * ones, negative * ones, counter * ones)


def reference(rows, y, point, positive, negative, counter):
    """The objective and its gradient in float64; the last weight is the bias if `rows` ends with a constant 1."""
    m = rows @ point
    losses = np.where(y, positive * logistic_value(m) + counter * logistic_value(-m), negative * logistic_value(-m))
    positives = positive * logistic_derivative(m) - counter * logistic_derivative(-m)
    slopes = np.where(y, positives, -negative * logistic_derivative(-m))
    return 0.5 * point @ point + losses.sum(), point + rows.T @ slopes


def optimum(rows, y, *label_costs):
    """The minimum, by a general-purpose optimizer."""
    start = np.zeros(rows.shape[1])
    options = {"maxiter": 5000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(
        lambda point: reference(rows, y, point, *label_costs), start, jac=True, method="L-BFGS-B", options=options
    )
    return float(found.fun)


def with_ones(X, fit_bias=True):
    rows = X.toarray().astype(float)
    return np.column_stack([rows, np.ones(len(rows))]) if fit_bias else rows


def points(shard, n_features, fit_bias=True):
    W = dense_weights(shard, n_features).astype(float)
    return np.column_stack([W, shard.bias]) if fit_bias else W


@pytest.mark.kernel
@pytest.mark.parametrize("m", [-800.0, -30.0, -8.0, -1.0, -1e-9, 0.0, 0.3, 7.5, 40.0, 800.0])
def test_softplus_is_the_logistic_loss_of_a_negative(m):
    value, derivative = softplus(m)
    assert value == pytest.approx(logistic_value(np.float64(-m)), rel=1e-12, abs=1e-300)
    assert derivative == pytest.approx(-logistic_derivative(np.float64(-m)), rel=1e-14, abs=1e-300)


@pytest.mark.kernel
def test_transposes_invert_one_another_and_dot_is_the_sum_of_products():
    rng = np.random.default_rng(0)
    by_label, back = rng.standard_normal((LANES, 37)).astype(np.float32), np.empty((LANES, 37), np.float32)
    flat = np.empty(LANES * 37, np.float32)
    interleave(by_label, flat)
    assert np.array_equal(flat.reshape(37, LANES), by_label.T)
    separate(flat, back)
    assert np.array_equal(back, by_label)
    assert dot(by_label[0], by_label[1]) == pytest.approx(float(by_label[0].astype(float) @ by_label[1].astype(float)))


@pytest.mark.kernel
def test_a_model_of_all_rows_is_the_problem_itself():
    X, Y = make_problem(3, n_samples=40, n_features=8, n_labels=1)
    y = Y.toarray()[:, 0] > 0
    rows = with_ones(X)
    start = np.zeros(9)
    _, g = reference(rows, y, start, 2.0, 1.0, -0.5)
    losses = np.where(y, 1.5, 1.0), np.where(y, 2.0, 0.0)
    w, vectors = np.zeros(8, np.float32), np.empty((6, 8), np.float32)
    X = X.indptr.astype(np.int64), X.indices.astype(np.uint32), X.data
    everything = np.arange(len(y), dtype=np.int32)
    bias, slope = minimize_model(X, everything, losses, 1.0, g[:8].astype(np.float32), g[8], w, 0.0, vectors)
    value, at_end = reference(rows, y, np.append(w.astype(float), bias), 2.0, 1.0, -0.5)
    assert np.linalg.norm(at_end) <= 0.21 * np.linalg.norm(g)
    assert slope == pytest.approx(g @ np.append(w, bias), rel=1e-4)
    assert value < reference(rows, y, start, 2.0, 1.0, -0.5)[0]


@pytest.mark.parametrize("C", [0.03, 1.0, 25.0])
@pytest.mark.parametrize("fit_bias", [True, False])
def test_the_objective_is_not_above_that_of_liblinear(C, fit_bias):
    X, Y = make_problem(21, n_samples=80, n_features=15, n_labels=3)
    model = LogisticOVR(C=C, fit_bias=fit_bias, tol=1e-6, prune=0.0, normalize=False, n_jobs=1).fit(X, Y)
    rows, found = with_ones(X, fit_bias), points(model.shards_[0], 15, fit_bias)
    for label in range(3):
        y = Y.toarray()[:, label] > 0
        peer = LogisticRegression(C=C, solver="liblinear", fit_intercept=fit_bias, tol=1e-8, max_iter=5000)
        peer.fit(X.astype(float), y)
        theirs = np.append(peer.coef_[0], peer.intercept_) if fit_bias else peer.coef_[0]
        ours, best = (reference(rows, y, point, C, C, 0.0)[0] for point in (found[label], theirs))
        assert ours <= best * (1 + 1e-6)
        assert np.allclose(rows @ found[label], rows @ theirs, atol=5e-3)
        assert np.allclose(model.predict_proba(X, [label])[:, 0], peer.predict_proba(X.astype(float))[:, 1], atol=2e-3)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    p=st.floats(0.05, 1.0),
    C=st.sampled_from([0.01, 1.0, 30.0]),
    scale=st.sampled_from([0.2, 1.0, 8.0]),
    tol=st.sampled_from([1e-1, 1e-3, 1e-6]),
)
def test_the_certificate_bounds_the_distance_to_the_optimum(seed, p, C, scale, tol):
    X, Y = make_problem(seed % 1000, n_samples=60, n_features=10, n_labels=2)
    X.data *= np.float32(scale)
    label_costs = C / p, C, C * (1 - 1 / p)
    shard = Logistic(tol=tol, prune=0.0).prepare(X).solve(block_of(Y, *label_costs))
    rows = with_ones(X)
    for label, point in enumerate(points(shard, 10)):
        y = Y.toarray()[:, label] > 0
        value, gradient = reference(rows, y, point, *label_costs)
        m = rows[y] @ point
        terms = value + 2 * np.maximum(0.0, -label_costs[2] * m).sum()
        assert shard.gap[label] <= tol
        assert shard.objective[label] >= value - 1e-12 * terms
        assert shard.objective[label] == pytest.approx(value, abs=1e-8 * terms)
        assert shard.gap[label] * terms >= 0.5 * gradient @ gradient * (1 - 1e-9)
        assert value - optimum(rows, y, *label_costs) <= shard.gap[label] * terms * (1 + 1e-9) + 1e-12 * terms


def test_the_unbiased_loss_is_the_loss_of_complete_labels_in_expectation():
    p, m = 0.3, np.linspace(-6, 6, 25)
    (positive,), (counter,), (negative,) = costs("unbiased", [p])
    observed, missing = positive * logistic_value(m) + counter * logistic_value(-m), negative * logistic_value(-m)
    assert np.allclose(p * observed + (1 - p) * missing, logistic_value(m))
    convex = (positive + counter) * logistic_value(m) + counter * m
    assert np.allclose(observed, convex)
    assert (positive * logistic_curvature(m) + counter * logistic_curvature(-m) > 0).all()


def test_unbiased_probabilities_are_those_of_complete_labels():
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(4), 500)
    X = sp.csr_matrix(np.eye(4, dtype=np.float32)[groups])
    complete = rng.random(2000) < np.array([0.1, 0.4, 0.7, 0.9])[groups]
    observed = complete & (rng.random(2000) < 0.5)
    model = LogisticOVR(C=100.0, weighting="unbiased", propensity=Constant(0.5), n_jobs=1)
    found = model.fit(X, sp.csr_matrix(observed[:, None])).predict_proba(X[::500])[:, 0]
    assert np.allclose(found[:3], [0.1, 0.4, 0.7], atol=0.06)
    without = LogisticOVR(C=100.0, n_jobs=1).fit(X, sp.csr_matrix(observed[:, None])).predict_proba(X[::500])[:, 0]
    assert np.allclose(without, [0.05, 0.2, 0.35, 0.45], atol=0.05)


def test_solutions_do_not_depend_on_blocks_lanes_or_threads(monkeypatch):
    X, Y = make_problem(9, n_samples=90, n_features=20, n_labels=LANES + 9)
    p = np.linspace(0.1, 1.0, Y.shape[1])
    together, *others = (
        LogisticOVR(weighting="unbiased", propensity=p, block_size=size, n_jobs=n_jobs, prune=0.0, tol=1e-5).fit(X, Y)
        for size, n_jobs in ((1000, 1), (16, 2), (1, 1))
    )
    monkeypatch.setattr(SETTINGS, "logistic_per_label", 0)
    others.append(
        LogisticOVR(weighting="unbiased", propensity=p, block_size=5, n_jobs=1, prune=0.0, tol=1e-5).fit(X, Y)
    )
    for other in others:
        assert np.array_equal(other.coef_.toarray(), together.coef_.toarray())
        assert np.array_equal(other.intercept_, together.intercept_)
        assert np.array_equal(other.certificate().gap, together.certificate().gap)


def test_duplicate_labels_with_other_counter_costs_are_solved_apart():
    X, Y = make_problem(2, n_labels=1)
    Y = sp.hstack([Y, Y, Y]).tocsc()
    block = block_of(Y, 2.0)
    both = LabelBlock(
        0, block.starts, block.rows, block.positive, block.negative, np.array([0.0, -1.0, -1.0]), np.ones(3, np.bool_)
    )
    shard = Logistic(prune=0.0).prepare(X).solve(both)
    assert shard.objective[0] != shard.objective[1]
    assert shard.objective[1] == shard.objective[2]


def test_labels_without_positives_or_without_negatives_are_solved():
    X, _ = make_problem(5, n_samples=50, n_features=6)
    Y = np.zeros((50, 2), np.float32)
    Y[:, 1] = 1
    shard = Logistic(tol=1e-5, prune=0.0).prepare(X).solve(block_of(Y))
    assert (shard.gap <= 1e-5).all()
    assert shard.objective[0] == pytest.approx(shard.objective[1], rel=1e-4)
    assert shard.bias[0] == pytest.approx(-shard.bias[1], rel=1e-2)


def test_a_label_that_stops_early_is_named_and_its_certificate_is_honest():
    X, Y = make_problem(11, n_samples=100, n_features=12, n_labels=1)
    shard = Logistic(tol=1e-6, prune=0.0, max_rounds=1).prepare(X).solve(block_of(Y, 50.0, 50.0))
    y = Y.toarray()[:, 0] > 0
    (point,) = points(shard, 12)
    value, _ = reference(with_ones(X), y, point, 50.0, 50.0, 0.0)
    assert shard.gap[0] > 1e-6
    assert value - optimum(with_ones(X), y, 50.0, 50.0, 0.0) <= shard.gap[0] * value


def test_a_step_that_raises_the_objective_is_shortened(monkeypatch):
    X, Y = make_problem(11, n_samples=100, n_features=12, n_labels=1)
    monkeypatch.setattr(SETTINGS, "logistic_threshold", 1e6)  # the model then ignores the curvature of all negatives
    shard = Logistic(tol=1e-5, prune=0.0, max_rounds=500).prepare(X).solve(block_of(Y, 5.0, 5.0))
    assert shard.gap[0] <= 1e-5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counter": -1.5}, "label 0 has the counter cost -1.5: its problem is not convex"),
        ({"counter": np.nan}, "label 0 has the counter cost nan"),
        ({"negative": -1.0}, "label 0 has the negative cost -1"),
        ({"positive": np.inf}, "label 0 has the positive cost inf"),
    ],
)
def test_costs_that_are_not_convex_are_refused(change, message):
    X, Y = make_problem(17, n_labels=2)
    with pytest.raises(InputError, match=message):
        Logistic().prepare(X).solve(block_of(Y, **change))


def test_counter_costs_are_solved_down_to_the_limit_of_convexity():
    X, Y = make_problem(17, n_labels=2)
    shard = Logistic().prepare(X).solve(block_of(Y, counter=-1.0))
    assert (shard.gap <= 1e-3).all()


def test_bad_parameters_are_refused_with_their_name():
    X, Y = make_problem(1)
    for change, message in (
        ({"C": 0}, "C must be a number above 0"),
        ({"C": 1e308, "propensity": 0.01, "weighting": "unbiased"}, "overflows float64"),
        ({"fit_bias": "free"}, "fit_bias must be True or False"),
        ({"weighting": "heavy"}, "heavy"),
    ):
        with pytest.raises(InputError, match=message):
            LogisticOVR(**change).fit(X, Y)
