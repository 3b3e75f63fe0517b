"""Features: the validated features of rows, as one type with a sparse and a dense part."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse as sp

from unmissed.errors import InputError
from unmissed.matrices import assemble, check_X


@dataclass(frozen=True, eq=False)
class Features:
    """Validated features of rows; either part may be absent.

    The type says that its arrays are valid: `check` validates what comes from outside, and whoever receives Features
    does not validate again. The constructor takes arrays that are known to be valid.

    Parameters
    ----------
    sparse : canonical float32 CSR matrix, (n_samples, n_sparse)
    dense : finite float32 array in C order, (n_samples, n_dense); its features are numbered after the sparse ones
    """

    sparse: sp.csr_matrix | None = None
    dense: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        sizes = {int(part.shape[0]) for part in (self.sparse, self.dense) if part is not None}
        if len(sizes) != 1:
            raise InputError(f"the parts of X have {sorted(sizes)} rows; expected one number")

    @classmethod
    def check(cls, X: Any, n_features: int | None = None) -> Features:
        """Validate X, without a copy where possible; Features are returned as they are.

        Parameters
        ----------
        X : Features, or a matrix that `check_X` takes
        n_features : number of features that a fitted model expects
        """
        if not isinstance(X, Features):
            return cls(check_X(X, n_features))
        if n_features is not None and X.shape[1] != n_features:
            raise InputError(f"X has {X.shape[1]} features, the model was fitted on {n_features}")
        return X

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of features."""
        parts = [part for part in (self.sparse, self.dense) if part is not None]
        return int(parts[0].shape[0]), sum(int(part.shape[1]) for part in parts)

    @property
    def n_dense(self) -> int:
        """The number of dense features."""
        return 0 if self.dense is None else int(self.dense.shape[1])

    @cached_property
    def csr(self) -> sp.csr_matrix:
        """All features as one sparse matrix, for kernels of sparse rows; a dense part is converted."""
        if self.dense is None:
            assert self.sparse is not None
            return self.sparse
        dense = sp.csr_matrix(self.dense)
        return dense if self.sparse is None else sp.csr_matrix(sp.hstack([self.sparse, dense], format="csr"))

    def __getitem__(self, rows: Any) -> Features:
        """Return some rows, given by a slice or an array; consecutive rows share the memory."""
        return Features(
            None if self.sparse is None else _rows_of(self.sparse, rows),
            None if self.dense is None else self.dense[rows],
        )

    def normalized(self, dense_weight: float = 1.0) -> Features:
        """Return the features with each part of a row L2-normalized on its own; empty parts stay empty.

        The dense part is then multiplied by `dense_weight`.
        """
        return Features(
            None if self.sparse is None else scale_rows(self.sparse),
            None if self.dense is None else scale_dense_rows(self.dense, dense_weight),
        )


def scale_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return a canonical matrix with L2-normalized rows; empty rows stay empty."""
    from unmissed.numerics.csr import read_only, scale_to_unit

    scaled = copy(X)  # shares all other arrays; scipy's constructors take longer than ranking a row
    scaled.data = np.empty(X.data.shape, np.float32)
    scale_to_unit(read_only(X.indptr), read_only(X.data), scaled.data)
    return scaled


def scale_dense_rows(X: npt.NDArray[np.float32], weight: float = 1.0) -> npt.NDArray[np.float32]:
    """Return an array with L2-normalized rows times a weight; rows of zeros stay as they are."""
    norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    factors = np.float64(weight) / np.where(norms > 0, norms, 1)
    return X * factors.astype(np.float32)[:, None]


def _rows_of(X: sp.csr_matrix, rows: Any) -> sp.csr_matrix:
    """Return rows of a canonical matrix; those of a slice without a step are not copied."""
    if not isinstance(rows, slice) or rows.step not in (None, 1):
        return X[rows]
    first, last, _ = rows.indices(X.shape[0])
    indptr = X.indptr[first : max(first, last) + 1]
    entries = slice(indptr[0], indptr[-1])
    return assemble(X.data[entries], X.indices[entries], indptr - indptr[0], (len(indptr) - 1, X.shape[1]))
