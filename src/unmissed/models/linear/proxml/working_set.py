"""The working set of one label of ProXML: the features and rows of a subproblem.

At the optimum few features have a non-zero weight and few rows a loss. A pass over all rows finds violated features and
rows, which enter the working set. Negatives outside of it with the score b are the bias-only rows, which contribute to
the subproblem through the bias only. Notation as in `coordinate_descent`.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.models.linear.proxml.full_pass import IN_WORKING_SET, ROUNDED_TO_ZERO

_MIN_FEATURES = 16  # minimum number of features that may enter per round
_NEAR = 0.98  # features enter if |gradient| exceeds this fraction of lambda
_MIN_ROWS = 64  # minimum number of rows that may enter per round
_FAR = 0.5  # negatives leave the working set if 1 + score is at most -_FAR


@kernel()
def _largest_values_bound(values, n_wanted):
    """Return a lower bound of the `n_wanted` largest values; -inf if there are no more values than that."""
    if values.shape[0] <= n_wanted:
        return -np.inf
    return np.partition(values, values.shape[0] - n_wanted)[values.shape[0] - n_wanted]


@kernel()
def choose_features(gradient, totals, lengths, bias_only_gradient, seen, touched, features, w, local_index, threshold):
    """Return the features and weights of the next working set: those of non-zero weight and the most violated ones.

    The priority of a feature is (|gradient| - threshold) / |column|, since a frequent feature changes many scores.
    local_index[feature] is the index of a feature in the present working set, or -1.
    """
    n_listed = totals.shape[0] if bias_only_gradient > 0 else touched.shape[0]
    candidates = np.empty(n_listed, np.int32)
    priorities = np.empty(n_listed)
    n, kept = 0, 0
    for at in range(n_listed):
        feature = at if bias_only_gradient > 0 else touched[at]
        size = abs(gradient[feature]) if seen[feature] else bias_only_gradient * abs(totals[feature])
        if size > _NEAR * threshold and (local_index[feature] < 0 or w[local_index[feature]] == 0):
            candidates[n] = feature
            priorities[n] = (size - threshold) / lengths[feature]
            n += 1
    for at in range(features.shape[0]):
        kept += w[at] != 0
    bound = _largest_values_bound(priorities[:n], max(_MIN_FEATURES, 2 * kept))
    chosen = np.empty(kept + n, np.int32)
    weights = np.zeros(kept + n)
    filled = 0
    for at in range(features.shape[0]):
        if w[at] != 0:
            chosen[filled] = features[at]
            weights[filled] = w[at]
            filled += 1
    for at in range(n):
        if priorities[at] >= bound:
            chosen[filled] = candidates[at]
            filled += 1
    return chosen[:filled], weights[:filled]


@kernel()
def choose_rows(raw, row_state, bias, rows):
    """Return the rows of the working set and the negatives of largest loss; set the row_state of the new rows."""
    new_rows = np.empty(raw.shape[0], np.int32)
    scores = np.empty(raw.shape[0])
    n = 0
    for row in range(raw.shape[0]):
        if row_state[row] == 0 and abs(raw[row]) > ROUNDED_TO_ZERO and 1.0 + bias + raw[row] > 0:
            new_rows[n] = row
            scores[n] = raw[row]
            n += 1
    min_score = _largest_values_bound(scores[:n], max(_MIN_ROWS, rows.shape[0] // 2))
    filled = 0
    for at in range(n):
        if scores[at] >= min_score:
            row_state[new_rows[at]] = IN_WORKING_SET
            new_rows[filled] = new_rows[at]
            filled += 1
    return np.concatenate((rows, new_rows[:filled]))


@kernel()
def add_rows_of_features(columns, features, row_state, rows):
    """Return the rows of the working set and all negatives that have one of the features; set their row_state.

    If bias-only rows have a loss, they contribute to the gradient of their features. Then only rows without any feature
    of the working set may be treated as bias-only.
    """
    starts, column_rows, _ = columns
    new_rows = np.empty(row_state.shape[0], np.int32)
    n = 0
    for at in range(features.shape[0]):
        for position in range(starts[features[at]], starts[features[at] + 1]):
            if row_state[column_rows[position]] == 0:
                row_state[column_rows[position]] = IN_WORKING_SET
                new_rows[n] = column_rows[position]
                n += 1
    return np.concatenate((rows, new_rows[:n]))


@kernel()
def drop_far_rows(raw, row_state, bias, rows, n_positives):
    """Return the rows of the working set without the negatives that are far from a loss."""
    kept = np.empty(rows.shape[0], np.int32)
    kept[:n_positives] = rows[:n_positives]
    n = n_positives
    for at in range(n_positives, rows.shape[0]):
        if 1.0 + bias + raw[rows[at]] > -_FAR:
            kept[n] = rows[at]
            n += 1
        else:
            row_state[rows[at]] = 0
    return kept[:n]


@kernel()
def _columns_by_row(X, rows, n_features, local_index, scale):
    """Return the scaled submatrix of some rows and the features with local_index >= 0 as CSC, read by row."""
    indptr, indices, values = X
    starts = np.zeros(n_features + 1, np.int64)
    for at in range(rows.shape[0]):
        for position in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = local_index[indices[position]]
            if feature >= 0:
                starts[feature + 1] += 1
    for feature in range(n_features):
        starts[feature + 1] += starts[feature]
    filled = starts[:-1].copy()
    positions = np.empty(starts[n_features], np.uint32)
    entries = np.empty(starts[n_features], np.float32)
    for at in range(rows.shape[0]):
        for position in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = local_index[indices[position]]
            if feature >= 0:
                positions[filled[feature]] = at
                entries[filled[feature]] = scale[at] * values[position]
                filled[feature] += 1
    return starts, positions, entries


@kernel()
def _columns_by_column(columns, rows, features, size, position_of, scale):
    """Return the same, read by column; `position_of` is -1 for each row and is reset to that."""
    begins, column_rows, values = columns
    for at in range(rows.shape[0]):
        position_of[rows[at]] = at
    starts = np.zeros(features.shape[0] + 1, np.int64)
    positions, entries = np.empty(size, np.uint32), np.empty(size, np.float32)
    filled = 0
    for at in range(features.shape[0]):
        for position in range(np.uint64(begins[features[at]]), np.uint64(begins[features[at] + 1])):
            row = position_of[np.uint32(column_rows[position])]
            if row >= 0:
                positions[filled] = row
                entries[filled] = scale[np.uint32(row)] * values[position]
                filled += 1
        starts[at + 1] = filled
    for at in range(rows.shape[0]):
        position_of[rows[at]] = -1
    return starts, positions[:filled], entries[:filled]


@kernel()
def local_columns(X, columns, rows, features, local_index, position_of, scale):
    """Return the submatrix of the working set, rows multiplied by `scale`, as CSC: starts, row positions, values.

    It is read by column or by row, whichever reads fewer entries; reading by row takes two passes.
    """
    by_row, by_column = 0, 0
    for at in range(rows.shape[0]):
        by_row += 2 * (X[0][rows[at] + 1] - X[0][rows[at]])
    for at in range(features.shape[0]):
        by_column += columns[0][features[at] + 1] - columns[0][features[at]]
    if by_row < by_column:
        return _columns_by_row(X, rows, features.shape[0], local_index, scale)
    return _columns_by_column(columns, rows, features, by_column, position_of, scale)


@kernel()
def scale_rows(n_rows, n_positives, c_positive, c_negative):
    """Return z sqrt(c) for the rows of a working set, positives first."""
    scale = np.full(n_rows, -np.sqrt(c_negative))
    scale[:n_positives] = np.sqrt(c_positive)
    return scale


@kernel()
def initial_slack(scale, rows, raw, bias):
    """Return sqrt(c) (1 - z (raw + b)) for the rows of a working set.

    It is computed from the float64 scores. The entries of the working set are rounded to float32; slack summed from
    them would have the same error in each round, and rounds could converge to a point that is not the label's optimum.
    """
    slack = np.empty(rows.shape[0])
    for at in range(rows.shape[0]):
        slack[at] = abs(scale[at]) - scale[at] * (bias + raw[rows[at]])
    return slack


@kernel()
def count_bias_only_rows(raw, row_state):
    """Return the number of negatives outside the working set whose score is b."""
    n = 0
    for row in range(raw.shape[0]):
        n += row_state[row] == 0 and abs(raw[row]) <= ROUNDED_TO_ZERO
    return n
