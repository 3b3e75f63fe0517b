"""Newton-CG for one factor of A B^T while the other stands still: a convex problem for every loss of `entries`."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from unmissed.solvers.entries import Entries
from unmissed.solvers.products import Floats, dots

_SUFFICIENT = 1e-4  # the share of the fall that the slope promises which a step must reach
_HALVINGS = 30


class Map(Protocol):
    """How a factor is made of what is learned: A = X W, or B itself."""

    def times(self, factor: Floats) -> Floats:
        """Return X W."""

    def transposed_times(self, factor: Floats) -> Floats:
        """Return X^T F."""

    def column_squares(self) -> Floats:
        """Return the squared length of each column of X."""


class Identity:
    """The map of a factor that is learned as it is."""

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
    design: Map, entries: Entries, weights: Floats, other: Floats, penalty: float, *, tol: float, max_steps: int, n: int
) -> Floats:
    """Take up to n Newton steps on sum of losses of (X V) B^T + penalty/2 |V|^2; none of them raises it.

    Parameters
    ----------
    design : X
    entries : the losses
    weights : V, where to start
    other : B, which stands still
    tol : conjugate gradient stops at this share of the gradient, Newton at this share of the first gradient
    max_steps : steps of conjugate gradient per Newton step
    """
    bend = entries.bend * dots(other, other)
    curvature = (design.column_squares()[:, None] * bend[None, :] + penalty).astype(np.float32)
    left = design.times(weights)
    value, slopes = entries.slopes(left, other)
    limit = 0.0
    for number in range(n):
        objective = value + 0.5 * penalty * dots(weights, weights).sum()
        gradient = design.transposed_times(slopes) + np.float32(penalty) * weights
        length = float(np.sqrt(dots(gradient, gradient).sum()))
        if length <= limit:
            break
        limit = limit if number else tol * length
        direction = _conjugate(design, entries, left, other, gradient, curvature, penalty, tol * length, max_steps)
        promised = float(dots(gradient, direction).sum())
        change = design.times(direction)
        step = np.float32(1)
        for _ in range(_HALVINGS):
            weights_new, left_new = weights + step * direction, left + step * change
            value_new, slopes_new = entries.slopes(left_new, other)
            reached = value_new + 0.5 * penalty * dots(weights_new, weights_new).sum()
            if reached <= objective + _SUFFICIENT * float(step) * promised:
                break
            step /= np.float32(2)
        else:
            break  # as low as float32 can tell
        weights, left, value, slopes = weights_new, left_new, value_new, slopes_new
    return weights


def _conjugate(
    design: Map,
    entries: Entries,
    left: Floats,
    other: Floats,
    gradient: Floats,
    curvature: Floats,
    penalty: float,
    limit: float,
    max_steps: int,
) -> Floats:
    """Solve (Hessian) direction = -gradient by preconditioned conjugate gradient, roughly."""
    direction = np.zeros_like(gradient)
    residual = -gradient
    preconditioned = residual / curvature
    search = preconditioned.copy()
    energy = dots(residual, preconditioned).sum()
    for _ in range(max_steps):
        image = design.transposed_times(entries.curvatures(left, other, design.times(search)))
        image += np.float32(penalty) * search
        step = np.float32(energy / dots(search, image).sum())
        direction += step * search
        residual -= step * image
        if np.sqrt(dots(residual, residual).sum()) <= limit:
            break
        np.divide(residual, curvature, out=preconditioned)
        fresh = dots(residual, preconditioned).sum()
        search *= np.float32(fresh / energy)
        search += preconditioned
        energy = fresh
    return direction
