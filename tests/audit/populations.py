"""A small simulated audit: cells whose truth is known."""

import numpy as np
import scipy.sparse as sp

from unmissed.audit.sampling import AuditPopulation
from unmissed.calibration import Cells
from unmissed.matrices import check_Y


def simulated(p, n_rows=400, n_labels=80, seed=0, n_bands=2):
    """Return a population whose labels were dropped with propensity p(label, probability), and the dropped keys.

    The finder knows the probability of every true label; half of the labels of each row are ranked.
    """
    rng = np.random.default_rng(seed)
    weight = np.linspace(0.2, 3, n_labels)
    truth = np.clip(weight * rng.gamma(0.15, 0.4, (n_rows, n_labels)), 0, 0.95)
    Y = rng.random(truth.shape) < truth
    propensity = p(np.arange(n_labels)[None, :], truth) * np.ones_like(truth)
    kept = Y & (rng.random(truth.shape) < propensity)
    observed = check_Y(sp.csr_matrix(kept.astype(np.float32)))
    ranked = np.argsort(-truth, axis=1, kind="stable")[:, : n_labels // 2]
    rows = np.repeat(np.arange(n_rows), ranked.shape[1]).astype(np.int32)
    labels = ranked.ravel().astype(np.int32)
    size = len(rows)
    cells = Cells(
        rows,
        labels,
        truth[rows, labels].astype(np.float32),
        np.ones(size, np.float32),
        kept[rows, labels],
        np.tile(np.arange(ranked.shape[1], dtype=np.int32), n_rows),
        rows.astype(np.int64),
        n_labels,
    )
    pi = (truth * propensity)[rows, labels]
    population = AuditPopulation(cells, pi, np.full(n_labels, 0.5), observed, n_bands)
    dropped = np.flatnonzero((Y & ~kept).ravel())
    return population, dropped


def answered(sample, population, dropped):
    """Return 1 for each sampled cell whose label was dropped."""
    return np.isin(sample.rows * population.n_labels + sample.labels, dropped).astype(np.int64)
