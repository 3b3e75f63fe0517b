"""Summary: an evaluation and its confidence intervals as one JSON-serializable dict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from unmissed.metrics.calibration_error import ProbabilityErrors
from unmissed.metrics.deciles import by_decile
from unmissed.metrics.evaluation import Evaluation
from unmissed.metrics.uncertainty import compare, intervals, support, warnings
from unmissed.progress import Progress, silent


def summarize(
    evaluation: Evaluation, n_resamples: int = 1000, level: float = 0.95, seed: int = 0, progress: Progress = silent
) -> dict[str, Any]:
    """Return figures with intervals, effective sample sizes of PSP, deciles, warnings and conventions, for JSON.

    With `n_resamples=0` there are no intervals. A figure whose denominator is 0 is None.
    """
    ranges = intervals(evaluation, n_resamples, level, seed, progress) if n_resamples and evaluation.n_samples else {}
    summary: dict[str, Any] = _without_nan(
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
            "support": {name: found._asdict() for name, found in support(evaluation).items()},
            "deciles": [asdict(group) for k in evaluation.k for group in by_decile(evaluation, k)]
            if evaluation.train_counts is not None
            else [],
            "unseen": _unseen(evaluation),
            "warnings": warnings(evaluation),
        }
    )
    return summary


def summarize_difference(
    first: Evaluation,
    second: Evaluation,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Return the paired differences of two evaluations, for JSON."""
    differences = compare(first, second, n_resamples, level, seed, progress)
    summary: dict[str, Any] = _without_nan({name: each._asdict() for name, each in differences.items()})
    return summary


def summarize_probabilities(errors: Sequence[ProbabilityErrors]) -> list[dict[str, Any]]:
    """Return errors of probabilities at each k, of all labels (decile None) or a decile, for JSON."""
    summary: list[dict[str, Any]] = _without_nan(
        [
            {
                "k": one.k,
                "decile": one.decile,
                "n_cells": one.n_cells,
                **{
                    name: {
                        "value": getattr(one, name),
                        **(one.intervals[name]._asdict() if name in one.intervals else {}),
                    }
                    for name in ("ece", "log_loss", "brier")
                },
                "noise_floor": one.floor,
                "curve": {name: values.tolist() for name, values in one.curve._asdict().items()},
            }
            for one in errors
        ]
    )
    return summary


def _unseen(evaluation: Evaluation) -> dict[str, Any] | None:
    """Return the policy for true labels unseen in training, and their counts."""
    unseen = evaluation.unseen
    if unseen is None:
        return None
    return {
        "policy": evaluation.conventions.unseen_labels,
        "labels": unseen.n_labels,
        "assignments": unseen.n_assignments,
        "rows": unseen.rows,
        "rows_without_others": unseen.emptied,
    }


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinity by None, since JSON has neither."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
