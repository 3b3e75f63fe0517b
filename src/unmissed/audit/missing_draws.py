"""Monte Carlo draws of the number of missing labels of each frequency band, given answers by stratum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import betaln, logsumexp, softmax

from unmissed.audit.sampling import AuditSample, prior_shape

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LEVEL = 0.05
"""Level of the test of a constant propensity, whose rejection is a warning."""
_TREND_LEVEL = 0.1
_DRAWS = 4000
_LARGEST = 0.95  # of a prior mean
_SHAPES = np.geomspace(4.0, 1024.0, 7)  # of the ratios of strata around that of their band (benchmarks.audit)
_SLOPES = np.linspace(-1.5, 1.5, 15)  # of log ratios over log(missing_probability); not 0 if p depends on the row
_RATIOS = 101  # of a band
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

    If a test with the level 0.1 rejects that p is constant within bands, missing per observed labels may follow a power
    of the probability. With that freedom intervals are a third wider, so it is not given without a reason.

    Parameters
    ----------
    sample : the sample
    n, yes : answers of each stratum, and how many of them are yes
    seed : of the draws
    """
    strata = _Strata(sample, n, yes)
    strata.follow(_draw(strata, np.zeros(1), seed))
    p_value, uneven = _test_constant(strata)
    free = p_value is not None and p_value < _TREND_LEVEL
    return MissingDraws(_draw(strata, _SLOPES if free else np.zeros(1), seed), p_value, uneven)


def _draw(strata: _Strata, slopes: Floats, seed: int) -> Floats:
    """Return draws of missing labels, shape (draws, bands)."""
    rng = np.random.default_rng(seed)
    mean, shape = _draw_priors(strata, slopes, rng)
    theta = rng.beta(shape + strata.yes, shape * (1 - mean) / mean + strata.n - strata.yes)
    missing = strata.yes + rng.binomial(strata.size - strata.n, theta)
    return np.asarray(missing @ (strata.band[:, None] == np.arange(len(strata.band_center))), dtype=np.float64)


def _draw_priors(strata: _Strata, slopes: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return draws (draws, strata) of mean and shape of the prior of each stratum's share of missing labels.

    Missing per observed labels are r_b exp(slope (score - mean score)) in band b, times a gamma variable of mean 1 and
    a shape that all strata share, since nobody knows before how far they differ. The answers of a stratum are
    beta-binomial. Slope, shape and ratios have a posterior on a grid: half of the slope's prior is at 0 and half is
    standard normal, the logarithm of the shape is uniform, and ratios have the prior of Jeffreys.
    """
    shape = prior_shape(_SHAPES[:, None], strata.observed)
    normal = np.exp(-0.5 * slopes**2)
    total = np.log((slopes == 0) + normal / normal.sum())[:, None] + np.zeros((1, len(shape)))
    parts = []
    for band in range(len(strata.band_center)):
        at = np.flatnonzero(strata.band == band)
        exposure = np.maximum(strata.n[at] * strata.rate[at], 1e-300)
        yes = float(strata.yes[at].sum()) + 0.5
        log_ratio = np.log(yes / exposure.sum()) + 5 * np.sqrt(1 / yes + 0.1) * np.linspace(-1, 1, _RATIOS)
        score = strata.score[at] - np.average(strata.score[at], weights=exposure)
        log_mean = log_ratio[:, None] + np.log(strata.rate[at]) + slopes[:, None, None] * score
        likelihood = 0.5 * log_ratio + _log_likelihood(strata, at, log_mean, shape[:, at])
        total = total + logsumexp(likelihood, axis=2)
        parts.append((at, log_ratio, score, likelihood))
    chosen = rng.choice(total.size, _DRAWS, p=softmax(total.ravel()))
    slope, which = slopes[chosen // len(shape)], chosen % len(shape)
    mean = np.empty((_DRAWS, len(strata.band)))
    for at, log_ratio, score, likelihood in parts:
        share = np.cumsum(softmax(likelihood.reshape(total.size, -1), axis=1), axis=1)[chosen]
        index = (share < rng.random((_DRAWS, 1))).sum(axis=1).clip(max=_RATIOS - 1)
        ratio = log_ratio[index] + (log_ratio[1] - log_ratio[0]) * (rng.random(_DRAWS) - 0.5)
        mean[:, at] = _limited(ratio[:, None] + np.log(strata.rate[at]) + slope[:, None] * score)
    return mean, shape[which]


def _log_likelihood(strata: _Strata, at: Integers, log_mean: Floats, shape: Floats) -> Floats:
    """Return the log-likelihood (slopes, shapes, ratios) of the answers of a band's strata, without constants."""
    mean, a = _limited(log_mean)[:, None], shape[:, None]
    b, yes, no = a * (1 - mean) / mean, strata.yes[at], (strata.n - strata.yes)[at]
    found: Floats = (betaln(a + yes, b + no) - betaln(a, b)).sum(axis=-1)
    return found


def _limited(log_mean: Floats) -> Floats:
    return np.clip(np.exp(np.minimum(log_mean, 0.0)), 1e-12, _LARGEST)


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
