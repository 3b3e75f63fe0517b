"""TrainingData: features, labels and their names, validated once and passed on to models, tasks and workers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmissed.data import Dataset
from unmissed.data.dataset import LabeledData
from unmissed.data.store import open_store
from unmissed.errors import InputError
from unmissed.features import Features, ScaledFeatures
from unmissed.matrices import LARGEST, check_Y
from unmissed.models.frames import Names, as_names, open_features, open_labels

_LEAST_FACTOR = 1e-12  # products of float32 rows and weights with a smaller one, or its inverse, could overflow
_MOST_PADDING = 2**28  # bytes of padding in a ranking with k above the number of labels


class Stored(NamedTuple):
    """Path and digest of a store."""

    path: str
    digest: str

    @classmethod
    def of(cls, dataset: Dataset) -> Stored | None:
        """Return path and digest of a data set's store; None if it is in memory."""
        return None if dataset.store is None else cls(str(dataset.store), dataset.digest)


@dataclass(frozen=True)
class TrainingData(LabeledData):
    """Validated training rows: features, labels and their names.

    `check`, `of` and `stored` are the ways in. Whoever receives TrainingData does not validate it again.

    Parameters
    ----------
    X : the features as they were given
    Y : canonical CSR matrix of ones, (n_samples, n_labels)
    normalize : whether `features` has L2-normalized rows, each part on its own
    dense_weight : weight of the dense part of `features` against the sparse part
    label_names, feature_names : names of labels and features, arrays of strings, or None
    store : the store that X and Y are mapped from; such rows are pickled as its path and digest
    """

    X: Features
    Y: sp.csr_matrix
    normalize: bool = False
    dense_weight: float = field(default=1.0, kw_only=True)
    label_names: Names | None = field(default=None, kw_only=True)
    feature_names: Names | None = field(default=None, kw_only=True)
    store: Stored | None = field(default=None, kw_only=True)

    @classmethod
    def check(cls, X: Any, Y: Any, *, normalize: bool = False, dense_weight: float = 1.0) -> TrainingData:
        """Validate matrices, data frames or lists of label names, without copies where possible."""
        X, feature_names = open_features(X)
        Y, label_names = open_labels(Y)
        features = Features.check(X)
        Y = check_Y(Y, features.shape[0])
        return cls(
            features, Y, normalize, dense_weight=dense_weight, label_names=label_names, feature_names=feature_names
        )

    @classmethod
    def of(cls, dataset: Dataset, *, normalize: bool = False, dense_weight: float = 1.0) -> TrainingData:
        """Return the rows of a data set, which were validated when it was made.

        Names are those of sparse features: they are left out if there are dense ones, too.
        """
        return cls(
            dataset.features,
            dataset.Y,
            normalize,
            dense_weight=dense_weight,
            label_names=as_names(dataset.label_names),
            feature_names=None if dataset.n_dense else as_names(dataset.feature_names),
            store=Stored.of(dataset),
        )

    @classmethod
    def stored(
        cls,
        path: str | os.PathLike[str],
        digest: str | None = None,
        *,
        normalize: bool = False,
        dense_weight: float = 1.0,
    ) -> TrainingData:
        """Open the rows of a store, memory-mapped; raise if its digest is another one."""
        dataset = open_store(path)
        if digest is not None and dataset.digest != digest:
            raise InputError(f"{path}: holds other data: digest {dataset.digest[:12]}, expected {digest[:12]}")
        return cls.of(dataset, normalize=normalize, dense_weight=dense_weight)

    @property
    def n_dense(self) -> int:
        """The number of dense features."""
        return self.X.n_dense

    def in_parts(self, n_features: int, n_dense: int) -> TrainingData:
        """Return the rows with the parts of a fitted model; raise InputError if X has other features."""
        X = self.X.in_parts(n_features, n_dense)
        return self if X is self.X else replace(self, X=X, store=None)

    def repeated(self, weights: Any) -> TrainingData:
        """Return the rows repeated by their integer weights; unchanged if weights is None."""
        if weights is None:
            return self
        times = np.asarray(weights)
        if times.shape != (self.n_samples,) or times.dtype.kind not in "biuf":
            raise InputError(
                f"sample_weight has shape {times.shape}; expected one number for each of {self.n_samples} rows"
            )
        n_copies = np.where(np.isfinite(times), times, -1).astype(np.int64)
        wrong = np.flatnonzero((n_copies != times) | (n_copies < 0))
        if wrong.size:
            raise InputError(
                f"sample_weight is {times[wrong[0]]} for row {wrong[0]}; expected non-negative integers; "
                "multiply all weights by a constant, and divide C by it"
            )
        if not 0 < int(n_copies.sum()) <= LARGEST:
            raise InputError(f"sample_weight adds up to {n_copies.sum() or 'zero'}; expected 1 to {LARGEST} rows")
        kept = np.repeat(np.arange(self.n_samples), n_copies)
        return replace(self, X=self.X[kept], Y=self.Y[kept], store=None)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.store is not None and type(self) is TrainingData:
            return _stored, (*self.store, self.normalize, self.dense_weight)
        return _made, (type(self), {one.name: getattr(self, one.name) for one in fields(self)})

    @cached_property
    def features(self) -> Features:
        """X as the model uses it, normalized and weighted; a family takes the parts that its kernels read."""
        return self.X.scaled(self.normalize, self.dense_weight)

    def scaled(self) -> ScaledFeatures:
        """Return the same without a copy of the dense part, unless its norms are extreme; it is made at each call."""
        scaled = self.X.with_factors(self.normalize, self.dense_weight)
        if (
            scaled.factors is None
            or _LEAST_FACTOR <= scaled.factors.min(initial=1) <= scaled.factors.max(initial=1) <= 1 / _LEAST_FACTOR
        ):
            return scaled
        return ScaledFeatures(self.features, None)


def _stored(path: str, digest: str, normalize: bool, dense_weight: float) -> TrainingData:
    """Unpickle rows from the path of their store."""
    return TrainingData.stored(path, digest, normalize=normalize, dense_weight=dense_weight)


def _made(cls: type[TrainingData], values: dict[str, Any]) -> TrainingData:
    """Unpickle rows from their fields, without cached properties."""
    return cls(**values)


def check_k(k: Any, n_samples: int, n_labels: int) -> int:
    """Return k, the number of labels per row, as an int; raise if it is not a positive integer.

    A k above the number of labels pads the ranking; raise if the padding takes more than 256 MiB.
    """
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or not 1 <= k <= LARGEST:
        raise InputError(f"k must be an integer from 1 to {LARGEST}; got {k!r}")
    n_bytes = 8 * n_samples * (int(k) - n_labels)
    if n_bytes > _MOST_PADDING:
        raise InputError(
            f"k is {k:,}, and there are {n_labels:,} labels: padding {n_samples:,} rows would take "
            f"{n_bytes / 2**30:,.1f} GiB; lower k to {n_labels:,}"
        )
    return int(k)
