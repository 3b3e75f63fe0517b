"""PD-Sparse: one max-margin problem over all labels, solved in the dual, row by row.

min over W of sum_k (1/2 |w_k|^2 + lambda |w_k|_1) + C sum_i max(0, max over negatives n and positives p of 1 + s_n -
s_p) with s = W x_i. Row i has dual variables a_ik >= 0 for its positives and for its active negatives; both kinds have
the same sum t_i, at most C. With v_k = sum of a_ik x_i over rows whose positive k is, less the same over rows where k
is an active negative, w_k = S(v_k), every entry moved towards 0 by lambda; the dual objective is sum_i t_i - 1/2 sum_k
|S(v_k)|^2.

v is kept in a table of (label, feature) pairs, by open addressing: `slots` has the key, label * n_features + feature,
and the bits of the value, seen as float64 through `v`. Neither labels x features nor rows x labels is ever dense.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.sparse_hinge import shrink

EMPTY = -1
_MIX = np.uint64(0x9E3779B97F4A7C15)
_NEWTON = 60


@kernel()
def find_slot(slots, key, shift):
    """Return the slot that holds a key, or the empty one where it would go."""
    mask = slots.shape[0] - 1
    place = np.int64((np.uint64(key) * _MIX) >> np.uint64(shift))
    while slots[place, 0] != key and slots[place, 0] != EMPTY:
        place = (place + 1) & mask
    return place


@kernel()
def _sum_above(u, begin, end, bound):
    """Return the sum of max(u - bound, 0) over a part of u, and how many of them are above 0."""
    total, n = 0.0, 0
    for at in range(begin, end):
        if u[at] > bound:
            total += u[at] - bound
            n += 1
    return total, n


@kernel()
def _bound_for(u, begin, end, total):
    """Return the bound whose max(u - bound, 0) sum to `total` > 0."""
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
def project_row(u, n_positives, bend, C):
    """Replace u, a row's unconstrained solution, by the nearest a >= 0 whose two kinds have the same sum in [0, C].

    The first n_positives entries are positives. Nearest in the sense of bend/2 |a - u|^2 - sum: a = max(u - bound, 0)
    with a bound for each kind; the two bounds add up to -1/bend unless the sum comes to C.
    """
    n = u.shape[0]
    high, low = -np.inf, np.inf
    for at in range(n_positives):
        high = max(high, u[at])
    for at in range(n_positives, n):
        low = min(low, -1.0 / bend - u[at])
    if not low < high:
        u[:] = 0
        return 0.0
    bound = 0.5 * (low + high)
    for _ in range(_NEWTON):
        above, n_above = _sum_above(u, 0, n_positives, bound)
        below, n_below = _sum_above(u, n_positives, n, -1.0 / bend - bound)
        off = above - below  # falls as the bound rises
        if abs(off) <= 1e-13 * (above + below):
            break
        if off > 0:
            low = bound
        else:
            high = bound
        bound += off / (n_above + n_below)
        if not low < bound < high:
            bound = 0.5 * (low + high)
    total = min(0.5 * (above + below), C)
    if not total > 0:
        u[:] = 0
        return 0.0
    first, second = _bound_for(u, 0, n_positives, total), _bound_for(u, n_positives, n, total)
    above, _ = _sum_above(u, 0, n_positives, first)
    below, _ = _sum_above(u, n_positives, n, second)
    if not min(above, below) > 0:  # so small a sum is lost in rounding
        u[:] = 0
        return 0.0
    for at in range(n_positives):
        u[at] = max(u[at] - first, 0.0) * (total / above)
    for at in range(n_positives, n):
        u[at] = max(u[at] - second, 0.0) * (total / below)
    return total


@kernel()
def visit_rows(X, norms, order, begin, active, n_positives, alpha, C, threshold, n_features, slots, v, shift, room):
    """Solve for the dual variables of rows order[begin:], one row after the other.

    `active` is (starts, labels), positives of a row first. Stops before a row that the table may have no room for;
    returns how far it came and how much room is left.
    """
    indptr, indices, values = X
    starts, labels = active
    places = np.empty(0, np.int64)
    for at in range(begin, order.shape[0]):
        row = order[at]
        left, right = starts[row], starts[row + 1]
        size = indptr[row + 1] - indptr[row]
        if right - left == n_positives[row] or n_positives[row] == 0 or size == 0:
            continue
        if size * (right - left) > room:
            return at, room
        if size * (right - left) > places.shape[0]:
            places = np.empty(2 * size * (right - left), np.int64)
        u = alpha[left:right].copy()
        for one in range(right - left):
            base = np.int64(labels[left + one]) * n_features
            score = 0.0
            for place in range(size):
                slot = find_slot(slots, base + indices[indptr[row] + place], shift)
                places[one * size + place] = slot
                if slots[slot, 0] != EMPTY:
                    score += np.float64(values[indptr[row] + place]) * shrink(v[slot, 1], threshold)
            u[one] += (-score if one < n_positives[row] else score) / norms[row]
        project_row(u, n_positives[row], norms[row], C)
        for one in range(right - left):
            change = u[one] - alpha[left + one]
            if change == 0:
                continue
            alpha[left + one] = u[one]
            if one >= n_positives[row]:
                change = -change
            base = np.int64(labels[left + one]) * n_features
            for place in range(size):
                slot = places[one * size + place]
                key = base + indices[indptr[row] + place]
                if slots[slot, 0] != key:
                    slot = find_slot(slots, key, shift)
                    if slots[slot, 0] == EMPTY:
                        slots[slot, 0] = key
                        v[slot, 1] = 0.0
                        room -= 1
                v[slot, 1] += change * np.float64(values[indptr[row] + place])
    return order.shape[0], room


@kernel()
def fill_table(X, active, n_positives, alpha, n_features, slots, v, shift, room):
    """Make v of the dual variables in an empty table; return the room left, or -1 if there was not enough."""
    indptr, indices, values = X
    starts, labels = active
    for row in range(indptr.shape[0] - 1):
        for at in range(starts[row], starts[row + 1]):
            if alpha[at] == 0:
                continue
            change = alpha[at] if at < starts[row] + n_positives[row] else -alpha[at]
            base = np.int64(labels[at]) * n_features
            if room < indptr[row + 1] - indptr[row]:
                return -1
            for place in range(indptr[row], indptr[row + 1]):
                slot = find_slot(slots, base + indices[place], shift)
                if slots[slot, 0] == EMPTY:
                    slots[slot, 0] = base + indices[place]
                    v[slot, 1] = 0.0
                    room -= 1
                v[slot, 1] += change * np.float64(values[place])
    return room


@kernel()
def grow_table(slots, v, new_slots, new_v, shift):
    """Move all entries to a larger, empty table."""
    for place in range(slots.shape[0]):
        if slots[place, 0] != EMPTY:
            slot = find_slot(new_slots, slots[place, 0], shift)
            new_slots[slot, 0] = slots[place, 0]
            new_v[slot, 1] = v[place, 1]


@kernel()
def count_weights(slots, v, threshold, n_features, starts):
    """Count the non-zero weights of each feature into starts[feature + 1]; return 1/2 sum of their squares."""
    half_square = 0.0
    for place in range(slots.shape[0]):
        if slots[place, 0] != EMPTY:
            weight = shrink(v[place, 1], threshold)
            if weight != 0:
                half_square += 0.5 * weight * weight
                starts[slots[place, 0] % n_features + 1] += 1
    return half_square


@kernel()
def list_weights(slots, v, threshold, n_features, starts, labels, weights):
    """List the non-zero weights by feature, in no order within one."""
    filled = starts[:-1].copy()
    for place in range(slots.shape[0]):
        if slots[place, 0] != EMPTY:
            weight = shrink(v[place, 1], threshold)
            if weight != 0:
                feature = slots[place, 0] % n_features
                labels[filled[feature]] = slots[place, 0] // n_features
                weights[filled[feature]] = weight
                filled[feature] += 1


@kernel()
def search_rows(X, begin, end, W, n_labels, Y, active, most, found, losses, right):
    """Find, for rows begin to end, their loss under W and the negatives outside their active sets that violate most.

    W is (starts, labels, weights) by feature; Y (indptr, indices). found (n_samples, most) gets labels, best first, -1
    where there are no more; right[i] tells whether a positive has the highest score.
    """
    indptr, indices, values = X
    scores = np.empty(n_labels)
    best = np.empty(most)
    for row in range(begin, end):
        found[row] = -1
        losses[row] = 0.0
        right[row] = False
        if Y[0][row] == Y[0][row + 1]:
            continue
        scores[:] = 0
        for place in range(indptr[row], indptr[row + 1]):
            value = np.float64(values[place])
            for at in range(W[0][indices[place]], W[0][indices[place] + 1]):
                scores[W[1][at]] += value * np.float64(W[2][at])
        least, highest = np.inf, -np.inf
        for place in range(Y[0][row], Y[0][row + 1]):
            least = min(least, scores[Y[1][place]])
            highest = max(highest, scores[Y[1][place]])
            scores[Y[1][place]] = -np.inf
        top = -np.inf
        for label in range(n_labels):
            top = max(top, scores[label])
        losses[row] = max(0.0, 1.0 + top - least)
        right[row] = highest > top
        for place in range(active[0][row], active[0][row + 1]):
            scores[active[1][place]] = -np.inf
        best[:] = least - 1.0
        for label in range(n_labels):
            if scores[label] > best[most - 1]:
                at = most - 1
                while at > 0 and scores[label] > best[at - 1]:
                    best[at] = best[at - 1]
                    found[row, at] = found[row, at - 1]
                    at -= 1
                best[at] = scores[label]
                found[row, at] = label


@kernel()
def next_active(active, n_positives, alpha, found, new_starts, new_labels, new_alpha):
    """Make the next active sets: positives, negatives with a > 0, and the negatives just found; return their size."""
    starts, labels = active
    filled = 0
    for row in range(n_positives.shape[0]):
        new_starts[row] = filled
        for at in range(starts[row], starts[row + 1]):
            if at < starts[row] + n_positives[row] or alpha[at] > 0:
                new_labels[filled] = labels[at]
                new_alpha[filled] = alpha[at]
                filled += 1
        for at in range(found.shape[1]):
            if found[row, at] >= 0:
                new_labels[filled] = found[row, at]
                new_alpha[filled] = 0.0
                filled += 1
    new_starts[n_positives.shape[0]] = filled
    return filled
