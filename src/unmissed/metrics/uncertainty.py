"""Uncertainty: bootstrap intervals, paired differences, and how many marks and labels really carry a weighted sum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.kernels.bootstrap import resample_sums
from unmissed.metrics.evaluation import Counts, Evaluation, Floats, check_alike, ratio_figures
from unmissed.progress import Progress, silent

FEW_LABELS = 10  # fewer labels than this making half of a sum is worth a warning
_AT_ONCE = 50  # resamples between two words of progress


class Interval(NamedTuple):
    """The middle `level` of a figure's bootstrap distribution."""

    low: float
    high: float


class Difference(NamedTuple):
    """By how much one ranking's figure exceeds another's on the same rows, with its interval.

    `ahead` is the share of resamples in which the first ranking's figure is larger, ties counting half.
    """

    value: float
    low: float
    high: float
    ahead: float


class Support(NamedTuple):
    """What a propensity-weighted sum rests on.

    `effective` is (sum w)^2 / sum w^2 over the marks in the sum, the number of equal weights that would vary as much;
    `marks` is their real number; `labels_of_half` is the least number of labels that make half of the sum.
    """

    effective: float
    marks: int
    labels_of_half: int


def intervals(
    evaluation: Evaluation,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Interval]:
    """Return percentile intervals of P, nDCG, PSP, PSnDCG and recall, rows resampled with replacement.

    Coverage and macro averages have none: a resample holds fewer distinct labels than the rows it is drawn from, so
    their bootstrap distribution lies beside the figure.
    """
    drawn = _resampled(evaluation, [evaluation.terms], n_resamples, level, seed, progress)[0]
    return {name: _percentiles(values, level) for name, values in drawn.items()}


def compare(
    first: Evaluation,
    second: Evaluation,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Difference]:
    """Return each figure of `first` minus that of `second`, both on the same resampled rows.

    What makes rows hard for both cancels, so the interval of a difference is narrower than two intervals suggest.
    """
    check_alike(first, second)
    if first.n_samples != second.n_samples or not np.array_equal(first.labels.true, second.labels.true):
        raise InputError("a paired comparison needs two evaluations of the same rows")
    one, two = _resampled(first, [first.terms, second.terms], n_resamples, level, seed, progress)
    result = {}
    for name in one:
        apart = one[name] - two[name]
        ahead = float(np.mean((apart > 0) + 0.5 * (apart == 0)))
        result[name] = Difference(first[name] - second[name], *_percentiles(apart, level), ahead)
    return result


def support(evaluation: Evaluation) -> dict[str, Support]:
    """Return what the numerator (`PSP@k hits`) and the denominator (`PSP@k best`) of PSP rest on."""
    weights = evaluation.inverse_propensities
    if weights is None:
        return {}
    tables = {"hits": evaluation.labels.scored, "best": evaluation.labels.best}
    return {
        f"PSP@{k} {part}": _support(table[:, cut], weights)
        for cut, k in enumerate(evaluation.k)
        for part, table in tables.items()
    }


def warnings(evaluation: Evaluation) -> list[str]:
    """Return a sentence for each sum of PSP of which fewer than ten labels make half."""
    words = {"hits": "numerator", "best": "denominator"}
    return [
        f"{name.split()[0]}: {rests.labels_of_half} label{'s' if rests.labels_of_half > 1 else ''} "
        f"make{'' if rests.labels_of_half > 1 else 's'} half of the {words[name.split()[1]]}"
        for name, rests in support(evaluation).items()
        if 0 < rests.labels_of_half < FEW_LABELS
    ]


def _support(counts: Counts, weights: Floats) -> Support:
    parts = counts * weights
    total = float(parts.sum())
    if total == 0:
        return Support(0.0, 0, 0)
    reached = np.cumsum(np.sort(parts)[::-1])
    half = int(np.searchsorted(reached, total / 2)) + 1
    return Support(total**2 / float((parts * weights).sum()), int(counts.sum()), half)


def _resampled(
    evaluation: Evaluation,
    terms: list[npt.NDArray[np.float32]],
    n_resamples: int,
    level: float,
    seed: int,
    progress: Progress,
) -> list[dict[str, Floats]]:
    """Return every ratio's value in every resample, for each of the row terms given, rows drawn in common."""
    if n_resamples < 1 or not 0 < level < 1:
        raise InputError(f"{n_resamples} resamples at level {level}: at least 1, and a level between 0 and 1, expected")
    if not evaluation.n_samples:
        raise InputError("there is no row to resample")
    together = np.concatenate([part.reshape(evaluation.n_samples, -1) for part in terms], axis=1)
    seeds = np.random.default_rng(seed).integers(0, 2**64, size=n_resamples, dtype=np.uint64)
    sums = np.empty((n_resamples, together.shape[1]))
    for begin in range(0, n_resamples, _AT_ONCE):
        resample_sums(together, seeds[begin : begin + _AT_ONCE], sums[begin : begin + _AT_ONCE])
        progress(min(begin + _AT_ONCE, n_resamples), n_resamples)
    return [_each_figure(evaluation, part) for part in np.split(sums, len(terms), axis=1)]


def _each_figure(evaluation: Evaluation, sums: Floats) -> dict[str, Floats]:
    rows = [ratio_figures(evaluation, total) for total in sums]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _percentiles(values: Floats, level: float) -> Interval:
    held = values[np.isfinite(values)]  # a resample without any true label has no PSP
    if not held.size:
        return Interval(float("nan"), float("nan"))
    low, high = np.quantile(held, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))
