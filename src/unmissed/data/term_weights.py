"""TF-IDF: inverse document frequencies, and the L2-normalized weights of counts."""

from __future__ import annotations

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
    counts = sparse.csr_matrix(counts, dtype=np.float32)
    counts.sum_duplicates()
    counts.data = (1 + np.log(counts.data) if sublinear else counts.data) * idf[counts.indices]
    counts.eliminate_zeros()
    norms = np.sqrt(
        np.bincount(_row_of(counts), weights=counts.data.astype(np.float64) ** 2, minlength=counts.shape[0])
    )
    counts.data /= norms.astype(np.float32)[_row_of(counts)]
    return assemble(counts.data, counts.indices, counts.indptr, counts.shape)


def _row_of(matrix: sparse.csr_matrix) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
