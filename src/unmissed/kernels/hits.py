"""One pass over a ranking and the truth: what each row and each label adds to the ranking metrics."""

from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed._jit import kernel

Array = npt.NDArray[Any]

# The columns of a row's terms, once per cut-off; the last four only with inverse propensities.
PRECISION, NDCG, RECALL, PSP_GAIN, PSP_BEST, PSNDCG_GAIN, PSNDCG_BEST = range(7)
# The columns of a label's counts, once per cut-off.
TRUE, LISTED, HIT, SCORED, BEST = range(5)
# How a row's propensity-scored terms are scaled; metrics/conventions.py says which name is which.
ROW_IDEAL, UNDIVIDED, ROW_RATIO, UNNORMALISED, RAW = range(5)
_SHORT = 16  # true labels up to which looking at each is faster than halving


@kernel()
def is_true(label, indices, start, stop):
    """Tell whether `label` is among the rising true labels `indices[start:stop]`."""
    if stop - start <= _SHORT:
        for at in range(start, stop):  # noqa: SIM110, Numba has no generators in any()
            if indices[at] == label:
                return True
        return False
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low < stop and indices[low] == label


@kernel()
def rerank_row(labels, scores, weights, depth, order):
    """Fill `order` with the first `depth` places: at each, the heaviest label left whose score is above 0.

    The first label left stands unless a later one with a score above 0 weighs more, whatever its own score.
    """
    for place in range(order.size):
        order[place] = place
    for place in range(depth):
        chosen = place
        for other in range(place + 1, depth):
            left, right = labels[order[chosen]], labels[order[other]]
            if right >= 0 and scores[order[other]] > 0 and weights[right] > weights[left]:
                chosen = other
        taken = order[chosen]
        for at in range(chosen, place, -1):  # the others keep their order
            order[at] = order[at - 1]
        order[place] = taken


@kernel()
def heaviest(indices, start, stop, weights, size, heavy_labels, heavy_weights):
    """Keep the `size` largest weights of the true labels, falling, ties by label rising; return how many there are."""
    for place in range(size):
        heavy_weights[place] = 0.0
    for at in range(start, stop):
        label, weight = indices[at], weights[indices[at]]
        if weight <= heavy_weights[size - 1]:
            continue
        for place in range(size):  # choices in place of jumps: twice as fast as moving up until it fits
            held_label, held_weight = heavy_labels[place], heavy_weights[place]
            above = weight > held_weight
            heavy_labels[place] = label if above else held_label
            heavy_weights[place] = weight if above else held_weight
            label = held_label if above else label
            weight = held_weight if above else weight
    return min(size, stop - start)


@kernel()
def scale(gain, best, discounted_gain, discounted_best, ideal, full_ideal, k, scaling):
    """Return a row's numerators and denominators of PSP and PSnDCG at one cut-off, scaled as the convention says."""
    if scaling == ROW_RATIO:
        psp = gain / best if best > 0 else 0.0
        psndcg = discounted_gain / discounted_best if discounted_best > 0 else 0.0
        return psp, 1.0, psndcg, 1.0
    if scaling == UNNORMALISED:
        return gain, best, discounted_gain / full_ideal, 1.0
    if scaling == RAW:
        return gain / k, 1.0, discounted_gain / ideal if ideal > 0 else 0.0, 1.0
    if scaling == ROW_IDEAL and ideal > 0:
        return gain, best, discounted_gain / ideal, discounted_best / ideal
    return gain, best, discounted_gain, discounted_best


@kernel()
def put(terms, totals, row, cut, column, value):
    """Keep one of a row's terms and add it to the corpus's sum."""
    terms[row, cut, column] = value
    totals[cut, column] += value


@kernel()
def tally(
    labels: Array,
    scores: Array,
    indptr: Array,
    indices: Array,
    weights: Array,
    cuts: Array,
    scaling: int,
    terms: Array,
    totals: Array,
    counts: Array,
) -> None:
    """Write every row's terms and their sums, and count how often each label is true, listed, hit, scored and best.

    `labels` (rows, depth) are the rankings, -1 where a place is empty; `cuts` rise up to at most depth. `weights` are
    inverse propensities, or empty. `scores` are empty unless the first places are re-ranked for the weighted terms.
    `terms` is (rows, cuts, 7 or 3) in float32, because fresh memory is much of the cost; `totals` (cuts, 7 or 3) sums
    in float64 what was not yet rounded. `counts` (labels, cuts, 5) in int32 keeps what one label needs side by side; a
    label is counted at the first cut-off that reaches its place (true labels at the first), so that cumulative sums
    along cuts are counts at each cut-off.
    """
    depth = labels.shape[1]
    deepest = cuts[-1]
    discounts = 1.0 / np.log2(np.arange(deepest) + 2.0)
    ideals = np.concatenate((np.zeros(1), np.cumsum(discounts)))
    flags = np.zeros(depth, dtype=np.bool_)
    order = np.arange(depth)
    heavy_labels = np.zeros(deepest, dtype=np.int32)
    heavy_weights = np.zeros(deepest)
    for row in range(labels.shape[0]):
        start, stop = indptr[row], indptr[row + 1]
        for at in range(start, stop):
            counts[indices[at], 0, TRUE] += 1
        for place in range(depth):
            label = labels[row, place]
            flags[place] = label >= 0 and is_true(label, indices, start, stop)
        found, gain, cut = 0, 0.0, 0
        for place in range(deepest):
            label = labels[row, place]
            if label >= 0:
                counts[label, cut, LISTED] += 1
            if flags[place]:
                found += 1
                gain += discounts[place]
                counts[label, cut, HIT] += 1
            if place + 1 == cuts[cut]:
                ideal = ideals[min(place + 1, stop - start)]
                put(terms, totals, row, cut, PRECISION, found / cuts[cut])
                put(terms, totals, row, cut, NDCG, gain / ideal if ideal > 0 else 0.0)
                put(terms, totals, row, cut, RECALL, found / (stop - start) if stop > start else 0.0)
                cut += 1
        if weights.size == 0:
            continue
        held = heaviest(indices, start, stop, weights, deepest, heavy_labels, heavy_weights)
        if scores.size > 0:
            rerank_row(labels[row], scores[row], weights, scores.shape[1], order)
        gain, most, discounted_gain, discounted_most, cut = 0.0, 0.0, 0.0, 0.0, 0
        for place in range(deepest):
            if flags[order[place]]:
                label = labels[row, order[place]]
                gain += weights[label]
                discounted_gain += weights[label] * discounts[place]
                counts[label, cut, SCORED] += 1
            if place < held:
                most += heavy_weights[place]
                discounted_most += heavy_weights[place] * discounts[place]
                counts[heavy_labels[place], cut, BEST] += 1
            if place + 1 == cuts[cut]:
                ideal = ideals[min(place + 1, stop - start)]
                full = ideals[place + 1]
                four = scale(gain, most, discounted_gain, discounted_most, ideal, full, cuts[cut], scaling)
                put(terms, totals, row, cut, PSP_GAIN, four[0])
                put(terms, totals, row, cut, PSP_BEST, four[1])
                put(terms, totals, row, cut, PSNDCG_GAIN, four[2])
                put(terms, totals, row, cut, PSNDCG_BEST, four[3])
                cut += 1
