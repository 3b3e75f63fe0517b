"""Evaluation: the terms of each row and the counts of each label, from which metrics and intervals are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError, UnknownNameError, did_you_mean
from unmissed.metrics.conventions import Conventions
from unmissed.metrics.metric import (
    CompiledMetric,
    Counts,
    EvaluatedLabels,
    Floats,
    LabelMetric,
    Metric,
    RowMetric,
    check_values,
)

Unit = Literal["row", "label"]
"""What a metric sums over."""
Columns = dict[str, tuple[int, int | None]]
"""For each metric its columns of numerators and denominators; None for a denominator of 1."""


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
    terms : float32 array of shape (n_samples, len(k), n_columns)
        Each row's contribution to the numerators and denominators; used for intervals. The compiled pass fills seven
        columns, three without inverse propensities; each other metric over rows adds two.
    totals : float64 array of shape (len(k), n_columns)
        The sums of the terms in double precision; used for the figures.
    labels : LabelTally
    inverse_propensities, train_counts : arrays of shape (n_labels,), or None if not given; None also for inverse
        propensities per cell, so there is no `support` and no decile's part of PSP
    conventions : Conventions
        The definitions that the figures follow.
    metrics : tuple of Metric
        The metrics that were computed.
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
    metrics: tuple[Metric, ...]
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
        if name not in self.figures:
            raise UnknownNameError(
                f"no figure {name!r}; figures: {', '.join(self.figures)}{did_you_mean(name, self.figures)}"
            )
        return self.figures[name]

    def __repr__(self) -> str:
        names = [f"{metric.name}@{self.k[-1]}" for metric in self.metrics[:4]]
        values = ", ".join(f"{name} {self.figures[name]:.4f}" for name in names)
        return f"Evaluation({self.n_samples} rows, {self.n_labels} labels: {values})"

    @cached_property
    def figures(self) -> dict[str, float]:
        """All metrics by name, such as `P@1` and `PSnDCG@5`, as fractions; NaN if the denominator is 0."""
        sums = np.array([[at_cut.sum() for at_cut in column] for column in self.label_terms]).reshape(-1, len(self.k))
        found = {**self.aggregate("row", self.totals[None]), **self.aggregate("label", sums.T[None])}
        names = [f"{metric.name}@{k}" for metric in self.metrics for k in self.k]
        return {name: float(found[name][0]) for name in names}

    def per_row(self, name: str) -> tuple[Floats, Floats]:
        """Return each row's numerator and denominator of a figure such as "PSP@5"."""
        metric, _, cut = name.rpartition("@")
        columns = self.columns("row")
        if name not in self.figures or metric not in columns:
            known = ", ".join(f"{one}@{k}" for one in columns for k in self.k)
            raise UnknownNameError(f"no values per row of {name!r}; figures over rows: {known}")
        above, below = columns[metric]
        terms = self.terms[:, self.k.index(int(cut))].astype(np.float64)
        return terms[:, above], np.ones(len(terms)) if below is None else terms[:, below]

    def columns(self, unit: Unit) -> Columns:
        """Return the columns of each metric over rows in `terms`, or of each metric over labels in `label_terms`."""
        if unit == "label":
            return self._over_labels[0]
        own = [metric.name for metric in self.metrics if isinstance(metric, RowMetric)]
        begin = self.terms.shape[2] - 2 * len(own)  # after the columns of the compiled pass
        compiled = [metric for metric in self.metrics if isinstance(metric, CompiledMetric)]
        return {metric.name: (metric.numerator, metric.denominator) for metric in compiled} | {
            name: (begin + 2 * position, begin + 2 * position + 1) for position, name in enumerate(own)
        }

    @property
    def label_terms(self) -> Floats:
        """Terms of the labels that macro averages include, shape (n_columns, len(k), n_averaged)."""
        return self._over_labels[1]

    @cached_property
    def _over_labels(self) -> tuple[Columns, Floats]:
        """The columns of the metrics over labels, and their terms. Denominators that are all 1 have no column."""
        chosen = self.labels.true > 0 if self.conventions.macro == "true" else np.ones(self.n_labels, dtype=np.bool_)
        given = [None if one is None else one[chosen] for one in (self.inverse_propensities, self.train_counts)]
        true, listed, hits = (one[chosen] for one in (self.labels.true, self.labels.listed, self.labels.hits))
        at_cuts = [
            EvaluatedLabels(k, true, listed[:, cut], hits[:, cut], *given)  # type: ignore[arg-type]
            for cut, k in enumerate(self.k)
        ]
        columns: Columns = {}
        terms: list[Floats] = []
        for metric in self.metrics:
            if isinstance(metric, LabelMetric):
                values = [check_values(metric, metric.per_label(labels), true.size, "label") for labels in at_cuts]
                numerators, denominators = np.stack(values, axis=1)
                is_mean = bool((denominators == 1).all())
                columns[metric.name] = (len(terms), None if is_mean else len(terms) + 1)
                terms += [numerators] if is_mean else [numerators, denominators]
        return columns, np.stack(terms) if terms else np.empty((0, len(self.k), true.size))

    def aggregate(self, unit: Unit, sums: Floats) -> dict[str, Floats]:
        """Return the figures over rows or labels, one value for each of several sums of shape (len(k), n_columns)."""
        by_name = {metric.name: metric for metric in self.metrics}
        n_units = float(self.n_samples if unit == "row" else self.label_terms.shape[2])
        found = {}
        for name, (above, below) in self.columns(unit).items():
            for cut, k in enumerate(self.k):
                divisor = np.full(len(sums), n_units) if below is None else sums[:, cut, below]
                found[f"{name}@{k}"] = by_name[name].aggregate(sums[:, cut, above], divisor)
        return found


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
    """Raise InputError unless two evaluations have the same cut-offs, conventions, metrics, labels and propensities."""
    if first.k != other.k or first.conventions != other.conventions:
        raise InputError("evaluations differ in their cut-offs or conventions")
    if first.n_labels != other.n_labels:
        raise InputError(f"evaluations differ in their number of labels: {first.n_labels} and {other.n_labels}")
    for name in ("inverse_propensities", "train_counts"):
        one, two = getattr(first, name), getattr(other, name)
        if (one is None) != (two is None) or (one is not None and not np.array_equal(one, two)):
            raise InputError(f"evaluations differ in their {name.replace('_', ' ')}")
    if [(type(one), one.name) for one in first.metrics] != [(type(one), one.name) for one in other.metrics]:
        raise InputError("evaluations differ in their metrics")
