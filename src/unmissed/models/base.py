"""What every model checks before it works: X and Y in any shape users bring them, as the CSR matrices kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.matrices import check_X, check_Y

__all__ = ["check_X", "check_Y", "check_k", "scale_rows"]


def scale_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return X with each row scaled to length 1; empty rows stay empty."""
    squares = sp.csr_matrix((X.data.astype(np.float64) ** 2, X.indices, X.indptr), shape=X.shape)
    lengths = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    factors = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    data = (X.data * np.repeat(factors, np.diff(X.indptr))).astype(np.float32)
    return sp.csr_matrix((data, X.indices, X.indptr), shape=X.shape)


def check_k(k: Any) -> int:
    """Return k, the number of places of a ranking, or refuse what is not a number of places."""
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InputError(f"k is a whole number of places, at least 1; got {k!r}")
    return int(k)
