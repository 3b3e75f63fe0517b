"""Evaluation: what rows and labels add to the metrics, kept apart so that batches merge and intervals come free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.kernels.hits import NDCG, PRECISION, PSNDCG_BEST, PSNDCG_GAIN, PSP_BEST, PSP_GAIN, RECALL
from unmissed.metrics.conventions import Conventions

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

# name, numerator's column, denominator's column; without one each row counts 1
RATIOS: tuple[tuple[str, int, int | None], ...] = (
    ("P", PRECISION, None),
    ("nDCG", NDCG, None),
    ("PSP", PSP_GAIN, PSP_BEST),
    ("PSnDCG", PSNDCG_GAIN, PSNDCG_BEST),
    ("recall", RECALL, None),
)
MACRO = ("macro precision", "macro recall", "macro F1")
METRICS = (*(name for name, _, _ in RATIOS), "coverage", *MACRO)
"""The names of the metrics; each has figures such as "P@5" at its cut-offs."""


@dataclass(frozen=True)
class LabelTally:
    """How often each label was true, listed, hit, hit in the list that PSP scores, and among the k heaviest true ones.

    `true` has one count per label, the others are (n_labels, n_cuts): counts within the first k places.
    """

    true: Counts
    listed: Counts
    hits: Counts
    scored: Counts
    best: Counts

    def __add__(self, other: LabelTally) -> LabelTally:
        return LabelTally(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class Unseen:
    """What the policy for labels without a positive in training concerns, whichever it is.

    Parameters
    ----------
    true : how often each label is true and unseen in training
    rows : rows with at least one such label
    emptied : rows whose true labels are all of this kind, so that dropping them leaves nothing to find
    """

    true: Counts
    rows: int
    emptied: int

    @property
    def marks(self) -> int:
        """The number of marks of unseen labels."""
        return int(self.true.sum())

    @property
    def n_labels(self) -> int:
        """The number of labels that are true somewhere and unseen in training."""
        return int(np.count_nonzero(self.true))

    def __add__(self, other: Unseen) -> Unseen:
        return Unseen(self.true + other.true, self.rows + other.rows, self.emptied + other.emptied)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of `evaluate`: every row's numerators and denominators, and every label's counts.

    Parameters
    ----------
    k : tuple of int
        The cut-offs, rising.
    terms : float32 array of shape (n_samples, len(k), 7), or 3 in place of 7 without inverse propensities
        What each row adds to the numerators and denominators; for intervals.
    totals : float64 array of shape (len(k), 7 or 3)
        The sums of the terms before these were rounded; for figures.
    labels : LabelTally
    inverse_propensities, train_counts : arrays over labels, or None where they were not given
    conventions : Conventions
        What the figures mean.
    unseen : Unseen, or None without training counts
        What `conventions.unseen_labels` concerns.
    """

    k: tuple[int, ...]
    terms: npt.NDArray[np.float32]
    totals: Floats
    labels: LabelTally
    inverse_propensities: Floats | None
    train_counts: Counts | None
    conventions: Conventions
    unseen: Unseen | None = None

    @property
    def n_samples(self) -> int:
        """The number of rows that count."""
        return int(self.terms.shape[0])

    @property
    def n_labels(self) -> int:
        """The number of labels of the data."""
        return int(self.labels.true.size)

    def __getitem__(self, name: str) -> float:
        return self.figures[name]

    def __repr__(self) -> str:
        shown = [name for name in self.figures if name.split("@")[0] in ("P", "PSP")]
        told = ", ".join(f"{name} {self.figures[name]:.4f}" for name in shown)
        return f"Evaluation({self.n_samples} rows, {self.n_labels} labels: {told})"

    @cached_property
    def figures(self) -> dict[str, float]:
        """Every metric by its name, `P@1`, `PSnDCG@5`, as a fraction; not a number where nothing could be found."""
        return {**ratio_figures(self, self.totals), **self._coverage(), **self._macro()}

    def _coverage(self) -> dict[str, float]:
        """Return which share of the labels that occur in the truth is rightly predicted for at least one row."""
        occurring = int(np.count_nonzero(self.labels.true))
        found = np.count_nonzero(self.labels.hits, axis=0)
        return {f"coverage@{k}": _ratio(found[cut], occurring) for cut, k in enumerate(self.k)}

    def _macro(self) -> dict[str, float]:
        """Return the means over labels of hits/listed, hits/true and 2 hits/(listed + true), each 0 where it is 0/0."""
        tally = self.labels
        chosen = tally.true > 0 if self.conventions.macro == "true" else np.ones(self.n_labels, dtype=np.bool_)
        hits, listed, true = tally.hits[chosen], tally.listed[chosen], tally.true[chosen, None]
        parts = (
            hits / np.maximum(listed, 1),
            hits / np.maximum(true, 1),
            2 * hits / np.maximum(listed + true, 1),
        )
        return {
            f"{name}@{k}": _ratio(value[:, cut].sum(), len(value))
            for name, value in zip(MACRO, parts, strict=True)
            for cut, k in enumerate(self.k)
        }


def ratio_figures(evaluation: Evaluation, totals: Floats) -> dict[str, float]:
    """Return the metrics that are ratios of sums over rows, from the sums of the rows' terms."""
    sums: npt.NDArray[Any] = totals.reshape(evaluation.totals.shape)
    return {
        f"{name}@{k}": _ratio(sums[cut, above], evaluation.n_samples if below is None else sums[cut, below])
        for name, above, below in RATIOS
        if above < sums.shape[1]
        for cut, k in enumerate(evaluation.k)
    }


def merge(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Return the evaluation of all rows together; batches in any order give the same figures."""
    if not evaluations:
        raise InputError("there is no evaluation to merge")
    first = evaluations[0]
    labels, totals, unseen = first.labels, first.totals, first.unseen
    for other in evaluations[1:]:
        check_alike(first, other)
        labels, totals = labels + other.labels, totals + other.totals
        unseen = None if unseen is None or other.unseen is None else unseen + other.unseen
    terms = np.concatenate([one.terms for one in evaluations])
    return replace(first, terms=terms, totals=totals, labels=labels, unseen=unseen)


def check_alike(first: Evaluation, other: Evaluation) -> None:
    """Refuse evaluations that do not measure the same thing."""
    if first.k != other.k or first.conventions != other.conventions:
        raise InputError("evaluations differ in their cut-offs or conventions")
    if first.n_labels != other.n_labels:
        raise InputError(f"evaluations differ in their number of labels: {first.n_labels} and {other.n_labels}")
    for name in ("inverse_propensities", "train_counts"):
        one, two = getattr(first, name), getattr(other, name)
        if (one is None) != (two is None) or (one is not None and not np.array_equal(one, two)):
            raise InputError(f"evaluations differ in their {name.replace('_', ' ')}")


def _ratio(above: float, below: float) -> float:
    return float(above) / float(below) if below else float("nan")
