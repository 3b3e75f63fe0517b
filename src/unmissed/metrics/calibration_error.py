"""Errors of predicted probabilities: ECE with its noise floor, log loss, Brier score, reliability curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse as sp

from unmissed.errors import InputError
from unmissed.metrics.bootstrap import resample_sums
from unmissed.metrics.deciles import decile_of
from unmissed.metrics.hits import mark_hits
from unmissed.metrics.metric import Floats
from unmissed.metrics.uncertainty import Difference, Interval

Mask = npt.NDArray[np.bool_]
_FEWEST = 50  # cells per bin, if the bins are to be fewer than requested
_SMALLEST = float(np.finfo(np.float32).eps)  # probabilities are clipped to this distance from 0 and 1 in the log loss


class ReliabilityCurve(NamedTuple):
    """Mean probability, observed fraction and number of cells in each bin of about equal mass, rising."""

    probability: Floats
    observed: Floats
    n_cells: npt.NDArray[np.int64]


@dataclass(frozen=True)
class ProbabilityErrors:
    """Errors of the probabilities of the first k labels of each row, of all labels or of one frequency decile.

    Parameters
    ----------
    k : int
    decile : int or None
        The decile of `decile_of`; None for all labels.
    n_cells : int
        The number of (row, label) pairs.
    ece : float
        Expected calibration error: the mean over cells of |mean probability - observed fraction| of the cell's bin.
    floor : float
        The mean ECE of labels that are drawn from the probabilities: what perfect probabilities reach on these cells.
    log_loss, brier : float
        Means over cells.
    intervals : dict of Interval
        Bootstrap intervals over rows of `ece`, `log_loss` and `brier`. A resample has a larger ECE than the data, by
        the noise that it adds to each bin. So that of the ECE is (ECE - upper, ECE - lower), quantiles of the
        resamples' distance from their own mean, cut off at 0: the mean ECE of as many rows of this kind lies in it.
        `floor` is the interval of the ECE of perfect probabilities: an ECE inside of it shows no error.
    curve : ReliabilityCurve
    """

    k: int
    decile: int | None
    n_cells: int
    ece: float
    floor: float
    log_loss: float
    brier: float
    intervals: dict[str, Interval]
    curve: ReliabilityCurve

    @property
    def excess(self) -> float:
        """The ECE minus its noise floor."""
        return self.ece - self.floor


@dataclass(frozen=True)
class ErrorSettings:
    """How errors of probabilities are computed.

    Parameters
    ----------
    n_bins : bins of about equal mass; fewer if a bin would have fewer than 50 cells
    n_resamples : bootstrap resamples of the rows; 0 for no intervals
    n_draws : draws of all labels from the probabilities, for the noise floor
    level : level of the intervals
    seed : seed of resamples and draws
    """

    n_bins: int = 20
    n_resamples: int = 1000
    n_draws: int = 100
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.n_bins, self.n_resamples + 1, self.n_draws) < 1 or not 0 < self.level < 1:
            raise InputError(
                f"n_bins and n_draws must be at least 1, n_resamples at least 0 and level between 0 and 1; got {self}"
            )


def find_observed(labels: npt.ArrayLike, Y: sp.csr_matrix) -> Mask:
    """Return which labels (n_samples, k) are observed in the rows of Y, a canonical CSR matrix; -1 is not."""
    listed = np.require(labels, np.int32, ["C", "W"])
    hits = np.empty(listed.shape, np.bool_)
    mark_hits(listed, np.require(Y.indptr, np.int64, ["C", "W"]), np.require(Y.indices, np.int32, ["C", "W"]), hits)
    return hits


def probability_errors(
    labels: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    Y: sp.csr_matrix,
    k: Sequence[int] = (1, 5),
    *,
    train_counts: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    settings: ErrorSettings | None = None,
) -> list[ProbabilityErrors]:
    """Return the errors of probabilities at each k: of all labels, then of each frequency decile.

    Parameters
    ----------
    labels : int array of shape (n_samples, depth)
        The labels of each row in the order of the ranking; -1 where a row lists fewer.
    probabilities : array of shape (n_samples, depth)
        The probability that each label is observed.
    Y : csr_matrix of shape (n_samples, n_labels)
        The observed labels.
    k : sequence of int
    train_counts : array of n_labels, optional
        Training positives per label. Without them there are no deciles.
    groups : array of n_samples, optional
        The group of each row, such as its source. Labels of one group are right or wrong together, which raises the
        noise floor: it is then the mean ECE if the residuals of each group get a random sign (wild bootstrap).
    settings : ErrorSettings, optional
    """
    settings = ErrorSettings() if settings is None else settings
    listed, predicted = _check(labels, probabilities, Y)
    observed = find_observed(listed, Y)
    of_row = None if groups is None else _check_groups(groups, len(listed))
    decile = None if train_counts is None else decile_of(train_counts)
    found = []
    for cut in k:
        if not 1 <= cut <= listed.shape[1]:
            raise InputError(f"k is {cut}; the ranking has {listed.shape[1]} labels per row")
        top, kept = (predicted[:, :cut], observed[:, :cut]), listed[:, :cut] >= 0
        found.append(_errors(*top, kept, cut, None, settings, of_row))
        if decile is not None:
            of_cell = np.where(kept, decile[listed[:, :cut]], -1)
            numbers = np.unique(of_cell[kept]).tolist()
            found += [_errors(*top, of_cell == number, cut, number, settings, of_row) for number in numbers]
    return found


def compare_log_loss(
    labels: npt.ArrayLike,
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    Y: sp.csr_matrix,
    k: int = 5,
    settings: ErrorSettings | None = None,
) -> Difference:
    """Return the paired difference of the log losses of two probabilities of the same cells, `first` minus `second`."""
    settings = ErrorSettings() if settings is None else settings
    listed, one = _check(labels, first, Y)
    two = _check(labels, second, Y)[1]
    observed, kept = find_observed(listed[:, :k], Y), listed[:, :k] >= 0
    losses = [np.where(kept, _log_loss(part[:, :k], observed), 0).sum(axis=1) for part in (one, two)]
    terms = np.stack([losses[0] - losses[1], kept.sum(axis=1)], axis=1)
    sums = _resample(terms, settings)
    drawn = sums[:, 0] / np.maximum(sums[:, 1], 1)
    low, high = np.quantile(drawn, _tails(settings.level)).tolist()
    ahead = float(np.mean((drawn > 0) + 0.5 * (drawn == 0)))
    return Difference(float(terms[:, 0].sum() / max(terms[:, 1].sum(), 1)), low, high, ahead)


def _check(labels: npt.ArrayLike, probabilities: npt.ArrayLike, Y: sp.csr_matrix) -> tuple[Any, Floats]:
    """Return labels and float64 probabilities; raise for other shapes, unknown labels or values outside of 0 to 1."""
    listed, predicted = np.asarray(labels), np.asarray(probabilities, dtype=np.float64)
    if listed.ndim != 2 or listed.shape != predicted.shape or listed.shape[0] != Y.shape[0]:
        raise InputError(
            f"labels and probabilities must have one shape ({Y.shape[0]}, k); got {listed.shape} and {predicted.shape}"
        )
    if listed.size and (listed.dtype.kind not in "iu" or listed.min() < -1 or listed.max() >= Y.shape[1]):
        raise InputError(f"labels must be integers below {Y.shape[1]}, or -1 for an empty position")
    wrong = (listed >= 0) & ~((predicted >= 0) & (predicted <= 1))
    if wrong.any():
        row, position = np.argwhere(wrong)[0].tolist()
        raise InputError(f"row {row}: the probability {predicted[row, position]} is not between 0 and 1")
    return listed, predicted


def _check_groups(groups: npt.ArrayLike, n_samples: int) -> npt.NDArray[np.int64]:
    """Return the group of each row, numbered from 0."""
    found = np.asarray(groups)
    if found.shape != (n_samples,):
        raise InputError(f"groups have shape {found.shape}; expected one id for each of {n_samples} rows")
    return np.unique(found, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _errors(
    predicted: Floats,
    observed: Mask,
    kept: Mask,
    k: int,
    decile: int | None,
    settings: ErrorSettings,
    groups: npt.NDArray[np.int64] | None,
) -> ProbabilityErrors:
    """Return the errors of the kept cells."""
    p, y = predicted[kept], observed[kept]
    nothing = np.empty(0)
    if not p.size:
        nan, empty = float("nan"), ReliabilityCurve(nothing, nothing, np.empty(0, np.int64))
        return ProbabilityErrors(k, decile, 0, nan, nan, nan, nan, {}, empty)
    of_bin, n_bins = _bins(p, settings.n_bins)
    mass = np.bincount(of_bin, minlength=n_bins)
    curve = ReliabilityCurve(
        np.bincount(of_bin, p, n_bins) / mass, np.bincount(of_bin, y, n_bins) / mass, mass.astype(np.int64)
    )
    used, rows = np.unique(np.nonzero(kept)[0], return_inverse=True)  # rows without such cells change no figure
    n_rows = int(rows[-1]) + 1
    gaps = np.bincount(rows * n_bins + of_bin, p - y, n_rows * n_bins).reshape(n_rows, n_bins)
    means = [np.bincount(rows, loss, n_rows) for loss in (_log_loss(p, y), (p - y) ** 2, np.ones(len(p)))]
    terms = np.column_stack([gaps, *means])
    ece, log_loss, brier = _figures(terms.sum(axis=0)[None])[0].tolist()
    drawn = (
        _noise(p, of_bin, n_bins, settings) if groups is None else _group_noise(gaps / len(p), groups[used], settings)
    )
    intervals = _intervals(terms, ece, settings)
    intervals["floor"] = Interval(*np.quantile(drawn, _tails(settings.level)).tolist())
    return ProbabilityErrors(k, decile, len(p), ece, float(drawn.mean()), log_loss, brier, intervals, curve)


def _intervals(terms: Floats, ece: float, settings: ErrorSettings) -> dict[str, Interval]:
    """Return the bootstrap intervals of figures from the terms of each row; none without resamples."""
    if not settings.n_resamples:
        return {}
    drawn = _figures(_resample(terms, settings))
    low, high = np.quantile(drawn, _tails(settings.level), axis=0)
    unbiased = ece + float(drawn[:, 0].mean())
    return {
        "ece": Interval(max(unbiased - float(high[0]), 0.0), unbiased - float(low[0])),
        "log_loss": Interval(float(low[1]), float(high[1])),
        "brier": Interval(float(low[2]), float(high[2])),
    }


def _bins(p: Floats, n_bins: int) -> tuple[npt.NDArray[np.int64], int]:
    """Return the bin of each cell, of about equal mass; equal probabilities share a bin, and no bin is empty."""
    n_bins = max(min(n_bins, len(p) // _FEWEST), 1)
    edges = np.quantile(p, np.arange(1, n_bins) / n_bins, method="lower")
    _, of_bin = np.unique(np.searchsorted(edges, p, side="left"), return_inverse=True)
    return of_bin.reshape(-1), int(of_bin.max()) + 1


def _figures(sums: Floats) -> Floats:
    """Return ECE, log loss and Brier score of sums over rows: gaps of the bins, two losses, number of cells."""
    n_cells = np.maximum(sums[:, -1], 1)
    return np.column_stack([np.abs(sums[:, :-3]).sum(axis=1), sums[:, -3], sums[:, -2]]) / n_cells[:, None]


def _noise(p: Floats, of_bin: npt.NDArray[np.int64], n_bins: int, settings: ErrorSettings) -> Floats:
    """Return the ECE of each draw of all labels from the probabilities."""
    rng = np.random.default_rng([settings.seed, 1])
    gaps = [np.abs(np.bincount(of_bin, p - (rng.random(len(p)) < p), n_bins)).sum() for _ in range(settings.n_draws)]
    return np.asarray(gaps, dtype=np.float64) / len(p)


def _group_noise(gaps: Floats, groups: npt.NDArray[np.int64], settings: ErrorSettings) -> Floats:
    """Return the ECE of each draw of a sign for the residuals of each group.

    `gaps` are the residuals of rows and bins over the number of cells.
    """
    sums = np.zeros((int(groups.max()) + 1, gaps.shape[1]))
    np.add.at(sums, groups, gaps)
    rng = np.random.default_rng([settings.seed, 1])
    signs = rng.choice([-1.0, 1.0], (settings.n_draws, len(sums)))
    return np.asarray(np.abs(signs @ sums).sum(axis=1))


def _log_loss(p: Floats, y: Mask) -> Floats:
    clipped = np.clip(p, _SMALLEST, 1 - _SMALLEST)
    return -np.where(y, np.log(clipped), np.log1p(-clipped))


def _resample(terms: Floats, settings: ErrorSettings) -> Floats:
    """Return the sums of the rows' terms in each bootstrap resample."""
    seeds = np.random.default_rng(settings.seed).integers(0, 2**64, size=settings.n_resamples, dtype=np.uint64)
    sums = np.empty((settings.n_resamples, terms.shape[1]))
    resample_sums(np.ascontiguousarray(terms, dtype=np.float32), seeds, sums)
    return sums


def _tails(level: float) -> list[float]:
    return [(1 - level) / 2, (1 + level) / 2]
