"""Summary: an evaluation with its uncertainty as one value that JSON can hold."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from unmissed.metrics.deciles import by_decile
from unmissed.metrics.evaluation import Evaluation
from unmissed.metrics.uncertainty import compare, intervals, support, warnings
from unmissed.progress import Progress, silent


def summarise(
    evaluation: Evaluation, n_resamples: int = 1000, level: float = 0.95, seed: int = 0, progress: Progress = silent
) -> dict[str, Any]:
    """Return figures with intervals, what PSP rests on, deciles, warnings and conventions, ready for JSON.

    With `n_resamples` 0 figures come without intervals. A figure that does not exist (nothing could be found) is None.
    """
    ranges = intervals(evaluation, n_resamples, level, seed, progress) if n_resamples and evaluation.n_samples else {}
    summary: dict[str, Any] = _plain(
        {
            "n_samples": evaluation.n_samples,
            "n_labels": evaluation.n_labels,
            "k": list(evaluation.k),
            "conventions": evaluation.conventions.describe(),
            "interval": {"level": level, "resamples": n_resamples, "seed": seed} if ranges else None,
            "figures": {
                name: {"value": value, **(ranges[name]._asdict() if name in ranges else {})}
                for name, value in evaluation.figures.items()
            },
            "support": {name: rests._asdict() for name, rests in support(evaluation).items()},
            "deciles": [asdict(group) for k in evaluation.k for group in by_decile(evaluation, k)]
            if evaluation.train_counts is not None
            else [],
            "unseen": _unseen(evaluation),
            "warnings": warnings(evaluation),
        }
    )
    return summary


def summarise_difference(
    first: Evaluation,
    second: Evaluation,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Return the paired differences of two evaluations, ready for JSON."""
    found = compare(first, second, n_resamples, level, seed, progress)
    differences: dict[str, Any] = _plain({name: difference._asdict() for name, difference in found.items()})
    return differences


def _unseen(evaluation: Evaluation) -> dict[str, Any] | None:
    """Return what was done with true labels unseen in training, and how much it concerned."""
    found = evaluation.unseen
    if found is None:
        return None
    return {
        "policy": evaluation.conventions.unseen_labels,
        "labels": found.n_labels,
        "marks": found.marks,
        "rows": found.rows,
        "rows_without_others": found.emptied,
    }


def _plain(value: Any) -> Any:
    """Return the value with None in place of numbers that JSON does not know."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
