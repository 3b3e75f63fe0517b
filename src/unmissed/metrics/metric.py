"""Metric: one class per metric. It has a name, values per row or per label, and what it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.errors import InputError

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Need = Literal["inverse_propensities", "train_counts"]
Values = npt.NDArray[Any] | tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""What a metric returns: values, whose mean is the figure, or numerators and denominators."""


@dataclass(frozen=True, eq=False)
class EvaluatedRows:
    """A ranking and the true labels of its rows, cut off at k, after the conventions were applied; read-only.

    Parameters
    ----------
    labels : int32 array of shape (n_samples, k)
        The ranked labels, best first; -1 where a row lists fewer.
    scores : float32 array of shape (n_samples, k)
    hits : bool array of shape (n_samples, k)
        Whether each ranked label is true.
    Y : csr_matrix of shape (n_samples, n_labels)
        The true labels.
    inverse_propensities, train_counts : arrays of shape (n_labels,), or None if they were not given
    """

    labels: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]
    hits: npt.NDArray[np.bool_]
    Y: sparse.csr_matrix
    inverse_propensities: Floats | None
    train_counts: Counts | None

    @property
    def k(self) -> int:
        """The cut-off."""
        return int(self.labels.shape[1])

    @property
    def n_true(self) -> Counts:
        """The number of true labels of each row."""
        lengths: Counts = np.diff(self.Y.indptr).astype(np.int64)
        return lengths

    def top(self, k: int) -> EvaluatedRows:
        """Return the same rows, cut off at a smaller k."""
        labels, scores, hits = (_read_only(array[:, :k]) for array in (self.labels, self.scores, self.hits))
        return EvaluatedRows(labels, scores, hits, self.Y, self.inverse_propensities, self.train_counts)


@dataclass(frozen=True, eq=False)
class EvaluatedLabels:
    """Counts of the labels that macro averages include, at one k: labels with a true row, or all (`Conventions.macro`).

    Parameters
    ----------
    k : int
    true, listed, hits : arrays of shape (n_averaged,)
        Rows with the label in Y, in the top k, and in both.
    inverse_propensities, train_counts : arrays of shape (n_averaged,), or None if they were not given
    """

    k: int
    true: Counts
    listed: Counts
    hits: Counts
    inverse_propensities: Floats | None
    train_counts: Counts | None


class Metric(ABC):
    """A metric at a cut-off: the ratio of two sums over rows or over labels; larger is better.

    Subclass `RowMetric` or `LabelMetric`. Intervals resample the rows, or the labels, of which the figure is a sum.

    Attributes
    ----------
    name : str
        The name in figures, tables and on the command line; `PSP` gives the figures `PSP@1`, `PSP@3`, ...
    title : str
        One line on what it measures.
    needs : tuple of {"inverse_propensities", "train_counts"}
        The arguments of `evaluate` without which it cannot be computed.
    by_default : bool
        Whether `evaluate` computes it if no metrics are named.
    reranked : bool
        Whether `Conventions(rerank=True)` changes it; only metrics of the compiled pass have the re-ranked list.
    """

    name: str
    title: str = ""
    needs: tuple[Need, ...] = ()
    by_default: bool = True
    reranked: bool = False

    def aggregate(self, numerator: Floats, denominator: Floats) -> Floats:
        """Return the figure of each pair of sums: their ratio, NaN if the denominator is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(denominator != 0, numerator / denominator, np.nan)


class RowMetric(Metric):
    """A metric that is a mean over rows, or a ratio of sums over rows."""

    @abstractmethod
    def per_row(self, rows: EvaluatedRows) -> Values:
        """Return a value per row, whose mean is the figure; or numerators and denominators, to be summed."""


class LabelMetric(Metric):
    """A metric that is a mean over labels, or a ratio of sums over labels."""

    @abstractmethod
    def per_label(self, labels: EvaluatedLabels) -> Values:
        """Return a value per label, whose mean is the figure; or numerators and denominators, to be summed."""


class CompiledMetric(Metric):
    """A ratio of columns that the compiled pass (`hits.py`) fills for every row.

    Parameters
    ----------
    name, title, needs, reranked : as in `Metric`
    numerator : int
        Its column.
    denominator : int or None
        Its column; None for the number of rows.
    """

    def __init__(
        self,
        name: str,
        title: str,
        numerator: int,
        denominator: int | None = None,
        needs: tuple[Need, ...] = (),
        reranked: bool = False,
    ) -> None:
        self.name, self.title, self.needs, self.reranked = name, title, needs, reranked
        self.numerator, self.denominator = numerator, denominator


def check_values(metric: Metric, values: Any, n_units: int, unit: str) -> Floats:
    """Return numerators and denominators (2, n_units) of what a metric returned; raise for a wrong shape or value."""
    pair = values if isinstance(values, tuple) else (values, np.ones(n_units))
    arrays = [np.asarray(one) for one in pair]
    if len(arrays) != 2 or any(one.shape != (n_units,) or one.dtype.kind not in "biuf" for one in arrays):
        shapes = " and ".join(f"{one.dtype} of shape {one.shape}" for one in arrays)
        raise InputError(
            f"metric {metric.name!r} returned {shapes}; expected one number per {unit}, shape ({n_units},), or a tuple "
            "of numerators and denominators"
        )
    both = np.stack(arrays).astype(np.float64, copy=False)
    largest = float(np.finfo(np.float32).max)  # terms of rows are stored as float32
    if n_units and not (both.max() <= largest and both.min() >= -largest):  # NaN fails both
        wrong = np.flatnonzero(~(np.abs(both) <= largest).all(axis=0))
        raise InputError(f"metric {metric.name!r} returned a value that is not finite for {unit} {wrong[0]}")
    return both


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
