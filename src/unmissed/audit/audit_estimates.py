"""Estimates from answers: missing labels and propensities by frequency band, with intervals and checks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from unmissed.audit.accepted_shares import AcceptedShare, accepted_share
from unmissed.audit.missing_draws import MissingDraws, draw_missing
from unmissed.audit.sampling import BIN_EDGES, AuditSample, Band
from unmissed.errors import InputError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_OUTSIDE_LEVEL = 0.01  # of the test whether more labels than expected are missing outside the best of their rows


class CellAnswers(NamedTuple):
    """The answers to each sampled cell, as parallel integer arrays over the cells of a sample."""

    yes: Integers
    no: Integers
    unsure: Integers

    @property
    def decided(self) -> npt.NDArray[np.bool_]:
        """Cells with at least one yes or no."""
        return self.yes + self.no > 0

    @property
    def only_unsure(self) -> npt.NDArray[np.bool_]:
        """Cells whose answers are all "unsure"."""
        return ~self.decided & (self.unsure > 0)

    def share_of_yes(self) -> Floats:
        """Return yes / (yes + no) of each cell; 0 for cells without either."""
        return np.asarray(self.yes / np.maximum(self.yes + self.no, 1), dtype=np.float64)


class BandEstimate(NamedTuple):
    """Missing labels and the propensity of a band.

    Parameters
    ----------
    band : the labels
    n_checked, n_yes : cells with a yes or no, and how many of them are yes
    missing, missing_low, missing_high : mean and 95 % interval of the number of missing labels in the checked rows
    horvitz_thompson : sum of yes answers over inclusion probabilities; unbiased, but with a large variance
    p, low, high : the propensity n_observed / (n_observed + missing) and its 95 % interval
    p_unsure_no, p_unsure_yes : the propensity if every "unsure" were a no, or a yes
    """

    band: Band
    n_checked: int
    n_yes: float
    missing: float
    missing_low: float
    missing_high: float
    horvitz_thompson: float
    p: float
    low: float
    high: float
    p_unsure_no: float
    p_unsure_yes: float


class Agreement(NamedTuple):
    """Agreement of people: cells with several answers, share of agreeing pairs, Fleiss' kappa (None if undefined)."""

    n_cells: int
    agreeing: float
    kappa: float | None


@dataclass(frozen=True, eq=False)
class AuditResult:
    """What the answers to a sample say.

    Parameters
    ----------
    bands : estimates by band
    finder : calibration of `missing_probability` on the answers
    agreement : None if no cell has several answers
    n_cells, n_decided, n_unsure : sampled cells, those with a yes or no, and those with "unsure" only
    constant_p_value : P-value of the hypothesis that p does not depend on x within bands; None if it was not tested
    warnings : sentences
    n_samples : number of training rows
    """

    bands: list[BandEstimate]
    finder: list[AcceptedShare]
    agreement: Agreement | None
    n_cells: int
    n_decided: int
    n_unsure: int
    constant_p_value: float | None
    warnings: list[str]
    n_samples: int

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "cells": self.n_cells,
            "answered": self.n_decided,
            "unsure": self.n_unsure,
            "bands": [{**one.band._asdict(), **_without_band(one)} for one in self.bands],
            "finder": [one._asdict() for one in self.finder],
            "agreement": None if self.agreement is None else self.agreement._asdict(),
            "constant_p_value": self.constant_p_value,
            "warnings": self.warnings,
        }


def _without_band(estimate: BandEstimate) -> dict[str, Any]:
    return {name: value for name, value in estimate._asdict().items() if name != "band"}


def estimate(sample: AuditSample, answers: CellAnswers, seed: int = 0) -> AuditResult:
    """Return missing labels and propensities by band from the answers to a sample.

    A stratum with O observed labels has about O (1 - p) / p missing ones, since scores are out of fold: whether a label
    was observed does not change its own stratum. The ratio of a band is estimated from all its answers. The ratio of a
    stratum has a gamma prior around it and is updated by the stratum's answers, so a stratum without any yes says
    neither "none is missing" nor "any number is missing".

    Parameters
    ----------
    sample : the sampled cells
    answers : the answers to each of them; cells without a yes or no count as not sampled
    seed : of the Monte Carlo draws
    """
    if len(answers.yes) != len(sample):
        raise InputError(f"there are answers to {len(answers.yes)} cells; the sample has {len(sample)}")
    decided = answers.decided
    if not decided.any():
        raise InputError("no sampled cell has a yes or a no; fill in the answers first")
    size = len(sample.strata)
    n = np.bincount(sample.stratum[decided], minlength=size).astype(np.int64)
    yes = np.bincount(sample.stratum, weights=answers.share_of_yes(), minlength=size).astype(np.float64)
    unsure = np.bincount(sample.stratum[answers.only_unsure], minlength=size).astype(np.int64)
    found = draw_missing(sample, n, yes, seed)
    as_no = as_yes = found
    if unsure.any():
        as_no, as_yes = (draw_missing(sample, n + unsure, each, seed) for each in (yes, yes + unsure))
    return AuditResult(
        [_estimate_band(sample, at, n, yes, [found, as_no, as_yes]) for at in range(len(sample.bands))],
        _finder_bins(sample, answers),
        agreement_of(answers),
        len(sample),
        int(decided.sum()),
        int(answers.only_unsure.sum()),
        found.p_value,
        _warnings(sample, n, yes, int(answers.only_unsure.sum()), found),
        sample.n_samples,
    )


