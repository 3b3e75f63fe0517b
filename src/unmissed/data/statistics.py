"""What a data set is like: the columns of the paper's table, and the power law of its label frequencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse


@dataclass(frozen=True)
class PowerLaw:
    """The line ln n_(r) = intercept - exponent ln r, and the share of the variation that it explains."""

    exponent: float
    intercept: float
    r_squared: float

    def __call__(self, rank: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the frequency that the law gives to the label of each rank."""
        return np.asarray(np.exp(self.intercept - self.exponent * np.log(rank)))


@dataclass(frozen=True)
class Statistics:
    """The label statistics of some rows.

    `points_per_label` (APpL) divides the label marks by the labels that occur, `labels_per_point` (ALpP) by the rows.
    """

    n_samples: int
    n_labels: int
    n_used_labels: int
    n_marks: int
    n_rows_without_labels: int
    n_labels_seen_once: int
    points_per_label: float
    labels_per_point: float
    power_law: PowerLaw | None


def describe_labels(Y: sparse.csr_matrix) -> Statistics:
    """Count rows, labels and marks of Y, and fit the power law to its label frequencies."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    n_used = int(np.count_nonzero(counts))
    return Statistics(
        n_samples=int(Y.shape[0]),
        n_labels=int(Y.shape[1]),
        n_used_labels=n_used,
        n_marks=int(Y.nnz),
        n_rows_without_labels=int(np.count_nonzero(np.diff(Y.indptr) == 0)),
        n_labels_seen_once=int(np.count_nonzero(counts == 1)),
        points_per_label=Y.nnz / n_used if n_used else 0.0,
        labels_per_point=Y.nnz / Y.shape[0] if Y.shape[0] else 0.0,
        power_law=fit_power_law(counts),
    )


def fit_power_law(counts: npt.ArrayLike) -> PowerLaw | None:
    """Fit n_(r) = n_(1) r^-exponent (the paper's Section 1) by least squares of ln n_(r) on ln r.

    Labels without positives are left out. Rank r weighs 1/r, so that each stretch of ln r counts alike and the many
    labels of the tail do not drown the head. With fewer than two different ranks there is nothing to fit: None.
    """
    falling = np.sort(np.asarray(counts, dtype=np.float64))[::-1]
    falling = falling[falling > 0]
    if falling.size < 2:
        return None
    rank = np.arange(1, falling.size + 1, dtype=np.float64)
    weight = 1 / rank
    weight /= weight.sum()
    x, y = np.log(rank), np.log(falling)
    x_mean, y_mean = weight @ x, weight @ y
    covariance = weight @ ((x - x_mean) * (y - y_mean))
    slope = covariance / (weight @ (x - x_mean) ** 2)
    variation = weight @ (y - y_mean) ** 2
    explained = slope * covariance / variation if variation > 0 else 1.0
    return PowerLaw(float(-slope), float(y_mean - slope * x_mean), float(explained))
