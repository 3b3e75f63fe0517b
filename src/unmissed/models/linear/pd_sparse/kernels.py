"""PD-Sparse: block coordinate ascent in the dual of one max-margin problem over all labels, one row per block.

The primal is min over W of sum_k (1/2 |w_k|^2 + lambda |w_k|_1) + C sum_i max(0, max over negatives n and positives p
of 1 + s_n - s_p) with s = W x_i.

Row i has dual variables a_ik >= 0 for its positives and for its active negatives. Both groups have the same sum t_i <=
C. v_k is the sum of a_ik x_i over rows with positive k, minus the same sum over rows with active negative k. The
weights are w_k = S(v_k), soft-thresholding by lambda. The dual objective is sum_i t_i - 1/2 sum_k |S(v_k)|^2.

v is stored in a hash table of (label, feature) pairs with open addressing. `slots` has two columns: the key, with the
label in the upper and the feature in the lower 32 bits, and the bits of the value; `v` is its float64 view. Neither
labels x features nor rows x labels is ever dense.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.shrinkage import shrink

EMPTY = -1
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FEATURE = (1 << 32) - 1  # mask of the feature in a key
_NEWTON = 60


@kernel()
def _key_of(label, feature):
    """Return the key of a label and a feature."""
    return (np.int64(label) << 32) | np.int64(feature)


@kernel()
def _first_slot(key, shift):
    """Return the first slot of a key's probe sequence (multiplicative hashing)."""
    return np.int64((np.uint64(key) * _MIX) >> np.uint64(shift))


@kernel()
def _find_from(slots, key, position):
    """Return the slot of a key, or the empty slot for it, by linear probing from `position`."""
    mask = slots.shape[0] - 1
    while slots[position, 0] != key and slots[position, 0] != EMPTY:
        position = (position + 1) & mask
    return position


@kernel()
def find_slot(slots, key, shift):
    """Return the slot of a key, or the empty slot for it."""
    return _find_from(slots, key, _first_slot(key, shift))


@kernel()
def _sum_above(u, begin, end, bound):
    """Return the sum of max(u - bound, 0) over u[begin:end], and the number of positive terms."""
    total, n = 0.0, 0
    for at in range(begin, end):
        if u[at] > bound:
            total += u[at] - bound
            n += 1
    return total, n


@kernel()
def _bound_for(u, begin, end, total):
    """Return the bound for which the sum of max(u - bound, 0) over u[begin:end] is `total` > 0."""
    top = u[begin]
    for at in range(begin, end):
        top = max(top, u[at])
    bound = top - total
    for _ in range(_NEWTON):
        reached, n = _sum_above(u, begin, end, bound)
        if reached <= total * (1 + 1e-12):
            break
        bound += (reached - total) / n
    return bound


@kernel()
def project_row(u, n_positives, curvature, C):
    """Replace u by its projection on the feasible set of a row; return the sum t.

    The projection minimizes curvature/2 |a - u|^2 - t over a >= 0 whose positives (the first n_positives entries) and
    negatives both have the sum t in [0, C]. It is a = max(u - bound, 0) with a bound per group; the two bounds add up
    to -1/curvature unless t = C.
    """
    n = u.shape[0]
    high, low = -np.inf, np.inf
    for at in range(n_positives):
        high = max(high, u[at])
    for at in range(n_positives, n):
        low = min(low, -1.0 / curvature - u[at])
    if not low < high:
        u[:] = 0
        return 0.0
    bound = 0.5 * (low + high)
    for _ in range(_NEWTON):
        above, n_above = _sum_above(u, 0, n_positives, bound)
        below, n_below = _sum_above(u, n_positives, n, -1.0 / curvature - bound)
        difference = above - below  # decreases in the bound
        if abs(difference) <= 1e-13 * (above + below):
            break
        if difference > 0:
            low = bound
        else:
            high = bound
        bound += difference / (n_above + n_below)
        if not low < bound < high:
            bound = 0.5 * (low + high)
    total = min(0.5 * (above + below), C)
    if not total > 0:
        u[:] = 0
        return 0.0
    first, second = _bound_for(u, 0, n_positives, total), _bound_for(u, n_positives, n, total)
    above, _ = _sum_above(u, 0, n_positives, first)
    below, _ = _sum_above(u, n_positives, n, second)
    if not min(above, below) > 0:  # the sum underflowed
        u[:] = 0
        return 0.0
    for at in range(n_positives):
        u[at] = max(u[at] - first, 0.0) * (total / above)
    for at in range(n_positives, n):
        u[at] = max(u[at] - second, 0.0) * (total / below)
    return total


