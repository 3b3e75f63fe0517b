"""Compiled pass over a ranking and the true labels: the terms of each row and the counts of each label."""

from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed._jit import kernel

Array = npt.NDArray[Any]

# Columns of a row's terms at each cut-off; the last four only with inverse propensities.
PRECISION, NDCG, RECALL, PSP_GAIN, PSP_BEST, PSNDCG_GAIN, PSNDCG_BEST = range(7)
# Columns of a label's counts at each cut-off.
TRUE, LISTED, HIT, SCORED, BEST = range(5)
# Normalizations of a row's propensity-scored terms; metrics/conventions.py maps variants to them.
ROW_IDEAL, UNDIVIDED, ROW_RATIO, UNNORMALIZED, RAW = range(5)
_SHORT = 16  # number of true labels up to which linear search is faster than binary search


@kernel()
def find_true(label, indices, start, stop):
    """Return the position of `label` among the sorted true labels `indices[start:stop]`, or -1."""
    if stop - start <= _SHORT:
        for at in range(start, stop):
            if indices[at] == label:
                return at
        return -1
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low if low < stop and indices[low] == label else -1


@kernel()
def mark_hits(labels: Array, indptr: Array, indices: Array, hits: Array) -> None:
    """Fill `hits` (rows, depth) with whether each ranked label of `labels` is true; -1 is not."""
    for row in range(labels.shape[0]):
        for position in range(labels.shape[1]):
            label = labels[row, position]
            hits[row, position] = label >= 0 and find_true(label, indices, indptr[row], indptr[row + 1]) >= 0


@kernel()
def rerank_row(labels, scores, weights, depth, order):
    """Fill `order` with the re-ranked positions: selection sort of the first `depth` labels by weight.

    A label moves up only if its score is positive. The label that it overtakes may have any score.
    """
    for position in range(order.size):
        order[position] = position
    for position in range(depth):
        chosen = position
        for other in range(position + 1, depth):
            left, right = labels[order[chosen]], labels[order[other]]
            if right >= 0 and scores[order[other]] > 0 and weights[right] > weights[left]:
                chosen = other
        taken = order[chosen]
        for at in range(chosen, position, -1):  # the others keep their order
            order[at] = order[at - 1]
        order[position] = taken


@kernel()
def heaviest(indices, start, stop, weights, size, heavy_labels, heavy_weights):
    """Fill the `size` largest weights of the true labels, in decreasing order; return how many there are.

    `weights` are aligned with `indices`. Ties are in increasing order of labels.
    """
    for position in range(size):
        heavy_weights[position] = 0.0
    for at in range(start, stop):
        label, weight = indices[at], weights[at]
        if weight <= heavy_weights[size - 1]:
            continue
        for position in range(size):  # branch-free insertion
            held_label, held_weight = heavy_labels[position], heavy_weights[position]
            above = weight > held_weight
            heavy_labels[position] = label if above else held_label
            heavy_weights[position] = weight if above else held_weight
            label = held_label if above else label
            weight = held_weight if above else weight
    return min(size, stop - start)


@kernel()
def scale(gain, best, discounted_gain, discounted_best, ideal, full_ideal, k, scaling):
    """Return a row's numerators and denominators of PSP and PSnDCG at one cut-off, normalized by `scaling`."""
    if scaling == ROW_RATIO:
        psp = gain / best if best > 0 else 0.0
        psndcg = discounted_gain / discounted_best if discounted_best > 0 else 0.0
        return psp, 1.0, psndcg, 1.0
    if scaling == UNNORMALIZED:
        return gain, best, discounted_gain / full_ideal, 1.0
    if scaling == RAW:
        return gain / k, 1.0, discounted_gain / ideal if ideal > 0 else 0.0, 1.0
    if scaling == ROW_IDEAL and ideal > 0:
        return gain, best, discounted_gain / ideal, discounted_best / ideal
    return gain, best, discounted_gain, discounted_best


