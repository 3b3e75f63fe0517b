"""Deciles: recall, precision and the part of PSP by label frequency in training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.metrics.evaluation import Evaluation
from unmissed.metrics.metric import Counts

UNSEEN = 0


@dataclass(frozen=True)
class Decile:
    """Results of a group of labels with similar training counts, at one cut-off.

    Parameters
    ----------
    decile : int
        From 1, the rarest tenth of the labels seen in training, to 10, the most frequent tenth; 0 for unseen labels.
    begin, end : float
        The fraction of the labels seen in training that are rarer than this group, and that fraction plus the group
        itself. Labels of equal count share a decile, so in a long tail a group can cover several tenths. Both are 0 for
        unseen labels.
    k : int
    n_labels : int
    fewest, most : int
        The smallest and the largest training count in the group.
    true, listed, hits : int
        The number of (row, label) pairs of the group in Y, in the top k, and in both.
    recall, precision : float
        hits/true and hits/listed over the group; NaN if the denominator is 0.
    psp_part : float or None
        The sum of 1/p over the group's hits, divided by the denominator of PSP@k over all labels. With the pyxclib
        variant, the parts of all groups add up to PSP@k.
    """

    decile: int
    begin: float
    end: float
    k: int
    n_labels: int
    fewest: int
    most: int
    true: int
    listed: int
    hits: int
    recall: float
    precision: float
    psp_part: float | None


def decile_of(train_counts: npt.ArrayLike) -> Counts:
    """Return each label's decile, 1 to 10, by its training count among the labels seen in training; 0 if unseen.

    A decile is a tenth of the *labels*, not of the label assignments. Labels of equal count share a decile, the one of
    their middle rank. In a long tail, deciles therefore differ in size and can be empty.
    """
    counts = np.asarray(train_counts)
    seen = np.sort(counts[counts > 0])
    if not seen.size:
        return np.zeros(counts.shape, dtype=np.int64)
    below = np.searchsorted(seen, counts, side="left")
    up_to = np.searchsorted(seen, counts, side="right")
    decile = 10 * (below + up_to) // (2 * seen.size) + 1  # the middle of equal counts
    return np.where(counts > 0, np.minimum(decile, 10), UNSEEN).astype(np.int64)


def by_decile(evaluation: Evaluation, k: int | None = None) -> list[Decile]:
    """Return the results of each non-empty decile, rarest first, at cut-off `k` (default: the largest)."""
    if evaluation.train_counts is None:
        raise InputError("results by decile need training counts; pass train_counts to evaluate")
    depth = evaluation.k[-1] if k is None else k
    if depth not in evaluation.k:
        raise InputError(f"k = {depth} was not evaluated; evaluated: {', '.join(map(str, evaluation.k))}")
    cut = evaluation.k.index(depth)
    decile = decile_of(evaluation.train_counts)
    return [_group(evaluation, cut, group, decile == group) for group in np.unique(decile).tolist()]


def _group(evaluation: Evaluation, cut: int, decile: int, members: npt.NDArray[np.bool_]) -> Decile:
    tally, counts, weights = evaluation.labels, evaluation.train_counts, evaluation.inverse_propensities
    assert counts is not None  # by_decile checks it
    true, listed, hits = (
        int(column[members].sum()) for column in (tally.true, tally.listed[:, cut], tally.hits[:, cut])
    )
    part = None
    if weights is not None:
        best = float(tally.best[:, cut] @ weights)
        part = float(tally.scored[members, cut] @ weights[members]) / best if best else float("nan")
    seen = counts[counts > 0]
    fewest, most = int(counts[members].min()), int(counts[members].max())
    return Decile(
        decile=decile,
        begin=float(np.mean(seen < fewest)) if decile else 0.0,
        end=float(np.mean(seen <= most)) if decile else 0.0,
        k=evaluation.k[cut],
        n_labels=int(members.sum()),
        fewest=fewest,
        most=most,
        true=true,
        listed=listed,
        hits=hits,
        recall=hits / true if true else float("nan"),
        precision=hits / listed if listed else float("nan"),
        psp_part=part,
    )