@kernel()
def _gather_row(row, active, n_positives, alpha, entering_labels, labels, u):
    """List a row's active labels, positives first, then the entering negatives; return their number."""
    left, right = active[0][row], active[0][row + 1]
    n = right - left
    labels[:n] = active[1][left:right]
    u[:n] = alpha[left:right]
    if n_positives[row] == 0:
        return 0
    for at in range(entering_labels.shape[1]):
        if entering_labels[row, at] >= 0:
            labels[n] = entering_labels[row, at]
            u[n] = 0.0
            n += 1
    return n


@kernel()
def _score_active(x, labels, slots, v, shift, threshold, positions, scores):
    """Compute the scores of some labels for a row; `positions` gets the slots of its features, label by label.

    All first slots are loaded before any is compared, so that cache misses overlap.
    """
    indices, values = x
    size = indices.shape[0]
    first_keys = np.empty(size, np.int64)
    for one in range(labels.shape[0]):
        label_slots = positions[one * size : (one + 1) * size]
        for position in range(size):
            label_slots[position] = _first_slot(_key_of(labels[one], indices[position]), shift)
            first_keys[position] = slots[label_slots[position], 0]
        score = 0.0
        for position in range(size):
            key = _key_of(labels[one], indices[position])
            if first_keys[position] != key and first_keys[position] != EMPTY:
                label_slots[position] = _find_from(slots, key, label_slots[position])
            if slots[label_slots[position], 0] == key:
                score += np.float64(values[position]) * shrink(v[label_slots[position], 1], threshold)
        scores[one] = score


@kernel()
def _add_row(x, label, change, slots, v, shift, positions, n_free):
    """Add change * x to a label's v; return the number of free slots left."""
    indices, values = x
    for position in range(indices.shape[0]):
        slot, key = positions[position], _key_of(label, indices[position])
        if slots[slot, 0] != key:
            slot = find_slot(slots, key, shift)
            if slots[slot, 0] == EMPTY:
                slots[slot, 0] = key
                v[slot, 1] = 0.0
                n_free -= 1
        v[slot, 1] += change * np.float64(values[position])
    return n_free


# 14 arguments: the active labels of each row are four arrays, and the hashed weights are two.
@kernel()
def visit_rows(X, norms, order, begin, active, n_positives, alpha, entering, C, threshold, slots, v, shift, n_free):
    """Update the dual variables of the rows order[begin:], one row after the other.

    `active` is (starts, labels), positives of a row first, with their variables in `alpha`. `entering` is (labels,
    variables), the negatives that `search_rows` found for each row. Stops before a row that might overfill the table;
    returns the position reached and the number of free slots left.
    """
    indptr, indices, values = X
    entering_labels, entering_alpha = entering
    max_labels = 0
    for row in order[begin:]:
        max_labels = max(max_labels, entering_labels.shape[1] + active[0][row + 1] - active[0][row])
    labels, before, scores = np.empty(max_labels, np.int64), np.empty(max_labels), np.empty(max_labels)
    positions = np.empty(0, np.int64)
    for at in range(begin, order.shape[0]):
        row = order[at]
        n = _gather_row(row, active, n_positives, alpha, entering_labels, labels, before)
        size = indptr[row + 1] - indptr[row]
        if n == n_positives[row]:
            continue
        if norms[row] == 0:  # all its scores are 0, so the dual is linear in t: one pair of variables gets C
            first, last = active[0][row], active[0][row + 1]
            alpha[first] = C
            if first + n_positives[row] < last:
                alpha[first + n_positives[row]] = C
            else:
                entering_alpha[row, 0] = C
            continue
        if size * n > n_free:
            return at, n_free
        if size * n > positions.shape[0]:
            positions = np.empty(2 * size * n, np.int64)
        x = indices[indptr[row] : indptr[row + 1]], values[indptr[row] : indptr[row + 1]]
        _score_active(x, labels[:n], slots, v, shift, threshold, positions, scores)
        u = before[:n].copy()
        for one in range(n):
            u[one] += (-scores[one] if one < n_positives[row] else scores[one]) / norms[row]
        project_row(u, n_positives[row], norms[row], C)
        old = active[0][row + 1] - active[0][row]
        alpha[active[0][row] : active[0][row + 1]] = u[:old]
        entering_alpha[row, : n - old] = u[old:]
        for one in range(n):
            change = u[one] - before[one] if one < n_positives[row] else before[one] - u[one]
            if change != 0:
                n_free = _add_row(
                    x, labels[one], change, slots, v, shift, positions[one * size : (one + 1) * size], n_free
                )
    return order.shape[0], n_free


