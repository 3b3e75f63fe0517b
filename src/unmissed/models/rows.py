"""Rows: X and Y in any shape users bring them, checked once, as the CSR matrices kernels take."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmissed.data import Dataset
from unmissed.data.dataset import Labelled
from unmissed.data.store import open_store
from unmissed.errors import InputError
from unmissed.matrices import LARGEST, check_X, check_Y

_MOST_PADDING = 2**28  # bytes of a ranking beyond the number of labels


class Stored(NamedTuple):
    """Where a store is, and the digest of what it held."""

    path: str
    digest: str

    @classmethod
    def of(cls, dataset: Dataset) -> Stored | None:
        """Return where a data set was opened from, or None where it is in memory."""
        return None if dataset.store is None else cls(str(dataset.store), dataset.digest)


@dataclass(frozen=True)
class Rows(Labelled):
    """Training rows as tasks see them: checked features and labels.

    Parameters
    ----------
    X : canonical float32 CSR matrix, (n_samples, n_features)
    Y : canonical CSR matrix of ones, (n_samples, n_labels)
    unit_rows : whether `features` are scaled to length 1
    store : the store that X and Y are mapped from; such rows are pickled as its path and digest, and opened where they
        arrive
    """

    X: sp.csr_matrix
    Y: sp.csr_matrix
    unit_rows: bool = False
    store: Stored | None = field(default=None, kw_only=True)

    @classmethod
    def check(cls, X: Any, Y: Any, *, unit_rows: bool = False, n_features: int | None = None) -> Rows:
        """Check what a caller brings; nothing is copied that need not be."""
        X = check_X(X, n_features)
        return cls(X, check_Y(Y, X.shape[0]), unit_rows)

    @classmethod
    def stored(cls, path: str | os.PathLike[str], digest: str | None = None, *, unit_rows: bool = False) -> Rows:
        """Open the rows of a store, memory-mapped; a store that does not hold what the digest says is refused."""
        dataset = open_store(path)
        if digest is not None and dataset.digest != digest:
            raise InputError(f"{path}: holds other data: digest {dataset.digest[:12]}, expected {digest[:12]}")
        return cls(dataset.X, dataset.Y, unit_rows, store=Stored.of(dataset))

    def repeated(self, weights: Any) -> Rows:
        """Return each row as often as its weight says; all of them once where there are no weights."""
        if weights is None:
            return self
        times = np.asarray(weights)
        if times.shape != (self.n_samples,) or times.dtype.kind not in "biuf":
            raise InputError(
                f"sample_weight has shape {times.shape}; expected one number for each of {self.n_samples} rows"
            )
        whole = np.where(np.isfinite(times), times, -1).astype(np.int64)
        wrong = np.flatnonzero((whole != times) | (whole < 0))
        if wrong.size:
            raise InputError(
                f"sample_weight is {times[wrong[0]]} for row {wrong[0]}; expected whole numbers, for rows count once, "
                "twice and so on: multiply all weights, and divide C by as much"
            )
        if not 0 < int(whole.sum()) <= LARGEST:
            raise InputError(f"sample_weight adds up to {whole.sum() or 'zero'}; expected 1 to {LARGEST} rows")
        kept = np.repeat(np.arange(self.n_samples), whole)
        return replace(self, X=self.X[kept], Y=self.Y[kept], store=None)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.store is not None and type(self) is Rows:
            return _stored, (*self.store, self.unit_rows)
        return _made, (type(self), {one.name: getattr(self, one.name) for one in fields(self)})

    @cached_property
    def features(self) -> sp.csr_matrix:
        """X as models learn from it: its rows scaled to length 1 where that is wanted."""
        return scale_rows(self.X) if self.unit_rows else self.X


def _stored(path: str, digest: str, unit_rows: bool) -> Rows:
    """Open rows that were pickled as a path."""
    return Rows.stored(path, digest, unit_rows=unit_rows)


def _made(cls: type[Rows], values: dict[str, Any]) -> Rows:
    """Make rows that were pickled as they are, without what was computed from them."""
    return cls(**values)


def scale_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """Return X with each row scaled to length 1; empty rows stay empty."""
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    lengths = np.sqrt(np.bincount(rows, X.data.astype(np.float64) ** 2, minlength=X.shape[0]))
    factors = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    data = (X.data * factors[rows]).astype(np.float32)
    scaled = copy(X)  # everything else is shared; scipy's constructors take longer than ranking a row
    scaled.data = data
    return scaled


def check_k(k: Any, n_samples: int, n_labels: int) -> int:
    """Return k, the number of labels per row, or refuse what is no such number.

    A k beyond the number of labels pads, and is refused where padding alone would take more than 256 MiB.
    """
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or not 1 <= k <= LARGEST:
        raise InputError(f"k is a whole number of places, at least 1 and at most {LARGEST}; got {k!r}")
    n_bytes = 8 * n_samples * (int(k) - n_labels)
    if n_bytes > _MOST_PADDING:
        raise InputError(
            f"k is {k:,}, and there are {n_labels:,} labels: padding {n_samples:,} rows would take "
            f"{n_bytes / 2**30:,.1f} GiB; lower k to {n_labels:,}"
        )
    return int(k)
