"""Simulation of missing labels: remove true labels at random according to a propensity model."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from unmissed.errors import InputError
from unmissed.losses.inverse import check_cells
from unmissed.matrices import check_Y
from unmissed.propensity.models import PropensityLike, as_propensity

Seed = int | np.random.Generator | np.random.RandomState | np.random.SeedSequence | None


def drop_labels(Y: Any, propensities: PropensityLike, rng: Seed) -> Any:
    """Return Y with each true label l of each row kept with probability p_l, independently.

    The observed label is y b, where y is the true label and b ~ Bernoulli(p_l); p may also depend on the row.

    Parameters
    ----------
    Y : scipy sparse matrix or array of shape (n_samples, n_labels)
        The true labels: 1 for a true label, 0 or not stored otherwise. Y is not modified.
    propensities : float, array of n_labels, propensity model, or sparse matrix with the pattern of Y
        One p for all labels, p of every label, a model such as `Jain()` or "jain:0.55,1.5", which is
        estimated from the label counts of Y, or p of every true label of every row.
    rng : int, numpy Generator or RandomState, or None
        A seed or a generator; None uses a random seed. One uniform number is drawn per true label, in row-major order.
        So with the same seed, a larger p keeps a superset of the labels that a smaller p keeps.

    Returns
    -------
    A CSR matrix (a CSR array if Y is a scipy sparse array) of the same shape and dtype without the removed labels. It
    shares no memory with `Y`.
    """
    truth = check_Y(Y)
    if sparse.issparse(propensities):
        p = check_cells(propensities, truth, "propensities").data
    else:
        counts = np.bincount(truth.indices, minlength=truth.shape[1])
        p = as_propensity(propensities).estimate(counts, truth.shape[0])[truth.indices]
    kept = _generator(rng).random(truth.nnz) < p
    n_kept = np.concatenate([[0], np.cumsum(kept)])  # number kept among the first i true labels
    indptr = n_kept[truth.indptr].astype(truth.indptr.dtype)
    kind = sparse.csr_array if isinstance(Y, sparse.sparray) else sparse.csr_matrix
    dtype = Y.dtype if hasattr(Y, "dtype") else truth.dtype
    observed = kind((truth.data[kept].astype(dtype), truth.indices[kept], indptr), shape=truth.shape)
    observed.has_canonical_format = True
    return observed


def _generator(rng: Seed) -> np.random.Generator | np.random.RandomState:
    if isinstance(rng, np.random.Generator | np.random.RandomState):
        return rng
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise InputError(f"rng is {rng!r}; expected a seed (an integer of at least 0) or a numpy Generator") from error
