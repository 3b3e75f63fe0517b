"""Ridge regression with many right-hand sides: preconditioned conjugate gradient on one sparse X."""

from __future__ import annotations

import numpy as np

from unmissed.models.embeddings.low_rank import step_columns, update_directions
from unmissed.models.embeddings.products import Doubles, SparseOperator, column_inner_products
from unmissed.models.factor_products import Floats


def solve_ridges(
    X: SparseOperator,
    right: Floats,
    strength: Doubles,
    penalty: float,
    start: Floats,
    *,
    max_steps: int,
    tol: float = 0.0,
    remainder: float = 0.0,
) -> Floats:
    """Return w_j that minimize strength[j]/2 |X w_j|^2 + penalty/2 |w_j|^2 - right_j . w_j, for each column j.

    Conjugate gradient with a diagonal preconditioner. The columns are independent, but share the passes over X. There
    are two convergence tests, on the residual and on the objective. The second one is Nash and Sofer's test for
    truncated Newton methods. It is relative to the decrease since `start`, so it is stricter for a better `start`.

    Parameters
    ----------
    X : (n_samples, n_features)
    right, start : right-hand sides and initial solution, (n_features, n_columns)
    strength : at least 0, one per column
    penalty : above 0
    max_steps : maximum number of steps
    tol : a column has converged when the norm of its residual is at most `tol` times that of its right-hand side
    remainder : stop when the remaining decrease, estimated as the number of steps times the last one, is below this
        fraction of the total decrease
    """
    preconditioner = (X.column_squares()[:, None] * strength[None, :] + penalty).astype(np.float32)
    weights = start.copy()
    residual = right - _hessian_product(X, weights, strength, penalty)
    limit = tol * np.sqrt(column_inner_products(right, right))
    preconditioned = residual / preconditioner
    direction = preconditioned.copy()
    energy = column_inner_products(residual, preconditioned)
    decrease = 0.0
    for number in range(1, max_steps + 1):
        active = np.sqrt(column_inner_products(residual, residual)) > limit
        if not active.any():
            break
        image = _hessian_product(X, direction, strength, penalty)
        curvature = column_inner_products(direction, image)
        moving = active & (curvature > 0)
        step = np.divide(energy, curvature, out=np.zeros_like(curvature), where=moving)
        last = 0.5 * float((step * energy).sum())
        decrease += last
        step_columns(step.astype(np.float32), direction, image, weights, residual)
        if number * last < remainder * decrease:
            break
        np.divide(residual, preconditioner, out=preconditioned)
        new_energy = column_inner_products(residual, preconditioned)
        beta = np.divide(new_energy, energy, out=np.zeros_like(new_energy), where=energy > 0)
        update_directions(beta.astype(np.float32), preconditioned, direction)
        energy = new_energy
    return weights


def _hessian_product(X: SparseOperator, weights: Floats, strength: Doubles, penalty: float) -> Floats:
    """Return the product of the Hessian with w: strength_j X^T X w_j + penalty w_j."""
    scores = X.times(weights)
    scores *= strength.astype(np.float32)
    image = X.transposed_times(scores)
    image += np.float32(penalty) * weights
    return image
