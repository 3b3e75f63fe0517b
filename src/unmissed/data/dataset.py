"""Dataset: a CSR feature matrix X and a CSR label matrix Y, with optional names of labels and features."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.data.checks import DocumentCounts
from unmissed.data.unicode import check_strings
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.matrices import check_X, check_Y

if TYPE_CHECKING:
    from unmissed.data.text import TextFeatures

_SLICE = 1 << 20  # elements hashed per update


class Origin(NamedTuple):
    """The absolute path that a data set was read from, and the options of `load`."""

    path: str
    options: dict[str, Any]


class LabeledData:
    """Base class of labeled data: sizes and label counts of X and Y."""

    X: Any
    Y: sparse.csr_matrix

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.X.shape[1])

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return int(self.Y.shape[1])

    @cached_property
    def label_counts(self) -> npt.NDArray[np.int64]:
        """The number of positive rows of each label."""
        return np.bincount(self.Y.indices, minlength=self.n_labels).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Dataset(LabeledData):
    """A multi-label data set: features X and observed labels Y.

    Parameters
    ----------
    X : sparse matrix of shape (n_samples, n_features)
        Stored as a canonical float32 `csr_matrix`: indices sorted within rows, no duplicates.
    Y : sparse matrix of shape (n_samples, n_labels)
        Stored in the same format; an entry of 1 is an observed positive.
    label_names : identifiers of the labels, or None
    feature_names : names of the features, or None
    label_titles : readable names of the labels, or None
    text : the fitted text features that computed X, or None
    n_unknown_labels : number of label assignments left out because the training set does not have the label
    trusted : skip validation because X and Y are known to be canonical
    """

    X: sparse.csr_matrix
    Y: sparse.csr_matrix
    label_names: list[str] | None = None
    feature_names: list[str] | None = None
    text: TextFeatures | None = field(default=None, repr=False)
    label_titles: list[str] | None = field(default=None, repr=False)
    n_unknown_labels: int = 0
    trusted: InitVar[bool] = False
    store: ClassVar[Path | None] = None
    """The store that holds exactly this data set; set by `open_store` only."""
    origin: ClassVar[Origin | None] = None
    """Path and options that this data set was read with; set by `load` only."""
    documents: ClassVar[DocumentCounts | None] = None
    """Counts of the documents read; set by `load` only."""

    def __post_init__(self, trusted: bool) -> None:
        if not trusted:
            object.__setattr__(self, "X", check_X(self.X))
            object.__setattr__(self, "Y", check_Y(self.Y))
            for what in ("label_names", "label_titles", "feature_names"):
                check_strings(what, getattr(self, what))
        if self.X.shape[0] != self.Y.shape[0]:
            raise InputError(f"X has {self.X.shape[0]} rows and Y has {self.Y.shape[0]}; expected the same number")
        _check_names("label_names", self.label_names, self.n_labels)
        _check_names("label_titles", self.label_titles, self.n_labels)
        _check_names("feature_names", self.feature_names, self.n_features)

    @property
    def features(self) -> Features:
        """X as validated features."""
        return Features(self.X)

    def __repr__(self) -> str:
        return (
            f"Dataset(n_samples={self.n_samples}, n_features={self.n_features}, n_labels={self.n_labels}, "
            f"{self.X.nnz} values, {self.Y.nnz} label assignments)"
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of shapes, indices, values and names; independent of the file format."""
        state = hashlib.sha256()
        for matrix in (self.X, self.Y):
            state.update(repr(tuple(int(size) for size in matrix.shape)).encode())
            _hash_array(state, matrix.indptr, np.dtype("<i8"))
            _hash_array(state, matrix.indices, np.dtype("<i8"))
            _hash_array(state, matrix.data, np.dtype("<f4"))
        for names in (self.label_names, self.feature_names):
            state.update(b"-" if names is None else b"+")
            for name in names or ():
                encoded = name.encode()
                state.update(len(encoded).to_bytes(8, "little") + encoded)
        return state.hexdigest()


def _check_names(what: str, names: Sequence[str] | None, n: int) -> None:
    if names is not None and len(names) != n:
        raise InputError(f"{what} has {len(names)} entries; expected {n}")


def _hash_array(state: Any, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
    for begin in range(0, array.size, _SLICE):
        state.update(np.ascontiguousarray(array[begin : begin + _SLICE], dtype=dtype).data)
