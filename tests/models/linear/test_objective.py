"""The default objectives, and the parameters of the paper's objective: C = 0.5 and an unpenalized bias."""

import numpy as np
import pytest
from scipy.optimize import minimize

from unmissed.models import DiSMEC, PWDiSMEC
from unmissed.propensity import Jain, costs


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4)) + 0.5
    Y = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(60, 3)) > 0.8).astype(int)
    return X, Y


def paper_scores(X, y, cost):
    """Minimize |w|^2 + cost sum (1 - s)^2 over positives + sum (1 + s)^2 over negatives, b not penalized; return s."""
    z, weight = 2 * y - 1, np.where(y == 1, cost, 1.0)

    def objective(parameters):
        w, b = parameters[:-1], parameters[-1]
        slack = np.maximum(0, 1 - z * (X @ w + b))
        derivative = -2 * weight * slack * z
        return w @ w + weight @ slack**2, np.append(2 * w + derivative @ X, derivative.sum())

    result = minimize(
        objective, np.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-15}
    )
    return X @ result.x[:-1] + result.x[-1]


def test_c_of_one_half_and_a_free_bias_give_the_objective_of_the_paper(problem):
    X, Y = problem
    exact = {"C": 0.5, "fit_bias": "free", "prune": 0, "normalize": False, "tol": 1e-6}
    plain = DiSMEC(**exact).fit(X, Y).decision_function(X, [0, 1, 2])
    weighted = PWDiSMEC(weighting="surrogate", **exact).fit(X, Y).decision_function(X, [0, 1, 2])
    positive = costs("surrogate", Jain().estimate(Y.sum(axis=0), 60)).positive
    for label in range(3):
        np.testing.assert_allclose(plain[:, label], paper_scores(X, Y[:, label], 1.0), atol=5e-3)
        np.testing.assert_allclose(weighted[:, label], paper_scores(X, Y[:, label], positive[label]), atol=5e-3)


def test_the_default_weighting_is_floored_tail_by_jains_model(problem):
    X, Y = problem
    scores = {
        name: PWDiSMEC(**weighting).fit(X, Y).decision_function(X, [0, 1, 2])
        for name, weighting in {
            "default": {},
            "floored-tail": {"weighting": "floored-tail", "propensity": Jain(0.55, 1.5), "C": 0.5},
            "surrogate": {"weighting": "surrogate"},
        }.items()
    }
    np.testing.assert_array_equal(scores["default"], scores["floored-tail"])
    assert np.abs(scores["default"] - scores["surrogate"]).max() > 0.1
