"""Scorers: any metric of this package as scikit-learn's model selection wants it, a function of estimator, X and Y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unmissed.errors import InputError
from unmissed.metrics import evaluate
from unmissed.models.base import Model
from unmissed.models.frames import match_labels
from unmissed.propensity import Propensity, default_propensity


@dataclass(frozen=True)
class Scorer:
    """Score a fitted model, or a pipeline that ends in one, by a metric at a cut-off; larger is better.

    Inverse propensities come from the rows that the model was fitted on: each fold of a cross-validation has its own.

    Parameters
    ----------
    metric : a name that `evaluate` gives, such as "P@1", "nDCG@5", "PSP@3" or "PSnDCG@5"
    propensity : the model that gives p from label counts; Jain() by default
    """

    metric: str = "PSP@5"
    propensity: Propensity | None = None

    def __post_init__(self) -> None:
        name, _, cut = self.metric.partition("@")
        if not name or not cut.isdecimal() or int(cut) < 1:
            raise InputError(f"a metric is a name and a cut-off, such as P@1 or PSP@5; got {self.metric!r}")

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        """Return the metric of the estimator's ranking of X, where Y is the truth."""
        model = estimator
        if hasattr(estimator, "steps"):  # a pipeline
            model = estimator.steps[-1][1]
            X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
        if not isinstance(model, Model) or not hasattr(model, "n_samples_"):
            raise InputError("a scorer takes a fitted model of this package, or a pipeline that ends in one")
        cut = int(self.metric.partition("@")[2])
        propensity = default_propensity() if self.propensity is None else self.propensity
        truth, n_new = match_labels(Y, model.classes_)
        counts = np.concatenate([model.label_counts_, np.zeros(n_new, np.int64)])
        found = evaluate(model.rank(X, cut), truth, 1 / propensity.fit(counts, model.n_samples_), cut).figures
        if self.metric not in found:
            raise InputError(f"there is no metric {self.metric!r}; known: {', '.join(found)}")
        return found[self.metric]


def scorer(metric: str = "PSP@5", propensity: Propensity | None = None) -> Scorer:
    """Return a scorer for `GridSearchCV(scoring=...)` and its like."""
    return Scorer(metric, propensity)
