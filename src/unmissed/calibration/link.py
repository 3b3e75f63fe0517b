"""Calibration: from scores of any scale to probabilities, by a pooled map, two numbers per label, and rank effects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from unmissed.calibration.label_effects import FEWEST_POSITIVES, LabelEffects, fit_label_effects, frequency_terms
from unmissed.calibration.monotone_map import MonotoneMap, fit_monotone_map
from unmissed.calibration.rank_effects import LEAST_SLOPE, N_RANKS, RankEffects, fit_rank_effects
from unmissed.calibration.scored_cells import Cells
from unmissed.errors import InputError
from unmissed.execution import Piece

KEY = "calibration"
MOST_RANKS = 10  # best cells of a row that labels are fitted to, chosen as docs/notes/calibration.md tells
_NEWTON_STEPS = 30
_N_PARTS = 3  # parts of the rows, each of which gets label effects of the others
_LAYOUT: dict[str, tuple[Any, int]] = {
    "scores": (np.float64, 1),
    "logits": (np.float64, 1),
    "slopes": (np.float32, 1),
    "intercepts": (np.float32, 1),
    "coefficients": (np.float64, 2),
    "log_counts": (np.float32, 1),
    "rank_coefficients": (np.float64, 3),
    "rank_scores": (np.float64, 1),
    "rank_logits": (np.float64, 1),
}
Floats = npt.NDArray[np.float32]


class TrueProbability(NamedTuple):
    """P(label is true | x) = P(label is observed | x) / propensity, and the share of cells that were clipped."""

    probability: Floats
    clipped: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """P(label l is observed | x) = expit(z), z = slope_l u + intercept_l, where u = g(score) is shared by all labels.

    Slopes are positive, so a label's probability never falls with its score. If the rank of the label is known, its
    rank effect is added to z. 12 bytes per label and two small tables.

    Parameters
    ----------
    pooled : the map g from scores to logits
    slopes, intercepts : float32 arrays of shape (n_labels,)
    coefficients : float64 array of shape (2, 2): slope and intercept of a label without cells, as functions of 1 and
        log n
    log_counts : float32 array of shape (n_labels,): log n of each label
    rank_effects : the change of z with the rank
    """

    pooled: MonotoneMap
    slopes: Floats
    intercepts: Floats
    coefficients: npt.NDArray[np.float64]
    log_counts: Floats
    rank_effects: RankEffects

    @classmethod
    def pooled_only(cls, pooled: MonotoneMap, n_labels: int) -> Calibration:
        """Return the calibration with one map for all labels and ranks."""
        ones, zeros = np.ones(n_labels, np.float32), np.zeros(n_labels, np.float32)
        return cls(pooled, ones, zeros, np.array([[1.0, 0.0], [0.0, 0.0]]), zeros, RankEffects.none())

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return len(self.slopes)

    def probability(self, labels: npt.ArrayLike, scores: npt.ArrayLike, ranks: npt.ArrayLike | None = None) -> Floats:
        """Return the probability of each label given its score, and its rank if known; 0 for padding, the label -1.

        Parameters
        ----------
        labels : int array: labels below `n_labels`, or -1
        scores : array of the same shape
        ranks : position of each label in the ranking of its row by score, from 0, broadcast to the shape of `labels`:
            `range(k)` for a ranking. None for labels of unknown rank: the mean over ranks, less accurate for the best
        """
        chosen, given = np.asarray(labels), np.asarray(scores)
        if chosen.shape != given.shape:
            raise InputError(f"labels and scores must have one shape; got {chosen.shape} and {given.shape}")
        if chosen.size and not -1 <= int(chosen.min()) <= int(chosen.max()) < self.n_labels:
            raise InputError(f"the calibration has {self.n_labels} labels; got {chosen.min()} to {chosen.max()}")
        if np.isnan(given).any():
            raise InputError("a score is not a number; it has no probability")
        logits = self.slopes[chosen] * self.pooled(given).astype(np.float32) + self.intercepts[chosen]
        if ranks is not None:
            logits = self.rank_effects(logits, self.log_counts[chosen], _check_ranks(ranks, chosen.shape))
        return np.where(chosen < 0, np.float32(0), expit(logits.astype(np.float32)))

    def extend(self, label_counts: npt.ArrayLike) -> Calibration:
        """Return the calibration with further labels, which have these training counts and get the prior."""
        terms = frequency_terms(label_counts)
        slopes, intercepts = _as_pairs(terms @ self.coefficients.T)
        return replace(
            self,
            slopes=np.append(self.slopes, slopes),
            intercepts=np.append(self.intercepts, intercepts),
            log_counts=np.append(self.log_counts, terms[:, 1].astype(np.float32)),
        )

    def among(self, labels: npt.NDArray[Any], label_counts: npt.ArrayLike) -> Calibration:
        """Return the calibration of all labels, given that of some: `labels` are theirs, and others get the prior."""
        terms = frequency_terms(label_counts)
        slopes, intercepts = _as_pairs(terms @ self.coefficients.T)
        slopes[labels], intercepts[labels] = self.slopes, self.intercepts
        log_counts = terms[:, 1].astype(np.float32)
        return replace(self, slopes=slopes, intercepts=intercepts, log_counts=log_counts)

    def to_piece(self, key: str = KEY) -> Piece:
        """Return the piece that stores the calibration."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "scores": self.pooled.scores,
            "logits": self.pooled.logits,
            "slopes": self.slopes,
            "intercepts": self.intercepts,
            "coefficients": self.coefficients,
            "log_counts": self.log_counts,
            "rank_coefficients": self.rank_effects.coefficients,
            "rank_scores": self.rank_effects.pooled.scores,
            "rank_logits": self.rank_effects.pooled.logits,
        }
        return Piece(key, arrays, {"n_labels": self.n_labels})

    @classmethod
    def from_piece(cls, piece: Piece, n_labels: int) -> Calibration:
        """Return the calibration stored in a piece; raise if it is damaged or has another number of labels."""
        arrays = piece.expect(_LAYOUT)
        slopes, intercepts, log_counts = (arrays[name] for name in ("slopes", "intercepts", "log_counts"))
        coefficients = arrays["coefficients"]
        if not len(slopes) == len(intercepts) == len(log_counts) == n_labels:
            raise piece.damaged(f"it has slopes of {len(slopes)} labels, expected {n_labels}")
        if coefficients.shape != (2, 2) or not np.isfinite(coefficients).all():
            raise piece.damaged("its coefficients are not 2 x 2 finite numbers")
        if not (np.isfinite(slopes).all() and np.isfinite(intercepts).all() and (slopes > 0).all()):
            raise piece.damaged("a label has a slope that is not positive, or an intercept that is not finite")
        if not (np.isfinite(log_counts).all() and (log_counts >= 0).all()):
            raise piece.damaged("the log count of a label is negative or not finite")
        try:
            pooled = MonotoneMap(np.asarray(arrays["scores"]), np.asarray(arrays["logits"]))
            ranked = MonotoneMap(np.asarray(arrays["rank_scores"]), np.asarray(arrays["rank_logits"]))
            effects = RankEffects(np.asarray(arrays["rank_coefficients"]), ranked)
        except InputError as error:
            raise piece.damaged(str(error)) from error
        return cls(pooled, slopes, intercepts, coefficients, log_counts, effects)


