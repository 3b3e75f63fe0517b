"""CheckedInput: how every model validates rows and labels, for training and for prediction."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unmissed.data import Dataset
from unmissed.data.label_terms import find_label_terms
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.models.cost_support import CostSupport
from unmissed.models.dense_support import DenseSupport
from unmissed.models.frames import check_feature_names, open_features
from unmissed.models.parameters import DENSE_WEIGHT
from unmissed.models.training_data import TrainingData
from unmissed.propensity import cells_of
from unmissed.settings import SETTINGS


class CheckedInput:
    """The part of `Model` that takes X, Y and labels from callers, and returns them validated."""

    dense_support: ClassVar[DenseSupport] = DenseSupport.ONE_PART
    """What the model does with the dense part of X."""
    cost_support: ClassVar[CostSupport] = CostSupport()
    """Whether costs may depend on rows and on cells."""
    uses_label_terms: bool = False
    """Whether training takes the names of labels as features (`TrainingData.label_terms`)."""

    n_features_in_: int
    n_dense_in_: int
    n_labels_: int
    feature_names_in_: npt.NDArray[np.object_]

    def check_rows(self, X: Any, Y: Any = None, *, like_fitted: bool = False) -> TrainingData:
        """Return training rows: X and Y, validated; without Y, those of a `Dataset` or of the store at a path.

        With `like_fitted`, X must have the features that the model was fitted on.
        """
        scaling: dict[str, Any] = {"normalize": self._normalizes, DENSE_WEIGHT: self._dense_weight}
        if Y is not None:
            rows = TrainingData.check(X, Y, **scaling)
        elif isinstance(X, Dataset):
            rows = TrainingData.of(X, **scaling)
            if self.uses_label_terms:
                rows = replace(rows, label_terms=find_label_terms(X))
        elif isinstance(X, str | os.PathLike):
            rows = TrainingData.stored(X, **scaling)
        else:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; fit takes X and Y, or "
                "a data set or the path of a store that holds both"
            )
        rows = rows.with_cell_propensity(cells_of(getattr(self, "propensity", None)))
        if like_fitted:
            rows = rows.in_parts(self.n_features_in_, self.n_dense_in_)
        self.dense_support.check(type(self).__name__, rows.X)
        self.cost_support.check(type(self).__name__, rows)
        if not rows.n_samples:
            raise InputError(f"there are 0 rows to train on; {type(self).__name__} needs at least 1")
        return rows

    def check_features(self, X: Any) -> Features:
        """Return validated rows with the features of training; whoever has them calls `rank` without another check."""
        X, names = open_features(X)
        check_feature_names(names, getattr(self, "feature_names_in_", None))
        return Features.check(X).in_parts(self.n_features_in_, self.n_dense_in_)

    def _add_costs(self, rows: TrainingData, sample_weight: Any, cell_propensity: Any) -> TrainingData:
        """Return rows with weights, or repeated by them, and with a propensity per observed positive."""
        if cell_propensity is not None and getattr(self, "propensity", None) is not None:
            raise InputError("propensity and cell_propensity are both given; leave one of them out")
        rows = rows.with_cell_propensity(cell_propensity)
        return rows.weighted(sample_weight) if self.cost_support.weights else rows.repeated(sample_weight)

    def _set_feature_names(self, names: npt.NDArray[np.object_] | None) -> None:
        """Set `feature_names_in_`, or delete it if X had no column names."""
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @property
    def _normalizes(self) -> bool:
        return bool(getattr(self, "normalize", False))

    @property
    def _dense_weight(self) -> float:
        return float(getattr(self, DENSE_WEIGHT, 1.0))

    def _checked(self, X: Any) -> Features:
        """Return validated rows, L2-normalized and weighted as the model does it."""
        return self.check_features(X).scaled(self._normalizes, self._dense_weight)

    def _chosen(self, labels: npt.ArrayLike | None, n_samples: int = 1) -> npt.NDArray[np.int64]:
        """Return label indices as an array; None means all labels."""
        if labels is None:
            n_bytes = 4 * n_samples * self.n_labels_
            if n_bytes > SETTINGS.decision_bytes:
                raise InputError(
                    f"the scores of {n_samples:,} rows and {self.n_labels_:,} labels would take "
                    f"{n_bytes / 2**30:,.1f} GiB; name the labels, or use rank for the best ones"
                )
            return np.arange(self.n_labels_)
        chosen = np.atleast_1d(np.asarray(labels))
        known = chosen.ndim == 1 and (chosen.dtype.kind in "iu" or not chosen.size)
        if not known or (chosen.size and not 0 <= chosen.min() <= chosen.max() < self.n_labels_):
            raise InputError(f"labels must be integers from 0 to {self.n_labels_ - 1}")
        return chosen.astype(np.int64)