@kernel()
def fill_table(X, active, n_positives, alpha, slots, v, shift, n_free):
    """Compute v from the dual variables into an empty table; return the free slots left, or -1 if it is too small."""
    indptr, indices, values = X
    starts, labels = active
    for row in range(indptr.shape[0] - 1):
        x = indices[indptr[row] : indptr[row + 1]], values[indptr[row] : indptr[row + 1]]
        positions = np.zeros(x[0].shape[0], np.int64)
        for at in range(starts[row], starts[row + 1]):
            if alpha[at] == 0:
                continue
            if n_free < x[0].shape[0]:
                return -1
            change = alpha[at] if at < starts[row] + n_positives[row] else -alpha[at]
            n_free = _add_row(x, labels[at], change, slots, v, shift, positions, n_free)
    return n_free


@kernel()
def grow_table(slots, v, new_slots, new_v, shift):
    """Copy all entries to a larger, empty table."""
    for position in range(slots.shape[0]):
        if slots[position, 0] != EMPTY:
            slot = find_slot(new_slots, slots[position, 0], shift)
            new_slots[slot, 0] = slots[position, 0]
            new_v[slot, 1] = v[position, 1]


@kernel()
def collect_weights(slots, v, threshold, keys, weights):
    """Collect the non-zero weights and their keys, in arrays with one spare entry; return their number."""
    filled = 0
    for position in range(slots.shape[0]):  # branch-free, since empty slots are unpredictable
        weight = shrink(v[position, 1], threshold)
        keys[filled] = slots[position, 0]
        weights[filled] = weight
        filled += np.int64((slots[position, 0] != EMPTY) & (weight != 0))
    return filled


@kernel()
def list_weights(keys, weights, starts, labels, listed):
    """Sort collected weights by feature, unordered within a feature; return 1/2 the sum of their squares."""
    for at in range(keys.shape[0]):
        starts[(keys[at] & _FEATURE) + 1] += 1
    for feature in range(starts.shape[0] - 1):
        starts[feature + 1] += starts[feature]
    filled = starts[:-1].copy()
    half_square = 0.0
    for at in range(keys.shape[0]):
        feature = keys[at] & _FEATURE
        half_square += 0.5 * weights[at] * weights[at]
        labels[filled[feature]] = keys[at] >> 32
        listed[filled[feature]] = weights[at]
        filled[feature] += 1
    return half_square


@kernel()
def _score_row(X, row, W, scores):
    """Compute the scores of all labels for a row; W is (starts, labels, weights) by feature."""
    indptr, indices, values = X
    scores[:] = 0
    for position in range(indptr[row], indptr[row + 1]):
        value = np.float64(values[position])
        for at in range(W[0][indices[position]], W[0][indices[position] + 1]):
            scores[W[1][at]] += value * np.float64(W[2][at])


