"""Passes that read only what a sparse classifier touches: the columns of its non-zero weights, the rows of its loss."""

import numpy as np

from unmissed._jit import kernel


@kernel()
def transpose(indptr, indices, values, starts, rows, entries):
    """Lay out a CSR matrix by column, rows rising; `starts` (n_features + 1) holds zeros and gets the column ends."""
    for at in range(indices.shape[0]):
        starts[indices[at] + 1] += 1
    for column in range(1, starts.shape[0]):
        starts[column] += starts[column - 1]
    filled = starts[:-1].copy()
    for row in range(indptr.shape[0] - 1):
        for at in range(indptr[row], indptr[row + 1]):
            place = filled[indices[at]]
            rows[place] = row
            entries[place] = values[at]
            filled[indices[at]] = place + 1


@kernel()
def add_columns(starts, rows, entries, features, weights, scores):
    """Add weight times column to the scores of all rows for a list of features."""
    for at in range(features.shape[0]):
        weight = np.float64(weights[at])
        column = features[at]
        for place in range(np.uint64(starts[column]), np.uint64(starts[column + 1])):
            scores[np.uint32(rows[place])] += weight * np.float64(entries[place])


@kernel()
def column_size(starts, features):
    """Return how many entries the columns of these features have."""
    size = 0
    for at in range(features.shape[0]):
        size += starts[features[at] + 1] - starts[features[at]]
    return size


@kernel()
def catch_up(columns, touched, dense, reference, raw, allowed):
    """Bring `raw`, the scores under `reference`, to the weights `dense`, leaving out columns that matter little.

    Left out are columns that are long for what they change, while the length of all changes left out stays below
    `allowed`; returns that length and how many entries the columns left out have.
    """
    starts, rows, entries = columns
    n = 0
    features = np.empty(touched.shape[0], np.int32)
    for at in range(touched.shape[0]):
        if dense[touched[at]] != reference[touched[at]]:
            features[n] = touched[at]
            n += 1
    features = features[:n]
    change = np.empty(n)
    for at in range(n):
        change[at] = dense[features[at]] - reference[features[at]]
    left_out, squares, size = 0, 0.0, 0
    if allowed > 0:
        worth = np.empty(n)
        for at in range(n):
            worth[at] = change[at] * change[at] / (starts[features[at] + 1] - starts[features[at]])
        order = np.argsort(worth)
        features, change = features[order], change[order]
        while left_out < n and squares + change[left_out] ** 2 <= allowed * allowed:
            squares += change[left_out] ** 2
            size += starts[features[left_out] + 1] - starts[features[left_out]]
            left_out += 1
    add_columns(starts, rows, entries, features[left_out:], change[left_out:], raw)
    for at in range(left_out, n):
        reference[features[at]] = dense[features[at]]
    return np.sqrt(squares), size


@kernel()
def row_score(indptr, indices, values, row, dense):
    """Return x.w in float64."""
    s0, s1 = 0.0, 0.0
    begin, end = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
    at = begin
    while at + np.uint64(1) < end:
        s0 += np.float64(values[at]) * dense[indices[at]]
        s1 += np.float64(values[at + np.uint64(1)]) * dense[indices[at + np.uint64(1)]]
        at += np.uint64(2)
    if at < end:
        s0 += np.float64(values[at]) * dense[indices[at]]
    return s0 + s1


@kernel()
def see_features(indptr, indices, rows, seen, touched, n):
    """Append the features of rows to the list of those that the working set touches; return how many there are."""
    for at in range(rows.shape[0]):
        for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = indices[place]
            if not seen[feature]:
                seen[feature] = True
                touched[n] = feature
                n += 1
    return n