@kernel()
def put(terms, totals, row, cut, column, value):
    """Store one term of a row and add it to the sum over rows."""
    terms[row, cut, column] = value
    totals[cut, column] += value


@kernel()
def tally(
    labels: Array,
    scores: Array,
    indptr: Array,
    indices: Array,
    weights: Array,
    label_weights: Array,
    cuts: Array,
    scaling: int,
    terms: Array,
    totals: Array,
    counts: Array,
) -> None:
    """Compute each row's terms and their sums, and count how often each label is true, listed, hit, scored and best.

    `labels` (rows, depth) are the rankings, padded with -1. `cuts` are increasing and at most depth. `weights` are the
    inverse propensities of the true labels, aligned with `indices`, or empty. `scores` and `label_weights`, the inverse
    propensities of all labels, are empty unless the weighted terms use re-ranked lists.

    `terms` (rows, cuts, 7 or 3) is float32 because writing new memory is much of the cost. `totals` (cuts, 7 or 3) sums
    the unrounded terms in float64. `counts` (labels, cuts, 5) is int32, with the counts of a label adjacent. A label is
    counted at the first cut-off that includes its rank (true labels at the first cut-off): the cumulative sum over cuts
    gives the counts at each cut-off.
    """
    depth = labels.shape[1]
    deepest = cuts[-1]
    discounts = 1.0 / np.log2(np.arange(deepest) + 2.0)
    ideals = np.concatenate((np.zeros(1), np.cumsum(discounts)))
    found_at = np.zeros(depth, dtype=np.int64)
    order = np.arange(depth)
    heavy_labels = np.zeros(deepest, dtype=np.int32)
    heavy_weights = np.zeros(deepest)
    for row in range(labels.shape[0]):
        start, stop = indptr[row], indptr[row + 1]
        for at in range(start, stop):
            counts[indices[at], 0, TRUE] += 1
        for position in range(depth):
            label = labels[row, position]
            found_at[position] = find_true(label, indices, start, stop) if label >= 0 else -1
        found, gain, cut = 0, 0.0, 0
        for position in range(deepest):
            label = labels[row, position]
            if label >= 0:
                counts[label, cut, LISTED] += 1
            if found_at[position] >= 0:
                found += 1
                gain += discounts[position]
                counts[label, cut, HIT] += 1
            if position + 1 == cuts[cut]:
                ideal = ideals[min(position + 1, stop - start)]
                put(terms, totals, row, cut, PRECISION, found / cuts[cut])
                put(terms, totals, row, cut, NDCG, gain / ideal if ideal > 0 else 0.0)
                put(terms, totals, row, cut, RECALL, found / (stop - start) if stop > start else 0.0)
                cut += 1
        if terms.shape[2] <= PSP_GAIN:
            continue
        held = heaviest(indices, start, stop, weights, deepest, heavy_labels, heavy_weights)
        if scores.size > 0:
            rerank_row(labels[row], scores[row], label_weights, scores.shape[1], order)
        gain, most, discounted_gain, discounted_most, cut = 0.0, 0.0, 0.0, 0.0, 0
        for position in range(deepest):
            at = found_at[order[position]]
            if at >= 0:
                gain += weights[at]
                discounted_gain += weights[at] * discounts[position]
                counts[indices[at], cut, SCORED] += 1
            if position < held:
                most += heavy_weights[position]
                discounted_most += heavy_weights[position] * discounts[position]
                counts[heavy_labels[position], cut, BEST] += 1
            if position + 1 == cuts[cut]:
                ideal = ideals[min(position + 1, stop - start)]
                full = ideals[position + 1]
                four = scale(gain, most, discounted_gain, discounted_most, ideal, full, cuts[cut], scaling)
                put(terms, totals, row, cut, PSP_GAIN, four[0])
                put(terms, totals, row, cut, PSP_BEST, four[1])
                put(terms, totals, row, cut, PSNDCG_GAIN, four[2])
                put(terms, totals, row, cut, PSNDCG_BEST, four[3])
                cut += 1
