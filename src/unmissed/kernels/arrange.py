"""Laying out X for the solver and taking weights back: reordered features, shuffled rows, pruned weights."""

import numpy as np

from unmissed._jit import kernel


@kernel()
def count_features(indices, counts):
    """Count how many non-zeros each feature has."""
    for at in range(indices.shape[0]):
        counts[indices[at]] += 1


@kernel()
def reorder(indptr, indices, values, row_order, new_name, new_indptr, new_indices, new_values, norms):
    """Copy the rows in another order with renamed features; `norms` gets |x|^2 of each copied row."""
    filled = 0
    new_indptr[0] = 0
    for row in range(row_order.shape[0]):
        old = row_order[row]
        norm = np.float64(0)
        for at in range(indptr[old], indptr[old + 1]):
            value = values[at]
            new_indices[filled] = new_name[indices[at]]
            new_values[filled] = value
            norm += np.float64(value) * np.float64(value)
            filled += 1
        new_indptr[row + 1] = filled
        norms[row] = norm


@kernel()
def count_kept(W, threshold, counts):
    """Count the weights of each label that are at least `threshold` in size and not zero."""
    for label in range(W.shape[0]):
        kept = 0
        w = W[label]
        for at in range(w.shape[0]):
            if abs(w[at]) >= threshold and w[at] != 0:
                kept += 1
        counts[label] = kept


@kernel()
def keep(W, threshold, place, starts, features, weights):
    """List the kept weights of each label by the features' own names, rising; feature j stands at place[j]."""
    for label in range(W.shape[0]):
        w = W[label]
        filled = starts[label]
        for feature in range(place.shape[0]):
            weight = w[place[feature]]
            if abs(weight) >= threshold and weight != 0:
                features[filled] = feature
                weights[filled] = weight
                filled += 1
