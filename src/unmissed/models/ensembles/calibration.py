"""Calibrations of the members of an ensemble, which make their scores comparable."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.calibration import Calibration, Cells, MonotoneMap, fit_calibration
from unmissed.metrics.calibration_error import find_observed
from unmissed.ranking import Ranking

Floats = npt.NDArray[np.float64]


def standardize(ranking: Ranking, n_labels: int) -> Calibration:
    """Return the calibration whose logits are standardized scores, for rankings without known labels."""
    scores = ranking.scores[np.isfinite(ranking.scores)].astype(np.float64)
    knots = np.unique([scores.min(), scores.max()]) if scores.size else np.zeros(1)
    scale = float(scores.std()) if scores.size else 0.0
    logits = (knots - scores.mean()) / scale if scale > 0 else np.zeros(len(knots))
    return Calibration.pooled_only(MonotoneMap(knots, logits), n_labels)


def calibrate(ranking: Ranking, Y: sp.csr_matrix, label_counts: npt.NDArray[np.int64]) -> Calibration:
    """Fit a calibration to the ranked labels of held-out rows.

    Parameters
    ----------
    ranking : ranking of held-out rows
    Y : their labels
    label_counts : training positives of each label
    """
    listed = np.isfinite(ranking.scores)
    rows, ranks = (part.astype(np.int32) for part in np.nonzero(listed))
    observed = find_observed(ranking.labels, Y)[listed]
    if observed.all() or not observed.any():
        return standardize(ranking, Y.shape[1])
    values = ranking.scores[listed]
    cells = Cells(
        rows, ranking.labels[listed], values, np.ones_like(values), observed, ranks, rows.astype(np.int64), Y.shape[1]
    )
    return fit_calibration(cells, label_counts)