def _estimate_band(sample: AuditSample, at: int, n: Integers, yes: Floats, draws: list[MissingDraws]) -> BandEstimate:
    chosen = np.array([one.band == at for one in sample.strata])
    band, size = sample.bands[at], np.array([one.n_cells for one in sample.strata], dtype=np.float64)
    missing = draws[0].missing[:, at]
    means = [band.n_observed / max(band.n_observed + float(each.missing[:, at].mean()), 1e-300) for each in draws]
    low, high = np.quantile(missing, [0.025, 0.975])
    checked = chosen & (n > 0)
    return BandEstimate(
        band,
        int(n[chosen].sum()),
        float(yes[chosen].sum()),
        float(missing.mean()),
        float(low),
        float(high),
        float((yes[checked] * size[checked] / n[checked]).sum()),
        means[0],
        band.n_observed / max(band.n_observed + float(high), 1e-300),
        band.n_observed / max(band.n_observed + float(low), 1e-300),
        means[1],
        means[2],
    )


def _finder_bins(sample: AuditSample, answers: CellAnswers) -> list[AcceptedShare]:
    """Return predicted and answered shares of missing labels by bin, weighted to all cells of the bin."""
    weight, share, predicted = 1 / sample.inclusion_probability, answers.share_of_yes(), sample.missing_probability
    found = []
    for low, high in pairwise(BIN_EDGES):
        inside = np.array([one.low == low for one in sample.strata])[sample.stratum] & answers.decided
        if inside.any():
            found.append(accepted_share(low, high, share[inside], predicted[inside], weight[inside]))
    return found


def agreement_of(answers: CellAnswers) -> Agreement | None:
    """Return how often two answers to a cell are the same, and Fleiss' kappa for varying numbers of answers."""
    table = np.column_stack(answers).astype(np.float64)
    table = table[table.sum(axis=1) >= 2]
    if not len(table):
        return None
    each = table.sum(axis=1)
    agreeing = float((((table**2).sum(axis=1) - each) / (each * (each - 1))).mean())
    by_chance = float(((table.sum(axis=0) / table.sum()) ** 2).sum())
    return Agreement(len(table), agreeing, (agreeing - by_chance) / (1 - by_chance) if by_chance < 1 else None)


def _warnings(sample: AuditSample, n: Integers, yes: Floats, n_unsure: int, draws: MissingDraws) -> list[str]:
    """Return what a reader must know before the estimates are used."""
    found = []
    if draws.depends_on_row:
        names = ", ".join(say_band(sample.bands[at]) for at in draws.uneven) or "all bands together"
        found.append(
            f"the propensity depends on the row within bands (P = {draws.p_value:.2g}; {names}): one p per label is an "
            "average, and probabilities of missing labels are too high for some cells and too low for others"
        )
    rest = np.array([not one.is_ranked for one in sample.strata])
    size, observed = (np.array([getattr(one, name) for one in sample.strata]) for name in ("n_cells", "n_observed"))
    ratio = yes[~rest].sum() / max(float((n * observed / size)[~rest].sum()), 1e-300)
    expected = float((ratio * n * (observed + 0.5) / size)[rest].sum())
    if yes[rest].sum() and stats.poisson.sf(yes[rest].sum() - 1, max(expected, 1e-12)) < _OUTSIDE_LEVEL:
        found.append(
            f"{yes[rest].sum():g} of {n[rest].sum()} checked labels outside the best of their rows are missing, "
            f"expected {expected:.2g}: the finder overlooks labels, and propensities are lower than estimated"
        )
    if n_unsure:
        found.append(f'cells with the answer "unsure" only: {n_unsure}; they count as not checked')
    unchecked = int((n < np.minimum(5, [one.n_checks for one in sample.strata])).sum())
    if unchecked:
        found.append(f"{unchecked} of {len(n)} strata have fewer than 5 answers; answer the sheet in its order, or all")
    return found


def say_band(band: Band) -> str:
    """Return the name of a band, such as "11-40 positives"."""
    return f"{band.fewest:,}-{band.most:,} positives" if band.most > band.fewest else f"{band.fewest:,} positives"
