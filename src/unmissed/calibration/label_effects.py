"""Slopes and intercepts of labels, shrunk towards a function of log frequency: a logistic mixed model.

A cell (row, label) of logit u under the pooled map has the probability expit(a u + b). The pair of label l, which has n
positives, is

    (a, b) = B (1, log n) + d_l,    d_l ~ Normal(0, Sigma).

Given Sigma, B and all d_l are the mode of the posterior, by Newton steps: the d_l are eliminated by 2 x 2 systems.
This leaves one small system for B. Sigma is fitted by EM (empirical Bayes), with the Laplace approximation of the
posterior of d_l.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

Floats = npt.NDArray[np.float64]
_IDENTITY = np.array([[1.0, 0.0], [0.0, 0.0]])  # B of the pooled map itself: slope 1, intercept 0
_MOST_STEPS = 100
_TOLERANCE = 1e-3  # relative change of Sigma, and absolute change of B, below which EM ends
_RIDGE = 1e-2  # precision of B around the identity; it matters only if nothing else determines B
_LEAST_VARIANCE = 1e-6
_LARGEST_STEP = 2.0
_WIDTH = 0.1  # cells of a label whose logits differ by less are joined
FEWEST_POSITIVES = 2  # a label with one positive has no positive cell out of fold: its model never saw it


@dataclass(frozen=True, eq=False)
class LabelEffects:
    """The fitted mixed model.

    Parameters
    ----------
    coefficients : array of shape (2, 2): B, rows for slope and intercept, columns for 1 and log n
    covariance : array of shape (2, 2): Sigma
    deviations : array of shape (n_labels, 2): d, 0 for labels without cells
    """

    coefficients: Floats
    covariance: Floats
    deviations: Floats


class JoinedCells(NamedTuple):
    """Cells of a label with nearly equal logits, joined: label, mean logit, mass and observed mass."""

    labels: npt.NDArray[np.int64]
    logits: Floats
    mass: Floats
    hits: Floats


def frequency_terms(counts: npt.ArrayLike) -> Floats:
    """Return 1 and log n (n, 2); a label without positives counts as one with 1."""
    log_counts = np.log(np.maximum(np.asarray(counts, dtype=np.float64), 1.0))
    return np.stack([np.ones_like(log_counts), log_counts], axis=1)


def fit_label_effects(
    labels: npt.NDArray[Any],
    logits: Floats,
    observed: npt.NDArray[np.bool_],
    counts: npt.NDArray[Any],
    start: LabelEffects | None = None,
) -> LabelEffects:
    """Fit B, d and Sigma to cells, one Newton step and one EM step at a time.

    Parameters
    ----------
    labels, logits, observed : label, logit under the pooled map, and whether observed, of each cell
    counts : positives of each label
    start : label effects of similar cells, whose B and Sigma are the initial solution
    """
    kept = counts[labels] >= FEWEST_POSITIVES
    cells = _join(labels[kept], logits[kept], observed[kept])
    terms, n_labels = frequency_terms(counts), len(counts)
    seen = np.bincount(cells.labels, minlength=n_labels) > 0
    start = LabelEffects(_IDENTITY, np.diag([0.1, 0.2]), np.empty((0, 2))) if start is None else start
    B, covariance = start.coefficients, start.covariance
    d = np.zeros((n_labels, 2))
    for _ in range(_MOST_STEPS if seen.any() else 0):
        step_B, step_d, spread = _newton_step(
            cells, terms, B, d, np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        )
        length = min(1.0, _LARGEST_STEP / max(np.abs(step_B).max(), np.abs(step_d).max(), 1e-12))
        B, d = B + length * step_B, d + length * step_d
        before = covariance
        covariance = (np.einsum("li,lj->ij", d[seen], d[seen]) + spread[seen].sum(axis=0)) / seen.sum()
        covariance = covariance + _LEAST_VARIANCE * np.eye(2)
        moved = np.abs(covariance - before).max() / np.abs(before).max()
        if length == 1.0 and moved < _TOLERANCE and np.abs(step_B).max() < _TOLERANCE:
            break
    return LabelEffects(B, covariance, d)


def _newton_step(
    cells: JoinedCells, terms: Floats, B: Floats, d: Floats, precision: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the Newton steps of B (2, 2) and d (n_labels, 2), and the covariances (n_labels, 2, 2) of d given B.

    The unknowns are coupled by label only: eliminating d leaves a system of the size of B (Schur complement).
    """
    gradient, curvature = _derivatives(cells, terms @ B.T + d)
    inverse = np.linalg.inv(curvature + precision)
    by_label = gradient - d @ precision
    coupling = np.einsum("lij,lk->likj", curvature, terms).reshape(-1, B.size, 2)
    system = np.einsum("lij,lk,lm->ikjm", curvature, terms, terms).reshape(B.size, B.size)
    system = system - np.einsum("lui,lij,lvj->uv", coupling, inverse, coupling) + _RIDGE * np.eye(B.size)
    right = (np.einsum("li,lk->ik", gradient, terms) - _RIDGE * (B - _IDENTITY)).reshape(-1)
    step_B = np.linalg.solve(system, right - np.einsum("lui,lij,lj->u", coupling, inverse, by_label))
    step_d = np.einsum("lij,lj->li", inverse, by_label - np.einsum("lui,u->li", coupling, step_B))
    return np.asarray(step_B).reshape(2, 2), np.asarray(step_d), np.asarray(inverse, dtype=np.float64)


def _derivatives(cells: JoinedCells, pairs: Floats) -> tuple[Floats, Floats]:
    """Return gradient (n_labels, 2) and negative Hessian (n_labels, 2, 2) of the log-likelihood in each (a, b)."""
    labels, logits, mass, hits = cells
    p = expit(pairs[labels, 0] * logits + pairs[labels, 1])
    residual, information = hits - mass * p, mass * p * (1 - p)
    columns = (residual * logits, residual, information * logits**2, information * logits, information)
    of_slope, of_intercept, twice, once, plain = (np.bincount(labels, part, len(pairs)) for part in columns)
    hessian: Floats = np.stack([twice, once, once, plain], axis=1).astype(np.float64).reshape(-1, 2, 2)
    return np.stack([of_slope, of_intercept], axis=1).astype(np.float64), hessian


def _join(labels: npt.NDArray[Any], logits: Floats, observed: npt.NDArray[np.bool_]) -> JoinedCells:
    """Return cells joined by label and logit; results hardly change, and there are far fewer."""
    lowest = float(logits.min(initial=0.0))
    at = ((logits - lowest) / _WIDTH).astype(np.int64)
    n_bins = int(at.max(initial=0)) + 1
    keys, of_cell = np.unique(labels.astype(np.int64) * n_bins + at, return_inverse=True)
    of_cell = of_cell.reshape(-1)
    columns = np.ones(len(logits)), observed, logits
    mass, hits, total = (np.bincount(of_cell, part, len(keys)).astype(np.float64) for part in columns)
    return JoinedCells(keys // n_bins, total / mass, mass, hits)
