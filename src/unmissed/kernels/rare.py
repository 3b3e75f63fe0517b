"""Rare features, kept out of the lanes: nearly all weights that a label has there are the traces of its negatives.

Lines of weights for all features would not stay in cache, and a rare feature's line is read a few times per pass. So
lanes have lines for frequent features alone. Of the weights of rare features only those above 0 are kept, in lists;
where no value of X is below 0, a label has such weights only for features of its positives. To leave out weights of 0
or less makes scores larger, never smaller: a row that is violated stays so.

Which rows have a rare feature is known by feature, so that what listed weights give to rows is found without a look at
the rows that get nothing.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.prefetch import prefetch
from unmissed.kernels.transpose import round_weight

_AHEAD = 8  # features whose rows are asked for before they are needed


@kernel()
def count_frequent(indptr, indices, n_frequent, starts, rare_starts):
    """Count the non-zeros of frequent features up to each row, and those of rare features up to each of these."""
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
def split_rows(indptr, indices, values, rounded, n_frequent, frequent, rare, squares):
    """Part rows, in whole numbers, into frequent features, row by row, and rare ones, feature by feature.

    `frequent` is (starts, features, numbers) and `rare` (starts, rows, numbers), starts as `count_frequent` has them.
    `squares` gets |x|^2 of the rare part of each row.
    """
    starts, features, numbers = frequent
    rare_starts, rare_rows, rare_numbers = rare
    filled = rare_starts[:-1].copy()
    for row in range(indptr.shape[0] - 1):
        to, square = starts[row], 0.0
        for at in range(indptr[row], indptr[row + 1]):
            if indices[at] < n_frequent:
                features[to], numbers[to] = indices[at], rounded[at]
                to += 1
            else:
                feature = indices[at] - n_frequent
                rare_rows[filled[feature]], rare_numbers[filled[feature]] = row, rounded[at]
                filled[feature] += 1
                square += np.float64(values[at]) * np.float64(values[at])
        squares[row] = square


@kernel()
def list_rare(indptr, indices, rows, starts, weights, n_frequent, steps):
    """List the weights above 0, in whole numbers, that lanes have for rare features of their positives.

    Lane l has the positives rows[starts[l]] to rows[starts[l + 1]]. Returns the features, and in CSR form the lanes and
    numbers of each.
    """
    n_rare = weights.shape[1] - n_frequent
    n_lanes = starts.shape[0] - 1 if n_rare > 0 else 0
    most = 0
    for lane in range(n_lanes):
        size = 0
        for at in range(starts[lane], starts[lane + 1]):
            size += indptr[rows[at] + 1] - indptr[rows[at]]
        most += min(size, n_rare)
    of_entry, lane_of, number_of = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    seen_by, counts = np.full(n_rare, -1, np.int32), np.zeros(n_rare, np.int64)
    n = 0
    for lane in range(n_lanes):
        factor = np.float32(1.0 / steps[lane]) if steps[lane] > 0 else np.float32(0)
        for at in range(starts[lane], starts[lane + 1]):
            for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
                feature = np.int64(indices[place]) - n_frequent
                if feature < 0 or seen_by[feature] == lane:
                    continue
                seen_by[feature] = lane
                number = round_weight(weights[lane, n_frequent + feature], factor)
                if number > 0:
                    of_entry[n], lane_of[n], number_of[n] = feature, lane, number
                    counts[feature] += 1
                    n += 1
    features = np.flatnonzero(counts)
    begins = np.zeros(features.shape[0] + 1, np.int64)
    for at in range(features.shape[0]):
        begins[at + 1] = begins[at] + counts[features[at]]
        counts[features[at]] = begins[at]  # where the feature's list goes on
    lanes, numbers = np.empty(n, np.int32), np.empty(n, np.int32)
    for at in range(n):
        to = counts[of_entry[at]]
        lanes[to], numbers[to] = lane_of[at], number_of[at]
        counts[of_entry[at]] = to + 1
    return features, begins, lanes, numbers


@kernel()
def _first_from(row, rows, begin, end):
    """Return the first place from `begin` to before `end`, rows rising, that has this row or a later one, or `end`."""
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
def give(first, last, rare, listed):
    """Return, in CSR form, the lanes to which listed weights give something in each row from `first` to before `last`.

    What they give is there in whole numbers; a lane may get something more than once.
    """
    starts, rows, row_numbers = rare
    features, begins, lanes, numbers = listed
    indptr = np.zeros(last - first + 2, np.int64)  # one more: rows are counted two places on, and filled one place on
    cuts = np.empty((features.shape[0], 2), np.int64)
    for one in range(features.shape[0]):
        if one + _AHEAD < features.shape[0]:
            prefetch(rows, starts[features[one + _AHEAD]])
        begin, end = starts[features[one]], starts[features[one] + 1]
        begin = _first_from(first, rows, begin, end)
        end = _first_from(last, rows, begin, end)
        cuts[one] = begin, end
        for place in range(begin, end):
            indptr[rows[place] - first + 2] += begins[one + 1] - begins[one]
    for row in range(2, indptr.shape[0]):
        indptr[row] += indptr[row - 1]
    given_lanes, given = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.int32)
    for one in range(features.shape[0]):
        if one + _AHEAD < features.shape[0]:
            prefetch(rows, cuts[one + _AHEAD, 0])
            prefetch(row_numbers, cuts[one + _AHEAD, 0])
        for place in range(cuts[one, 0], cuts[one, 1]):
            row, number = rows[place] - first + 1, np.int32(row_numbers[place])
            at = indptr[row]
            for entry in range(begins[one], begins[one + 1]):
                given_lanes[at], given[at] = lanes[entry], number * numbers[entry]
                at += 1
            indptr[row] = at
    return indptr[:-1], given_lanes, given