def fit_calibration(cells: Cells, label_counts: npt.ArrayLike) -> Calibration:
    """Fit the pooled map to all out-of-fold cells, the labels to the 10 best of each row, and the ranks to the 20 best.

    The logits of a label are not exactly linear in those of the pooled map. Its many cells of low probability would
    decide about its slope, and the probabilities of the best labels would be wrong.

    Parameters
    ----------
    cells : out-of-fold cells, as `cross_fit` returns them
    label_counts : training positives of each label in all rows, on which the final model is trained
    """
    counts = np.asarray(label_counts)
    if counts.shape != (cells.n_labels,):
        raise InputError(f"label counts have shape {counts.shape}; expected one for each of {cells.n_labels} labels")
    pooled = fit_monotone_map(cells.scores, cells.observed, cells.weights)
    logits = pooled(cells.scores)
    best = (cells.ranks >= 0) & (cells.ranks < MOST_RANKS)
    pairs, effects = _fit_pairs(cells, logits, counts, best)
    log_counts = frequency_terms(counts)[:, 1].astype(np.float32)
    rank_effects = _fit_ranks(cells, logits, counts, best, effects)
    return Calibration(pooled, *_as_pairs(pairs), effects.coefficients, log_counts, rank_effects)


def true_probability(
    labels: npt.ArrayLike, probabilities: npt.ArrayLike, propensities: npt.ArrayLike
) -> TrueProbability:
    """Return min(1, pi / p): the probability that a label is true, whether or not it is observed.

    Parameters
    ----------
    labels : int array: labels, or -1 for padding
    probabilities : array of the same shape: the probability pi that the label is observed
    propensities : array of n_labels: p, the probability that a true label is observed
    """
    chosen, pi = np.asarray(labels), np.asarray(probabilities, dtype=np.float64)
    p = np.asarray(propensities, dtype=np.float64)
    if not ((p > 0) & (p <= 1)).all():
        raise InputError("propensities must be above 0 and at most 1")
    if chosen.size and int(chosen.max()) >= len(p):
        raise InputError(f"there are propensities of {len(p)} labels; got label {chosen.max()}")
    ratio = np.where(chosen >= 0, pi / np.append(p, 1.0)[chosen], 0.0)
    n_cells = int((chosen >= 0).sum())
    return TrueProbability(np.minimum(ratio, 1.0).astype(np.float32), float((ratio > 1).sum() / max(n_cells, 1)))


