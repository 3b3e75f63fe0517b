"""TrainingData: features, labels and their names, validated once and passed on to models, tasks and workers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.data import Dataset
from unmissed.data.dataset import LabeledData
from unmissed.data.label_terms import LabelTerms
from unmissed.data.store import open_store
from unmissed.errors import InputError
from unmissed.features import Features, ScaledFeatures
from unmissed.losses.inverse import check_cells
from unmissed.matrices import LARGEST, assemble, check_Y
from unmissed.models.dual_variables import DualVariables
from unmissed.models.frames import Names, as_names, open_features, open_labels

_MOST_WEIGHT = 1e30  # larger costs overflow
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
    weights : weight of each row, which multiplies its costs, float64 above 0; None if all are 1
    cell_propensity : p of each observed positive, float64 CSR with the pattern of Y; None if p is that of the label
    label_terms : the names of the labels as features; None unless the model uses them and X has words
    initial : dual variables of an earlier solution, from which the training of linear models may start, or None
    store : the store that X and Y are mapped from; such rows are pickled as its path and digest, with their weights and
        the propensities of their cells
    """

    X: Features
    Y: sp.csr_matrix
    normalize: bool = False
    dense_weight: float = field(default=1.0, kw_only=True)
    label_names: Names | None = field(default=None, kw_only=True)
    feature_names: Names | None = field(default=None, kw_only=True)
    weights: npt.NDArray[np.float64] | None = field(default=None, kw_only=True)
    cell_propensity: sp.csr_matrix | None = field(default=None, kw_only=True)
    label_terms: LabelTerms | None = field(default=None, kw_only=True)
    initial: DualVariables | None = field(default=None, kw_only=True)
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

    @cached_property
    def label_counts(self) -> npt.NDArray[Any]:
        """The number of positive rows of each label, or the sum of their weights; integers if all weights are."""
        if self.weights is None:
            return np.bincount(self.Y.indices, minlength=self.n_labels).astype(np.int64)
        of_cells = np.repeat(self.weights, np.diff(self.Y.indptr))
        return np.asarray(_integers(np.bincount(self.Y.indices, of_cells, minlength=self.n_labels), self.weights))

    @property
    def total_weight(self) -> float:
        """The number of rows, or the sum of their weights: what label counts are fractions of."""
        return self.n_samples if self.weights is None else _integers(self.weights.sum(), self.weights).item()

    def in_parts(self, n_features: int, n_dense: int) -> TrainingData:
        """Return the rows with the parts of a fitted model; raise InputError if X has other features."""
        X = self.X.in_parts(n_features, n_dense)
        return self if X is self.X else replace(self, X=X, store=None)

    def take(
        self, rows: npt.NDArray[Any] | None = None, labels: npt.NDArray[Any] | None = None, **changes: Any
    ) -> TrainingData:
        """Return some rows and some labels, all by default; `changes` are other fields."""
        Y, cells = (_part(one, rows, labels) for one in (self.Y, self.cell_propensity))
        part: dict[str, Any] = {"Y": Y, "cell_propensity": cells, "initial": None, "store": None}
        if rows is not None:
            part |= {"X": self.X[rows], "weights": None if self.weights is None else self.weights[rows]}
        if labels is not None and self.label_terms is not None:
            part["label_terms"] = self.label_terms.among(labels)
        return replace(self, **{**part, **changes})

    def weighted(self, weights: Any) -> TrainingData:
        """Return the rows with the weights of `sample_weight`, without those of weight 0; unchanged if it is None."""
        if weights is None:
            return self
        checked = _check_weights(weights, self.n_samples)
        rows = replace(self, weights=checked)
        return rows if (checked > 0).all() else rows.take(np.flatnonzero(checked))

    def with_cell_propensity(self, cells: Any) -> TrainingData:
        """Return the rows with a propensity per observed positive; unchanged if `cells` is None."""
        if cells is None:
            return self
        return replace(self, cell_propensity=check_cells(cells, self.Y, "cell_propensity"))

    def repeated(self, weights: Any) -> TrainingData:
        """Return the rows repeated by their integer weights; unchanged if weights is None."""
        if weights is None:
            return self
        times = _check_weights(weights, self.n_samples)
        wrong = np.flatnonzero(times != np.rint(times))
        if wrong.size:
            raise InputError(
                f"sample_weight is {times[wrong[0]]} for row {wrong[0]}; expected non-negative integers, the numbers "
                "of copies of each row; DiSMEC and PW-DiSMEC take other weights"
            )
        if times.sum() > LARGEST:
            raise InputError(f"sample_weight adds up to {times.sum():.0f}; expected 1 to {LARGEST} rows")
        return self.take(np.repeat(np.arange(self.n_samples), times.astype(np.int64)))

    def __reduce__(self) -> tuple[Any, ...]:
        if self.store is not None and self.initial is None and type(self) is TrainingData:
            cells = None if self.cell_propensity is None else self.cell_propensity.data
            return _stored, (*self.store, self.normalize, self.dense_weight, self.weights, cells, self.label_terms)
        return _made, (type(self), {one.name: getattr(self, one.name) for one in fields(self)})

    @cached_property
    def features(self) -> Features:
        """X as the model uses it, normalized and weighted; a family takes the parts that its kernels read."""
        return self.X.scaled(self.normalize, self.dense_weight)

    def scaled(self) -> ScaledFeatures:
        """Return the same without a copy of X, unless norms of the dense part are extreme; it is made at each call."""
        scaled = self.X.with_factors(self.normalize, self.dense_weight)
        if (
            scaled.factors is None
            or _LEAST_FACTOR <= scaled.factors.min(initial=1) <= scaled.factors.max(initial=1) <= 1 / _LEAST_FACTOR
        ):
            return scaled
        return ScaledFeatures(self.features, None)


