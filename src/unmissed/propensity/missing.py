"""The missing-label simulator: forget true labels as a propensity model says they are forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.errors import InputError
from unmissed.losses.inverse import check_propensities
from unmissed.matrices import check_Y


def drop_labels(Y: Any, propensities: npt.ArrayLike, rng: np.random.Generator) -> Any:
    """Keep each true label l of each row with probability p_l, independently: y* = y b, b ~ Bernoulli(p_l).

    Parameters
    ----------
    Y : scipy sparse matrix or array of shape (n_samples, n_labels)
        The complete truth, 1 for a true label and 0 or nothing elsewhere; it is not changed.
    propensities : float or array of n_labels
        p of every label, or one p for all.
    rng : numpy Generator
        One uniform number is drawn per mark, rows first, labels rising. So under one seed a larger p keeps a superset
        of what a smaller p keeps.

    Returns
    -------
    A CSR matrix (of a scipy sparse array: a CSR array) of the same shape and data type without the dropped marks; it
    shares no memory with `Y`.
    """
    truth = check_Y(Y)
    n_labels = truth.shape[1]
    p = check_propensities(propensities)
    if p.ndim == 0:
        p = np.full(n_labels, p)
    if p.size != n_labels:
        raise InputError(f"{p.size} propensities for {n_labels} labels; one for each was expected")
    kept = rng.random(truth.nnz) < p[truth.indices]
    before = np.concatenate([[0], np.cumsum(kept)])  # marks kept among the first i
    indptr = before[truth.indptr].astype(truth.indptr.dtype)
    kind = sparse.csr_array if isinstance(Y, sparse.sparray) else sparse.csr_matrix
    dtype = Y.dtype if hasattr(Y, "dtype") else truth.dtype
    thinned = kind((truth.data[kept].astype(dtype), truth.indices[kept], indptr), shape=truth.shape)
    thinned.has_canonical_format = True
    return thinned
