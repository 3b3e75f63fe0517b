"""Newton-CG for one factor of A B^T while the other is fixed: a convex problem for each loss of `entries`."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from unmissed.models.embeddings.leml.entries import Entries
from unmissed.models.embeddings.products import column_inner_products
from unmissed.models.factor_products import Floats

_SUFFICIENT = 1e-4  # Armijo constant of the line search.
_HALVINGS = 30  # Maximum number of step halvings in the line search.


class FactorDesign(Protocol):
    """Protocol of the design matrix X of a factor X V, where V is learned."""

    def times(self, factor: Floats) -> Floats:
        """Return X F."""

    def transposed_times(self, factor: Floats) -> Floats:
        """Return X^T F."""

    def column_squares(self) -> Floats:
        """Return the squared norm of each column of X."""


class IdentityDesign:
    """The identity matrix as design, for a factor that is learned directly."""

    def __init__(self, size: int) -> None:
        self._ones = np.ones(size, np.float32)

    def times(self, factor: Floats) -> Floats:
        """Return the factor."""
        return factor

    def transposed_times(self, factor: Floats) -> Floats:
        """Return the factor."""
        return factor

    def column_squares(self) -> Floats:
        """Return ones."""
        return self._ones


def newton_steps(
    design: FactorDesign,
    entries: Entries,
    weights: Floats,
    other: Floats,
    penalty: float,
    *,
    tol: float,
    max_steps: int,
    n: int,
) -> Floats:
    """Return V after up to n Newton-CG steps on the losses of (X V) B^T + penalty/2 |V|^2; no step increases it.

    Parameters
    ----------
    design : X
    entries : the losses
    weights : V, the initial solution
    other : B, which is fixed
    tol : relative tolerance of the residual of conjugate gradient and of the norm of the gradient
    max_steps : maximum number of steps of conjugate gradient per Newton step
    n : maximum number of Newton steps
    """
    scale = entries.mean_curvature * column_inner_products(other, other)
    preconditioner = (design.column_squares()[:, None] * scale[None, :] + penalty).astype(np.float32)
    left = design.times(weights)
    value, derivatives = entries.derivatives(left, other)
    limit = 0.0
    for number in range(n):
        objective = value + 0.5 * penalty * column_inner_products(weights, weights).sum()
        gradient = design.transposed_times(derivatives) + np.float32(penalty) * weights
        norm = float(np.sqrt(column_inner_products(gradient, gradient).sum()))
        if norm <= limit:
            break
        limit = limit if number else tol * norm
        direction = _newton_direction(
            design, entries, left, other, gradient, preconditioner, penalty, tol * norm, max_steps
        )
        directional = float(column_inner_products(gradient, direction).sum())
        change = design.times(direction)
        step = np.float32(1)
        for _ in range(_HALVINGS):
            weights_new, left_new = weights + step * direction, left + step * change
            value_new, derivatives_new = entries.derivatives(left_new, other)
            objective_new = value_new + 0.5 * penalty * column_inner_products(weights_new, weights_new).sum()
            if objective_new <= objective + _SUFFICIENT * float(step) * directional:
                break
            step /= np.float32(2)
        else:
            break  # no further decrease in float32
        weights, left, value, derivatives = weights_new, left_new, value_new, derivatives_new
    return weights


def _newton_direction(
    design: FactorDesign,
    entries: Entries,
    left: Floats,
    other: Floats,
    gradient: Floats,
    preconditioner: Floats,
    penalty: float,
    limit: float,
    max_steps: int,
) -> Floats:
    """Return the Newton direction: solve Hessian direction = -gradient by truncated conjugate gradient."""
    direction = np.zeros_like(gradient)
    residual = -gradient
    preconditioned = residual / preconditioner
    search = preconditioned.copy()
    energy = column_inner_products(residual, preconditioned).sum()
    for _ in range(max_steps):
        image = design.transposed_times(entries.curvatures(left, other, design.times(search)))
        image += np.float32(penalty) * search
        step = np.float32(energy / column_inner_products(search, image).sum())
        direction += step * search
        residual -= step * image
        if np.sqrt(column_inner_products(residual, residual).sum()) <= limit:
            break
        np.divide(residual, preconditioner, out=preconditioned)
        new_energy = column_inner_products(residual, preconditioned).sum()
        search *= np.float32(new_energy / energy)
        search += preconditioned
        energy = new_energy
    return direction
