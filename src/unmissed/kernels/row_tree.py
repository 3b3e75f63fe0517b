"""Growing a tree over rows: sides by nDCG, a separator per node, leaves of mean labels (FastXML and its relatives).

A node works on copies that are as large as its own rows: its labels renumbered, its features as columns of those
that can have a weight at all. What is as long as there are features or labels (`place`, `tally`, `cursor`, `dense`)
belongs to the thread and is left as it was found, all zeros.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.l1_logistic import next_seed, separate
from unmissed.kernels.prefetch import prefetch_row
from unmissed.kernels.row_forest import goes_first

_ONE = np.float32(1)
_ZERO = np.float32(0)
_GAIN = 1e-6  # sides are settled when the mean nDCG gains less than this
_MANY = 100  # from here on sorting from scratch is quicker than moving one by one
_SEED = np.uint64(0x9E3779B97F4A7C15)


@kernel()
def child_seed(seed, side):
    """Return the seed of a node's child, which depends on the way from the root alone."""
    seed = next_seed(seed ^ (_SEED >> np.uint64(side)))
    for _ in range(4):
        seed = next_seed(seed)
    return seed if seed != np.uint64(0) else _SEED


@kernel()
def gather_labels(indptr, indices, rows, place):
    """Return the labels of some rows, renumbered: starts per row, numbers, and the label behind each number."""
    n_entries = 0
    for row in rows:
        n_entries += indptr[row + 1] - indptr[row]
    starts, numbers = np.empty(rows.shape[0] + 1, np.int64), np.empty(n_entries, np.uint32)
    names = np.empty(min(n_entries, place.shape[0]), np.int32)
    filled, n_names = 0, 0
    for at in range(rows.shape[0]):
        starts[at] = filled
        for entry in range(indptr[rows[at]], indptr[rows[at] + 1]):
            label = indices[entry]
            if place[label] == 0:
                names[n_names] = label
                n_names += 1
                place[label] = n_names
            numbers[filled] = place[label] - 1
            filled += 1
    starts[rows.shape[0]] = filled
    for number in range(n_names):
        place[names[number]] = 0
    return starts, numbers, names[:n_names]


@kernel()
def choose_sides(starts, numbers, gains, ideal, discounts, seed, side):
    """Alternate between the sides' label orders and the rows' sides, from random sides, until nDCG gains no more.

    gains are per label number, ideal_i = 1 / (the best DCG of row i); side becomes 1 or -1. Returns the rows of side 1.
    """
    n_rows, n_labels = side.shape[0], gains.shape[0]
    sums, worth = np.empty((2, n_labels), np.float64), np.empty((n_labels, 2), np.float32)
    for row in range(n_rows):
        seed = next_seed(seed)
        side[row] = _ONE if seed & np.uint64(1 << 20) else -_ONE
    orders = np.empty((2, n_labels), np.int64)
    orders[:] = np.arange(n_labels)
    before = -np.inf
    while True:
        sums[:] = 0.0
        for row in range(n_rows):
            line = sums[0] if side[row] > _ZERO else sums[1]
            for at in range(starts[row], starts[row + 1]):
                line[numbers[at]] -= ideal[row] * gains[numbers[at]]
        for which in range(2):
            sort_by(sums[which], orders[which])
            for rank in range(n_labels):
                label = orders[which, rank]
                worth[label, which] = gains[label] * discounts[rank]
        total, n_first = 0.0, 0
        for row in range(n_rows):
            first, second = _ZERO, _ZERO
            for at in range(starts[row], starts[row + 1]):
                first += worth[numbers[at], 0]
                second += worth[numbers[at], 1]
            if first != second:
                side[row] = _ONE if first > second else -_ONE
            total += ideal[row] * max(first, second)
            n_first += side[row] > _ZERO
        if total / n_rows - before < _GAIN:
            return n_first
        before = total / n_rows


@kernel()
def sort_by(keys, order):
    """Put `order` into rising order of key, equal keys by number; little is done where little has changed."""
    if order.shape[0] > _MANY:
        order[:] = np.argsort(keys, kind="mergesort")
        return
    for at in range(1, order.shape[0]):
        number = order[at]
        key, place = keys[number], at
        while place > 0 and (
            keys[order[place - 1]] > key or (keys[order[place - 1]] == key and order[place - 1] > number)
        ):
            order[place] = order[place - 1]
            place -= 1
        order[place] = number


@kernel()
def gather_columns(indptr, indices, values, rows, side, cost, tally, cursor):
    """Return the features of some rows as columns, the constant 1 last: starts, rows, values, features.

    A feature is left out if its weight is 0 at the optimum whatever the others are: its slope lies between the sums of
    its rows' -c d x below and above 0, and neither reaches the penalty 1.
    """
    n_entries = 0
    for row in rows:
        n_entries += indptr[row + 1] - indptr[row]
    touched, n_touched = np.empty(min(n_entries, cursor.shape[0]) + 1, np.uint32), 0
    for at in range(rows.shape[0]):
        if at + 2 < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + 2])
        push = cost[at] * side[at]
        for entry in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = indices[entry]
            touched[n_touched] = feature  # without branches, which would be guessed wrong half the time
            n_touched += cursor[feature] == 0
            cursor[feature] += 1
            pushed = push * values[entry]
            tally[feature, np.uint32(pushed > _ZERO)] += abs(pushed)
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
            cursor[feature] = last + rows.shape[0]  # what is left out goes behind what is kept
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


