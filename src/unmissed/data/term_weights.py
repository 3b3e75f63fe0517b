"""TF-IDF: inverse document frequencies, and the L2-normalized weights of counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.matrices import assemble


def inverse_document_frequency(counts: sparse.csr_matrix, *, smooth: bool = False) -> npt.NDArray[np.float32]:
    """Return ln(N / df) per term, or scikit-learn's ln((1 + N) / (1 + df)) + 1; terms without occurrences get 0."""
    return idf_of(np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.float64), counts.shape[0], smooth)


def idf_of(df: npt.NDArray[np.float64], n_documents: int, smooth: bool) -> npt.NDArray[np.float32]:
    """Return the inverse document frequency of terms that occur in `df` of the documents."""
    if smooth:
        return np.asarray(np.log((1 + n_documents) / (1 + df)) + 1, dtype=np.float32)
    return np.where(df > 0, np.log(n_documents / np.maximum(df, 1)), 0.0).astype(np.float32)


def weigh_terms(
    counts: sparse.csr_matrix, idf: npt.NDArray[np.float32], *, sublinear: bool = True
) -> sparse.csr_matrix:
    """Return L2-normalized TF-IDF rows: (1 + ln count) idf, or count idf, as canonical CSR."""
    if not counts.has_canonical_format:
        counts = counts.copy()
        counts.sum_duplicates()
    values = counts.data.astype(np.float32, copy=False)
    return weigh_arrays(values, counts.indices, counts.indptr, idf, sublinear)


def weigh_arrays(
    counts: npt.NDArray[np.float32],
    columns: npt.NDArray[np.integer[Any]],
    ends: npt.NDArray[np.integer[Any]],
    idf: npt.NDArray[np.float32],
    sublinear: bool,
) -> sparse.csr_matrix:
    """Return what `weigh_terms` does, of the three arrays of a canonical CSR matrix of counts."""
    values = (1 + np.log(counts) if sublinear else counts) * idf[columns]
    kept = values != 0
    if not kept.all():
        values, columns, ends = values[kept], columns[kept], np.append(0, np.cumsum(kept))[ends]
    n_rows = len(ends) - 1
    rows = np.repeat(np.arange(n_rows), np.diff(ends))
    norms = np.sqrt(np.bincount(rows, weights=values.astype(np.float64) ** 2, minlength=n_rows))
    values /= norms.astype(np.float32)[rows]
    return assemble(values, columns, ends, (n_rows, len(idf)))
