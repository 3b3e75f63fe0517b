"""Solve random problems of every scale and check that no duality gap certificate is wrong.

    python -m benchmarks.certificates [--problems 10000] [--seed 0] [--tol 1e-3]

A problem has up to 60 rows and 10 features: sparse, normal, counts, shifted or L2-normalized, scaled by up to 1e6, with
C from 1e-2 to 1e6, further costs and each kind of bias. The reference is Newton's method in extended precision, to
1e-12. A certificate is wrong if the reference objective is lower than the gap allows. Labels without a certificate are
not counted as wrong.
"""

import argparse
import time
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmissed.models.linear.design import LabelBlock
from unmissed.models.linear.dismec.solver import SquaredHinge

Wide = np.longdouble
KINDS = ("sparse", "normal", "counts", "shifted", "length 1")


class Problem(NamedTuple):
    kind: str
    X: np.ndarray
    y: np.ndarray
    cost: float
    positive: float
    fit_bias: Any


def draw(rng: np.random.Generator) -> Problem:
    """Draw rows of some kind and scale, labels that partly depend on them, and costs."""
    n, d = int(rng.integers(2, 61)), int(rng.integers(1, 11))
    kind = KINDS[rng.integers(len(KINDS))]
    X = rng.standard_normal((n, d))
    if kind == "sparse":
        X *= rng.random((n, d)) < 0.3
    elif kind == "counts":
        X = rng.poisson(rng.choice([0.5, 5.0, 50.0]), (n, d)).astype(float)
    elif kind == "shifted":
        X += 100.0
    if kind == "length 1":
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    else:
        X *= 10.0 ** rng.uniform(-2, 6)
    scores = X @ rng.standard_normal(d)
    scores += rng.choice([0.0, 0.3, 3.0]) * (scores.std() + 1e-9) * rng.standard_normal(n)
    y = scores > np.quantile(scores, rng.uniform(0.3, 0.98))
    fit_bias = (True, False, "free")[rng.integers(3)]
    return Problem(kind, X.astype(np.float32), y, 10.0 ** rng.uniform(-2, 6), 10.0 ** rng.uniform(-1, 1.5), fit_bias)


def objective(problem: Problem, point: np.ndarray) -> Any:
    """The objective of weights and bias, in extended precision."""
    X, z, costs, ridge = _arrays(problem)
    return (ridge * point**2).sum() / 2 + (costs * np.maximum(0, 1 - z * (X @ point)) ** 2).sum()


def _arrays(problem: Problem) -> tuple[Any, Any, Any, Any]:
    n, d = problem.X.shape
    X = np.column_stack([problem.X, np.full(n, problem.fit_bias is not False)]).astype(Wide)
    z = np.where(problem.y, 1, -1).astype(Wide)
    ridge = np.ones(d + 1, Wide)
    ridge[d] = 0 if problem.fit_bias == "free" else 1
    return X, z, np.where(problem.y, problem.cost * problem.positive, problem.cost).astype(Wide), ridge


def reference(problem: Problem) -> Any:
    """The least objective that Newton's method finds in extended precision."""
    X, z, costs, ridge = _arrays(problem)
    point = np.zeros(X.shape[1], Wide)
    best, idle = objective(problem, point), 0
    for _ in range(300):
        slack = np.maximum(0, 1 - z * (X @ point))
        gradient = ridge * point - 2 * X.T @ (costs * z * slack)
        violated = X[slack > 0]
        H = np.diag(ridge) + 2 * violated.T @ (costs[slack > 0, None] * violated)
        H[-1, -1] += H[-1, -1] == 0
        toward = -eliminate(H, gradient)
        point = point + line_search(1 - z * (X @ point), z * (X @ toward), costs, ridge * point, toward, ridge) * toward
        value = objective(problem, point)
        idle = 0 if best - value > 1e-13 * best else idle + 1
        best = min(best, value)
        if idle == 5:
            break
    return best