def _check_weights(weights: Any, n_samples: int) -> npt.NDArray[np.float64]:
    """Return the weights of rows as float64; raise InputError unless all are at least 0 and finite, and one above 0."""
    checked = np.asarray(weights)
    if checked.shape != (n_samples,) or checked.dtype.kind not in "biuf":
        raise InputError(f"sample_weight has shape {checked.shape}; expected one number for each of {n_samples} rows")
    checked = checked.astype(np.float64)
    wrong = np.flatnonzero(~((checked >= 0) & (checked <= _MOST_WEIGHT)))
    if wrong.size:
        raise InputError(
            f"sample_weight is {checked[wrong[0]]:g} for row {wrong[0]}; expected a number from 0 to {_MOST_WEIGHT:g}"
        )
    if not checked.any():
        raise InputError("sample_weight adds up to zero; expected a row with a weight above 0")
    return checked


def _integers(sums: Any, weights: npt.NDArray[np.float64]) -> Any:
    """Return sums of weights, as integers if all weights are."""
    return np.rint(sums).astype(np.int64) if np.array_equal(weights, np.rint(weights)) else sums


def _part(matrix: sp.csr_matrix | None, rows: npt.NDArray[Any] | None, labels: npt.NDArray[Any] | None) -> Any:
    """Return rows and columns (None for all) of a matrix, if there is one."""
    if matrix is None:
        return None
    part = matrix if rows is None else matrix[rows]
    return part if labels is None or len(labels) == matrix.shape[1] else part[:, labels].sorted_indices()


def _stored(
    path: str, digest: str, normalize: bool, dense_weight: float, weights: Any, cells: Any, terms: LabelTerms | None
) -> TrainingData:
    """Unpickle rows from the path of their store, with their weights, propensities of cells and names of labels."""
    rows = TrainingData.stored(path, digest, normalize=normalize, dense_weight=dense_weight)
    Y = rows.Y
    matrix = None if cells is None else assemble(cells, Y.indices, Y.indptr, Y.shape)
    return replace(rows, weights=weights, cell_propensity=matrix, label_terms=terms)


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
