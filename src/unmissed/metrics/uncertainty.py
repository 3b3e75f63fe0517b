"""Uncertainty: bootstrap intervals, paired differences, and the effective sample size of weighted sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.metrics.bootstrap import resample_sums
from unmissed.metrics.evaluation import Evaluation, Unit, check_alike
from unmissed.metrics.metric import Counts, Floats
from unmissed.progress import Progress, silent

FEW_LABELS = 10  # warn if fewer labels than this make up half of a sum
_AT_ONCE = 50  # resamples between two progress reports


class Interval(NamedTuple):
    """A percentile bootstrap interval: the middle `level` of a figure's bootstrap distribution."""

    low: float
    high: float


class Difference(NamedTuple):
    """A paired difference of two rankings on the same rows, with its bootstrap interval.

    `ahead` is the fraction of resamples in which the first ranking's figure is larger; ties count half.
    """

    value: float
    low: float
    high: float
    ahead: float


class Support(NamedTuple):
    """How many labels and label assignments determine a propensity-weighted sum.

    `effective` is the effective sample size (sum w)^2 / sum w^2 over the label assignments in the sum; `assignments` is
    their number. `labels_of_half` is the smallest number of labels that make up half of the sum.
    """

    effective: float
    assignments: int
    labels_of_half: int


def intervals(
    evaluation: Evaluation,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Interval]:
    """Return percentile bootstrap intervals of all figures.

    A metric over rows resamples rows. A metric over labels (coverage, macro averages) resamples labels: a resample of
    rows has fewer distinct labels than the rows it is drawn from, so its figures over labels are biased.
    """
    drawn = _resampled([evaluation], n_resamples, level, seed, progress)[0]
    return {name: _percentiles(values, level) for name, values in drawn.items()}


def pooled_intervals(
    evaluations: Sequence[Evaluation], n_resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """Return intervals of all figures over several evaluations of one ranking, each with other inverse propensities.

    The inverse propensities are draws from their uncertainty. The resamples are divided among the evaluations, so an
    interval has the uncertainty of the propensities and that of the rows (or labels).
    """
    if not evaluations:
        raise InputError("pooled_intervals needs at least one evaluation")
    each = -(-n_resamples // len(evaluations))
    seeds = np.random.default_rng(seed).integers(0, 2**32, len(evaluations)).tolist()
    drawn = [_resampled([one], each, level, at, silent)[0] for one, at in zip(evaluations, seeds, strict=True)]
    return {name: _percentiles(np.concatenate([one[name] for one in drawn]), level) for name in drawn[0]}


def compare(
    first: Evaluation,
    second: Evaluation,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Difference]:
    """Return the paired differences of two evaluations: `first` minus `second` on the same resampled rows or labels.

    Rows that are hard for both cancel, so the interval is narrower than the two separate intervals suggest.
    """
    check_alike(first, second)
    if first.n_samples != second.n_samples or not np.array_equal(first.labels.true, second.labels.true):
        raise InputError("a paired comparison needs two evaluations of the same rows")
    one, two = _resampled([first, second], n_resamples, level, seed, progress)
    result = {}
    for name in one:
        differences = one[name] - two[name]
        ahead = float(np.mean((differences > 0) + 0.5 * (differences == 0)))
        result[name] = Difference(first[name] - second[name], *_percentiles(differences, level), ahead)
    return result


def support(evaluation: Evaluation) -> dict[str, Support]:
    """Return the support of the numerator (`PSP@k hits`) and of the denominator (`PSP@k best`) of PSP."""
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
    """Return a warning for each sum of PSP of which fewer than ten labels make up half."""
    words = {"hits": "numerator", "best": "denominator"}
    return [
        f"{name.split()[0]}: {found.labels_of_half} label{'s' if found.labels_of_half > 1 else ''} "
        f"make{'' if found.labels_of_half > 1 else 's'} up half of the {words[name.split()[1]]}"
        for name, found in support(evaluation).items()
        if 0 < found.labels_of_half < FEW_LABELS
    ]


def _support(counts: Counts, weights: Floats) -> Support:
    weighted = counts * weights
    total = float(weighted.sum())
    if total == 0:
        return Support(0.0, 0, 0)
    cumulative = np.cumsum(np.sort(weighted)[::-1])
    half = int(np.searchsorted(cumulative, total / 2)) + 1
    return Support(total**2 / float((weighted * weights).sum()), int(counts.sum()), half)


def _resampled(
    evaluations: list[Evaluation], n_resamples: int, level: float, seed: int, progress: Progress
) -> list[dict[str, Floats]]:
    """Return each figure's value in each resample; all evaluations share the drawn rows and labels."""
    if n_resamples < 1 or not 0 < level < 1:
        raise InputError(f"n_resamples must be at least 1 and level between 0 and 1, not {n_resamples} and {level}")
    first = evaluations[0]
    if not first.n_samples:
        raise InputError("the evaluation has no rows to resample")
    seeds = np.random.default_rng(seed).integers(0, 2**64, size=n_resamples, dtype=np.uint64)
    units: list[Unit] = [unit for unit in get_args(Unit) if first.columns(unit)]
    drawn: list[dict[str, Floats]] = [{} for _ in evaluations]
    for done, unit in enumerate(units):
        parts = [_unit_terms(one, unit) for one in evaluations]
        terms = np.concatenate(parts, axis=1)
        sums = np.empty((n_resamples, terms.shape[1]))
        for begin in range(0, n_resamples, _AT_ONCE):
            resample_sums(terms, seeds[begin : begin + _AT_ONCE], sums[begin : begin + _AT_ONCE])
            progress(done * n_resamples + min(begin + _AT_ONCE, n_resamples), len(units) * n_resamples)
        ends = np.cumsum([part.shape[1] for part in parts])
        for one, found, part in zip(evaluations, drawn, np.split(sums, ends[:-1], axis=1), strict=True):
            found |= one.aggregate(unit, part.reshape(n_resamples, len(one.k), -1))
    return [{name: found[name] for name in first.figures} for found in drawn]


def _unit_terms(evaluation: Evaluation, unit: Unit) -> npt.NDArray[np.float32]:
    """Return the terms of each row, or of each label that macro averages include, shape (n_units, n_terms)."""
    if unit == "row":
        return evaluation.terms.reshape(evaluation.n_samples, -1)
    terms = evaluation.label_terms.T  # labels x cut-offs x columns, as the terms of rows
    return np.ascontiguousarray(terms, dtype=np.float32).reshape(len(terms), terms.shape[1] * terms.shape[2])


def _percentiles(values: Floats, level: float) -> Interval:
    finite = values[np.isfinite(values)]  # a resample without true labels has no PSP
    if not finite.size:
        return Interval(float("nan"), float("nan"))
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))
