"""Half steps of LEML against dense closed forms, and properties of the alternation."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from tests.models.linear.problems import make_problem
from unmissed.execution import Threads
from unmissed.execution.blas import one_blas_thread
from unmissed.models.embeddings.leml.solver import AlternationState, alternate, initial_state, make_half_steps

PENALTY = 0.7
RANK = 3


def problem(seed: int = 0) -> tuple[Any, Any, Any, Any, Any]:
    """Rows, labels, a mask of observed entries, and initial factors."""
    X, Y = make_problem(seed, n_samples=70, n_features=12, n_labels=9)
    X.data = X.data.astype(np.float32)
    rng = np.random.default_rng(seed + 1)
    observed = sp.csr_matrix((rng.random(Y.shape) < 0.4).astype(np.float32))
    W = rng.standard_normal((12, RANK)).astype(np.float32)
    H = rng.standard_normal((9, RANK)).astype(np.float32)
    return X, Y, observed, W, H


def exact(X: Any, Y: Any, loss: str = "squared", **others: Any) -> Any:
    """Half steps solved to the precision of float32."""
    newton = {} if loss == "squared" and others.get("observed") is None else {"tol": 1e-6, "newton": 30}
    settings: dict[str, Any] = {"penalty": PENALTY, "tol": 1e-12, "steps": 200} | newton
    return make_half_steps(X, Y, Threads(2), loss=loss, **settings | others)


def run(half_steps: Any, state: AlternationState, times: int) -> AlternationState:
    """Run a number of alternations."""
    for _ in range(times):
        state = alternate(half_steps, state, 0.0)
    return state


def losses(loss: str, Y: Any, scores: Any) -> Any:
    """The loss of each entry."""
    z = 2 * Y - 1
    if loss == "squared":
        return 0.5 * (scores - Y) ** 2
    return np.logaddexp(0, -z * scores) if loss == "logistic" else np.maximum(0, 1 - z * scores) ** 2


def ridge(design: Any, targets: Any) -> Any:
    """The dense solution of min |targets - design v|^2/2 + PENALTY/2 |v|^2."""
    return np.linalg.solve(design.T @ design + PENALTY * np.eye(design.shape[1]), design.T @ targets)


@pytest.mark.parametrize("propensity", [1.0, 0.4])
def test_the_feature_half_step_is_ridge_regression_on_the_kronecker_product(propensity):
    X, Y, _, W, H = problem()
    inverse = None if propensity == 1 else np.linspace(1, 1 / propensity, Y.shape[1])
    targets = Y.toarray() * (1 if inverse is None else inverse)
    solved = exact(X, Y, inverse_propensities=inverse).solve_features(W, H)
    expected = ridge(np.kron(X.toarray(), H), targets.ravel()).reshape(W.shape)
    np.testing.assert_allclose(solved, expected, atol=2e-5)


@pytest.mark.parametrize("propensity", [1.0, 0.4])
def test_the_label_half_step_is_one_ridge_regression_per_label(propensity):
    X, Y, _, W, H = problem()
    inverse = None if propensity == 1 else np.linspace(1, 1 / propensity, Y.shape[1])
    targets = Y.toarray() * (1 if inverse is None else inverse)
    embedded = X @ W
    solved = exact(X, Y, inverse_propensities=inverse).solve_labels(H, embedded)
    np.testing.assert_allclose(solved, ridge(embedded.astype(float), targets).T, atol=2e-5)


def test_masked_half_steps_are_ridge_regressions_over_the_observed_entries():
    X, Y, observed, W, H = problem()
    rows, labels = observed.nonzero()
    seen = Y.toarray()[rows, labels]
    hidden = Y.toarray()
    hidden[observed.toarray() == 0] = 1  # unobserved entries must be ignored
    half_steps = exact(X, sp.csr_matrix(hidden), observed=observed)
    design = np.einsum("ef,er->efr", X.toarray()[rows], H[labels]).reshape(len(rows), -1)
    np.testing.assert_allclose(half_steps.solve_features(W, H), ridge(design, seen).reshape(W.shape), atol=2e-4)
    embedded = X @ W
    solved = half_steps.solve_labels(H, embedded)
    for label in range(Y.shape[1]):
        of_label = labels == label
        np.testing.assert_allclose(
            solved[label], ridge(embedded[rows[of_label]].astype(float), seen[of_label]), atol=2e-4
        )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared-hinge"])
def test_other_losses_match_a_dense_minimizer(loss, masked):
    X, Y, observed, W, H = problem()
    mask = observed.toarray() if masked else np.ones(Y.shape)
    half_steps = exact(X, Y, loss, observed=observed if masked else None)

    def of_features(flat):
        scores = X.toarray() @ flat.reshape(W.shape) @ H.T
        return (mask * losses(loss, Y.toarray(), scores)).sum() + PENALTY / 2 * (flat @ flat)

    def of_labels(flat):
        scores = (X @ W) @ flat.reshape(H.shape).T
        return (mask * losses(loss, Y.toarray(), scores)).sum() + PENALTY / 2 * (flat @ flat)

    best = minimize(of_features, W.ravel().astype(float), method="L-BFGS-B", options={"maxfun": 10**6}).fun
    assert of_features(half_steps.solve_features(W, H).ravel().astype(float)) <= best * (1 + 1e-5)
    best = minimize(of_labels, H.ravel().astype(float), method="L-BFGS-B", options={"maxfun": 10**6}).fun
    assert of_labels(half_steps.solve_labels(H, X @ W).ravel().astype(float)) <= best * (1 + 1e-5)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared-hinge"])
def test_the_recorded_objective_matches_the_dense_formula_and_never_increases(loss, masked):
    X, Y, observed, _, _ = problem(3)
    half_steps = make_half_steps(
        X, Y, Threads(2), loss=loss, penalty=PENALTY, observed=observed if masked else None, steps=10
    )
    state = run(half_steps, initial_state(12, 9, RANK, 5), 8)
    scores = X.toarray() @ state.features @ state.labels.T
    mask = observed.toarray() if masked else 1.0
    expected = (mask * losses(loss, Y.toarray(), scores)).sum()
    expected += PENALTY / 2 * ((state.features**2).sum() + (state.labels**2).sum())
    assert state.objectives[-1] == pytest.approx(expected, rel=1e-5)
    assert (np.diff(state.objectives) <= 0).all()
    assert state.objectives[-1] < 0.9 * state.objectives[0]


def test_the_unbiased_objective_is_theorem_1_entry_by_entry():
    X, Y, _, W, H = problem()
    p = np.linspace(0.3, 1, Y.shape[1])
    half_steps = exact(X, Y, inverse_propensities=1 / p)
    scores, y = X.toarray() @ W @ H.T, Y.toarray()
    positive, negative = losses("squared", 1.0, scores), losses("squared", 0.0, scores)
    expected = np.where(y == 1, positive / p + (1 - 1 / p) * negative, negative).sum()
    expected += PENALTY / 2 * ((W**2).sum() + (H**2).sum())
    assert half_steps.objective(W, H, X @ W) == pytest.approx(expected, rel=1e-5)


def test_a_half_step_that_increases_the_objective_is_rejected():
    X, Y, _, W, H = problem()
    half_steps = exact(X, Y)
    low = half_steps.objective(W, H, X @ W)
    half_steps.solve_features = lambda features, labels, gain: features * 100
    half_steps.solve_labels = lambda labels, embedded: labels * 100
    state = alternate(half_steps, AlternationState(W, H, (low + 1, low, low, low)), 0.0)
    np.testing.assert_array_equal(state.features, W)
    np.testing.assert_array_equal(state.labels, H)
    assert state.objectives == (low + 1, low, low, low, low, low)
    assert state.done


@one_blas_thread()
def exact_alternations(X: Any, targets: Any, H: Any, penalty: float, times: int) -> float:
    """The objective after a number of alternations from H, each half step solved in dense float64."""
    gram, cross = X.T @ X, X.T @ targets
    values, turn = np.linalg.eigh(gram)
    for _ in range(times):
        strength, of_labels = np.linalg.eigh(H.T @ H)
        turned = (turn.T @ cross @ H @ of_labels) / (np.outer(values, strength) + penalty)
        W = turn @ turned @ of_labels.T
        H = np.linalg.solve(W.T @ gram @ W + penalty * np.eye(H.shape[1]), W.T @ cross).T
    fit = -np.vdot(cross, W @ H.T) + 0.5 * np.vdot(W.T @ gram @ W, H.T @ H)
    return float(0.5 * targets.sum() + fit + 0.5 * penalty * (np.vdot(W, W) + np.vdot(H, H)))


@pytest.mark.parametrize("unbiased", [False, True])
def test_a_tiny_tolerance_converges_to_the_result_of_exact_alternation(unbiased):
    X, Y = make_problem(4, n_samples=150, n_features=30, n_labels=10)
    inverse = 1 / np.linspace(0.2, 0.9, 10) if unbiased else None
    penalty, state = 1.0, initial_state(30, 10, 5, 7)
    targets = Y.toarray() * (1.0 if inverse is None else inverse)
    least = exact_alternations(X.toarray().astype(float), targets, state.labels.astype(float), penalty, 1000)
    half_steps = make_half_steps(X, Y, Threads(1), loss="squared", penalty=penalty, inverse_propensities=inverse)
    while not state.done and state.n_alternations < 2000:
        state = alternate(half_steps, state, 1e-12)
    further = exact_alternations(X.toarray().astype(float), targets, state.labels.astype(float), penalty, 20)
    assert state.done
    assert state.objectives[-1] == pytest.approx(further, rel=1e-5), "exact alternation has nothing left to gain"
    assert state.objectives[-1] == pytest.approx(least, rel=1e-4), "both reach the same minimum"


@pytest.mark.parametrize("tol", [1e-4, 1e-5])
def test_a_half_step_is_solved_until_little_of_its_decrease_remains(tol):
    X, Y = make_problem(4, n_samples=400, n_features=120, n_labels=30)
    half_steps = make_half_steps(X, Y, Threads(1), loss="squared", penalty=0.1)
    best = make_half_steps(X, Y, Threads(1), loss="squared", penalty=0.1, tol=1e-12, steps=1000)
    state = initial_state(120, 30, 20, 7)
    while not state.done:
        state = alternate(half_steps, state, tol)
    low = state.objectives[-1]
    exact, approximate = (
        low - half.objective(W, state.labels, half.X.times(W))
        for half in (best, half_steps)
        for W in [half.solve_features(state.features, state.labels, state.least_gain)]
    )
    assert approximate >= 0.8 * exact > 0


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_threads_and_resuming_from_a_stored_state_do_not_change_a_bit(loss, masked):
    X, Y = make_problem(2, n_samples=900, n_features=40, n_labels=30)
    observed = sp.csr_matrix((np.random.default_rng(0).random(Y.shape) < 0.3).astype(np.float32)) if masked else None
    results = []
    for n_jobs in (1, 3):
        half_steps = make_half_steps(X, Y, Threads(n_jobs), loss=loss, penalty=0.5, observed=observed)
        results.append(run(half_steps, initial_state(40, 30, 8, 1), 3))
    results.append(run(half_steps, run(half_steps, initial_state(40, 30, 8, 1), 1), 2))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].features, other.features)
        np.testing.assert_array_equal(results[0].labels, other.labels)
        assert results[0].objectives == other.objectives
