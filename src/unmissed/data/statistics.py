"""Label statistics of a data set, as in the paper's table, and a power law fitted to its label frequencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse


@dataclass(frozen=True)
class PowerLaw:
    """The fit ln n_(r) = intercept - exponent ln r, with its coefficient of determination."""

    exponent: float
    intercept: float
    r_squared: float

    def __call__(self, rank: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the fitted label frequency at each rank."""
        return np.asarray(np.exp(self.intercept - self.exponent * np.log(rank)))


@dataclass(frozen=True)
class Statistics:
    """Label statistics of a set of rows.

    `points_per_label` (APpL) is the number of label assignments per label with positives; `labels_per_point` (ALpP)
    is the number of label assignments per row.
    """

    n_samples: int
    n_labels: int
    n_used_labels: int
    n_assignments: int
    n_rows_without_labels: int
    n_labels_seen_once: int
    points_per_label: float
    labels_per_point: float
    power_law: PowerLaw | None


def describe_labels(Y: sparse.csr_matrix) -> Statistics:
    """Return the label statistics of Y, with a power law fitted to its label frequencies."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    n_used = int(np.count_nonzero(counts))
    return Statistics(
        n_samples=int(Y.shape[0]),
        n_labels=int(Y.shape[1]),
        n_used_labels=n_used,
        n_assignments=int(Y.nnz),
        n_rows_without_labels=int(np.count_nonzero(np.diff(Y.indptr) == 0)),
        n_labels_seen_once=int(np.count_nonzero(counts == 1)),
        points_per_label=Y.nnz / n_used if n_used else 0.0,
        labels_per_point=Y.nnz / Y.shape[0] if Y.shape[0] else 0.0,
        power_law=fit_power_law(counts),
    )


def fit_power_law(counts: npt.ArrayLike) -> PowerLaw | None:
    """Fit n_(r) = n_(1) r^-exponent (the paper's Section 1) by least squares of ln n_(r) on ln r.

    Labels without positives are left out. Rank r has weight 1/r: equal intervals of ln r have equal weight, and tail
    labels do not dominate. Returns None for fewer than two labels with positives.
    """
    descending = np.sort(np.asarray(counts, dtype=np.float64))[::-1]
    descending = descending[descending > 0]
    if descending.size < 2:
        return None
    rank = np.arange(1, descending.size + 1, dtype=np.float64)
    weight = 1 / rank
    weight /= weight.sum()
    x, y = np.log(rank), np.log(descending)
    x_mean, y_mean = weight @ x, weight @ y
    covariance = weight @ ((x - x_mean) * (y - y_mean))
    slope = covariance / (weight @ (x - x_mean) ** 2)
    variation = weight @ (y - y_mean) ** 2
    explained = slope * covariance / variation if variation > 0 else 1.0
    return PowerLaw(float(-slope), float(y_mean - slope * x_mean), float(explained))