def _fit_pairs(
    cells: Cells,
    logits: npt.NDArray[np.float64],
    counts: npt.NDArray[Any],
    chosen: npt.NDArray[np.bool_],
    start: LabelEffects | None = None,
) -> tuple[npt.NDArray[np.float64], LabelEffects]:
    """Return slope and intercept of each label (n_labels, 2), fitted to chosen cells, and the label effects."""
    ranked, own = cells.select(chosen), logits[chosen]
    effects = fit_label_effects(ranked.labels, own, ranked.observed, counts, start)
    pairs = frequency_terms(counts) @ effects.coefficients.T + effects.deviations
    _bound_slopes(pairs, own, ranked)
    return pairs, effects


def _fit_ranks(
    cells: Cells,
    logits: npt.NDArray[np.float64],
    counts: npt.NDArray[Any],
    best: npt.NDArray[np.bool_],
    start: LabelEffects,
) -> RankEffects:
    """Fit rank effects to logits of labels that were fitted to other rows: three parts of the groups take turns.

    Own rows would make the slopes of labels with few cells look better than they are. log n is that of the positives of
    which the cell's model knew: given all positives, a label with few would have too many of them out of fold.
    """
    part = np.random.default_rng(0).integers(0, _N_PARTS, int(cells.groups.max(initial=0)) + 1)[cells.groups]
    of_label = np.empty(len(cells))
    for at in range(_N_PARTS):
        mine, labels = part == at, cells.labels[part == at]
        pairs, _ = _fit_pairs(cells, logits, counts, best & ~mine, start)
        of_label[mine] = pairs[labels, 0] * logits[mine] + pairs[labels, 1]
    kept = (cells.ranks >= 0) & (cells.ranks < N_RANKS)
    known = counts[cells.labels] if cells.train_counts is None else cells.train_counts
    if cells.train_counts is None:
        kept &= known >= FEWEST_POSITIVES
    log_counts = frequency_terms(known[kept])[:, 1]
    n_rows = len(np.unique(cells.rows[kept]))
    return fit_rank_effects(of_label[kept], cells.observed[kept], log_counts, cells.ranks[kept], n_rows)


def _check_ranks(ranks: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return ranks, integers of at least 0 that can be broadcast to a shape."""
    found = np.asarray(ranks)
    try:
        found = np.broadcast_to(found, shape)
    except ValueError:
        raise InputError(f"ranks have shape {found.shape}; expected {shape}, or one rank per column") from None
    if found.size and (found.dtype.kind not in "iu" or int(found.min()) < 0):
        raise InputError("ranks must be integers of at least 0, the position of the best label")
    return found


def _as_pairs(pairs: npt.NDArray[np.float64]) -> tuple[Floats, Floats]:
    """Return slopes, at least the least slope, and intercepts."""
    return np.maximum(pairs[:, 0], LEAST_SLOPE).astype(np.float32), pairs[:, 1].astype(np.float32)


def _bound_slopes(pairs: npt.NDArray[np.float64], logits: npt.NDArray[np.float64], cells: Cells) -> None:
    """Set slopes below the least one to it, and fit the intercepts of these labels such that their sums agree."""
    low = pairs[:, 0] < LEAST_SLOPE
    chosen = low[cells.labels]
    if not low.any():
        return
    pairs[low, 0] = LEAST_SLOPE
    labels, base, n_labels = cells.labels[chosen], LEAST_SLOPE * logits[chosen], len(pairs)
    hits = np.bincount(labels, cells.observed[chosen], n_labels) + 0.5
    for _ in range(_NEWTON_STEPS):
        p = expit(base + pairs[labels, 1])
        gap = hits - np.bincount(labels, p, n_labels)
        information = np.bincount(labels, p * (1 - p), n_labels) + 0.1
        pairs[low, 1] += np.clip(gap / information, -2.0, 2.0)[low]
