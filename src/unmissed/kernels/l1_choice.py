"""The working set of one label of ProXML: the few features and rows that its problem is solved over.

At the optimum few features have a weight and few rows a loss. A pass over all rows finds what the set lacks; rows that
have none of the features and are not in the set are the crowd. Notation as in `l1_descent`.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.l1_pass import INSIDE, NOTHING

_FEATURES = 16  # that a working set takes in at least, where so many are wanted
_NEAR = 0.98  # features whose gradient comes to this share of lambda may enter
_ROWS = 64  # rows that a working set takes in at least, where so many are wanted
_FAR = 0.5  # negatives with so much room to spare leave the working set


@kernel()
def _largest(values, most):
    """Return a bound that about `most` of the values reach."""
    if values.shape[0] <= most:
        return -np.inf
    return np.partition(values, values.shape[0] - most)[values.shape[0] - most]


@kernel()
def choose_features(gradient, totals, lengths, over, seen, touched, features, w, name, threshold):
    """Return the next working set, features and weights: those that have a weight, and those that promise most.

    A feature promises by how much its gradient exceeds the threshold, measured by the length of its column: a frequent
    feature moves many rows. name[feature] is the place of a feature in the present working set, or -1.
    """
    n_known = totals.shape[0] if over > 0 else touched.shape[0]
    found = np.empty(n_known, np.int32)
    sizes = np.empty(n_known)
    n, kept = 0, 0
    for at in range(n_known):
        feature = at if over > 0 else touched[at]
        size = abs(gradient[feature]) if seen[feature] else over * abs(totals[feature])
        if size > _NEAR * threshold and (name[feature] < 0 or w[name[feature]] == 0):
            found[n] = feature
            sizes[n] = (size - threshold) / lengths[feature]
            n += 1
    for at in range(features.shape[0]):
        kept += w[at] != 0
    bound = _largest(sizes[:n], max(_FEATURES, 2 * kept))
    chosen = np.empty(kept + n, np.int32)
    weights = np.zeros(kept + n)
    filled = 0
    for at in range(features.shape[0]):
        if w[at] != 0:
            chosen[filled] = features[at]
            weights[filled] = w[at]
            filled += 1
    for at in range(n):
        if sizes[at] >= bound:
            chosen[filled] = found[at]
            filled += 1
    return chosen[:filled], weights[:filled]


@kernel()
def choose_rows(raw, mark, bias, rows):
    """Return the working set with the negatives that lose most added, and mark those."""
    found = np.empty(raw.shape[0], np.int32)
    over = np.empty(raw.shape[0])
    n = 0
    for row in range(raw.shape[0]):
        if mark[row] == 0 and abs(raw[row]) > NOTHING and 1.0 + bias + raw[row] > 0:
            found[n] = row
            over[n] = raw[row]
            n += 1
    least = _largest(over[:n], max(_ROWS, rows.shape[0] // 2))
    filled = 0
    for at in range(n):
        if over[at] >= least:
            mark[found[at]] = INSIDE
            found[filled] = found[at]
            filled += 1
    return np.concatenate((rows, found[:filled]))


@kernel()
def take_touched(columns, features, mark, rows):
    """Return the working set with all negatives that have one of the features, and mark those.

    While the crowd loses, its rows pull at the features they have: only rows that have none may stay in it.
    """
    starts, column_rows, _ = columns
    found = np.empty(mark.shape[0], np.int32)
    n = 0
    for at in range(features.shape[0]):
        for place in range(starts[features[at]], starts[features[at] + 1]):
            if mark[column_rows[place]] == 0:
                mark[column_rows[place]] = INSIDE
                found[n] = column_rows[place]
                n += 1
    return np.concatenate((rows, found[:n]))


@kernel()
def forget_rows(raw, mark, bias, rows, n_positives):
    """Return the working set without the negatives that are far from losing."""
    kept = np.empty(rows.shape[0], np.int32)
    kept[:n_positives] = rows[:n_positives]
    n = n_positives
    for at in range(n_positives, rows.shape[0]):
        if 1.0 + bias + raw[rows[at]] > -_FAR:
            kept[n] = rows[at]
            n += 1
        else:
            mark[rows[at]] = 0
    return kept[:n]


@kernel()
def _columns_by_row(X, rows, n_features, name, scale):
    """Return the entries of some rows in some features (those with name >= 0), by feature, reading the rows."""
    indptr, indices, values = X
    starts = np.zeros(n_features + 1, np.int64)
    for at in range(rows.shape[0]):
        for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = name[indices[place]]
            if feature >= 0:
                starts[feature + 1] += 1
    for feature in range(n_features):
        starts[feature + 1] += starts[feature]
    filled = starts[:-1].copy()
    places = np.empty(starts[n_features], np.uint32)
    entries = np.empty(starts[n_features], np.float32)
    for at in range(rows.shape[0]):
        for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = name[indices[place]]
            if feature >= 0:
                places[filled[feature]] = at
                entries[filled[feature]] = scale[at] * values[place]
                filled[feature] += 1
    return starts, places, entries


@kernel()
def _columns_by_column(columns, rows, features, size, place_of, scale):
    """Return the same, reading the columns of the features; place_of is -1 for every row, and left so."""
    begins, column_rows, values = columns
    for at in range(rows.shape[0]):
        place_of[rows[at]] = at
    starts = np.zeros(features.shape[0] + 1, np.int64)
    places, entries = np.empty(size, np.uint32), np.empty(size, np.float32)
    filled = 0
    for at in range(features.shape[0]):
        for place in range(np.uint64(begins[features[at]]), np.uint64(begins[features[at] + 1])):
            row = place_of[np.uint32(column_rows[place])]
            if row >= 0:
                places[filled] = row
                entries[filled] = scale[np.uint32(row)] * values[place]
                filled += 1
        starts[at + 1] = filled
    for at in range(rows.shape[0]):
        place_of[rows[at]] = -1
    return starts, places[:filled], entries[:filled]


@kernel()
def local_columns(X, columns, rows, features, name, place_of, scale):
    """Return the entries of the working set, each times the scale of its row, by feature: starts, places, values.

    Few features are read by column, many features of few rows by row, which takes two passes.
    """
    by_row, by_column = 0, 0
    for at in range(rows.shape[0]):
        by_row += 2 * (X[0][rows[at] + 1] - X[0][rows[at]])
    for at in range(features.shape[0]):
        by_column += columns[0][features[at] + 1] - columns[0][features[at]]
    if by_row < by_column:
        return _columns_by_row(X, rows, features.shape[0], name, scale)
    return _columns_by_column(columns, rows, features, by_column, place_of, scale)


@kernel()
def scale_rows(n_rows, n_positives, c_positive, c_negative):
    """Return z sqrt(c) of the rows of a working set, positives first."""
    scale = np.full(n_rows, -np.sqrt(c_negative))
    scale[:n_positives] = np.sqrt(c_positive)
    return scale


@kernel()
def set_out(scale, rows, raw, bias):
    """Return the slack of the rows of a working set, times the root of their cost, from their scores without the bias.

    Entries of the working set are rounded. Slack that was summed up from them would be off by as much at each start,
    and a working set could come to rest where its optimum is, not the label's.
    """
    slack = np.empty(rows.shape[0])
    for at in range(rows.shape[0]):
        slack[at] = abs(scale[at]) - scale[at] * (bias + raw[rows[at]])
    return slack


@kernel()
def count_crowd(raw, mark):
    """Return how many negatives outside the working set score b."""
    n = 0
    for row in range(raw.shape[0]):
        n += mark[row] == 0 and abs(raw[row]) <= NOTHING
    return n
