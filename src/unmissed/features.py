"""Features: the validated features of rows, as one type with a sparse and a dense part."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse as sp

from unmissed.errors import InputError
from unmissed.matrices import LARGEST, assemble, check_dense, check_X

_BLOCK = 1 << 15  # values of a dense part that are converted at a time


@dataclass(frozen=True, eq=False)
class Features:
    """Validated features of rows: a sparse part, such as TF-IDF, a dense part, such as embeddings, or both.

    Whoever receives Features does not validate them again. Models take them wherever they take X.

    Parameters
    ----------
    sparse : sparse matrix of shape (n_samples, n_sparse), or None
        Stored as a canonical float32 `csr_matrix`.
    dense : array of shape (n_samples, n_dense), or None
        Stored as float32 in C order; such an array is not copied. Its features are numbered after the sparse ones.
    trusted : skip validation because both parts are known to be valid
    """

    sparse: sp.csr_matrix | None = None
    dense: npt.NDArray[np.float32] | None = None
    trusted: InitVar[bool] = False

    def __post_init__(self, trusted: bool) -> None:
        if not trusted:
            if self.sparse is not None:
                object.__setattr__(self, "sparse", check_X(self.sparse))
            if self.dense is not None:
                object.__setattr__(self, "dense", check_dense(self.dense))
        if self.sparse is None and self.dense is None:
            raise InputError("X has no features; give a sparse part, a dense part or both")
        if self.sparse is not None and self.dense is not None and self.sparse.shape[0] != self.dense.shape[0]:
            raise InputError(
                f"the sparse part of X has {self.sparse.shape[0]} rows and the dense part {self.dense.shape[0]}; "
                "expected the same number"
            )

    @classmethod
    def check(cls, X: Any) -> Features:
        """Validate X, without a copy where possible: a sparse matrix is the sparse part, any other input the dense one.

        Features are returned as they are.
        """
        if isinstance(X, Features):
            return X
        if sp.issparse(X):
            return cls(check_X(X), trusted=True)
        return cls(dense=check_dense(X), trusted=True)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of features."""
        parts = [part for part in (self.sparse, self.dense) if part is not None]
        return int(parts[0].shape[0]), sum(int(part.shape[1]) for part in parts)

    @property
    def n_dense(self) -> int:
        """The number of dense features."""
        return 0 if self.dense is None else int(self.dense.shape[1])

    @property
    def n_sparse(self) -> int:
        """The number of sparse features."""
        return 0 if self.sparse is None else int(self.sparse.shape[1])

    @property
    def both(self) -> tuple[sp.csr_matrix, npt.NDArray[np.float32]]:
        """The sparse and the dense part; a part that is absent has no columns."""
        n_samples = self.shape[0]
        return (
            sp.csr_matrix((n_samples, 0), dtype=np.float32) if self.sparse is None else self.sparse,
            np.empty((n_samples, 0), np.float32) if self.dense is None else self.dense,
        )

    @property
    def is_mixed(self) -> bool:
        """Whether there are sparse and dense features."""
        return self.n_sparse > 0 and self.n_dense > 0

    @cached_property
    def csr(self) -> sp.csr_matrix:
        """All features as one sparse matrix, for kernels of sparse rows; a dense part is converted (`csr_bytes`)."""
        if self.dense is None:
            assert self.sparse is not None
            return self.sparse
        return _stacked(self.sparse, self.dense)

    @property
    def csr_bytes(self) -> int:
        """The memory that `csr` takes in addition, at most, in bytes; 0 without a dense part."""
        if self.dense is None:
            return 0
        n_values = self.dense.size + (0 if self.sparse is None else self.sparse.nnz)
        return n_values * (8 if n_values <= LARGEST else 12)

    def in_parts(self, n_features: int, n_dense: int) -> Features:
        """Return the features in the parts that a model was fitted on; raise InputError if they are others.

        Rows with one part are converted to the other one if the model was fitted on that: its meaning is clear. Mixed
        features are never cut or joined.
        """
        n_sparse = n_features - n_dense
        if (self.n_sparse, self.n_dense) == (n_sparse, n_dense):
            return self
        if self.is_mixed or (n_sparse and n_dense):
            raise InputError(self._other_parts(n_sparse, n_dense))
        if self.shape[1] != n_features:
            raise InputError(f"X has {self.shape[1]} features, the model was fitted on {n_features}")
        if n_dense:
            assert self.sparse is not None
            return Features(dense=self.sparse.toarray(), trusted=True)
        return Features(self.csr, trusted=True)

    def _other_parts(self, n_sparse: int, n_dense: int) -> str:
        """Return the message for features in other parts than those of a fitted model."""
        if self.n_dense == n_dense:
            return f"X has {self.n_sparse} sparse features, the model was fitted on {n_sparse}"
        advice = "" if self.is_mixed or self.n_dense else "; pass X as Features(sparse, dense)"
        return f"X has {self.n_dense} dense features, the model was fitted on {n_dense}{advice}"

    def __getitem__(self, rows: Any) -> Features:
        """Return some rows, given by a slice or an array; consecutive rows share the memory."""
        return Features(
            None if self.sparse is None else _rows_of(self.sparse, rows),
            None if self.dense is None else np.ascontiguousarray(self.dense[rows]),
            trusted=True,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _trusted, (self.sparse, self.dense)  # without what is cached

    def scaled(self, normalize: bool, dense_weight: float = 1.0) -> Features:
        """Return the features as a model uses them: normalized or not, and the dense part weighted."""
        return self.with_factors(normalize, dense_weight).multiplied()

    def normalized(self, dense_weight: float = 1.0) -> Features:
        """Return the features with L2-normalized rows; empty rows stay empty.

        Each part of a row is normalized on its own, the dense part is multiplied by `dense_weight`, and the row is then
        normalized as a whole: all rows have norm 1, so that C means the same for one part and for two. The weight has
        no effect on a row with one part.
        """
        return self.scaled(True, dense_weight)

    def with_factors(self, normalize: bool, dense_weight: float = 1.0) -> ScaledFeatures:
        """Return what `scaled` returns, but without a copy of X: with the factors of its rows."""
        if not normalize:
            if not self.is_mixed or dense_weight == 1:
                return ScaledFeatures(self, None)
            return ScaledFeatures(self, np.full(self.shape[0], np.float32(dense_weight), np.float64))
        of_sparse, wanted = np.ones(self.shape[0], np.float32), np.ones(self.shape[0])
        if self.sparse is not None and self.dense is not None and self.is_mixed:
            both, total = (np.diff(self.sparse.indptr) > 0) & self.dense.any(axis=1), math.hypot(1.0, dense_weight)
            of_sparse[both], wanted[both] = 1 / total, dense_weight / total
        return ScaledFeatures(
            self,
            None if self.dense is None else wanted / _norms(self.dense),
            None if self.sparse is None else (_unit_factors(self.sparse), of_sparse),
        )


class ScaledFeatures(NamedTuple):
    """Features that are not scaled yet: the dense part of a row is to be multiplied by `factors`, None for 1.

    A value of the sparse part is to be multiplied by the first of `sparse_factors`, rounded to float32, and multiplied
    by the second; None for 1.
    """

    features: Features
    factors: npt.NDArray[np.float64] | None
    sparse_factors: tuple[npt.NDArray[np.float64], npt.NDArray[np.float32]] | None = None

    def multiplied(self) -> Features:
        """Return the scaled features; a part whose factors are not 1 is copied."""
        sparse, dense = self.features.sparse, self.features.dense
        if sparse is not None and self.sparse_factors is not None:
            sparse = scale_rows(sparse)
            if dense is not None:
                sparse.data *= np.repeat(self.sparse_factors[1], np.diff(sparse.indptr))
        if dense is not None and self.factors is not None:
            dense = _multiply_rows(dense, self.factors)
        if sparse is self.features.sparse and dense is self.features.dense:
            return self.features
        return Features(sparse, dense, trusted=True)


def _trusted(sparse: sp.csr_matrix | None, dense: npt.NDArray[np.float32] | None) -> Features:
    """Unpickle features."""
    return Features(sparse, dense, trusted=True)


def scale_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return a canonical matrix with L2-normalized rows; empty rows stay empty."""
    from unmissed.numerics.csr import read_only, scale_to_unit

    scaled = copy(X)  # shares all other arrays; scipy's constructors take longer than ranking a row
    scaled.data = np.empty(X.data.shape, np.float32)
    scale_to_unit(read_only(X.indptr), read_only(X.data), scaled.data)
    return scaled


def _unit_factors(X: sp.csr_matrix) -> npt.NDArray[np.float64]:
    """Return the numbers that the rows of a matrix are multiplied by to have norm 1, 0 for empty rows."""
    from unmissed.numerics.csr import read_only, unit_factors

    factors = np.empty(X.shape[0])
    unit_factors(read_only(X.indptr), read_only(X.data), factors)
    return factors


def _norms(X: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the L2 norms of the rows of an array, 1 for rows of zeros; each does not depend on the other rows."""
    norms = np.empty(X.shape[0])
    step = max(1, _BLOCK // max(X.shape[1], 1))
    for begin in range(0, X.shape[0], step):
        found = np.sqrt(np.square(X[begin : begin + step].astype(np.float64)).sum(axis=1))
        norms[begin : begin + step] = np.where(found > 0, found, 1)
    return norms


def _multiply_rows(X: npt.NDArray[np.float32], factors: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return an array with its rows multiplied by the factors, rounded once."""
    scaled = np.empty(X.shape, np.float32)
    step = max(1, _BLOCK // max(X.shape[1], 1))
    for begin in range(0, X.shape[0], step):
        scaled[begin : begin + step] = X[begin : begin + step] * factors[begin : begin + step, None]
    return scaled


def _stacked(sparse: sp.csr_matrix | None, dense: npt.NDArray[np.float32]) -> sp.csr_matrix:
    """Return a sparse and a dense part side by side as one canonical matrix, converted in blocks of rows."""
    n_samples, n_dense = dense.shape
    n_values = np.count_nonzero(dense, axis=1) if n_dense else np.zeros(n_samples, np.int64)
    if sparse is not None:
        n_values = n_values + np.diff(sparse.indptr)
    indptr = np.concatenate([[0], np.cumsum(n_values, dtype=np.int64)])
    data = np.empty(indptr[-1], np.float32)
    indices = np.empty(indptr[-1], np.int32 if indptr[-1] <= LARGEST else np.int64)
    step = max(1, _BLOCK // max(n_dense, 1))
    for begin in range(0, n_samples, step):
        block = sp.csr_matrix(dense[begin : begin + step])
        if sparse is not None:
            block = sp.csr_matrix(sp.hstack([_rows_of(sparse, slice(begin, begin + step)), block], format="csr"))
        entries = slice(indptr[begin], indptr[min(begin + step, n_samples)])
        data[entries], indices[entries] = block.data, block.indices
    n_sparse = 0 if sparse is None else int(sparse.shape[1])
    return assemble(data, indices, indptr, (n_samples, n_sparse + n_dense))


def _rows_of(X: sp.csr_matrix, rows: Any) -> sp.csr_matrix:
    """Return rows of a canonical matrix; those of a slice without a step are not copied."""
    if not isinstance(rows, slice) or rows.step not in (None, 1):
        return X[rows]
    first, last, _ = rows.indices(X.shape[0])
    indptr = X.indptr[first : max(first, last) + 1]
    entries = slice(indptr[0], indptr[-1])
    return assemble(X.data[entries], X.indices[entries], indptr - indptr[0], (len(indptr) - 1, X.shape[1]))
