"""Scorers: any metric of this package as scikit-learn's model selection wants it, a function of estimator, X and Y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unmissed.errors import InputError, did_you_mean
from unmissed.metrics import METRICS, evaluate
from unmissed.models.base import Model
from unmissed.models.frames import match_labels
from unmissed.propensity import PropensityLike, as_propensity


@dataclass(frozen=True)
class Scorer:
    """Score a fitted model, or a pipeline that ends in one, by a metric at a cut-off; larger is better.

    Inverse propensities come from the rows that the model was fitted on: each fold of a cross-validation has its own.

    Parameters
    ----------
    metric : a name that `evaluate` gives, such as "P@1", "nDCG@5", "PSP@3" or "PSnDCG@5"
    propensity : how p comes from label counts: a model such as Jain() (the default), a word such as "jain:0.55,1.5",
        one p for all labels, or an array with one per label
    """

    metric: str = "PSP@5"
    propensity: PropensityLike | None = None

    def __post_init__(self) -> None:
        name, _, cut = str(self.metric).partition("@")
        if name not in METRICS:
            raise InputError(
                f"unknown metric {self.metric!r}; known metrics: {', '.join(f'{one}@k' for one in METRICS)}"
                f"{did_you_mean(name, METRICS)}"
            )
        if not (cut.isascii() and cut.isdecimal()) or int(cut) < 1:
            raise InputError(f"a metric is a name and a cut-off, such as P@1 or PSP@5; got {self.metric!r}")
        as_propensity(self.propensity)  # refuse a wrong one now, not in the middle of a cross-validation

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        """Return the metric of the estimator's ranking of X, where Y is the truth."""
        model = estimator
        if hasattr(estimator, "steps"):  # a pipeline
            model = estimator.steps[-1][1]
            X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
        if not isinstance(model, Model) or not hasattr(model, "n_samples_"):
            raise InputError("a scorer takes a fitted model of this package, or a pipeline that ends in one")
        cut = int(self.metric.partition("@")[2])
        truth, n_new = match_labels(Y, model.classes_)
        counts = np.concatenate([model.label_counts_, np.zeros(n_new, np.int64)])
        inverse = 1 / as_propensity(self.propensity).fit(counts, model.n_samples_)
        return evaluate(model.rank(X, cut), truth, inverse, cut)[self.metric]


def scorer(metric: str = "PSP@5", propensity: PropensityLike | None = None) -> Scorer:
    """Return a scorer for `GridSearchCV(scoring=...)` and its like; an unknown metric is refused here."""
    return Scorer(metric, propensity)
