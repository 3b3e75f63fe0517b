"""Compiled loops over columns of X: scores of sparse weight vectors without a pass over all non-zeros of X."""

import numpy as np

from unmissed._jit import kernel


@kernel()
def transpose(indptr, indices, values, starts, rows, entries):
    """Convert CSR to CSC with sorted rows; `starts` (n_features + 1), initially 0, becomes the column pointer."""
    for at in range(indices.shape[0]):
        starts[indices[at] + 1] += 1
    for column in range(1, starts.shape[0]):
        starts[column] += starts[column - 1]
    filled = starts[:-1].copy()
    for row in range(indptr.shape[0] - 1):
        for at in range(indptr[row], indptr[row + 1]):
            position = filled[indices[at]]
            rows[position] = row
            entries[position] = values[at]
            filled[indices[at]] = position + 1


@kernel()
def add_columns(starts, rows, entries, features, weights, scores):
    """Add `weights[j]` times column `features[j]` of X to the scores of all rows."""
    for at in range(features.shape[0]):
        weight = np.float64(weights[at])
        column = features[at]
        for position in range(np.uint64(starts[column]), np.uint64(starts[column + 1])):
            scores[np.uint32(rows[position])] += weight * np.float64(entries[position])


@kernel()
def column_size(starts, features):
    """Return the number of non-zeros in the columns of `features`."""
    size = 0
    for at in range(features.shape[0]):
        size += starts[features[at] + 1] - starts[features[at]]
    return size


@kernel()
def update_scores(columns, touched, dense, reference, raw, allowed):
    """Update `raw` from the scores of the weights `reference` to those of `dense`; skip columns of small effect.

    Columns with the smallest squared weight change per non-zero are skipped as long as the norm of the skipped changes
    is at most `allowed`. `reference` keeps its weights for them. Returns that norm and the non-zeros of these columns.
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
    n_skipped, squares, size = 0, 0.0, 0
    if allowed > 0:
        priority = np.empty(n)
        for at in range(n):
            priority[at] = change[at] * change[at] / (starts[features[at] + 1] - starts[features[at]])
        order = np.argsort(priority)
        features, change = features[order], change[order]
        while n_skipped < n and squares + change[n_skipped] ** 2 <= allowed * allowed:
            squares += change[n_skipped] ** 2
            size += starts[features[n_skipped] + 1] - starts[features[n_skipped]]
            n_skipped += 1
    add_columns(starts, rows, entries, features[n_skipped:], change[n_skipped:], raw)
    for at in range(n_skipped, n):
        reference[features[at]] = dense[features[at]]
    return np.sqrt(squares), size


@kernel()
def row_score(indptr, indices, values, row, dense):
    """Return w.x of one row in float64; `dense` is w."""
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
def append_features(indptr, indices, rows, seen, touched, n):
    """Append the features of `rows` that are not `seen` to `touched`, which has n entries; return the new n."""
    for at in range(rows.shape[0]):
        for position in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = indices[position]
            if not seen[feature]:
                seen[feature] = True
                touched[n] = feature
                n += 1
    return n
