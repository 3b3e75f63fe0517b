"""Propensities by frequency from the estimates of bands: shrunk towards a line, as a curve with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from unmissed.audit.audit_estimates import AuditResult
from unmissed.propensity import FrequencyCurve

Floats = npt.NDArray[np.float64]
_NORMAL_95 = 1.959964


def curve_of(result: AuditResult) -> FrequencyCurve:
    """Return propensities by frequency from the bands of an audit."""
    bands = [one for one in result.bands if one.band.n_observed]
    return shrunk_curve(
        [one.band.center for one in bands],
        [one.p for one in bands],
        [one.low for one in bands],
        [one.high for one in bands],
        result.n_samples,
    )


def shrunk_curve(
    centers: Sequence[float], p: Sequence[float], low: Sequence[float], high: Sequence[float], of_rows: int
) -> FrequencyCurve:
    """Return a curve through bands: uncertain bands are moved towards a line of logit p over the log of positives.

    A random-effects regression: logit p of a band is normal around the line with a variance tau^2 (estimated by the
    method of moments, DerSimonian and Laird), and its estimate is normal around it with the variance of its interval.
    The result is the posterior mean with its interval. With fewer than four bands nothing is moved.

    Parameters
    ----------
    centers : positives of a typical label of each band, increasing
    p, low, high : estimates of bands and their 95 % intervals
    of_rows : number of rows in which positives were counted
    """
    y, below, above = (np.asarray(logit(np.clip(one, 1e-6, 1 - 1e-6))) for one in (p, low, high))
    deviation = np.maximum((above - below) / (2 * _NORMAL_95), 1e-6)
    line, kept = _line(np.log(centers), y, deviation**2)
    middle = kept * y + (1 - kept) * line
    width = np.sqrt(kept)
    ends = [expit(middle + width * (end - y)) for end in (below, above)]
    return FrequencyCurve(list(centers), expit(middle).tolist(), ends[0].tolist(), ends[1].tolist(), of_rows)


def _line(x: Floats, y: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the line at each x, and tau^2 / (tau^2 + variance): how far an estimate is kept."""
    if len(x) < 4:
        return y, np.ones(len(x))
    design, weight = np.column_stack([np.ones(len(x)), x]), 1 / variance
    gram = (design.T * weight) @ design
    residual = y - design @ np.linalg.solve(gram, design.T @ (weight * y))
    excess = float(weight @ residual**2) - (len(x) - 2)
    spread = weight.sum() - np.trace(np.linalg.solve(gram, (design.T * weight**2) @ design))
    tau2 = max(excess / float(spread), 0.0)
    weight = 1 / (variance + tau2)
    line = design @ np.linalg.solve((design.T * weight) @ design, design.T @ (weight * y))
    # bands keep at least half of their own estimate: four or five bands say little about tau
    return np.asarray(line), np.maximum(tau2 / (tau2 + variance), 0.5)
