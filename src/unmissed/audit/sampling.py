"""Stratified samples of cells without an observed label, for people to check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.audit.unchecked_cells import missing_probability
from unmissed.calibration import Cells
from unmissed.errors import InputError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BIN_EDGES = (0.0, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0)
"""Edges of the bins of `missing_probability`."""
_RATIO_SHAPE = 8.0  # of missing labels per observed label of a stratum, relative to those of its band, in a plan
_LEAST_CHECKS = 10  # per stratum
_LEAST_REST = 0.02  # fraction of all checks for the unranked cells of each band
_STEPS = 400  # in which checks are distributed


class Band(NamedTuple):
    """Labels with similar numbers of training positives.

    Parameters
    ----------
    fewest, most : the range of training positives
    center : the geometric mean of the training positives of a label, over observed labels
    n_labels : number of labels
    n_observed : observed labels in the rows of the population
    """

    fewest: int
    most: int
    center: float
    n_labels: int
    n_observed: int


class Stratum(NamedTuple):
    """Cells of one band that are sampled with one inclusion probability.

    Parameters
    ----------
    band : index of the band
    low, high : range of `missing_probability`; both -1 for the cells that are not among the ranked ones
    n_cells : number of cells without an observed label
    n_observed : number of cells with an observed label in the same band and range
    mean_probability : mean of `missing_probability` over the cells without an observed label
    center : the geometric mean of the training positives of a label, over observed labels
    n_checks : number of sampled cells
    """

    band: int
    low: float
    high: float
    n_cells: int
    n_observed: int
    mean_probability: float
    center: float
    n_checks: int = 0

    @property
    def is_ranked(self) -> bool:
        """Whether the cells are among the best labels of their rows."""
        return self.low >= 0


@dataclass(frozen=True, eq=False)
class AuditSample:
    """A stratified sample of cells without an observed label.

    Parameters
    ----------
    bands : the bands, rarest labels first
    strata : the strata
    rows, labels, stratum : int64 arrays: the sampled cells, in random order, and the index of their stratum
    missing_probability : float64 array; that of unranked cells is the mean of their stratum
    n_samples : number of training rows, to which the positives of bands refer
    """

    bands: list[Band]
    strata: list[Stratum]
    rows: Integers
    labels: Integers
    stratum: Integers
    missing_probability: Floats
    n_samples: int

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def inclusion_probability(self) -> Floats:
        """The probability of each sampled cell to be sampled: checks over cells of its stratum."""
        return np.array([one.n_checks / one.n_cells for one in self.strata])[self.stratum]


class AuditPopulation:
    """The cells of held-out training rows, by stratum.

    Parameters
    ----------
    cells : scored cells of held-out rows, out of fold
    probability : P(label is observed | x) of each cell
    propensities : assumed propensity of each label; strata and checks per stratum follow it, estimates do not
    Y : CSR matrix of the observed labels of all training rows
    n_bands : number of frequency bands
    """

    def __init__(self, cells: Cells, probability: Floats, propensities: Floats, Y: Any, n_bands: int = 3) -> None:
        self.n_samples, self.n_labels = (int(size) for size in Y.shape)
        self.held = np.unique(cells.rows).astype(np.int64)
        self._counts = counts = np.bincount(Y.indices, minlength=self.n_labels)
        self.band = frequency_bands(counts, n_bands)
        kept = (cells.ranks >= 0) & (self.band[cells.labels] >= 0)
        self.rows, self.labels = cells.rows[kept].astype(np.int64), cells.labels[kept].astype(np.int64)
        self.empty = ~cells.observed[kept]
        self.probability, _ = missing_probability(probability[kept], propensities[self.labels])
        n_bins = len(BIN_EDGES) - 1
        bins = np.clip(np.searchsorted(BIN_EDGES, self.probability, side="right") - 1, 0, n_bins - 1)
        self.key = self.band[self.labels] * n_bins + bins
        self._ranked = np.sort(self.rows * self.n_labels + self.labels)
        self._Y = Y
        self.bands = self._make_bands(counts)
        assumed = [float(np.average(propensities[self.band == at], weights=counts[self.band == at])) for at in self._at]
        self._odds = (1 - np.array(assumed)) / np.array(assumed)

    @property
    def _at(self) -> range:
        return range(int(self.band.max()) + 1)

    def _make_bands(self, counts: Integers) -> list[Band]:
        """Return the bands; `n_observed` counts labels of held-out rows only."""
        inside = np.bincount(self._Y[self.held].indices, minlength=self.n_labels)
        bands = []
        for at in self._at:
            of_band = self.band == at
            n = counts[of_band]
            center = float(np.exp(np.average(np.log(n), weights=n)))
            bands.append(Band(int(n.min()), int(n.max()), center, int(of_band.sum()), int(inside[of_band].sum())))
        return bands

    def strata(self) -> list[Stratum]:
        """Return all strata that have cells, without checks."""
        n_bins = len(BIN_EDGES) - 1
        size, seen = len(self.bands) * n_bins, ~self.empty
        n_empty = np.bincount(self.key[self.empty], minlength=size)
        n_observed = np.bincount(self.key[seen], minlength=size)
        total = np.bincount(self.key[self.empty], weights=self.probability[self.empty], minlength=size)
        logs = np.bincount(self.key[seen], weights=np.log(self._counts[self.labels[seen]]), minlength=size)
        found = []
        for at, band in enumerate(self.bands):
            for key in range(at * n_bins, (at + 1) * n_bins):
                if n_empty[key]:
                    mean, n_cells = float(total[key] / n_empty[key]), int(n_empty[key])
                    center = float(np.exp(logs[key] / n_observed[key])) if n_observed[key] else band.center
                    low, high = BIN_EDGES[key % n_bins : key % n_bins + 2]
                    found.append(Stratum(at, low, high, n_cells, int(n_observed[key]), mean, center))
            of_band = slice(at * n_bins, (at + 1) * n_bins)
            left = len(self.held) * band.n_labels - band.n_observed - int(n_empty[of_band].sum())
            unranked = band.n_observed - int(n_observed[of_band].sum())
            if left:
                mean = min(1.0, float(self._odds[at]) * (unranked + 0.5) / left)
                found.append(Stratum(at, -1.0, -1.0, left, unranked, mean, band.center))
        return found

    def sample(self, n_checks: int, seed: int = 0) -> AuditSample:
        """Return a sample of at most `n_checks` cells, the same for a seed.

        Every stratum gets some checks. The others go where they reduce the variance of the propensity of the most
        uncertain band most, see `allocate`.
        """
        strata = allocate(self.strata(), self.bands, n_checks)
        rng = np.random.default_rng(seed)
        drawn = [self._draw(one, rng) for one in strata]
        rows, labels, probability = (np.concatenate(part) for part in zip(*drawn, strict=True))
        stratum = np.repeat(np.arange(len(strata)), [len(part[0]) for part in drawn])
        order = rng.permutation(len(rows))
        cells = (rows[order], labels[order], stratum[order].astype(np.int64), probability[order])
        return AuditSample(self.bands, strata, *cells, self.n_samples)

    def _draw(self, stratum: Stratum, rng: np.random.Generator) -> tuple[Integers, Integers, Floats]:
        """Return rows, labels and probabilities of sampled cells of a stratum."""
        if not stratum.is_ranked:
            keys = self._draw_unranked(stratum, rng)
            mean = np.full(len(keys), stratum.mean_probability)
            return keys // self.n_labels, keys % self.n_labels, mean
        key = stratum.band * (len(BIN_EDGES) - 1) + BIN_EDGES.index(stratum.low)
        chosen = rng.choice(np.flatnonzero(self.empty & (self.key == key)), stratum.n_checks, replace=False)
        return self.rows[chosen], self.labels[chosen], self.probability[chosen]

    def _draw_unranked(self, stratum: Stratum, rng: np.random.Generator) -> Integers:
        """Return unranked cells without an observed label as row * n_labels + label, drawn by rejection."""
        labels = np.flatnonzero(self.band == stratum.band)
        at_once = int(min(4 * stratum.n_checks * len(self.held) * len(labels) / stratum.n_cells + 100, 1e6))
        found = np.zeros(0, np.int64)
        while len(found) < stratum.n_checks:
            rows = rng.choice(self.held, at_once)
            keys = rows * self.n_labels + rng.choice(labels, at_once)
            slot = np.minimum(np.searchsorted(self._ranked, keys), len(self._ranked) - 1)
            keys = keys[self._ranked[slot] != keys]
            is_observed = np.asarray(self._Y[keys // self.n_labels, keys % self.n_labels]).ravel() != 0
            found = np.concatenate([found, keys[~is_observed]])
            found = found[np.sort(np.unique(found, return_index=True)[1])]
        return found[: stratum.n_checks]


def frequency_bands(label_counts: npt.ArrayLike, n_bands: int) -> Integers:
    """Return the frequency band of each label, rarest labels in band 0; -1 for labels without a positive.

    Bands have similar sums of sqrt(n), n the positives of a label: a compromise between equally many labels and equally
    many positives. Labels with the same n are in the same band.
    """
    counts = np.asarray(label_counts, dtype=np.int64)
    if not (counts > 0).any():
        raise InputError("no label has a positive, so there are no frequency bands")
    values, which, n_labels = np.unique(counts, return_inverse=True, return_counts=True)
    weight = np.cumsum(np.sqrt(values) * n_labels)
    middle = (weight - np.sqrt(values) * n_labels / 2) / weight[-1]
    band = np.minimum((middle * n_bands).astype(np.int64), n_bands - 1)
    band[values == 0] = -1
    used = np.unique(band[band >= 0])
    band[band >= 0] = np.searchsorted(used, band[band >= 0])  # no empty bands
    return np.asarray(band[which], dtype=np.int64)


def prior_shape(ratio_shape: Any, n_observed: Floats) -> Floats:
    """Return the shape of the gamma prior of missing per observed labels of strata.

    With an infinite `ratio_shape` it is that of the expected number of observed labels, a Poisson count with the prior
    of Jeffreys: n_observed + 1/2. The noise of the number of missing labels is not in it; their draws add it.

    Parameters
    ----------
    ratio_shape : shape of the ratios of strata around that of their band, 1 / their squared coefficient of variation
    n_observed : observed labels of each stratum; few of them say little about the rate
    """
    return np.asarray(1 / (1 / ratio_shape + 1 / (n_observed + 0.5)), dtype=np.float64)


def allocate(strata: list[Stratum], bands: list[Band], n_checks: int) -> list[Stratum]:
    """Return the strata with at most `n_checks` distributed over them, as `AuditPopulation.sample` describes.

    Checks are given in small steps: to the band whose propensity has the largest variance, there to the stratum that
    reduces this variance most per check. For M_h = N_h q_h missing labels, the prior shape a_h and n_h checks, of which
    n_h q_h are answered yes, the variance of the missing labels of a band is
    sum of M_h^2 / (a_h + n_h q_h) + (sum of M_h a_h / (a_h + n_h q_h))^2 / (sum of n_h q_h).
    The first term is that of each stratum's own ratio, the second that of the ratio that the strata share.
    """
    least, most = _limits(strata, n_checks)
    checks = least.copy()
    q = np.clip([one.mean_probability for one in strata], 1e-9, 1 - 1e-9)
    missing = q * [one.n_cells for one in strata]
    shape = prior_shape(_RATIO_SHAPE, np.array([one.n_observed for one in strata], dtype=np.float64))
    of_band = [np.flatnonzero([one.band == at for one in strata]) for at in range(len(bands))]
    observed = np.array([max(band.n_observed, 1) for band in bands], dtype=np.float64)
    total = np.array([missing[members].sum() for members in of_band])
    scale = (observed / (observed + total) ** 2) ** 2  # from the variance of missing labels to that of p

    def variance(at: int, n: Floats) -> Floats:
        """Return the variance of p of a band for checks n, whose last axis is that of the band's strata."""
        members = of_band[at]
        yes = n * q[members]
        left = missing[members] / (shape[members] + yes)
        shared = (left * shape[members]).sum(axis=-1) ** 2 / np.maximum(yes.sum(axis=-1), 1e-9)
        return np.asarray(scale[at] * ((left * missing[members]).sum(axis=-1) + shared))

    now = np.array([float(variance(at, checks[members])) for at, members in enumerate(of_band)])
    while now.max() > 0:
        at = int(now.argmax())
        members = of_band[at]
        step = np.minimum(np.minimum(max(1, n_checks // _STEPS), most - checks), n_checks - checks.sum())[members]
        if not step.any():
            now[at] = 0  # every cell of the band is checked, or no check is left
            continue
        gain = (now[at] - variance(at, checks[members] + np.diag(step))) / np.maximum(step, 1)
        best = int(np.where(step > 0, gain, -np.inf).argmax())
        checks[members[best]] += step[best]
        now[at] = float(variance(at, checks[members]))
    return [one._replace(n_checks=int(each)) for one, each in zip(strata, checks, strict=True)]


def _limits(strata: list[Stratum], n_checks: int) -> tuple[Floats, Floats]:
    """Return the smallest and largest number of checks of each stratum; raise if there are too few checks."""
    size = np.array([one.n_cells for one in strata], dtype=np.float64)
    rest = np.array([not one.is_ranked for one in strata])
    most = np.where(rest, (size + 1) // 2, size)  # rejection is slow if nearly all cells are drawn
    least = np.minimum(np.where(rest, max(_LEAST_CHECKS, int(_LEAST_REST * n_checks)), _LEAST_CHECKS), most)
    if least.sum() > n_checks:
        raise InputError(f"{n_checks} checks are too few for {len(strata)} strata; give at least {int(least.sum())}")
    return least, most
