"""Monte Carlo draws of the number of missing labels of each frequency band, given answers by stratum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from unmissed.audit.sampling import AuditSample

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LEVEL = 0.01
"""Level of the tests whose rejection is a warning."""
_DRAWS = 4000
_LARGEST = 0.95  # of a prior mean
_LEAST_EXPECTED = 1.0  # yes answers of a stratum that the test uses


class MissingDraws(NamedTuple):
    """Draws of missing labels, and a test of a propensity that is constant within bands.

    Parameters
    ----------
    missing : float64 array (draws, bands)
    p_value : of the hypothesis that missing per observed labels are the same in all ranked strata of a band
    uneven : bands for which that hypothesis is rejected alone
    """

    missing: Floats
    p_value: float | None
    uneven: list[int]

    @property
    def depends_on_row(self) -> bool:
        """Whether the test rejects a constant propensity."""
        return self.p_value is not None and self.p_value < LEVEL


class _Strata:
    """The strata of a sample as arrays, with the answers."""

    def __init__(self, sample: AuditSample, n: Integers, yes: Floats) -> None:
        self.n, self.yes = n, yes
        self.band = np.array([one.band for one in sample.strata])
        self.size = np.array([one.n_cells for one in sample.strata])
        self.observed = np.array([one.n_observed for one in sample.strata], dtype=np.float64)
        self.shape = np.array([one.ratio_shape for one in sample.strata])
        self.ranked = np.array([one.is_ranked for one in sample.strata])
        self.score = np.log(np.maximum([one.mean_probability for one in sample.strata], 1e-12))
        self.center = np.log([one.center for one in sample.strata])
        self.band_center = np.log([band.center for band in sample.bands])
        self.band_observed = np.array([band.n_observed for band in sample.bands], dtype=np.float64)
        self.relative = np.ones(len(self.band))

    @property
    def rate(self) -> Floats:
        """Missing labels per cell, if as many labels were missing as are observed."""
        return np.asarray((self.observed + 0.5) * self.relative / self.size)

    def follow(self, missing: Floats) -> None:
        """Let p change smoothly with the positives of a label: `relative` is (1 - p) / p over that of the band."""
        log_odds = np.log((missing.mean(axis=0) + 0.5) / (self.band_observed + 0.5))
        at, slope = self.band_center, np.zeros(len(log_odds))
        if len(log_odds) > 1:
            slope = np.gradient(log_odds, at)  # strata of the outer bands lie outside the centers, too
        self.relative = np.exp(slope[self.band] * (self.center - at[self.band]))


def draw_missing(sample: AuditSample, n: Integers, yes: Floats, seed: int = 0) -> MissingDraws:
    """Return draws of the missing labels of each band.

    If the test rejects that p is constant within bands, missing per observed labels follow a power of the probability.

    Parameters
    ----------
    sample : the sample
    n, yes : answers of each stratum, and how many of them are yes
    seed : of the draws
    """
    strata = _Strata(sample, n, yes)
    strata.follow(_draw(strata, False, seed))
    p_value, uneven = _test_constant(strata)
    missing = _draw(strata, p_value is not None and p_value < LEVEL, seed)
    return MissingDraws(missing, p_value, uneven)


def _draw(strata: _Strata, trend: bool, seed: int) -> Floats:
    """Return draws of missing labels, shape (draws, bands)."""
    rng = np.random.default_rng(seed)
    ratio = _trend_ratios(strata, rng) if trend else _band_ratios(strata, rng)[:, strata.band]
    mean = np.clip(ratio * strata.rate, 1e-12, _LARGEST)
    theta = rng.beta(strata.shape + strata.yes, strata.shape * (1 - mean) / mean + strata.n - strata.yes)
    missing = strata.yes + rng.binomial(strata.size - strata.n, theta)
    return np.asarray(missing @ (strata.band[:, None] == np.arange(len(strata.band_center))), dtype=np.float64)


def _band_ratios(strata: _Strata, rng: np.random.Generator) -> Floats:
    """Return draws of missing per observed labels of each band: gamma, with the prior of Jeffreys."""
    n_bands = len(strata.band_center)
    yes = np.bincount(strata.band, weights=strata.yes, minlength=n_bands)
    exposure = np.bincount(strata.band, weights=strata.n * strata.rate, minlength=n_bands)
    return np.asarray(rng.gamma(yes + 0.5, 1.0, (_DRAWS, n_bands)) / np.maximum(exposure, 1e-300))


def _trend_ratios(strata: _Strata, rng: np.random.Generator) -> Floats:
    """Return draws of missing per observed labels of each stratum: log-linear in log(missing_probability).

    A Poisson regression with one intercept per band and one slope, by Newton's method; draws are from the normal
    approximation.
    """
    n_bands = len(strata.band_center)
    design = np.column_stack([strata.band[:, None] == np.arange(n_bands), strata.score]).astype(np.float64)
    offset = np.log(np.maximum(strata.n * strata.rate, 1e-300))
    ridge = np.append(np.full(n_bands, 0.01), 1.0)  # normal priors of variance 100 and 1
    beta = np.zeros(n_bands + 1)
    for _ in range(100):
        expected = np.exp(np.clip(offset + design @ beta, -50, 50))
        hessian = (design.T * expected) @ design + np.diag(ridge)
        step = np.linalg.solve(hessian, design.T @ (strata.yes - expected) - ridge * beta)
        beta += step * min(1.0, 1 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-9:
            break
    draws = rng.multivariate_normal(beta, np.linalg.inv(hessian), _DRAWS)
    return np.asarray(np.exp(np.clip(draws @ design.T, -50, 50)))


def _test_constant(strata: _Strata) -> tuple[float | None, list[int]]:
    """Return the P-value of a constant ratio within bands, and the bands rejected alone.

    A chi-squared test finds any deviation, and a test of a trend with `missing_probability` finds a steady one with
    more power; the P-value is twice the smaller one (Bonferroni).
    """
    total, freedom, uneven, trend, trend_variance = 0.0, 0, [], 0.0, 0.0
    for band in range(len(strata.band_center)):
        used = (strata.band == band) & strata.ranked & (strata.observed > 0) & (strata.n > 0)
        n, yes, observed, score = (one[used] for one in (strata.n, strata.yes, strata.observed, strata.score))
        exposure = n * strata.rate[used]
        ratio = yes.sum() / max(float(exposure.sum()), 1e-300)
        expected = ratio * exposure
        kept = expected >= _LEAST_EXPECTED
        degrees = int(kept.sum()) - 1
        if degrees > 0:
            theta = np.clip(expected / n, 0, _LARGEST)
            variance = n * theta * (1 - theta) + expected**2 * (1 + 1 / ratio) / observed
            residual = (yes - expected)[kept]
            statistic = float((residual**2 / variance[kept]).sum())
            total, freedom = total + statistic, freedom + degrees
            if stats.chi2.sf(statistic, degrees) < LEVEL:
                uneven.append(band)
            slope = score[kept] - np.average(score[kept], weights=expected[kept])
            trend, trend_variance = trend + slope @ residual, trend_variance + slope**2 @ variance[kept]
    if not freedom:
        return None, []
    p_value = min(stats.chi2.sf(total, freedom), stats.chi2.sf(trend**2 / max(trend_variance, 1e-300), 1))
    return min(1.0, 2 * float(p_value)), uneven
