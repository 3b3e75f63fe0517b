"""Dataset: a CSR feature matrix X and a CSR label matrix Y, with optional names of labels and features."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace
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
from unmissed.matrices import assemble, check_dense, check_X, check_Y

if TYPE_CHECKING:
    from unmissed.data.text import TextFeatures
    from unmissed.data.vocabulary import Vocabulary

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
    X : sparse matrix of shape (n_samples, n_sparse), the sparse part of the features
        Stored as a canonical float32 `csr_matrix`: indices sorted within rows, no duplicates. None stands for a matrix
        without columns, if all features are dense.
    Y : sparse matrix of shape (n_samples, n_labels)
        Stored in the same format; an entry of 1 is an observed positive.
    label_names : identifiers of the labels, or None
    feature_names : names of the sparse features, or None
    label_titles : readable names of the labels, or None
    text : the fitted text features that computed X, or None
    n_unknown_labels : number of label assignments left out because the training set does not have the label
    trusted : skip validation because X, Y and `dense` are known to be valid
    dense : array of shape (n_samples, n_dense), such as embeddings, the dense part of the features; or None
        Stored as float32 or float16 in C order, without a copy where possible.
    vocabulary : the concepts that the labels stand for, or None; see `with_vocabulary`
    """

    X: sparse.csr_matrix
    Y: sparse.csr_matrix
    label_names: list[str] | None = None
    feature_names: list[str] | None = None
    text: TextFeatures | None = field(default=None, repr=False)
    label_titles: list[str] | None = field(default=None, repr=False)
    n_unknown_labels: int = 0
    trusted: InitVar[bool] = False
    dense: npt.NDArray[Any] | None = field(default=None, kw_only=True, repr=False)
    vocabulary: Vocabulary | None = field(default=None, kw_only=True, repr=False)
    store: ClassVar[Path | None] = None
    """The store that holds exactly this data set; set by `open_store` only."""
    origin: ClassVar[Origin | None] = None
    """Path and options that this data set was read with; set by `load` only."""
    documents: ClassVar[DocumentCounts | None] = None
    """Counts of the documents read; set by `load` only."""

    def __post_init__(self, trusted: bool) -> None:
        if not trusted:
            object.__setattr__(self, "Y", check_Y(self.Y))
            X = _no_columns(int(self.Y.shape[0])) if self.X is None else check_X(self.X)
            object.__setattr__(self, "X", X)
            if self.dense is not None:
                object.__setattr__(self, "dense", check_dense(self.dense, "the dense part", keep_half=True))
            for what in ("label_names", "label_titles", "feature_names"):
                check_strings(what, getattr(self, what))
        if self.X.shape[0] != self.Y.shape[0]:
            raise InputError(f"X has {self.X.shape[0]} rows and Y has {self.Y.shape[0]}; expected the same number")
        if self.dense is not None and self.dense.shape[0] != self.Y.shape[0]:
            raise InputError(
                f"the dense part has {self.dense.shape[0]} rows and Y has {self.Y.shape[0]}; expected the same number"
            )
        _check_names("label_names", self.label_names, self.n_labels)
        _check_names("label_titles", self.label_titles, self.n_labels)
        _check_names("feature_names", self.feature_names, int(self.X.shape[1]))

    @property
    def n_features(self) -> int:
        """The number of features, sparse and dense."""
        return int(self.X.shape[1]) + self.n_dense

    @property
    def n_dense(self) -> int:
        """The number of dense features."""
        return 0 if self.dense is None else int(self.dense.shape[1])

    @cached_property
    def features(self) -> Features:
        """Both parts as validated features; float16 is converted to float32 here, once."""
        if self.dense is None:
            return Features(self.X, trusted=True)
        sparse_part = self.X if self.X.shape[1] else None
        return Features(sparse_part, self.dense.astype(np.float32, copy=False), trusted=True)

    def with_dense(self, dense: npt.NDArray[Any] | None) -> Dataset:
        """Return the data set with another dense part, which is known to be valid; it is in no store."""
        copied = replace(self, dense=dense, trusted=True)
        vars(copied)["documents"] = self.documents
        return copied

    def with_vocabulary(self, vocabulary: Vocabulary, *, unseen: bool = False) -> Dataset:
        """Return the data set with the titles of a vocabulary; label names are the identifiers of its concepts.

        With `unseen`, concepts that no row has become labels, too, behind the others, unless they are deprecated. Raise
        InputError if the vocabulary has none of the labels.
        """
        names = self.label_names or []
        concepts = [vocabulary.find(name) for name in names]
        if max(concepts, default=-1) < 0:
            example = f"; the first label is {names[0]!r}, the first concept {vocabulary.uris[0]!r}" if names else ""
            raise InputError(f"none of the {self.n_labels:,} labels of the data is in the vocabulary{example}")
        known = self.label_titles or names
        titles = [known[label] if one < 0 else vocabulary.titles[one] for label, one in enumerate(concepts)]
        if unseen:
            hidden = np.array(vocabulary.deprecated)
            hidden[[one for one in concepts if one >= 0]] = True
            added = np.flatnonzero(~hidden).tolist()
            names = [*names, *(vocabulary.uris[one] for one in added)]
            titles += [vocabulary.titles[one] for one in added]
        Y = assemble(self.Y.data, self.Y.indices, self.Y.indptr, (self.n_samples, len(names)))
        changed = replace(self, Y=Y, label_names=names, label_titles=titles, vocabulary=vocabulary, trusted=True)
        kept = {"documents": self.documents, "origin": self.origin, "source_digest": self.source_digest}
        vars(changed).update(kept)
        return changed

    def __repr__(self) -> str:
        dense = "" if self.dense is None else f" ({self.n_dense} dense)"
        return (
            f"Dataset(n_samples={self.n_samples}, n_features={self.n_features}{dense}, n_labels={self.n_labels}, "
            f"{self.X.nnz} values, {self.Y.nnz} label assignments)"
        )

    @cached_property
    def source_digest(self) -> str:
        """The digest of the data set as it was read, before a vocabulary added labels."""
        return self.digest

    @cached_property
    def digest(self) -> str:
        """SHA-256 of shapes, indices, values and names; independent of the file format and of float16 or float32."""
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
        if self.dense is not None:
            state.update(b"dense" + repr(tuple(int(size) for size in self.dense.shape)).encode())
            _hash_array(state, self.dense.reshape(-1), np.dtype("<f4"))
        return state.hexdigest()


def _no_columns(n_samples: int) -> sparse.csr_matrix:
    """Return a matrix without columns."""
    nothing = np.zeros(0, np.int32)
    return assemble(np.zeros(0, np.float32), nothing, np.zeros(n_samples + 1, np.int32), (n_samples, 0))


def _check_names(what: str, names: Sequence[str] | None, n: int) -> None:
    if names is not None and len(names) != n:
        raise InputError(f"{what} has {len(names)} entries; expected {n}")


def _hash_array(state: Any, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
    for begin in range(0, array.size, _SLICE):
        state.update(np.ascontiguousarray(array[begin : begin + _SLICE], dtype=dtype).data)