@kernel()
def split(x_indptr, x_indices, x_values, y_indptr, y_indices, gains, ideal, discounts, rows, seed, C, steps, tol, desk):
    """Split a node by a separator of the sides that nDCG chose; one side may be empty.

    Returns how many rows go to the first child (they are moved to the front of `rows`), and the separator: features,
    their weights, and a constant.
    """
    place, tally, cursor, dense = desk
    n_rows = rows.shape[0]
    side, cost = np.empty(n_rows, np.float32), np.empty(n_rows, np.float32)
    starts, numbers, names = gather_labels(y_indptr, y_indices, rows, place)
    n_first = 0
    if numbers.shape[0] < n_rows * names.shape[0]:  # else all rows have the same labels: nothing to be told apart
        n_first = choose_sides(starts, numbers, gains[names], ideal[rows], discounts, seed, side)
    if n_first == 0 or n_first == n_rows:
        return 0, np.empty(0, np.int32), np.empty(0, np.float32), _ZERO
    for at in range(n_rows):
        cost[at] = np.float32(C * n_rows / (n_first if side[at] > _ZERO else n_rows - n_first))
    starts, column_rows, column_values, features = gather_columns(
        x_indptr, x_indices, x_values, rows, side, cost, tally, cursor
    )
    weights, score = np.empty(features.shape[0] + 1, np.float32), np.empty(n_rows, np.float32)
    separate(starts, column_rows, column_values, side, cost, seed, steps, tol, weights, score)
    kept = np.flatnonzero(weights[:-1])
    kept = kept[np.argsort(features[kept])]
    features, constant, weights = features[kept], weights[-1], weights[kept]
    n_first = partition(x_indptr, x_indices, x_values, features.view(np.uint32), weights, constant, dense, rows)
    return n_first, features, weights, constant


@kernel()
def partition(indptr, indices, values, features, weights, constant, dense, rows):
    """Move the rows that go to the first child to the front, both parts in their order; return how many they are.

    Scores are computed from the weights as prediction does. Those that the solver kept up to date have other rounding
    errors, and would send rows with scores near 0 elsewhere.
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
def average(indptr, indices, gains, rows, most, place):
    """Return a leaf: the labels of the largest mean gain over the rows, at most `most`, best first, and those means."""
    _, numbers, names = gather_labels(indptr, indices, rows, place)
    sums = np.zeros(names.shape[0], np.int64)
    for number in numbers:
        sums[number] += 1
    means = (sums * gains[names] / rows.shape[0]).astype(np.float32)
    order = np.argsort(names)
    best = order[np.argsort(-means[order], kind="mergesort")][:most]
    return names[best], means[best]


@kernel()
def grow(
    x_indptr, x_indices, x_values, y_indptr, y_indices, gains, ideal, discounts,
    rows, seed, max_leaf, most, C, steps, tol, desk,
):  # fmt: skip
    """Grow the tree below a node, children after their parents; `rows` end up in the order of the leaves.

    Returns children (n, 2), where ~l stands for leaf l; starts, features, weights and constants of the separators; and
    starts, labels, means and numbers of rows of the leaves.
    """
    n_entries = 0
    for row in rows:
        n_entries += y_indptr[row + 1] - y_indptr[row]
    most_nodes = max(rows.shape[0], 1)
    children, n_nodes = np.empty((most_nodes, 2), np.int32), 0
    starts, constants, filled = np.zeros(most_nodes + 1, np.int64), np.empty(most_nodes, np.float32), 0
    features, weights = np.empty(256, np.int32), np.empty(256, np.float32)
    leaf_starts, leaf_rows, n_leaves = np.zeros(most_nodes + 1, np.int64), np.empty(most_nodes, np.int32), 0
    labels, means, n_labels = np.empty(n_entries, np.int32), np.empty(n_entries, np.float32), 0
    todo = [(0, rows.shape[0], -1, 0, seed)]
    while len(todo):
        begin, end, parent, which, seed = todo.pop()
        n_first, some, their, constant = 0, features[:0], weights[:0], _ZERO
        if end - begin > max_leaf:
            n_first, some, their, constant = split(
                x_indptr, x_indices, x_values, y_indptr, y_indices, gains, ideal, discounts,
                rows[begin:end], seed, C, steps, tol, desk,
            )  # fmt: skip
        name = n_nodes
        if n_first == 0 or n_first == end - begin:
            best, means_of_best = average(y_indptr, y_indices, gains, rows[begin:end], most, desk[0])
            labels[n_labels : n_labels + best.shape[0]] = best
            means[n_labels : n_labels + best.shape[0]] = means_of_best
            n_labels += best.shape[0]
            leaf_rows[n_leaves] = end - begin
            leaf_starts[n_leaves + 1] = n_labels
            name = ~n_leaves
            n_leaves += 1
        else:
            features, weights = append(features, some, filled), append(weights, their, filled)
            filled += some.shape[0]
            constants[n_nodes] = constant
            starts[n_nodes + 1] = filled
            n_nodes += 1
            todo.append((begin + n_first, end, name, 1, child_seed(seed, 1)))
            todo.append((begin, begin + n_first, name, 0, child_seed(seed, 0)))
        if parent >= 0:
            children[parent, which] = name
    return (
        children[:n_nodes].copy(), starts[: n_nodes + 1].copy(), features[:filled].copy(), weights[:filled].copy(),
        constants[:n_nodes].copy(), leaf_starts[: n_leaves + 1].copy(), labels[:n_labels].copy(),
        means[:n_labels].copy(), leaf_rows[:n_leaves].copy(),
    )  # fmt: skip


@kernel()
def append(array, more, filled):
    """Put numbers behind the first `filled` of an array, or of one twice as long with the same beginning."""
    needed = filled + more.shape[0]
    if needed > array.shape[0]:
        longer = np.empty(2 * needed, array.dtype)
        longer[:filled] = array[:filled]
        array = longer
    array[filled:needed] = more
    return array
