"""The metrics of this package. A class or an entry here is all that a new one needs."""

from __future__ import annotations

import numpy as np

from unmissed.metrics.hits import NDCG, PRECISION, PSNDCG_BEST, PSNDCG_GAIN, PSP_BEST, PSP_GAIN, RECALL
from unmissed.metrics.metric import (
    CompiledMetric,
    Counts,
    EvaluatedLabels,
    EvaluatedRows,
    LabelMetric,
    Metric,
    RowMetric,
    Values,
)


class ReciprocalRank(RowMetric):
    """Mean reciprocal rank: 1 over the rank of the first hit, 0 if none of the top k is a hit."""

    name = "MRR"
    title = "mean of 1/rank of the first hit"
    by_default = False

    def per_row(self, rows: EvaluatedRows) -> Values:
        """Return the reciprocal rank of each row's first hit."""
        ranks: Counts = rows.hits.argmax(axis=1) + 1
        return rows.hits.any(axis=1) / ranks


class SamplePrecision(RowMetric):
    """Mean over rows of hits/listed, with 0/0 = 0; an empty position of a row is not listed."""

    name = "sample precision"
    title = "mean of hits/listed over rows"
    by_default = False

    def per_row(self, rows: EvaluatedRows) -> Values:
        """Return the precision of each row."""
        hits: Counts = rows.hits.sum(axis=1)
        return hits / np.maximum(_listed(rows), 1)


class SampleF1(RowMetric):
    """Mean over rows of 2 hits/(listed + true), with 0/0 = 0; an empty position of a row is not listed."""

    name = "sample F1"
    title = "mean of 2 hits/(listed + true) over rows"
    by_default = False

    def per_row(self, rows: EvaluatedRows) -> Values:
        """Return the F1 of each row."""
        hits, both = _count_pairs(rows)
        return 2 * hits / np.maximum(both, 1)


class MicroPrecision(RowMetric):
    """Hits over listed labels, each summed over all rows."""

    name = "micro precision"
    title = "hits/listed of all rows together"
    by_default = False

    def per_row(self, rows: EvaluatedRows) -> Values:
        """Return the hits of each row, and its listed labels."""
        return rows.hits.sum(axis=1), _listed(rows)


class MicroRecall(RowMetric):
    """Hits over true labels, each summed over all rows."""

    name = "micro recall"
    title = "hits/true of all rows together"
    by_default = False

    def per_row(self, rows: EvaluatedRows) -> Values:
        """Return the hits of each row, and its true labels."""
        return rows.hits.sum(axis=1), rows.n_true


class MicroF1(RowMetric):
    """2 hits/(listed + true), each summed over all rows."""

    name = "micro F1"
    title = "2 hits/(listed + true) of all rows together"
    by_default = False

    def per_row(self, rows: EvaluatedRows) -> Values:
        """Return twice the hits of each row, and its listed plus its true labels."""
        hits, both = _count_pairs(rows)
        return 2 * hits, both


class Coverage(LabelMetric):
    """Fraction of the labels in Y that are correctly predicted for at least one row."""

    name = "coverage"
    title = "labels hit at least once, over labels true at least once"

    def per_label(self, labels: EvaluatedLabels) -> Values:
        """Return which labels are hit, and which are true."""
        return labels.hits > 0, labels.true > 0


class MacroPrecision(LabelMetric):
    """Mean over labels of hits/listed, with 0/0 = 0."""

    name = "macro precision"
    title = "mean of hits/listed over labels"

    def per_label(self, labels: EvaluatedLabels) -> Values:
        """Return the precision of each label."""
        return labels.hits / np.maximum(labels.listed, 1)


class MacroRecall(LabelMetric):
    """Mean over labels of hits/true, with 0/0 = 0."""

    name = "macro recall"
    title = "mean of hits/true over labels"

    def per_label(self, labels: EvaluatedLabels) -> Values:
        """Return the recall of each label."""
        return labels.hits / np.maximum(labels.true, 1)


class MacroF1(LabelMetric):
    """Mean over labels of 2 hits/(listed + true), with 0/0 = 0."""

    name = "macro F1"
    title = "mean of 2 hits/(listed + true) over labels"

    def per_label(self, labels: EvaluatedLabels) -> Values:
        """Return the F1 of each label."""
        both: Counts = labels.listed + labels.true
        return 2 * labels.hits / np.maximum(both, 1)


class WeightedMean(LabelMetric):
    """Mean of a metric over labels, weighted by the number of rows in which a label is true.

    Parameters
    ----------
    macro : the metric that has the value of each label
    """

    by_default = False

    def __init__(self, macro: LabelMetric) -> None:
        self._macro = macro
        self.name = macro.name.replace("macro", "weighted")
        self.title = f"{macro.title}, weighted by true rows"

    def per_label(self, labels: EvaluatedLabels) -> Values:
        """Return the weighted value of each label, and its weight."""
        return np.asarray(self._macro.per_label(labels)) * labels.true, labels.true


def _listed(rows: EvaluatedRows) -> Counts:
    """Return the number of listed labels of each row."""
    listed: Counts = (rows.labels >= 0).sum(axis=1)
    return listed


def _count_pairs(rows: EvaluatedRows) -> tuple[Counts, Counts]:
    """Return the hits of each row, and the number of its listed plus its true labels."""
    hits: Counts = rows.hits.sum(axis=1)
    return hits, _listed(rows) + rows.n_true


BUILTIN: tuple[Metric, ...] = (
    CompiledMetric("P", "precision: hits over k", PRECISION),
    CompiledMetric("nDCG", "normalized discounted cumulative gain", NDCG),
    CompiledMetric("PSP", "propensity-scored precision", PSP_GAIN, PSP_BEST, ("inverse_propensities",), reranked=True),
    CompiledMetric(
        "PSnDCG", "propensity-scored nDCG", PSNDCG_GAIN, PSNDCG_BEST, ("inverse_propensities",), reranked=True
    ),
    CompiledMetric("recall", "hits over true labels", RECALL),
    Coverage(),
    MacroPrecision(),
    MacroRecall(),
    MacroF1(),
    MicroF1(),
    SampleF1(),
    ReciprocalRank(),
    SamplePrecision(),
    MicroPrecision(),
    MicroRecall(),
    WeightedMean(MacroPrecision()),
    WeightedMean(MacroRecall()),
    WeightedMean(MacroF1()),
)
"""In the order in which tables show them."""
