"""Ridge regressions side by side: conjugate gradient on one sparse X for many columns."""

from __future__ import annotations

import numpy as np

from unmissed.kernels.factors import step_columns, turn_columns
from unmissed.solvers.products import Doubles, Floats, Products, dots


def solve_ridges(
    X: Products,
    right: Floats,
    strength: Doubles,
    penalty: float,
    start: Floats,
    *,
    max_steps: int,
    tol: float = 0.0,
    remainder: float = 0.0,
) -> Floats:
    """Minimise strength[j]/2 |X w_j|^2 + penalty/2 |w_j|^2 - right_j . w_j for each column j, from `start`.

    Conjugate gradient, preconditioned by the diagonal; columns share the passes over X and nothing else. There are two
    tests of convergence, on the residual and on the objective. The second one is Nash and Sofer's test for truncated
    Newton methods. It compares with the decrease from `start`, so it gets stricter as `start` gets better.

    Parameters
    ----------
    X : (n_samples, n_features)
    right, start : (n_features, n_columns)
    strength : at least 0, one per column
    penalty : above 0
    max_steps : the most steps
    tol : a column stops moving when its residual is at most `tol` times its right side
    remainder : all columns stop when the decrease that remains, estimated as the number of steps times the decrease of
        the last one, is at most this share of the decrease so far
    """
    curvature = (X.column_squares()[:, None] * strength[None, :] + penalty).astype(np.float32)
    weights = start.copy()
    residual = right - _hessian(X, weights, strength, penalty)
    limit = tol * np.sqrt(dots(right, right))
    preconditioned = residual / curvature
    direction = preconditioned.copy()
    energy = dots(residual, preconditioned)
    decrease = 0.0
    for number in range(1, max_steps + 1):
        active = np.sqrt(dots(residual, residual)) > limit
        if not active.any():
            break
        image = _hessian(X, direction, strength, penalty)
        bend = dots(direction, image)
        going = active & (bend > 0)
        step = np.divide(energy, bend, out=np.zeros_like(bend), where=going)
        last = 0.5 * float((step * energy).sum())
        decrease += last
        step_columns(step.astype(np.float32), direction, image, weights, residual)
        if number * last < remainder * decrease:
            break
        np.divide(residual, curvature, out=preconditioned)
        fresh = dots(residual, preconditioned)
        keep = np.divide(fresh, energy, out=np.zeros_like(fresh), where=energy > 0)
        turn_columns(keep.astype(np.float32), preconditioned, direction)
        energy = fresh
    return weights


def _hessian(X: Products, weights: Floats, strength: Doubles, penalty: float) -> Floats:
    """Return strength_j X^T X w_j + penalty w_j."""
    scores = X.times(weights)
    scores *= strength.astype(np.float32)
    image = X.transposed_times(scores)
    image += np.float32(penalty) * weights
    return image
