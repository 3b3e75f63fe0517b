"""LEML: low-rank factors W and H of a linear map from features to labels, each solved in turn while the other stands.

The objective is the sum over the observed entries (i, j) of loss(Y_ij, x_i^T W h_j) + penalty/2 (|W|^2 + |H|^2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from unmissed.execution import Threads
from unmissed.execution.blas import one_blas_thread
from unmissed.solvers.entries import AllEntries, Entries, ObservedEntries
from unmissed.solvers.newton_factor import Identity, newton_steps
from unmissed.solvers.products import Floats, Products, dots, gram
from unmissed.solvers.ridge import solve_ridges

_ROUGH = 1e-3  # relative gain of an alternation down to which rough halves are good enough
_ROUGH_TOL, _ROUGH_STEPS = 1e-2, 20  # of conjugate gradient until then


@dataclass(frozen=True)
class State:
    """Where the alternation stands.

    Parameters
    ----------
    features : W, float32, (n_features, rank)
    labels : H, float32, (n_labels, rank)
    objectives : the objective after each half-step, falling; two for each alternation
    done : whether a further alternation would change nothing that counts
    """

    features: Floats
    labels: Floats
    objectives: tuple[float, ...] = ()
    done: bool = False

    @property
    def n_alternations(self) -> int:
        """How often both factors have been solved."""
        return len(self.objectives) // 2

    @property
    def least_gain(self) -> float:
        """The least share of the objective by which an alternation has lowered it; inf before the second one."""
        after = np.array(self.objectives[1::2])
        gains, sizes = after[:-1] - after[1:], np.maximum(np.abs(after[:-1]), np.finfo(float).tiny)
        return float(np.min(gains / sizes, initial=np.inf))


class Halves(Protocol):
    """The two convex halves of the problem."""

    X: Products

    def objective(self, features: Floats, labels: Floats, embedded: Floats) -> float:
        """Return the objective; `embedded` is X W."""

    def solve_features(self, features: Floats, labels: Floats, gain: float) -> Floats:
        """Return about the best W for this H, starting from `features`.

        `gain` is the least relative gain of an alternation so far: the smaller it is, the more accurate is W.
        """

    def solve_labels(self, labels: Floats, embedded: Floats) -> Floats:
        """Return the best H for X W = `embedded`, starting from `labels`."""


class SquaredHalves:
    """The halves under the squared loss with every entry observed: targets T, and neither X W H^T nor T is dense.

    A target t = 1/p of an observed positive is Theorem 1 of the paper: (1/p) (1 - s)^2/2 + (1 - 1/p) s^2/2 is
    s^2/2 - t s + t/2, whose s-dependent part is that of (s - t)^2/2. So the unbiased loss stays convex in each half.

    Parameters
    ----------
    X : (n_samples, n_features)
    targets : sparse, (n_samples, n_labels)
    penalty : lambda, above 0
    tol : conjugate gradient stops when it has left about this share of a half's decrease
    steps : the most steps of conjugate gradient

    While alternations gain more than _ROUGH, conjugate gradient is stopped earlier, at a residual of _ROUGH_TOL of the
    right side or after _ROUGH_STEPS steps: accurate halves would be wasted on a factor that still changes a lot.
    """

    def __init__(
        self, X: Products, targets: Products, constant: float, penalty: float, tol: float = 0.1, steps: int = 100
    ) -> None:
        self.X, self.targets, self.constant = X, targets, constant
        self.penalty, self.tol, self.steps = penalty, tol, steps

    def objective(self, features: Floats, labels: Floats, embedded: Floats) -> float:
        """Return constant - <T, Z H^T> + <Z^T Z, H^T H>/2 + penalty/2 (|W|^2 + |H|^2) with Z = X W.

        <T, Z H^T> is <Z, T H>: a row has few targets, so that the float32 sums of T H are short and the rest is
        float64. The sums of T^T Z are long, and their rounding would hide the gains of the last alternations.
        """
        fit = dots(embedded, self.targets.times(labels)).sum()
        size = (gram(embedded, self.X.threads) * gram(labels, self.X.threads)).sum()
        return float(self.constant - fit + 0.5 * size) + _penalty(self.penalty, features, labels)

    def solve_features(self, features: Floats, labels: Floats, gain: float = 0.0) -> Floats:
        """Solve X^T (X W H^T H - T H) + penalty W = 0: along the eigenvectors of H^T H, rank separate ridges."""
        with one_blas_thread():
            strength, turn = np.linalg.eigh(gram(labels, self.X.threads))
            turn = turn.astype(np.float32)
            right = self.X.transposed_times(self.targets.times(labels @ turn))
            start = features @ turn
        limits: dict[str, Any] = {"max_steps": self.steps, "remainder": self.tol}
        if gain > _ROUGH:
            limits = {"max_steps": _ROUGH_STEPS, "tol": _ROUGH_TOL}
        turned = solve_ridges(self.X, right, np.maximum(strength, 0), self.penalty, start, **limits)
        with one_blas_thread():
            return np.ascontiguousarray(turned @ turn.T)

    def solve_labels(self, labels: Floats, embedded: Floats) -> Floats:
        """Solve (Z^T Z + penalty) H^T = Z^T T: one rank x rank system that all labels share."""
        with one_blas_thread():
            system = gram(embedded, self.X.threads) + self.penalty * np.eye(embedded.shape[1])
            right = self.targets.transposed_times(embedded)
            return np.ascontiguousarray(np.linalg.solve(system, right.T.astype(np.float64)).T.astype(np.float32))


class NewtonHalves:
    """The halves under any loss, with all entries or only some observed, by Newton-CG.

    Parameters
    ----------
    X : (n_samples, n_features)
    entries, transposed : the losses over rows and labels, and over labels and rows
    penalty : lambda, above 0
    tol : conjugate gradient stops at this share of the gradient
    steps : the most steps of conjugate gradient
    newton : the most Newton steps of a half
    """

    def __init__(
        self,
        X: Products,
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
        return self.entries.slopes(embedded, labels)[0] + _penalty(self.penalty, features, labels)

    def solve_features(self, features: Floats, labels: Floats, gain: float = 0.0) -> Floats:
        """Take Newton steps on W; their accuracy follows the gradient, whatever the gain."""
        return self._solve(self.X, self.entries, features, labels)

    def solve_labels(self, labels: Floats, embedded: Floats) -> Floats:
        """Take Newton steps on H, for all labels at once."""
        return self._solve(Identity(len(labels)), self.transposed, labels, embedded)

    def _solve(self, design: Identity | Products, entries: Entries, weights: Floats, other: Floats) -> Floats:
        return newton_steps(
            design, entries, weights, other, self.penalty, tol=self.tol, max_steps=self.steps, n=self.newton
        )


def make_halves(
    X: sp.csr_matrix,
    Y: sp.csr_matrix,
    threads: Threads,
    *,
    loss: str,
    penalty: float,
    observed: sp.csr_matrix | None = None,
    inverse_propensities: np.ndarray | None = None,
    **accuracy: Any,
) -> Halves:
    """Return the halves of a problem: the shared system where everything is observed under the squared loss.

    Parameters
    ----------
    X : canonical float32 CSR, (n_samples, n_features)
    Y : canonical CSR of ones, (n_samples, n_labels)
    observed : canonical CSR whose stored entries are the observed ones; None for all
    inverse_propensities : 1/p per label for the unbiased squared loss
    accuracy : `tol` and `steps` of `SquaredHalves`; these and `newton` of `NewtonHalves`
    """
    design = Products(X, threads)
    if loss == "squared" and observed is None:
        targets = Y if inverse_propensities is None else _scaled(Y, inverse_propensities)
        return SquaredHalves(design, Products(targets, threads), 0.5 * float(targets.sum()), penalty, **accuracy)
    if observed is None:
        entries: Entries = AllEntries(Y, loss, threads)
        transposed: Entries = AllEntries(_transpose(Y), loss, threads)
    else:
        entries = ObservedEntries(Y, observed, loss, threads)
        transposed = ObservedEntries(_transpose(Y), _transpose(observed), loss, threads)
    return NewtonHalves(design, entries, transposed, penalty, **accuracy)


def begin(n_features: int, n_labels: int, rank: int, seed: int) -> State:
    """Return the start: W = 0 and a random H."""
    labels = np.random.default_rng(seed).standard_normal((n_labels, rank)) / np.sqrt(rank)
    return State(np.zeros((n_features, rank), np.float32), labels.astype(np.float32))


def advance(halves: Halves, state: State, tol: float) -> State:
    """Solve W, then H; it is done when both together lower the objective by less than tol of itself.

    Where tol is below _ROUGH, only an alternation with accurate halves can tell.
    A half that would raise the objective (float32 has an end) is left as it was.
    """
    features, labels, objectives = state.features, state.labels, list(state.objectives)
    least_gain = state.least_gain
    solved = halves.solve_features(features, labels, least_gain)
    embedded = halves.X.times(solved)
    reached = halves.objective(solved, labels, embedded)
    if objectives and reached > objectives[-1]:
        embedded, reached = halves.X.times(features), objectives[-1]
    else:
        features = solved
    objectives.append(reached)
    solved = halves.solve_labels(labels, embedded)
    reached = halves.objective(features, solved, embedded)
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
        done=small and (tol >= _ROUGH or least_gain <= _ROUGH),
    )


def _penalty(penalty: float, features: Floats, labels: Floats) -> float:
    return 0.5 * penalty * float(dots(features, features).sum() + dots(labels, labels).sum())


def _scaled(Y: sp.csr_matrix, factors: np.ndarray) -> sp.csr_matrix:
    """Return Y with column l multiplied by factors[l]."""
    return sp.csr_matrix((factors[Y.indices].astype(np.float32), Y.indices, Y.indptr), shape=Y.shape)


def _transpose(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Return the transpose in CSR with rising columns."""
    return sp.csr_matrix(matrix.T)
