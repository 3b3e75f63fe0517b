"""Estimates of the true precision from observed labels (bias, spread and error over simulated missing labels), and
means over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.metrics import evaluate
from unmissed.propensity import Jain
from unmissed.ranking import Ranking

Floats = npt.NDArray[np.float64]
_AT_ONCE = 1 << 22  # uniform random numbers per batch
STEPS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)  # factors of A
OFFSETS = (0.4, 1.5, 2.6)  # common values of B


def measure_estimates(
    rankings: Mapping[str, Ranking],
    truth: sparse.csr_matrix,
    p: Floats,
    assumed: Mapping[str, Floats],
    n_droppings: int,
) -> list[dict[str, Any]]:
    """Return the bias, spread and error of estimates of the true P, by model and assumed propensities.

    Each true label is kept with probability p, `n_droppings` times; all models share the samples. `uncorrected` counts
    the observed hits, the others weight each hit by 1 over the assumed p. `bias` is the mean of estimate minus truth,
    `spread` its standard deviation and `error` its root mean square. `right_winner` is how often the model and the
    first one are in their true order.
    """
    hits = {name: _true_hits(ranking, truth) for name, ranking in rankings.items()}
    positions = {name: ranking.n_samples * ranking.k for name, ranking in rankings.items()}
    factors = {"uncorrected": np.ones(p.size), **{name: 1 / one for name, one in assumed.items()}}
    estimates: dict[tuple[str, str], list[float]] = {(m, b): [] for m in rankings for b in factors}
    label = truth.indices
    rng = np.random.default_rng(0)
    height = max(1, _AT_ONCE // max(truth.nnz, 1))
    for begin in range(0, n_droppings, height):
        left = rng.random((min(height, n_droppings - begin), truth.nnz)) < p[label]
        for model, hit in hits.items():
            for belief, factor in factors.items():
                estimates[model, belief] += (left[:, hit] @ factor[label[hit]] / positions[model]).tolist()
    first = next(iter(rankings))
    true = {model: hit.size / positions[model] for model, hit in hits.items()}
    rows = []
    for (model, belief), values in estimates.items():
        off = np.array(values) - true[model]
        ahead = np.array(values) - np.array(estimates[first, belief])
        agrees = np.mean(np.sign(ahead) == np.sign(true[model] - true[first]))
        rows.append(
            {
                "model": model,
                "belief": belief,
                "truth": true[model],
                "estimate": float(np.mean(values)),
                "low": float(np.quantile(values, 0.025)),
                "high": float(np.quantile(values, 0.975)),
                "bias": float(off.mean()),
                "spread": float(off.std()),
                "error": float(np.sqrt(np.mean(off**2))),
                "right_winner": None if model == first else float(agrees),
            }
        )
    return rows


def _true_hits(ranking: Ranking, truth: sparse.csr_matrix) -> npt.NDArray[np.int64]:
    """Return the positions in `truth.indices` of the true labels that a ranking lists."""
    n_labels = truth.shape[1]
    rows = np.repeat(np.arange(truth.shape[0], dtype=np.int64), np.diff(truth.indptr))
    own = rows * n_labels + truth.indices
    listed = ranking.labels.astype(np.int64) + np.arange(ranking.n_samples, dtype=np.int64)[:, None] * n_labels
    return np.flatnonzero(np.isin(own, listed[ranking.labels >= 0]))


def sensitivity(
    rankings: Mapping[str, Ranking], observed: sparse.csr_matrix, counts: Any, n_samples: int, a: float
) -> list[dict[str, Any]]:
    """Return PSP at the rankings' depth for a grid of A and B, with the best model of each."""
    rows = []
    for b in OFFSETS:
        for step in STEPS:
            inverse = 1 / Jain(a * step, b).estimate(counts, n_samples)
            figures = {}
            for name, ranking in rankings.items():
                figures[name] = evaluate(ranking, observed, inverse, (ranking.k,))[f"PSP@{ranking.k}"]
            winner = max(figures, key=lambda name: figures[name])
            rows.append({"a": a * step, "b": b, "figures": figures, "winner": winner})
    return rows


def over_seeds(differences: list[Any]) -> dict[str, float]:
    """Return the mean over seeds with a 95 % interval that combines the variation over rows and over seeds.

    The variation over seeds is that of a mean of n values: Student's t with n - 1 degrees of freedom.
    """
    from scipy.stats import t

    values = np.array([one.value for one in differences])
    within = float(np.mean([(one.high - one.low) / 2 for one in differences]))
    n = len(values)
    between = float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    half = float(np.hypot(within, between))
    return {"value": float(values.mean()), "low": float(values.mean()) - half, "high": float(values.mean()) + half}
