"""Rare features, stored apart from the lines of frequent features.

Lines of all features would not fit in cache, and a rare feature's line is read only a few times per pass. Lanes thus
have lines for frequent features only. Nearly all weights of rare features come from negatives and are at most 0; only
those above 0 are kept, in lists. If X has no negative values, they belong to features of the label's positives.
Dropping weights of at most 0 can only raise scores, so a violated row stays violated.

Rare features are stored by feature (CSC), so their scores are computed without reading rows that have none.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.prefetch import prefetch
from unmissed.numerics.transpose import quantize_weight

_PREFETCH_DISTANCE = 8  # Prefetch distance, in features.


@kernel()
def count_frequent(indptr, indices, n_frequent, starts, rare_starts):
    """Compute the row starts of frequent features (CSR) and the feature starts of rare ones (CSC)."""
    starts[0] = 0
    rare_starts[:] = 0
    for row in range(indptr.shape[0] - 1):
        n = 0
        for at in range(indptr[row], indptr[row + 1]):
            if indices[at] < n_frequent:
                n += 1
            else:
                rare_starts[indices[at] - n_frequent + 1] += 1
        starts[row + 1] = starts[row] + n
    for feature in range(rare_starts.shape[0] - 1):
        rare_starts[feature + 1] += rare_starts[feature]


@kernel()
def split_rows(indptr, indices, values, quantized, n_frequent, frequent, rare, squares):
    """Split quantized rows into frequent features, by row, and rare features, by feature.

    `frequent` is (starts, features, numbers), `rare` is (starts, rows, numbers), with starts from `count_frequent`.
    `squares` gets |x|^2 of the rare features of each row.
    """
    starts, features, numbers = frequent
    rare_starts, rare_rows, rare_numbers = rare
    filled = rare_starts[:-1].copy()
    for row in range(indptr.shape[0] - 1):
        target, square = starts[row], 0.0
        for at in range(indptr[row], indptr[row + 1]):
            if indices[at] < n_frequent:
                features[target], numbers[target] = indices[at], quantized[at]
                target += 1
            else:
                feature = indices[at] - n_frequent
                rare_rows[filled[feature]], rare_numbers[filled[feature]] = row, quantized[at]
                filled[feature] += 1
                square += np.float64(values[at]) * np.float64(values[at])
        squares[row] = square


@kernel()
def list_rare_weights(indptr, indices, rows, starts, weights, n_frequent, steps):
    """Return the positive quantized weights of lanes for rare features of their positives.

    Lane l has the positives rows[starts[l]:starts[l + 1]]. Returns the features, and in CSR form the lanes and weights
    of each.
    """
    n_rare = weights.shape[1] - n_frequent
    n_lanes = starts.shape[0] - 1 if n_rare > 0 else 0
    capacity = 0
    for lane in range(n_lanes):
        size = 0
        for at in range(starts[lane], starts[lane + 1]):
            size += indptr[rows[at] + 1] - indptr[rows[at]]
        capacity += min(size, n_rare)
    of_entry, lane_of, number_of = (
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
    )
    seen_by, counts = np.full(n_rare, -1, np.int32), np.zeros(n_rare, np.int64)
    n = 0
    for lane in range(n_lanes):
        factor = np.float32(1.0 / steps[lane]) if steps[lane] > 0 else np.float32(0)
        for at in range(starts[lane], starts[lane + 1]):
            for position in range(indptr[rows[at]], indptr[rows[at] + 1]):
                feature = np.int64(indices[position]) - n_frequent
                if feature < 0 or seen_by[feature] == lane:
                    continue
                seen_by[feature] = lane
                number = quantize_weight(weights[lane, n_frequent + feature], factor)
                if number > 0:
                    of_entry[n], lane_of[n], number_of[n] = feature, lane, number
                    counts[feature] += 1
                    n += 1
    features = np.flatnonzero(counts)
    begins = np.zeros(features.shape[0] + 1, np.int64)
    for at in range(features.shape[0]):
        begins[at + 1] = begins[at] + counts[features[at]]
        counts[features[at]] = begins[at]  # end of the feature's list so far
    lanes, numbers = np.empty(n, np.int32), np.empty(n, np.int32)
    for at in range(n):
        target = counts[of_entry[at]]
        lanes[target], numbers[target] = lane_of[at], number_of[at]
        counts[of_entry[at]] = target + 1
    return features, begins, lanes, numbers


@kernel()
def _first_from(row, rows, begin, end):
    """Return the first index in begin:end whose row (sorted) is at least `row`, or `end`."""
    if begin == end or rows[begin] >= row:
        return begin
    if rows[end - 1] < row:
        return end
    while begin < end:
        middle = (begin + end) >> 1
        if rows[middle] < row:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel()
def score_rare_features(first, last, rare, rare_weights):
    """Return the scores of listed rare weights for the rows first:last, in CSR form (indptr, lanes, int32 products).

    A lane may occur more than once in a row.
    """
    starts, rows, row_numbers = rare
    features, begins, lanes, numbers = rare_weights
    indptr = np.zeros(
        last - first + 2, np.int64
    )  # shifted by two: counts of row r go to r + 2, and filling turns r + 1 into the end of row r
    cuts = np.empty((features.shape[0], 2), np.int64)
    for index in range(features.shape[0]):
        if index + _PREFETCH_DISTANCE < features.shape[0]:
            prefetch(rows, starts[features[index + _PREFETCH_DISTANCE]])
        begin, end = starts[features[index]], starts[features[index] + 1]
        begin = _first_from(first, rows, begin, end)
        end = _first_from(last, rows, begin, end)
        cuts[index] = begin, end
        for position in range(begin, end):
            indptr[rows[position] - first + 2] += begins[index + 1] - begins[index]
    for row in range(2, indptr.shape[0]):
        indptr[row] += indptr[row - 1]
    rare_lanes, rare_scores = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.int32)
    for index in range(features.shape[0]):
        if index + _PREFETCH_DISTANCE < features.shape[0]:
            prefetch(rows, cuts[index + _PREFETCH_DISTANCE, 0])
            prefetch(row_numbers, cuts[index + _PREFETCH_DISTANCE, 0])
        for position in range(cuts[index, 0], cuts[index, 1]):
            row, number = rows[position] - first + 1, np.int32(row_numbers[position])
            at = indptr[row]
            for entry in range(begins[index], begins[index + 1]):
                rare_lanes[at], rare_scores[at] = lanes[entry], number * numbers[entry]
                at += 1
            indptr[row] = at
    return indptr[:-1], rare_lanes, rare_scores
