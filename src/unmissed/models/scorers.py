"""Scorers: the metrics of this package as callables (estimator, X, Y) for scikit-learn's model selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unmissed.errors import InputError
from unmissed.metrics import evaluate, split_figure
from unmissed.models.base import Model
from unmissed.models.frames import match_labels
from unmissed.propensity import PropensityLike, as_propensity


@dataclass(frozen=True)
class Scorer:
    """Score a fitted model, or a pipeline that ends in one, by a metric at a cut-off; larger is better.

    Inverse propensities come from the label counts of `fit`, so each fold of a cross-validation has its own.

    Parameters
    ----------
    metric : a registered metric and a cut-off, such as "P@1" or "PSP@5"
    propensity : the propensity model: an object such as Jain() (the default), a string such as "jain:0.55,1.5", one p
        for all labels, or an array with one p per label
    """

    metric: str = "PSP@5"
    propensity: PropensityLike | None = None

    def __post_init__(self) -> None:
        split_figure(self.metric)  # raise now, not in the middle of a cross-validation
        as_propensity(self.propensity)

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        """Return the metric of the estimator's ranking of X against the true labels Y."""
        model = estimator
        if hasattr(estimator, "steps"):  # a pipeline
            model = estimator.steps[-1][1]
            X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
        if not isinstance(model, Model) or not hasattr(model, "n_samples_"):
            raise InputError("a scorer takes a fitted model of this package, or a pipeline that ends in one")
        name, cut = split_figure(self.metric)
        truth, n_new = match_labels(Y, model.classes_)
        counts = np.concatenate([model.label_counts_, np.zeros(n_new, np.int64)])
        inverse = 1 / as_propensity(self.propensity).estimate(counts, model.n_samples_)
        return evaluate(model.rank(X, cut), truth, inverse, cut, metrics=[name], train_counts=counts)[self.metric]


def scorer(metric: str = "PSP@5", propensity: PropensityLike | None = None) -> Scorer:
    """Return a scorer for `GridSearchCV(scoring=...)`; raise for an unknown metric."""
    return Scorer(metric, propensity)
