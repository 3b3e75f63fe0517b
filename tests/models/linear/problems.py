"""Small problems and slow reference implementations of their objective and optimum."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from unmissed.models.linear.design import LabelBlock
from unmissed.models.linear.dismec.solver import SquaredHinge
from unmissed.models.linear.shard import Shard


def make_problem(seed: int, n_samples: int = 120, n_features: int = 30, n_labels: int = 5) -> tuple[Any, Any]:
    """Return sparse rows and labels that depend on them, some rare and some frequent."""
    rng = np.random.default_rng(seed)
    X = sp.random(n_samples, n_features, density=0.2, random_state=seed, format="csr", dtype=np.float32)
    scores = X @ rng.standard_normal((n_features, n_labels)) + 0.1 * rng.standard_normal((n_samples, n_labels))
    shares = rng.uniform(0.02, 0.6, n_labels)
    Y = np.column_stack(
        [scores[:, label] > np.quantile(scores[:, label], 1 - shares[label]) for label in range(n_labels)]
    )
    return X, sp.csr_matrix(Y.astype(np.float32))


def no_dense(n_samples: int) -> tuple[tuple[Any, ...], np.ndarray]:
    """Return the dense features of rows that have none, and the same quantized."""
    nothing = np.zeros(n_samples, np.int64), np.empty(0, np.float32), 0, np.ones(n_samples, np.float32)
    return nothing, np.empty((n_samples, 0), np.int16)


def solve(solver: SquaredHinge, X: Any, Y: Any, positive: Any = None, negative: Any = None) -> Shard:
    """Return the solutions of all labels as one block; costs default to 1."""
    Y = sp.csc_matrix(Y)
    ones = np.ones(Y.shape[1])
    block = LabelBlock(
        first=0,
        starts=Y.indptr.astype(np.int64),
        rows=Y.indices,
        positive=ones if positive is None else np.asarray(positive, float),
        negative=ones if negative is None else np.asarray(negative, float),
    )
    return solver.prepare(X).solve(block)


def dense_weights(shard: Shard, n_features: int) -> np.ndarray:
    """Return the weights as a dense (n_labels, n_features) matrix; weights of dense features come last."""
    W = np.zeros((shard.n_labels, n_features), np.float32)
    if shard.dense is not None:
        W[:, n_features - shard.dense.shape[1] :] = shard.dense
    for label in range(shard.n_labels):
        features, weights = shard.of_label(label)
        W[label, features] = weights
    return W


def naive_objective(X: Any, y: Any, w: Any, b: float, positive: float, negative: float, bias: str) -> float:
    """Return 1/2 |w|^2 (+ 1/2 b^2) + sum of costs times squared hinge, row by row."""
    total = 0.5 * sum(float(v) ** 2 for v in w) + (0.5 * b * b if bias == "regularized" else 0.0)
    for row, label in zip(X.toarray(), y, strict=True):
        z = 1.0 if label else -1.0
        total += (positive if label else negative) * max(0.0, 1.0 - z * (float(row @ w) + b)) ** 2
    return total


def naive_optimum(X: Any, y: Any, positive: float, negative: float, bias: str) -> float:
    """Return the minimum of the objective by a general-purpose optimizer in float64."""
    rows = X.toarray().astype(float)
    z = np.where(y, 1.0, -1.0)
    cost = np.where(y, positive, negative)
    extended = np.column_stack([rows, np.zeros(len(z)) if bias == "none" else np.ones(len(z))])
    ridge = np.ones(extended.shape[1])
    ridge[-1] = 1.0 if bias == "regularized" else 0.0

    def value_and_gradient(t: Any) -> tuple[float, Any]:
        slack = np.maximum(0.0, 1.0 - z * (extended @ t))
        return 0.5 * float(ridge @ t**2) + float(cost @ slack**2), ridge * t - 2 * extended.T @ (cost * z * slack)

    result = minimize(value_and_gradient, np.zeros(extended.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-7})
    return float(result.fun)
