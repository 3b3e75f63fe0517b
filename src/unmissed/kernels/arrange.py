"""Laying out X for the solver and taking weights back: reordered features, shuffled rows, pruned weights."""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.exact import squared_length, total

_SIDE_BY_SIDE = 16  # weights that are looked at together


@kernel()
def count_features(indices, counts):
    """Count how many non-zeros each feature has."""
    for at in range(indices.shape[0]):
        counts[indices[at]] += 1


@kernel()
def count_rows(begins, ends, indices, counts, seen):
    """Count the non-zeros of each feature over some rows, list in `seen` the features found; return how many."""
    found = 0
    for row in range(begins.shape[0]):
        for at in range(begins[row], ends[row]):
            feature = indices[at]
            if counts[feature] == 0:
                seen[found] = feature
                found += 1
            counts[feature] += 1
    return found


@kernel()
def reorder(begins, ends, indices, values, new_name, n_features, new_indptr, new_indices, new_values, norms):
    """Copy rows, each from begins to ends, with renamed features; `norms` gets |x|^2 of each copied row.

    A row that has all features gets them in rising order, so that kernels may pass over its indices.
    """
    filled = 0
    new_indptr[0] = 0
    for row in range(begins.shape[0]):
        begin, end = begins[row], ends[row]
        features, entries = indices[begin:end], values[begin:end]
        last = filled + end - begin
        new_features, new_entries = new_indices[filled:last], new_values[filled:last]
        full = end - begin == n_features
        for at in range(features.shape[0]):
            place = new_name[np.uint64(features[at])]
            target = np.uint64(place) if full else np.uint64(at)
            new_features[target] = place
            new_entries[target] = entries[at]
        filled = last
        new_indptr[row + 1] = filled
        norms[row] = squared_length(new_entries)


@kernel()
def keep(w, threshold, places, weights):
    """List the places and values of weights at least `threshold` in size and not zero; return how many.

    Returned as well: the sum of the squares of the others.
    """
    filled = 0
    dropped = np.zeros(_SIDE_BY_SIDE)
    for begin in range(0, w.shape[0], _SIDE_BY_SIDE):
        some = w[begin : begin + _SIDE_BY_SIDE]
        n_large = np.int32(0)
        for at in range(some.shape[0]):
            weight = np.float64(some[at])
            is_large = abs(some[at]) >= threshold
            n_large += np.int32(is_large)
            dropped[at] += 0.0 if is_large else weight * weight
        if n_large == 0:  # mostly all of them are small
            continue
        for at in range(some.shape[0]):
            if abs(some[at]) >= threshold and some[at] != 0:
                places[filled] = begin + at
                weights[filled] = some[at]
                filled += 1
    return filled, total(dropped)


@kernel()
def by_feature(places, kept, label, filled, labels, weights):
    """Put one label's weights behind those of earlier labels; filled[place] is where that feature's list goes on."""
    for at in range(places.shape[0]):
        target = filled[places[at]]
        labels[target] = label
        weights[target] = kept[at]
        filled[places[at]] = target + 1
