"""P, nDCG, PSP and PSnDCG the way pyxclib computes them: scipy's sparse indexing and products, then dense sums."""

import numpy as np
import scipy.sparse as sp


def heaviest(weighted, k):
    """Return each row's k largest entries, falling, 0 where there are fewer."""
    rows = np.repeat(np.arange(weighted.shape[0]), np.diff(weighted.indptr))
    order = np.lexsort((-weighted.data, rows))
    position = np.arange(weighted.nnz) - weighted.indptr[:-1][rows]
    first = position < k
    found = np.zeros((weighted.shape[0], k))
    found[rows[first], position[first]] = weighted.data[order][first]
    return found


def measure(labels, Y, inverse, k):
    """Return P, nDCG, PSP and PSnDCG at 1 to k."""
    n_samples = Y.shape[0]
    rows = np.repeat(np.arange(n_samples), k)
    hits = np.asarray(Y[rows, labels[:, :k].ravel()], dtype=np.float64).reshape(n_samples, k)
    gains = hits * inverse[labels[:, :k]]
    best = heaviest(sp.csr_matrix(Y @ sp.diags(inverse)), k)

    n_true = np.diff(Y.indptr)
    discounts = 1 / np.log2(np.arange(k) + 2)
    ideal = np.cumsum(discounts)[np.minimum(np.arange(k)[None, :], np.maximum(n_true, 1)[:, None] - 1)]

    def mean_precision(values):
        return np.mean(np.cumsum(values, axis=1) / np.arange(1, k + 1), axis=0)

    def mean_ndcg(values):
        return np.mean(np.cumsum(values * discounts, axis=1) / ideal, axis=0)

    return {
        "P": mean_precision(hits),
        "nDCG": mean_ndcg(hits),
        "PSP": mean_precision(gains) / mean_precision(best),
        "PSnDCG": mean_ndcg(gains) / mean_ndcg(best),
    }
