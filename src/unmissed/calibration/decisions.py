"""Decisions: from the probabilities of each row's best labels to the set of labels that it gets.

Labels outside of the given ones have probability 0. Every function takes `labels` (n_samples, m), -1 for padding, and
`probabilities` of the same shape, and returns a bool array of that shape: the chosen positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse as sp
from scipy.stats import beta

from unmissed.calibration.coordinate_ascent import sweep_coverage, sweep_macro_f1
from unmissed.errors import InputError

Floats = npt.NDArray[np.float64]
Chosen = npt.NDArray[np.bool_]
_ROWS = 512  # rows whose expected F1 is computed at a time
_MOST_SWEEPS = 50
_TOLERANCE = 1e-6  # relative rise of an objective in a sweep, below which the ascent ends
_SMALLEST = 1e-300  # instead of the denominator of labels that have no probability and no row: 0/0 = 0
_THRESHOLDS = 50  # thresholds that are tested for a precision


class PrecisionThreshold(NamedTuple):
    """A threshold that keeps a precision on held-out cells.

    `threshold` is infinite if no threshold keeps the precision; `precision` is that of the held-out cells at or above
    it, `lower` its lower confidence bound (the highest of all thresholds if none keeps it), and `n_cells` their number.
    """

    threshold: float
    precision: float
    lower: float
    n_cells: int


def choose_top(labels: npt.ArrayLike, probabilities: npt.ArrayLike, k: int) -> Chosen:
    """Choose the k most probable labels of each row; ties by label."""
    listed, p = _check(labels, probabilities)
    return _best(p, listed, _check_k(k))


def choose_above(labels: npt.ArrayLike, probabilities: npt.ArrayLike, threshold: float) -> Chosen:
    """Choose the labels with a probability of at least `threshold`."""
    if np.isnan(threshold):
        raise InputError("the threshold is not a number")
    listed, p = _check(labels, probabilities)
    return (p >= threshold) & (listed >= 0)


def choose_f1(labels: npt.ArrayLike, probabilities: npt.ArrayLike) -> Chosen:
    """Choose the labels of each row with the highest expected F1, exactly, if labels are independent given the row.

    The best set is a number of most probable labels; their expected F1 is computed by the recursions of Ye et al.
    (2012). A row without true labels has F1 = 0, as in scikit-learn, so every row with labels gets at least one.
    """
    listed, p = _check(labels, probabilities)
    order = np.argsort(-np.where(listed >= 0, p, -1.0), axis=1, kind="stable")
    ordered = np.take_along_axis(p, order, 1)
    size = np.concatenate(
        [np.empty(0, np.int64), *(_best_size(ordered[at : at + _ROWS]) for at in range(0, len(p), _ROWS))]
    )
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(p.shape[1]), p.shape), 1)
    return (rank < size[:, None]) & (listed >= 0)


def choose_macro_f1(labels: npt.ArrayLike, probabilities: npt.ArrayLike, k: int, *, seed: int = 0) -> Chosen:
    """Choose k labels per row with a high macro-F1 over all rows, by block coordinate ascent.

    It maximizes the mean over labels of 2 TP / (chosen + positives), with the expected counts of each label: TP is the
    sum of the probabilities of the rows that get it, positives the sum over all rows (Schultheis et al., 2023).
    """
    rows, p = _check(labels, probabilities)
    k = min(_check_k(k), rows.shape[1])
    positives = _sum_by_label(rows, p)

    def counts(chosen: Chosen) -> tuple[Floats, Floats]:
        return _sum_by_label(rows, p * chosen), _sum_by_label(rows, chosen)

    def sweep(order: npt.NDArray[np.int64], chosen: Chosen) -> None:
        sweep_macro_f1(rows, p, order, k, positives, *counts(chosen), chosen)

    def value(chosen: Chosen) -> float:
        true, listed = counts(chosen)
        return float((2 * true / np.maximum(listed + positives, _SMALLEST)).sum())

    rng = np.random.default_rng(seed)
    start = _best(rng.random(rows.shape), rows, k)  # a higher local maximum than from the k most probable labels
    return _ascend(start, sweep, value, rng)


def choose_coverage(labels: npt.ArrayLike, probabilities: npt.ArrayLike, k: int, *, seed: int = 0) -> Chosen:
    """Choose k labels per row with a high expected coverage, by block coordinate ascent.

    The expected coverage is the mean over labels of 1 - product over the rows that get it of (1 - probability).
    """
    rows, p = _check(labels, probabilities)
    k = min(_check_k(k), rows.shape[1])
    log_misses = np.log1p(-np.minimum(p, 1 - 1e-9))  # finite, so that a label can be taken from a row again

    def sweep(order: npt.NDArray[np.int64], chosen: Chosen) -> None:
        sweep_coverage(rows, p, log_misses, order, k, _sum_by_label(rows, log_misses * chosen), chosen)

    def value(chosen: Chosen) -> float:
        return float(-np.expm1(_sum_by_label(rows, log_misses * chosen)).sum())

    return _ascend(_best(p, rows, k), sweep, value, np.random.default_rng(seed))


def threshold_for_precision(
    probabilities: npt.ArrayLike,
    observed: npt.ArrayLike,
    precision: float,
    confidence: float = 0.95,
    groups: npt.ArrayLike | None = None,
) -> PrecisionThreshold:
    """Return the lowest threshold whose precision on held-out cells is at least `precision`, with confidence.

    50 thresholds are tested, with equal numbers of expected hits between them: most cells have low probabilities, where
    no threshold is needed. The lower bound of each is that of Clopper and Pearson (exact binomial) at the level
    1 - (1 - confidence) / 50, so that the choice among them is covered (Bonferroni).
    Cells of a group are not independent: numbers of cells are divided by the design effect, the variance of the hits
    summed over groups relative to that of independent cells.

    Parameters
    ----------
    probabilities, observed : probability of each held-out cell, and whether its label is observed
    precision : the precision to keep, above 0 and below 1
    confidence : probability with which it is kept
    groups : the group of each cell, such as its row; without them cells are taken as independent
    """
    p, hits = np.asarray(probabilities, dtype=np.float64).reshape(-1), np.asarray(observed, dtype=np.bool_).reshape(-1)
    if len(p) != len(hits):
        raise InputError(f"there are {len(p)} probabilities and {len(hits)} observed values; expected as many")
    if not (0 < precision < 1 and 0 < confidence < 1):
        raise InputError(f"precision and confidence must be between 0 and 1; got {precision} and {confidence}")
    order = np.argsort(-p, kind="stable")
    thresholds = _spread_thresholds(p[order][::-1])
    n_above = np.searchsorted(-p[order], -thresholds, side="right")
    n_hits = np.append(0, np.cumsum(hits[order]))[n_above]
    level = (1 - confidence) / _THRESHOLDS
    effect = 1.0 if groups is None else _design_effects(hits[order], np.asarray(groups).reshape(-1)[order], n_above)
    bound = beta.ppf(level, np.maximum(n_hits, 1) / effect, (n_above - n_hits) / effect + 1)
    lower = np.where(n_hits > 0, bound, 0.0)
    kept = np.flatnonzero(lower >= precision)
    if not kept.size:
        return PrecisionThreshold(float("inf"), float("nan"), float(lower.max(initial=0.0)), 0)
    at = int(kept[0])
    return PrecisionThreshold(
        float(thresholds[at]), float(n_hits[at] / n_above[at]), float(lower[at]), int(n_above[at])
    )


def _design_effects(hits: Chosen, groups: npt.NDArray[Any], n_above: npt.NDArray[np.int64]) -> Floats:
    """Return the design effect, at least 1, of the first n cells for each n; n cells per group if all are hits."""
    _, of_group = np.unique(groups, return_inverse=True)
    found = np.ones(len(n_above))
    for at, n in enumerate(n_above.tolist()):
        mean = hits[:n].mean()
        if 0 < mean < 1:
            sums = np.bincount(of_group[:n], hits[:n] - mean)
            found[at] = max(1.0, float(sums @ sums) / (n * mean * (1 - mean)))
        else:
            found[at] = n / len(np.unique(of_group[:n]))
    return found


def _spread_thresholds(rising: Floats) -> Floats:
    """Return at most 50 thresholds, rising, with equal sums of the given probabilities between them."""
    sums = np.cumsum(rising)
    if not sums.size or sums[-1] == 0:
        return rising[:1]
    at = np.searchsorted(sums, sums[-1] * np.arange(_THRESHOLDS) / _THRESHOLDS, side="right")
    return np.unique(rising[np.minimum(at, len(rising) - 1)])


def as_matrix(labels: npt.ArrayLike, chosen: Chosen, n_labels: int) -> sp.csr_matrix:
    """Return the chosen labels as a sparse 0/1 matrix (n_samples, n_labels)."""
    listed = np.asarray(labels)
    rows = np.nonzero(chosen)[0]
    ones = np.ones(len(rows), np.float32)
    return sp.csr_matrix((ones, (rows, listed[chosen])), shape=(len(listed), n_labels))


def _ascend(
    chosen: Chosen,
    sweep: Callable[[npt.NDArray[np.int64], Chosen], None],
    value: Callable[[Chosen], float],
    rng: np.random.Generator,
) -> Chosen:
    """Return the choice after sweeps over the rows in random order, until the objective stops to rise.

    `sweep(order, chosen)` updates a choice in place, and never lowers its value.
    """
    highest = value(chosen)
    for _ in range(_MOST_SWEEPS):
        sweep(rng.permutation(len(chosen)), chosen)
        reached = value(chosen)
        if reached <= highest + _TOLERANCE * abs(highest):
            break
        highest = reached
    return chosen


def _sum_by_label(labels: npt.NDArray[Any], values: npt.NDArray[Any]) -> Floats:
    """Return the sum of the values of each label; the last entry is that of padding."""
    n = int(labels.max(initial=-1)) + 2
    sums = np.bincount(np.where(labels < 0, n - 1, labels).ravel(), values.ravel(), n)
    return sums.astype(np.float64)


def _best(values: Floats, labels: npt.NDArray[Any], k: int) -> Chosen:
    """Return the positions of the k largest values of each row, ties by position; padding is never chosen."""
    values = np.where(labels >= 0, values, -np.inf)
    if k >= values.shape[1]:
        return np.asarray(labels >= 0)
    last = np.partition(values, -k, axis=1)[:, -k, None]
    chosen = values > last
    tied = (values == last) & (np.cumsum(values == last, axis=1) <= k - chosen.sum(axis=1, keepdims=True))
    return np.asarray((chosen | tied) & (labels >= 0))


def _best_size(p: Floats) -> npt.NDArray[np.int64]:
    """Return the number of labels with the highest expected F1 of each row, whose probabilities fall.

    With S the number of true labels among the first k and T among the rest, F1 = 2 S / (k + S + T). The distribution of
    S grows label by label; rest[k][a] = E[1 / (a + T)] shrinks backwards.
    """
    n_rows, m = p.shape
    rest = np.empty((m + 1, n_rows, 2 * m + 1))
    rest[m] = 1 / np.maximum(np.arange(2 * m + 1), 1)
    for at in range(m - 1, -1, -1):
        rest[at] = rest[at + 1]
        rest[at, :, :-1] += p[:, at, None] * (rest[at + 1, :, 1:] - rest[at + 1, :, :-1])
    counts = np.zeros((n_rows, m + 1))
    counts[:, 0] = 1.0
    expected = np.zeros((n_rows, m + 1))
    for size in range(1, m + 1):
        true = p[:, size - 1, None]
        counts[:, 1:] += true * (counts[:, :-1] - counts[:, 1:])
        counts[:, 0] *= 1 - true[:, 0]
        hits = np.arange(size + 1)
        expected[:, size] = 2 * (counts[:, : size + 1] * hits * rest[size][:, size + hits]).sum(axis=1)
    return np.asarray(np.maximum(expected.argmax(axis=1), 1), dtype=np.int64)


def _check(labels: npt.ArrayLike, probabilities: npt.ArrayLike) -> tuple[npt.NDArray[Any], Floats]:
    """Return labels, and float64 probabilities that are 0 for padding; raise for other shapes or values."""
    listed, p = np.asarray(labels), np.asarray(probabilities, dtype=np.float64)
    if listed.ndim != 2 or listed.shape != p.shape or listed.dtype.kind not in "iu":
        raise InputError(f"labels and probabilities must have one shape (rows, m); got {listed.shape} and {p.shape}")
    wrong = (listed >= 0) & ~((p >= 0) & (p <= 1))
    if wrong.any():
        row, position = np.argwhere(wrong)[0].tolist()
        raise InputError(f"row {row}: the probability {p[row, position]} is not between 0 and 1")
    kept = np.where(listed >= 0, p, 0.0)
    return np.require(listed, np.int32, ["C", "W"]), np.require(kept, np.float64, ["C", "W"])


def _check_k(k: Any) -> int:
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InputError(f"k must be an integer of at least 1; got {k!r}")
    return int(k)
