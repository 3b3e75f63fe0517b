"""Laying out X for the solver and taking weights back: reordered features, shuffled rows, pruned weights."""

import numpy as np

from unmissed._jit import kernel


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
        norm = np.float64(0)
        first = filled
        full = ends[row] - begins[row] == n_features
        for at in range(begins[row], ends[row]):
            value = values[at]
            place = new_name[indices[at]]
            target = first + place if full else filled
            new_indices[target] = place
            new_values[target] = value
            norm += np.float64(value) * np.float64(value)
            filled += 1
        new_indptr[row + 1] = filled
        norms[row] = norm


@kernel()
def keep(w, threshold, places, weights):
    """List the places and values of weights at least `threshold` in size and not zero; return how many.

    Returned as well: the sum of the squares of the others.
    """
    filled = 0
    dropped = 0.0
    for place in range(w.shape[0]):
        if abs(w[place]) >= threshold and w[place] != 0:
            places[filled] = place
            weights[filled] = w[place]
            filled += 1
        else:
            dropped += np.float64(w[place]) * np.float64(w[place])
    return filled, dropped


@kernel()
def by_feature(places, kept, label, filled, labels, weights):
    """Put one label's weights behind those of earlier labels; filled[place] is where that feature's list goes on."""
    for at in range(places.shape[0]):
        target = filled[places[at]]
        labels[target] = label
        weights[target] = kept[at]
        filled[places[at]] = target + 1