def line_search(margins: Any, changes: Any, costs: Any, pull: Any, toward: Any, ridge: Any) -> Any:
    """The step at which the derivative, which rises and is linear between kinks, is 0."""
    kinks = np.sort(margins[changes != 0] / changes[changes != 0])
    low, high = Wide(0), Wide(np.inf)

    def derivative(step: Any) -> Any:
        slack = np.maximum(0, margins - step * changes)
        return pull @ toward + step * (ridge * toward) @ toward - 2 * (costs * changes * slack).sum()

    kinks = kinks[kinks > 0]
    while len(kinks):
        middle = kinks[len(kinks) // 2]
        if derivative(middle) > 0:
            high, kinks = middle, kinks[: len(kinks) // 2]
        else:
            low, kinks = middle, kinks[len(kinks) // 2 + 1 :]
    inside = (low + high) / 2 if high < np.inf else low + 1
    active = margins - inside * changes > 0
    curvature = (ridge * toward) @ toward + 2 * (costs[active] * changes[active] ** 2).sum()
    return low if curvature == 0 else low - derivative(low) / curvature


def eliminate(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve A x = b, A symmetric and positive definite, by elimination after scaling its diagonal to 1."""
    scale = 1 / np.sqrt(np.diag(A))
    M = np.column_stack([A * scale * scale[:, None], b * scale])
    n = len(b)
    M[np.arange(n), np.arange(n)] += 1e-17  # what rounding may have left of a direction without curvature
    for at in range(n):
        for other in range(n):
            if other != at:
                M[other] -= M[at] * (M[other, at] / M[at, at])
    return M[:, n] / np.diag(M) * scale


def judge(problem: Problem, tol: float) -> tuple[float, float, float]:
    """Return the seconds that the solver took, the gap it claimed and the true excess, relative to its objective."""
    rows = np.flatnonzero(problem.y).astype(np.int32)
    costs = np.array([problem.cost * problem.positive]), np.array([problem.cost])
    solver = SquaredHinge(tol=tol, prune=0.0, fit_bias=problem.fit_bias)
    begin = time.perf_counter()
    shard = solver.prepare(sp.csr_matrix(problem.X)).solve(LabelBlock(0, np.array([0, len(rows)]), rows, *costs))
    seconds = time.perf_counter() - begin
    point = np.zeros(problem.X.shape[1] + 1, Wide)
    features, weights = shard.of_label(0)
    point[features], point[-1] = weights, shard.bias[0]
    reached = objective(problem, point)
    excess = 0.0 if reached == 0 else float((reached - min(reference(problem), reached)) / reached)
    if reached > shard.objective[0]:
        excess = np.inf  # the objective itself was understated
    return seconds, float(shard.gap[0]), excess


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tol", type=float, default=1e-3)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    judge(draw(np.random.default_rng(1)), options.tol)  # compiles
    drawn, lies, uncertified, good = Counter(), Counter(), Counter(), Counter()
    slowest, margin = (0.0, ""), 0.0
    for number in range(options.problems):
        problem = draw(rng)
        seconds, gap, excess = judge(problem, options.tol)
        drawn[problem.kind] += 1
        if excess > gap:
            lies[problem.kind] += 1
            print(f"  problem {number} ({problem.kind}): claimed {gap:.3e}, true {excess:.3e}")
        if not gap <= options.tol:
            uncertified[problem.kind] += 1
            good[problem.kind] += excess <= options.tol
        margin = max(margin, excess if gap <= options.tol else 0.0)
        slowest = max(slowest, (seconds, f"problem {number} ({problem.kind}, gap {gap:.1e})"))
    print(f"{'kind':10} {'problems':>9} {'lies':>6} {'uncertified':>12} {'of them within tol':>19}")
    for kind in KINDS:
        print(f"{kind:10} {drawn[kind]:9} {lies[kind]:6} {uncertified[kind]:12} {good[kind]:19}")
    print(f"all        {options.problems:9} {lies.total():6} {uncertified.total():12} {good.total():19}")
    print(f"largest true excess of a certified label: {margin:.2e} (tol {options.tol:g})")
    print(f"slowest: {slowest[0]:.3f} s, {slowest[1]}")


if __name__ == "__main__":
    main()
