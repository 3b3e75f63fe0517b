"""What every model checks before it works: X and Y in any shape users bring them, as the CSR matrices kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from unmissed.errors import InputError


def check_X(X: Any, n_features: int | None = None) -> sp.csr_matrix:
    """Return X as a canonical float32 CSR matrix; the input is never changed and may be read-only.

    Parameters
    ----------
    X : sparse matrix or array of any format, or a dense array, of shape (n_samples, n_features)
    n_features : the number of features that a fitted model expects
    """
    matrix = _to_csr(X, "X")
    if matrix.dtype != np.float32:
        matrix = matrix.astype(np.float32)
    if not np.isfinite(matrix.data).all():
        raise InputError("X holds a value that is infinite or not a number")
    if n_features is not None and matrix.shape[1] != n_features:
        raise InputError(f"X has {matrix.shape[1]} features, the model was fitted on {n_features}")
    return matrix


def scale_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return X with each row scaled to length 1; empty rows stay empty."""
    squares = sp.csr_matrix((X.data.astype(np.float64) ** 2, X.indices, X.indptr), shape=X.shape)
    lengths = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    factors = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    data = (X.data * np.repeat(factors, np.diff(X.indptr))).astype(np.float32)
    return sp.csr_matrix((data, X.indices, X.indptr), shape=X.shape)


def check_Y(Y: Any, n_samples: int | None = None) -> sp.csr_matrix:
    """Return Y as a canonical CSR matrix of ones: bool, int or float, sparse or dense, entries 0 or 1."""
    matrix = _to_csr(Y, "Y")
    if n_samples is not None and matrix.shape[0] != n_samples:
        raise InputError(f"Y has {matrix.shape[0]} rows, X has {n_samples}")
    if matrix.data.size and not (matrix.data == 1).all():
        if not np.isin(matrix.data, (0, 1)).all():
            raise InputError("Y holds an entry that is neither 0 nor 1")
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    if matrix.dtype != np.float32:
        matrix = matrix.astype(np.float32)
    return matrix


def check_k(k: Any) -> int:
    """Return k, the number of places of a ranking, or refuse what is not a number of places."""
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InputError(f"k is a whole number of places, at least 1; got {k!r}")
    return int(k)


def _to_csr(matrix: Any, name: str) -> sp.csr_matrix:
    """Convert to CSR with sorted indices and no duplicates, copying only where it must."""
    if not sp.issparse(matrix):
        matrix = np.asarray(matrix)
        if matrix.ndim != 2:
            raise InputError(f"{name} must have two dimensions, rows and columns; got {matrix.ndim}")
        if not (np.issubdtype(matrix.dtype, np.number) or matrix.dtype == bool):
            raise InputError(f"{name} must hold numbers; got {matrix.dtype}")
    elif matrix.ndim != 2:
        raise InputError(f"{name} must have two dimensions, rows and columns; got {matrix.ndim}")
    converted = sp.csr_matrix(matrix)
    if not converted.has_canonical_format:
        converted = converted.copy()  # summing duplicates works in place, and the arrays may be the caller's
        converted.sum_duplicates()
    return converted
