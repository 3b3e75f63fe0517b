"""Rows: X and Y in any shape users bring them, checked once, as the CSR matrices kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.matrices import check_X, check_Y


@dataclass(frozen=True)
class Rows:
    """Training rows as tasks see them: checked features and labels.

    Parameters
    ----------
    X : canonical float32 CSR matrix, (n_samples, n_features)
    Y : canonical CSR matrix of ones, (n_samples, n_labels)
    unit_rows : whether `features` are scaled to length 1
    """

    X: sp.csr_matrix
    Y: sp.csr_matrix
    unit_rows: bool = False

    @classmethod
    def check(cls, X: Any, Y: Any, *, unit_rows: bool = False, n_features: int | None = None) -> Rows:
        """Check what a caller brings; nothing is copied that need not be."""
        X = check_X(X, n_features)
        return cls(X, check_Y(Y, X.shape[0]), unit_rows)

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
    def features(self) -> sp.csr_matrix:
        """X as models learn from it: its rows scaled to length 1 where that is wanted."""
        return scale_rows(self.X) if self.unit_rows else self.X

    @cached_property
    def label_counts(self) -> npt.NDArray[np.int64]:
        """The number of positives of each label."""
        return np.bincount(self.Y.indices, minlength=self.n_labels).astype(np.int64)


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
