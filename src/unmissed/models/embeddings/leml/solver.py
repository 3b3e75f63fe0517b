"""LEML solver: alternating minimization over the factors W (features) and H (labels) of a linear model.

The objective is the sum over the observed entries (i, j) of loss(Y_ij, x_i^T W h_j) + penalty/2 (|W|^2 + |H|^2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.execution.blas import one_blas_thread
from unmissed.models.embeddings.leml.entries import AllEntries, Entries, ObservedEntries
from unmissed.models.embeddings.leml.newton_factor import IdentityDesign, newton_steps
from unmissed.models.embeddings.products import SparseOperator, column_inner_products, gram
from unmissed.models.embeddings.ridge import solve_ridges
from unmissed.models.factor_products import Floats

_COARSE_GAIN = 1e-3  # Half steps are solved coarsely while an alternation gains more than this (relative).
_COARSE_TOL, _COARSE_STEPS = 1e-2, 20  # Tolerance and maximum steps of conjugate gradient in that phase.


@dataclass(frozen=True)
class AlternationState:
    """Iterate of the alternating minimization.

    Parameters
    ----------
    features : W, float32, (n_features, rank)
    labels : H, float32, (n_labels, rank)
    objectives : the objective after each half step, nonincreasing; two per alternation
    done : whether the alternation has converged
    """

    features: Floats
    labels: Floats
    objectives: tuple[float, ...] = ()
    done: bool = False

    @property
    def n_alternations(self) -> int:
        """Number of alternations so far."""
        return len(self.objectives) // 2

    @property
    def least_gain(self) -> float:
        """The smallest relative decrease of the objective by an alternation; inf before the second one."""
        after = np.array(self.objectives[1::2])
        gains, sizes = after[:-1] - after[1:], np.maximum(np.abs(after[:-1]), np.finfo(float).tiny)
        return float(np.min(gains / sizes, initial=np.inf))


class HalfSteps(Protocol):
    """Protocol of the two half steps of an alternation; each is a convex problem."""

    X: SparseOperator

    def objective(self, features: Floats, labels: Floats, embedded: Floats) -> float:
        """Return the objective; `embedded` is X W."""

    def solve_features(self, features: Floats, labels: Floats, gain: float) -> Floats:
        """Return W that approximately minimizes the objective for fixed H, with `features` as warm start.

        `gain` is the smallest relative gain of an alternation so far; a smaller gain requires a more accurate W.
        """

    def solve_labels(self, labels: Floats, embedded: Floats) -> Floats:
        """Return H that minimizes the objective for X W = `embedded`, with `labels` as warm start."""


class SquaredHalfSteps:
    """Half steps for squared loss with all entries observed, without a dense X W H^T or dense targets T.

    A target t = 1/p of an observed positive is Theorem 1 of the paper: (1/p) (1 - s)^2/2 + (1 - 1/p) s^2/2 is
    s^2/2 - t s + t/2, which is (s - t)^2/2 up to a constant. So the unbiased loss stays convex in each factor.

    Parameters
    ----------
    X : (n_samples, n_features)
    targets : T, sparse, (n_samples, n_labels)
    constant : the part of the objective that does not depend on W and H
    penalty : lambda, above 0
    tol : conjugate gradient stops when about this fraction of the decrease of a half step remains
    steps : maximum number of steps of conjugate gradient

    While alternations gain more than _COARSE_GAIN, conjugate gradient stops earlier: at a relative residual of
    _COARSE_TOL or after _COARSE_STEPS steps. Accuracy would be wasted while the other factor changes a lot.
    """

    def __init__(
        self,
        X: SparseOperator,
        targets: SparseOperator,
        constant: float,
        penalty: float,
        tol: float = 0.1,
        steps: int = 100,
    ) -> None:
        self.X, self.targets, self.constant = X, targets, constant
        self.penalty, self.tol, self.steps = penalty, tol, steps

    def objective(self, features: Floats, labels: Floats, embedded: Floats) -> float:
        """Return constant - <T, Z H^T> + <Z^T Z, H^T H>/2 + penalty/2 (|W|^2 + |H|^2) with Z = X W.

        <T, Z H^T> is computed as <Z, T H>. A row has few targets, so the float32 sums of T H are short; the rest is
        float64. The rounding errors of the long sums of T^T Z would hide the gains of the last alternations.
        """
        fit = column_inner_products(embedded, self.targets.times(labels)).sum()
        size = (gram(embedded, self.X.threads) * gram(labels, self.X.threads)).sum()
        return float(self.constant - fit + 0.5 * size) + _penalty(self.penalty, features, labels)

    def solve_features(self, features: Floats, labels: Floats, gain: float = 0.0) -> Floats:
        """Solve X^T (X W H^T H - T H) + penalty W = 0. In the eigenbasis of H^T H the columns are independent."""
        with one_blas_thread():
            strength, basis = np.linalg.eigh(gram(labels, self.X.threads))
            basis = basis.astype(np.float32)
            right = self.X.transposed_times(self.targets.times(labels @ basis))
            start = features @ basis
        limits: dict[str, Any] = {"max_steps": self.steps, "remainder": self.tol}
        if gain > _COARSE_GAIN:
            limits = {"max_steps": _COARSE_STEPS, "tol": _COARSE_TOL}
        rotated = solve_ridges(self.X, right, np.maximum(strength, 0), self.penalty, start, **limits)
        with one_blas_thread():
            return np.ascontiguousarray(rotated @ basis.T)

    def solve_labels(self, labels: Floats, embedded: Floats) -> Floats:
        """Solve (Z^T Z + penalty) H^T = Z^T T: one rank x rank system with a right-hand side per label."""
        with one_blas_thread():
            system = gram(embedded, self.X.threads) + self.penalty * np.eye(embedded.shape[1])
            right = self.targets.transposed_times(embedded)
            return np.ascontiguousarray(np.linalg.solve(system, right.T.astype(np.float64)).T.astype(np.float32))


class NewtonHalfSteps:
    """Half steps by Newton-CG, for any loss and for fully or partially observed labels.

    Parameters
    ----------
    X : (n_samples, n_features)
    entries, transposed : the losses of the score matrix and of its transpose
    penalty : lambda, above 0
    tol : relative tolerance of conjugate gradient
    steps : maximum number of steps of conjugate gradient
    newton : maximum number of Newton steps per half step
    """

    def __init__(
        self,
        X: SparseOperator,
        entries: Entries,
        transposed: Entries,
        penalty: float,
        tol: float = 1e-2,
        steps: int = 20,
        newton: int = 3,
    ) -> None:
        self.X, self.entries, self.transposed = X, entries, transposed
        self.penalty, self.tol, self.steps, self.newton = penalty, tol, steps, newton

    def objective(self, features: Floats, labels: Floats, embedded: Floats) -> float:
        """Return the sum of the losses and the penalty."""
        return self.entries.derivatives(embedded, labels)[0] + _penalty(self.penalty, features, labels)

    def solve_features(self, features: Floats, labels: Floats, gain: float = 0.0) -> Floats:
        """Take Newton steps on W. Their accuracy is relative to the gradient; `gain` is ignored."""
        return self._solve(self.X, self.entries, features, labels)

    def solve_labels(self, labels: Floats, embedded: Floats) -> Floats:
        """Take Newton steps on H for all labels jointly."""
        return self._solve(IdentityDesign(len(labels)), self.transposed, labels, embedded)

    def _solve(
        self, design: IdentityDesign | SparseOperator, entries: Entries, weights: Floats, other: Floats
    ) -> Floats:
        return newton_steps(
            design, entries, weights, other, self.penalty, tol=self.tol, max_steps=self.steps, n=self.newton
        )


def make_half_steps(
    X: sp.csr_matrix,
    Y: sp.csr_matrix,
    threads: Threads,
    *,
    loss: str,
    penalty: float,
    observed: sp.csr_matrix | None = None,
    inverse_propensities: np.ndarray | None = None,
    **accuracy: Any,
) -> HalfSteps:
    """Return the half steps of a problem: closed form or ridge for fully observed squared loss, else Newton-CG.

    Parameters
    ----------
    X : canonical float32 CSR, (n_samples, n_features)
    Y : canonical CSR of ones, (n_samples, n_labels)
    observed : canonical CSR whose stored entries are the observed ones; None for all
    inverse_propensities : 1/p per label for the unbiased squared loss
    accuracy : `tol` and `steps` of `SquaredHalfSteps`; these and `newton` of `NewtonHalfSteps`
    """
    design = SparseOperator(X, threads)
    if loss == "squared" and observed is None:
        targets = Y if inverse_propensities is None else _scaled(Y, inverse_propensities)
        return SquaredHalfSteps(
            design, SparseOperator(targets, threads), 0.5 * float(targets.sum()), penalty, **accuracy
        )
    if observed is None:
        entries: Entries = AllEntries(Y, loss, threads)
        transposed: Entries = AllEntries(_transpose(Y), loss, threads)
    else:
        entries = ObservedEntries(Y, observed, loss, threads)
        transposed = ObservedEntries(_transpose(Y), _transpose(observed), loss, threads)
    return NewtonHalfSteps(design, entries, transposed, penalty, **accuracy)


def initial_state(n_features: int, n_labels: int, rank: int, seed: int) -> AlternationState:
    """Return the initial iterate: W = 0 and a random H."""
    labels = np.random.default_rng(seed).standard_normal((n_labels, rank)) / np.sqrt(rank)
    return AlternationState(np.zeros((n_features, rank), np.float32), labels.astype(np.float32))


def alternate(half_steps: HalfSteps, state: AlternationState, tol: float) -> AlternationState:
    """Return the state after one alternation: solve W, then H. It has converged if the relative decrease is below tol.

    If tol is below _COARSE_GAIN, only an alternation with accurate half steps can converge. A half step that would
    increase the objective, by rounding errors, is rejected.
    """
    features, labels, objectives = state.features, state.labels, list(state.objectives)
    least_gain = state.least_gain
    solved = half_steps.solve_features(features, labels, least_gain)
    embedded = half_steps.X.times(solved)
    reached = half_steps.objective(solved, labels, embedded)
    if objectives and reached > objectives[-1]:
        embedded, reached = half_steps.X.times(features), objectives[-1]
    else:
        features = solved
    objectives.append(reached)
    solved = half_steps.solve_labels(labels, embedded)
    reached = half_steps.objective(features, solved, embedded)
    if reached > objectives[-1]:
        reached = objectives[-1]
    else:
        labels = solved
    objectives.append(reached)
    before = state.objectives[-1] if state.objectives else np.inf
    small = bool(np.isfinite(before) and before - reached <= tol * abs(before))
    return replace(
        state,
        features=features,
        labels=labels,
        objectives=tuple(objectives),
        done=small and (tol >= _COARSE_GAIN or least_gain <= _COARSE_GAIN),
    )


def _penalty(penalty: float, features: Floats, labels: Floats) -> float:
    return (
        0.5
        * penalty
        * float(column_inner_products(features, features).sum() + column_inner_products(labels, labels).sum())
    )


def _scaled(Y: sp.csr_matrix, factors: np.ndarray) -> sp.csr_matrix:
    """Return Y with column l multiplied by factors[l]."""
    return sp.csr_matrix((factors[Y.indices].astype(np.float32), Y.indices, Y.indptr), shape=Y.shape)


def _transpose(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Return the transpose as CSR with sorted indices."""
    return sp.csr_matrix(matrix.T)
