"""The missing-label simulator: forget true labels as a propensity model says they are forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from unmissed.errors import InputError
from unmissed.matrices import check_Y
from unmissed.propensity.models import PropensityLike, as_propensity

Seed = int | np.random.Generator | np.random.RandomState | np.random.SeedSequence | None


def drop_labels(Y: Any, propensities: PropensityLike, rng: Seed) -> Any:
    """Keep each true label l of each row with probability p_l, independently: y* = y b, b ~ Bernoulli(p_l).

    Parameters
    ----------
    Y : scipy sparse matrix or array of shape (n_samples, n_labels)
        The complete truth, 1 for a true label and 0 or nothing elsewhere; it is not changed.
    propensities : float, array of n_labels, or propensity model
        One p for all labels, p of every label, or a model such as `Jain()` or "jain:0.55,1.5", which takes its label
        counts from Y.
    rng : int, numpy Generator or RandomState, or None
        A seed, or what draws; None draws differently each time. One uniform number is drawn per true label, rows first,
        labels rising. So under one seed a larger p keeps a superset of what a smaller p keeps.

    Returns
    -------
    A CSR matrix (of a scipy sparse array: a CSR array) of the same shape and data type without the dropped marks; it
    shares no memory with `Y`.
    """
    truth = check_Y(Y)
    counts = np.bincount(truth.indices, minlength=truth.shape[1])
    p = as_propensity(propensities).fit(counts, truth.shape[0])
    kept = _generator(rng).random(truth.nnz) < p[truth.indices]
    before = np.concatenate([[0], np.cumsum(kept)])  # marks kept among the first i
    indptr = before[truth.indptr].astype(truth.indptr.dtype)
    kind = sparse.csr_array if isinstance(Y, sparse.sparray) else sparse.csr_matrix
    dtype = Y.dtype if hasattr(Y, "dtype") else truth.dtype
    thinned = kind((truth.data[kept].astype(dtype), truth.indices[kept], indptr), shape=truth.shape)
    thinned.has_canonical_format = True
    return thinned


def _generator(rng: Seed) -> np.random.Generator | np.random.RandomState:
    if isinstance(rng, np.random.Generator | np.random.RandomState):
        return rng
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise InputError(f"rng is {rng!r}; expected a seed (an integer of at least 0) or a numpy Generator") from error
