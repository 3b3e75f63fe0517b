"""Evaluation: the terms of each row and the counts of each label, from which metrics and intervals are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.metrics.conventions import Conventions
from unmissed.metrics.hits import NDCG, PRECISION, PSNDCG_BEST, PSNDCG_GAIN, PSP_BEST, PSP_GAIN, RECALL

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

# Name, column of the numerator, column of the denominator (None: the number of rows).
RATIOS: tuple[tuple[str, int, int | None], ...] = (
    ("P", PRECISION, None),
    ("nDCG", NDCG, None),
    ("PSP", PSP_GAIN, PSP_BEST),
    ("PSnDCG", PSNDCG_GAIN, PSNDCG_BEST),
    ("recall", RECALL, None),
)
MACRO = ("macro precision", "macro recall", "macro F1")
METRICS = (*(name for name, _, _ in RATIOS), "coverage", *MACRO)
"""The names of the metrics; a figure's name adds the cut-off, as in "P@5"."""


@dataclass(frozen=True)
class LabelTally:
    """Counts per label.

    Parameters
    ----------
    true : array of shape (n_labels,)
        Rows with the label in Y.
    listed, hits : arrays of shape (n_labels, n_cuts)
        Rows with the label in the top k, and those of them where it is true.
    scored : array of shape (n_labels, n_cuts)
        Hits in the list that PSP scores, which differs from the ranking if it is re-ranked.
    best : array of shape (n_labels, n_cuts)
        Rows where the label is among the k true labels with the largest 1/p.
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
    """Counts of true labels without a training positive, whether they are kept or dropped.

    Parameters
    ----------
    true : array of shape (n_labels,)
        Rows with the label in Y, for labels unseen in training; 0 for the others.
    rows : int
        Rows with at least one unseen label.
    emptied : int
        Rows with unseen labels only.
    """

    true: Counts
    rows: int
    emptied: int

    @property
    def n_assignments(self) -> int:
        """The number of true (row, label) pairs of unseen labels."""
        return int(self.true.sum())

    @property
    def n_labels(self) -> int:
        """The number of labels that occur in Y but not in training."""
        return int(np.count_nonzero(self.true))

    def __add__(self, other: Unseen) -> Unseen:
        return Unseen(self.true + other.true, self.rows + other.rows, self.emptied + other.emptied)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of `evaluate`: numerators and denominators per row, and counts per label.

    Parameters
    ----------
    k : tuple of int
        The cut-offs, increasing.
    terms : float32 array of shape (n_samples, len(k), 7), or 3 columns without inverse propensities
        Each row's contribution to the numerators and denominators; used for intervals.
    totals : float64 array of shape (len(k), 7 or 3)
        The sums of the terms in double precision; used for the figures.
    labels : LabelTally
    inverse_propensities, train_counts : arrays of shape (n_labels,), or None if not given
    conventions : Conventions
        The definitions that the figures follow.
    unseen : Unseen, or None without training counts
        The true labels that `conventions.unseen_labels` keeps or drops.
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
        """The number of evaluated rows."""
        return int(self.terms.shape[0])

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return int(self.labels.true.size)

    def __getitem__(self, name: str) -> float:
        return self.figures[name]

    def __repr__(self) -> str:
        shown = [name for name in self.figures if name.split("@")[0] in ("P", "PSP")]
        values = ", ".join(f"{name} {self.figures[name]:.4f}" for name in shown)
        return f"Evaluation({self.n_samples} rows, {self.n_labels} labels: {values})"

    @cached_property
    def figures(self) -> dict[str, float]:
        """All metrics by name, such as `P@1` and `PSnDCG@5`, as fractions; NaN if the denominator is 0."""
        return {**ratio_figures(self, self.totals), **self._coverage(), **self._macro()}

    def _coverage(self) -> dict[str, float]:
        """Return the fraction of the labels in Y that are correctly predicted for at least one row."""
        occurring = int(np.count_nonzero(self.labels.true))
        found = np.count_nonzero(self.labels.hits, axis=0)
        return {f"coverage@{k}": _ratio(found[cut], occurring) for cut, k in enumerate(self.k)}

    def _macro(self) -> dict[str, float]:
        """Return the means over labels of hits/listed, hits/true and 2 hits/(listed + true), with 0/0 = 0."""
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
    """Return the metrics that are ratios of sums over rows, given the sums of the rows' terms."""
    sums: npt.NDArray[Any] = totals.reshape(evaluation.totals.shape)
    return {
        f"{name}@{k}": _ratio(sums[cut, above], evaluation.n_samples if below is None else sums[cut, below])
        for name, above, below in RATIOS
        if above < sums.shape[1]
        for cut, k in enumerate(evaluation.k)
    }


def merge(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Return the evaluation of all batches together; the figures do not depend on the order of the batches."""
    if not evaluations:
        raise InputError("merge needs at least one evaluation")
    first = evaluations[0]
    labels, totals, unseen = first.labels, first.totals, first.unseen
    for other in evaluations[1:]:
        check_alike(first, other)
        labels, totals = labels + other.labels, totals + other.totals
        unseen = None if unseen is None or other.unseen is None else unseen + other.unseen
    terms = np.concatenate([one.terms for one in evaluations])
    return replace(first, terms=terms, totals=totals, labels=labels, unseen=unseen)


def check_alike(first: Evaluation, other: Evaluation) -> None:
    """Raise InputError unless two evaluations have the same cut-offs, conventions, labels and propensities."""
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
