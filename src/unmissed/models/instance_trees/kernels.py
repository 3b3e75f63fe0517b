"""Kernels of training: split a node by nDCG and a linear separator, compute leaves, grow a subtree.

A node works on compact copies of its rows: labels are renumbered, and features that can have a nonzero weight become
columns. The workspace of a thread has the arrays with one entry per label or feature (`position`, `tally`, `cursor`,
`dense`). They are zeros previous and after each call.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.models.instance_trees.l1_logistic import fit_separator, next_seed
from unmissed.models.instance_trees.voting import goes_first
from unmissed.numerics.prefetch import prefetch_row

_ONE = np.float32(1)
_ZERO = np.float32(0)
_GAIN = 1e-6  # The alternation stops when the mean nDCG increases by less than this.
_MAX_INSERTION_SORT = 100  # Longer arrays are sorted by merge sort.
_SEED = np.uint64(0x9E3779B97F4A7C15)


@kernel()
def child_seed(seed, side):
    """Return the seed of a child; it depends only on the path from the root."""
    seed = next_seed(seed ^ (_SEED >> np.uint64(side)))
    for _ in range(4):
        seed = next_seed(seed)
    return seed if seed != np.uint64(0) else _SEED


@kernel()
def gather_labels(indptr, indices, rows, position):
    """Return the labels of the rows, renumbered: starts per row, numbers, and the label of each number.

    position is a workspace of zeros, one per label.
    """
    n_entries = 0
    for row in rows:
        n_entries += indptr[row + 1] - indptr[row]
    starts, numbers = np.empty(rows.shape[0] + 1, np.int64), np.empty(n_entries, np.uint32)
    distinct = np.empty(min(n_entries, position.shape[0]), np.int32)
    filled, n_distinct = 0, 0
    for at in range(rows.shape[0]):
        starts[at] = filled
        for entry in range(indptr[rows[at]], indptr[rows[at] + 1]):
            label = indices[entry]
            if position[label] == 0:
                distinct[n_distinct] = label
                n_distinct += 1
                position[label] = n_distinct
            numbers[filled] = position[label] - 1
            filled += 1
    starts[rows.shape[0]] = filled
    for number in range(n_distinct):
        position[distinct[number]] = 0
    return starts, numbers, distinct[:n_distinct]


@kernel()
def choose_sides(starts, numbers, gains, inverse_dcg, discounts, seed, side):
    """Choose sides of rows by nDCG: alternate between ranking the labels of each side and moving rows, until it stalls.

    gains has one entry per label number, inverse_dcg_i = 1 / (best DCG of row i). The result is side, 1 or -1 per row,
    from random initial sides. Returns the number of rows on side 1.
    """
    n_rows, n_labels = side.shape[0], gains.shape[0]
    sums, discounted_gains = np.empty((2, n_labels), np.float64), np.empty((n_labels, 2), np.float32)
    for row in range(n_rows):
        seed = next_seed(seed)
        side[row] = _ONE if seed & np.uint64(1 << 20) else -_ONE
    orders = np.empty((2, n_labels), np.int64)
    orders[:] = np.arange(n_labels)
    previous = -np.inf
    while True:
        sums[:] = 0.0
        for row in range(n_rows):
            side_sums = sums[0] if side[row] > _ZERO else sums[1]
            for at in range(starts[row], starts[row + 1]):
                side_sums[numbers[at]] -= inverse_dcg[row] * gains[numbers[at]]
        for child in range(2):
            sort_by_key(sums[child], orders[child])
            for rank in range(n_labels):
                label = orders[child, rank]
                discounted_gains[label, child] = gains[label] * discounts[rank]
        total, n_first = 0.0, 0
        for row in range(n_rows):
            first, second = _ZERO, _ZERO
            for at in range(starts[row], starts[row + 1]):
                first += discounted_gains[numbers[at], 0]
                second += discounted_gains[numbers[at], 1]
            if first != second:
                side[row] = _ONE if first > second else -_ONE
            total += inverse_dcg[row] * max(first, second)
            n_first += side[row] > _ZERO
        if total / n_rows - previous < _GAIN:
            return n_first
        previous = total / n_rows


@kernel()
def sort_by_key(keys, order):
    """Sort `order` by increasing key, ties by number; insertion sort is fast for almost sorted input."""
    if order.shape[0] > _MAX_INSERTION_SORT:
        order[:] = np.argsort(keys, kind="mergesort")
        return
    for at in range(1, order.shape[0]):
        number = order[at]
        key, position = keys[number], at
        while position > 0 and (
            keys[order[position - 1]] > key or (keys[order[position - 1]] == key and order[position - 1] > number)
        ):
            order[position] = order[position - 1]
            position -= 1
        order[position] = number


@kernel()
def gather_columns(indptr, indices, values, rows, side, cost, tally, cursor):
    """Return the features of the rows as sparse columns, the constant 1 last: starts, rows, values, features.

    Screening: a feature is left out if its optimal weight is certainly 0. Its derivative lies between the sum of the
    negative and the sum of the positive -c d x over its rows, and neither exceeds the penalty 1 in magnitude.
    """
    n_entries = 0
    for row in rows:
        n_entries += indptr[row + 1] - indptr[row]
    touched, n_touched = np.empty(min(n_entries, cursor.shape[0]) + 1, np.uint32), 0
    for at in range(rows.shape[0]):
        if at + 2 < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + 2])
        weight = cost[at] * side[at]
        for entry in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = indices[entry]
            touched[n_touched] = feature  # branch-free, because the branch is unpredictable
            n_touched += cursor[feature] == 0
            cursor[feature] += 1
            term = weight * values[entry]
            tally[feature, np.uint32(term > _ZERO)] += abs(term)
    n_kept, filled, last = 0, 0, n_entries
    starts, features = np.empty(n_touched + 2, np.int64), np.empty(n_touched, np.int32)
    for at in range(n_touched):
        feature = touched[at]
        count = cursor[feature]
        if max(tally[feature, 0], tally[feature, 1]) > _ONE:
            starts[n_kept], features[n_kept], cursor[feature] = filled, feature, filled
            filled += count
            n_kept += 1
        else:
            last -= count
            cursor[feature] = last + rows.shape[0]  # screened features are stored behind the others
        tally[feature, 0], tally[feature, 1] = _ZERO, _ZERO
    column_rows = np.empty(n_entries + rows.shape[0], np.uint32)
    column_values = np.empty(n_entries + rows.shape[0], np.float32)
    for at in range(rows.shape[0]):
        for entry in range(indptr[rows[at]], indptr[rows[at] + 1]):
            target = cursor[indices[entry]]
            column_rows[target], column_values[target] = at, values[entry]
            cursor[indices[entry]] = target + 1
        column_rows[filled + at], column_values[filled + at] = at, _ONE
    for at in range(n_touched):
        cursor[touched[at]] = 0
    starts[n_kept], starts[n_kept + 1] = filled, filled + rows.shape[0]
    return starts[: n_kept + 2], column_rows, column_values, features[:n_kept]


# 14 arguments: X and Y are five arrays, the ranking loss needs three more.
@kernel()
def split(
    x_indptr, x_indices, x_values, y_indptr, y_indices, gains, inverse_dcg, discounts,
    rows, seed, C, steps, tol, workspace,
):  # fmt: skip
    """Split a node by a linear separator of the sides that nDCG chose; one child may be empty.

    Rows of the first child are moved to the front of `rows`. Returns their number and the separator: features, their
    weights, and the constant.
    """
    position, tally, cursor, dense = workspace
    n_rows = rows.shape[0]
    side, cost = np.empty(n_rows, np.float32), np.empty(n_rows, np.float32)
    starts, numbers, distinct = gather_labels(y_indptr, y_indices, rows, position)
    n_first = 0
    if numbers.shape[0] < n_rows * distinct.shape[0]:  # otherwise all rows have the same labels
        n_first = choose_sides(starts, numbers, gains[distinct], inverse_dcg[rows], discounts, seed, side)
    if n_first == 0 or n_first == n_rows:
        return 0, np.empty(0, np.int32), np.empty(0, np.float32), _ZERO
    for at in range(n_rows):
        cost[at] = np.float32(C * n_rows / (n_first if side[at] > _ZERO else n_rows - n_first))
    starts, column_rows, column_values, features = gather_columns(
        x_indptr, x_indices, x_values, rows, side, cost, tally, cursor
    )
    weights, score = np.empty(features.shape[0] + 1, np.float32), np.empty(n_rows, np.float32)
    fit_separator(starts, column_rows, column_values, side, cost, seed, steps, tol, weights, score)
    kept = np.flatnonzero(weights[:-1])
    kept = kept[np.argsort(features[kept])]
    features, constant, weights = features[kept], weights[-1], weights[kept]
    n_first = partition(x_indptr, x_indices, x_values, features.view(np.uint32), weights, constant, dense, rows)
    return n_first, features, weights, constant


@kernel()
def partition(indptr, indices, values, features, weights, constant, dense, rows):
    """Partition the rows stably, those of the first child first; return the size of the first part.

    Scores are computed again as in prediction. The scores of the solver have other rounding errors and may differ in
    sign near 0.
    """
    others, n_others, n_first = np.empty(rows.shape[0], rows.dtype), 0, 0
    for at in range(rows.shape[0]):
        row = rows[at]
        if at + 2 < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + 2])
        for entry in range(indptr[row], indptr[row + 1]):
            dense[indices[entry]] = values[entry]
        if goes_first(features, weights, 0, features.shape[0], constant, dense):
            rows[n_first] = row
            n_first += 1
        else:
            others[n_others] = row
            n_others += 1
        for entry in range(indptr[row], indptr[row + 1]):
            dense[indices[entry]] = _ZERO
    rows[n_first:] = others[:n_others]
    return n_first


@kernel()
def make_leaf(indptr, indices, gains, rows, max_labels, position):
    """Return the labels of largest mean gain over the rows, at most `max_labels`, best first, and their means."""
    _, numbers, distinct = gather_labels(indptr, indices, rows, position)
    sums = np.zeros(distinct.shape[0], np.int64)
    for number in numbers:
        sums[number] += 1
    means = (sums * gains[distinct] / rows.shape[0]).astype(np.float32)
    order = np.argsort(distinct)
    best = order[np.argsort(-means[order], kind="mergesort")][:max_labels]
    return distinct[best], means[best]


# 16 arguments: X and Y are five arrays, the ranking loss needs three more.
@kernel()
def grow(
    x_indptr, x_indices, x_values, y_indptr, y_indices, gains, inverse_dcg, discounts,
    rows, seed, max_leaf, max_labels, C, steps, tol, workspace,
):  # fmt: skip
    """Grow the subtree of a node, parents before children; `rows` is reordered by leaf.

    Returns children (n, 2), where ~l is leaf l; starts, features, weights and constants of the separators; and starts,
    labels, means and numbers of rows of the leaves.
    """
    n_entries = 0
    for row in rows:
        n_entries += y_indptr[row + 1] - y_indptr[row]
    max_nodes = max(rows.shape[0], 1)
    children, n_nodes = np.empty((max_nodes, 2), np.int32), 0
    starts, constants, filled = np.zeros(max_nodes + 1, np.int64), np.empty(max_nodes, np.float32), 0
    features, weights = np.empty(256, np.int32), np.empty(256, np.float32)
    leaf_starts, leaf_rows, n_leaves = np.zeros(max_nodes + 1, np.int64), np.empty(max_nodes, np.int32), 0
    labels, means, n_labels = np.empty(n_entries, np.int32), np.empty(n_entries, np.float32), 0
    stack = [(0, rows.shape[0], -1, 0, seed)]
    while len(stack):
        begin, end, parent, child, seed = stack.pop()
        n_first, node_features, node_weights, constant = 0, features[:0], weights[:0], _ZERO
        if end - begin > max_leaf:
            n_first, node_features, node_weights, constant = split(
                x_indptr, x_indices, x_values, y_indptr, y_indices, gains, inverse_dcg, discounts,
                rows[begin:end], seed, C, steps, tol, workspace,
            )  # fmt: skip
        node = n_nodes
        if n_first == 0 or n_first == end - begin:
            best, best_means = make_leaf(y_indptr, y_indices, gains, rows[begin:end], max_labels, workspace[0])
            labels[n_labels : n_labels + best.shape[0]] = best
            means[n_labels : n_labels + best.shape[0]] = best_means
            n_labels += best.shape[0]
            leaf_rows[n_leaves] = end - begin
            leaf_starts[n_leaves + 1] = n_labels
            node = ~n_leaves
            n_leaves += 1
        else:
            features, weights = append(features, node_features, filled), append(weights, node_weights, filled)
            filled += node_features.shape[0]
            constants[n_nodes] = constant
            starts[n_nodes + 1] = filled
            n_nodes += 1
            stack.append((begin + n_first, end, node, 1, child_seed(seed, 1)))
            stack.append((begin, begin + n_first, node, 0, child_seed(seed, 0)))
        if parent >= 0:
            children[parent, child] = node
    return (
        children[:n_nodes].copy(), starts[: n_nodes + 1].copy(), features[:filled].copy(), weights[:filled].copy(),
        constants[:n_nodes].copy(), leaf_starts[: n_leaves + 1].copy(), labels[:n_labels].copy(),
        means[:n_labels].copy(), leaf_rows[:n_leaves].copy(),
    )  # fmt: skip


@kernel()
def append(array, more, filled):
    """Append values after the first `filled` entries of an array; reallocate at twice the size if it is full."""
    needed = filled + more.shape[0]
    if needed > array.shape[0]:
        longer = np.empty(2 * needed, array.dtype)
        longer[:filled] = array[:filled]
        array = longer
    array[filled:needed] = more
    return array
