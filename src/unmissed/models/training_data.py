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
from unmissed.features import Features
from unmissed.matrices import LARGEST, check_Y
from unmissed.models.frames import Names, as_names, open_features, open_labels

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
    normalize : whether `features` has L2-normalized rows
    label_names, feature_names : names of labels and features, arrays of strings, or None
    store : the store that X and Y are mapped from; such rows are pickled as its path and digest
    """

    X: Features
    Y: sp.csr_matrix
    normalize: bool = False
    label_names: Names | None = field(default=None, kw_only=True)
    feature_names: Names | None = field(default=None, kw_only=True)
    store: Stored | None = field(default=None, kw_only=True)

    @classmethod
    def check(cls, X: Any, Y: Any, *, normalize: bool = False, n_features: int | None = None) -> TrainingData:
        """Validate matrices, data frames or lists of label names, without copies where possible."""
        X, feature_names = open_features(X)
        Y, label_names = open_labels(Y)
        features = Features.check(X, n_features)
        Y = check_Y(Y, features.shape[0])
        return cls(features, Y, normalize, label_names=label_names, feature_names=feature_names)

    @classmethod
    def of(cls, dataset: Dataset, *, normalize: bool = False) -> TrainingData:
        """Return the rows of a data set, which were validated when it was made."""
        return cls(
            dataset.features,
            dataset.Y,
            normalize,
            label_names=as_names(dataset.label_names),
            feature_names=as_names(dataset.feature_names),
            store=Stored.of(dataset),
        )

    @classmethod
    def stored(
        cls, path: str | os.PathLike[str], digest: str | None = None, *, normalize: bool = False
    ) -> TrainingData:
        """Open the rows of a store, memory-mapped; raise if its digest is another one."""
        dataset = open_store(path)
        if digest is not None and dataset.digest != digest:
            raise InputError(f"{path}: holds other data: digest {dataset.digest[:12]}, expected {digest[:12]}")
        return cls.of(dataset, normalize=normalize)

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
            return _stored, (*self.store, self.normalize)
        return _made, (type(self), {one.name: getattr(self, one.name) for one in fields(self)})

    @cached_property
    def features(self) -> Features:
        """X, with L2-normalized rows if `normalize` is set; a family takes the part that its kernels read."""
        return self.X.normalized() if self.normalize else self.X


def _stored(path: str, digest: str, normalize: bool) -> TrainingData:
    """Unpickle rows from the path of their store."""
    return TrainingData.stored(path, digest, normalize=normalize)


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