@kernel()
def search_rows(X, rows, W, n_labels, Y, active, alpha, entering_labels, losses, gains):
    """Compute the loss of rows under W and the most violating negatives outside their active sets.

    W is (starts, labels, weights) by feature, Y (indptr, indices). entering_labels (n_samples, n_wanted) gets labels by
    descending score, padded with -1. C * losses[row] - gains[row] is the row's term of the duality gap. Each row scans
    the labels from a different one, so that ties, as with zero weights, do not give all rows the same negatives.
    """
    scores = np.empty(n_labels)
    n_wanted = entering_labels.shape[1]
    best = np.empty(n_wanted)
    for row in rows:
        entering_labels[row] = -1
        losses[row], gains[row] = 0.0, 0.0
        if Y[0][row] == Y[0][row + 1]:
            continue
        _score_row(X, row, W, scores)
        for position in range(active[0][row], active[0][row + 1]):
            if position - active[0][row] < Y[0][row + 1] - Y[0][row]:
                gains[row] += alpha[position] * (1.0 - scores[active[1][position]])
            else:
                gains[row] += alpha[position] * scores[active[1][position]]
        lowest_positive, highest_negative = np.inf, -np.inf
        for position in range(Y[0][row], Y[0][row + 1]):
            lowest_positive = min(lowest_positive, scores[Y[1][position]])
            scores[Y[1][position]] = -np.inf
        for label in range(n_labels):
            highest_negative = max(highest_negative, scores[label])
        losses[row] = max(0.0, 1.0 + highest_negative - lowest_positive)
        for position in range(active[0][row], active[0][row + 1]):
            scores[active[1][position]] = -np.inf
        best[:] = lowest_positive - 1.0
        first = np.int64((np.uint64(row) * _MIX) % np.uint64(n_labels))
        for step in range(n_labels):
            label = first + step if first + step < n_labels else first + step - n_labels
            if scores[label] > best[n_wanted - 1]:
                at = n_wanted - 1
                while at > 0 and scores[label] > best[at - 1]:
                    best[at] = best[at - 1]
                    entering_labels[row, at] = entering_labels[row, at - 1]
                    at -= 1
                best[at] = scores[label]
                entering_labels[row, at] = label


@kernel()
def precision_of_rows(X, begin, end, W, n_labels, Y):
    """Return the sum over rows begin to end of the R-precision: precision at the row's number of labels."""
    scores = np.empty(n_labels)
    total = 0.0
    for row in range(begin, end):
        n = Y[0][row + 1] - Y[0][row]
        if n == 0:
            continue
        _score_row(X, row, W, scores)
        hits = 0
        for position in range(Y[0][row], Y[0][row + 1]):
            score = scores[Y[1][position]]
            ahead = 0  # negatives of the same score rank first: zero weights get no credit
            for label in range(n_labels):
                ahead += scores[label] >= score
            for other in range(Y[0][row], Y[0][row + 1]):
                ahead -= scores[Y[1][other]] == score
            hits += ahead < n
        total += hits / n
    return total


@kernel()
def next_active(active, n_positives, alpha, entering, new_starts, new_labels, new_alpha):
    """Build the next active sets, positives and all negatives with a > 0, old or entering; return their total size."""
    starts, labels = active
    entering_labels, entering_alpha = entering
    filled = 0
    for row in range(n_positives.shape[0]):
        new_starts[row] = filled
        for at in range(starts[row], starts[row + 1]):
            if at < starts[row] + n_positives[row] or alpha[at] > 0:
                new_labels[filled] = labels[at]
                new_alpha[filled] = alpha[at]
                filled += 1
        for at in range(entering_labels.shape[1]):
            if entering_labels[row, at] >= 0 and entering_alpha[row, at] > 0:
                new_labels[filled] = entering_labels[row, at]
                new_alpha[filled] = entering_alpha[row, at]
                filled += 1
    new_starts[n_positives.shape[0]] = filled
    return filled
