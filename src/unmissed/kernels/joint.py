"""PD-Sparse: one max-margin problem over all labels, solved in the dual, row by row.

min over W of sum_k (1/2 |w_k|^2 + lambda |w_k|_1) + C sum_i max(0, max over negatives n and positives p of 1 + s_n -
s_p) with s = W x_i. Row i has dual variables a_ik >= 0 for its positives and for its active negatives; both kinds have
the same sum t_i, at most C. With v_k = sum of a_ik x_i over rows whose positive k is, less the same over rows where k
is an active negative, w_k = S(v_k), every entry moved towards 0 by lambda; the dual objective is sum_i t_i - 1/2 sum_k
|S(v_k)|^2.

v is kept in a table of (label, feature) pairs, by open addressing: `slots` has the key, the label in its upper 32 bits
and the feature in its lower ones, and the bits of the value, seen as float64 through `v`. Neither labels x features nor
rows x labels is ever dense.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.sparse_hinge import shrink

EMPTY = -1
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FEATURE = (1 << 32) - 1  # the part of a key that is the feature
_NEWTON = 60


@kernel()
def _key_of(label, feature):
    """Return the key of a label and a feature."""
    return (np.int64(label) << 32) | np.int64(feature)


@kernel()
def _first_slot(key, shift):
    """Return the slot where the search for a key begins."""
    return np.int64((np.uint64(key) * _MIX) >> np.uint64(shift))


@kernel()
def _find_from(slots, key, place):
    """Return the slot that holds a key, or the empty one where it would go, from some slot on."""
    mask = slots.shape[0] - 1
    while slots[place, 0] != key and slots[place, 0] != EMPTY:
        place = (place + 1) & mask
    return place


@kernel()
def find_slot(slots, key, shift):
    """Return the slot that holds a key, or the empty one where it would go."""
    return _find_from(slots, key, _first_slot(key, shift))


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
def _gather_row(row, active, n_positives, alpha, found, labels, u):
    """List a row's active labels, positives first, then the negatives just found; return how many there are."""
    left, right = active[0][row], active[0][row + 1]
    n = right - left
    labels[:n] = active[1][left:right]
    u[:n] = alpha[left:right]
    if n_positives[row] == 0:
        return 0
    for at in range(found.shape[1]):
        if found[row, at] >= 0:
            labels[n] = found[row, at]
            u[n] = 0.0
            n += 1
    return n


@kernel()
def _score_active(x, labels, slots, v, shift, threshold, places, scores):
    """Make the scores of some labels for a row; places gets the slots of its features, label by label.

    All first slots are read before any is looked at: reads that wait for nothing wait for memory together.
    """
    indices, values = x
    size = indices.shape[0]
    there = np.empty(size, np.int64)
    for one in range(labels.shape[0]):
        mine = places[one * size : (one + 1) * size]
        for place in range(size):
            mine[place] = _first_slot(_key_of(labels[one], indices[place]), shift)
            there[place] = slots[mine[place], 0]
        score = 0.0
        for place in range(size):
            key = _key_of(labels[one], indices[place])
            if there[place] != key and there[place] != EMPTY:
                mine[place] = _find_from(slots, key, mine[place])
            if slots[mine[place], 0] == key:
                score += np.float64(values[place]) * shrink(v[mine[place], 1], threshold)
        scores[one] = score


@kernel()
def _add_row(x, label, change, slots, v, shift, places, room):
    """Add a multiple of a row to a label's v; return the room left in the table."""
    indices, values = x
    for place in range(indices.shape[0]):
        slot, key = places[place], _key_of(label, indices[place])
        if slots[slot, 0] != key:
            slot = find_slot(slots, key, shift)
            if slots[slot, 0] == EMPTY:
                slots[slot, 0] = key
                v[slot, 1] = 0.0
                room -= 1
        v[slot, 1] += change * np.float64(values[place])
    return room


@kernel()
def visit_rows(X, norms, order, begin, active, n_positives, alpha, fresh, C, threshold, slots, v, shift, room):
    """Solve for the dual variables of rows order[begin:], one row after the other.

    `active` is (starts, labels), positives of a row first, with their variables in `alpha`; `fresh` (labels, variables)
    are the negatives that a search has found for each row. Stops before a row that the table may have no room for;
    returns how far it came and how much room is left.
    """
    indptr, indices, values = X
    found, fresh_alpha = fresh
    most = 0
    for row in order[begin:]:
        most = max(most, found.shape[1] + active[0][row + 1] - active[0][row])
    labels, before, scores = np.empty(most, np.int64), np.empty(most), np.empty(most)
    places = np.empty(0, np.int64)
    for at in range(begin, order.shape[0]):
        row = order[at]
        n = _gather_row(row, active, n_positives, alpha, found, labels, before)
        size = indptr[row + 1] - indptr[row]
        if n == n_positives[row]:
            continue
        if norms[row] == 0:  # it scores 0 under any weights, so its variables cost nothing: one pair gets all of C
            first, last = active[0][row], active[0][row + 1]
            alpha[first] = C
            if first + n_positives[row] < last:
                alpha[first + n_positives[row]] = C
            else:
                fresh_alpha[row, 0] = C
            continue
        if size * n > room:
            return at, room
        if size * n > places.shape[0]:
            places = np.empty(2 * size * n, np.int64)
        x = indices[indptr[row] : indptr[row + 1]], values[indptr[row] : indptr[row + 1]]
        _score_active(x, labels[:n], slots, v, shift, threshold, places, scores)
        u = before[:n].copy()
        for one in range(n):
            u[one] += (-scores[one] if one < n_positives[row] else scores[one]) / norms[row]
        project_row(u, n_positives[row], norms[row], C)
        old = active[0][row + 1] - active[0][row]
        alpha[active[0][row] : active[0][row + 1]] = u[:old]
        fresh_alpha[row, : n - old] = u[old:]
        for one in range(n):
            change = u[one] - before[one] if one < n_positives[row] else before[one] - u[one]
            if change != 0:
                room = _add_row(x, labels[one], change, slots, v, shift, places[one * size : (one + 1) * size], room)
    return order.shape[0], room


@kernel()
def fill_table(X, active, n_positives, alpha, slots, v, shift, room):
    """Make v of the dual variables in an empty table; return the room left, or -1 if there was not enough."""
    indptr, indices, values = X
    starts, labels = active
    for row in range(indptr.shape[0] - 1):
        x = indices[indptr[row] : indptr[row + 1]], values[indptr[row] : indptr[row + 1]]
        places = np.zeros(x[0].shape[0], np.int64)
        for at in range(starts[row], starts[row + 1]):
            if alpha[at] == 0:
                continue
            if room < x[0].shape[0]:
                return -1
            change = alpha[at] if at < starts[row] + n_positives[row] else -alpha[at]
            room = _add_row(x, labels[at], change, slots, v, shift, places, room)
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
def collect_weights(slots, v, threshold, keys, weights):
    """Collect the non-zero weights and their keys, for which there is room for one too many; return how many."""
    filled = 0
    for place in range(slots.shape[0]):  # without branches, since which slots are empty cannot be foreseen
        weight = shrink(v[place, 1], threshold)
        keys[filled] = slots[place, 0]
        weights[filled] = weight
        filled += np.int64((slots[place, 0] != EMPTY) & (weight != 0))
    return filled


@kernel()
def list_weights(keys, weights, starts, labels, listed):
    """List collected weights by feature, in no order within one; return 1/2 the sum of their squares."""
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
    """Make the scores of all labels for a row; W is (starts, labels, weights) by feature."""
    indptr, indices, values = X
    scores[:] = 0
    for place in range(indptr[row], indptr[row + 1]):
        value = np.float64(values[place])
        for at in range(W[0][indices[place]], W[0][indices[place] + 1]):
            scores[W[1][at]] += value * np.float64(W[2][at])


@kernel()
def search_rows(X, rows, W, n_labels, Y, active, alpha, found, losses, gains):
    """Find, for some rows, their loss under W and the negatives outside their active sets that violate most.

    W is (starts, labels, weights) by feature; Y (indptr, indices). found (n_samples, most) gets labels, best first, -1
    where there are no more. C * losses[row] - gains[row] is a row's part in the duality gap. Each row looks through the
    labels from another one on: where many have the same score, as under weights of 0, not all rows take the same few.
    """
    scores = np.empty(n_labels)
    most = found.shape[1]
    best = np.empty(most)
    for row in rows:
        found[row] = -1
        losses[row], gains[row] = 0.0, 0.0
        if Y[0][row] == Y[0][row + 1]:
            continue
        _score_row(X, row, W, scores)
        for place in range(active[0][row], active[0][row + 1]):
            if place - active[0][row] < Y[0][row + 1] - Y[0][row]:
                gains[row] += alpha[place] * (1.0 - scores[active[1][place]])
            else:
                gains[row] += alpha[place] * scores[active[1][place]]
        least, top = np.inf, -np.inf
        for place in range(Y[0][row], Y[0][row + 1]):
            least = min(least, scores[Y[1][place]])
            scores[Y[1][place]] = -np.inf
        for label in range(n_labels):
            top = max(top, scores[label])
        losses[row] = max(0.0, 1.0 + top - least)
        for place in range(active[0][row], active[0][row + 1]):
            scores[active[1][place]] = -np.inf
        best[:] = least - 1.0
        first = np.int64((np.uint64(row) * _MIX) % np.uint64(n_labels))
        for step in range(n_labels):
            label = first + step if first + step < n_labels else first + step - n_labels
            if scores[label] > best[most - 1]:
                at = most - 1
                while at > 0 and scores[label] > best[at - 1]:
                    best[at] = best[at - 1]
                    found[row, at] = found[row, at - 1]
                    at -= 1
                best[at] = scores[label]
                found[row, at] = label


@kernel()
def precision_of_rows(X, begin, end, W, n_labels, Y):
    """Return, summed over rows begin to end, the share of true labels among as many labels of highest score."""
    scores = np.empty(n_labels)
    total = 0.0
    for row in range(begin, end):
        n = Y[0][row + 1] - Y[0][row]
        if n == 0:
            continue
        _score_row(X, row, W, scores)
        hits = 0
        for place in range(Y[0][row], Y[0][row + 1]):
            score = scores[Y[1][place]]
            ahead = 0  # negatives of the same score are ahead: weights of 0 deserve nothing
            for label in range(n_labels):
                ahead += scores[label] >= score
            for other in range(Y[0][row], Y[0][row + 1]):
                ahead -= scores[Y[1][other]] == score
            hits += ahead < n
        total += hits / n
    return total


@kernel()
def next_active(active, n_positives, alpha, fresh, new_starts, new_labels, new_alpha):
    """Make the next active sets: positives, and all negatives with a > 0, old or fresh; return their size."""
    starts, labels = active
    found, fresh_alpha = fresh
    filled = 0
    for row in range(n_positives.shape[0]):
        new_starts[row] = filled
        for at in range(starts[row], starts[row + 1]):
            if at < starts[row] + n_positives[row] or alpha[at] > 0:
                new_labels[filled] = labels[at]
                new_alpha[filled] = alpha[at]
                filled += 1
        for at in range(found.shape[1]):
            if found[row, at] >= 0 and fresh_alpha[row, at] > 0:
                new_labels[filled] = found[row, at]
                new_alpha[filled] = fresh_alpha[row, at]
                filled += 1
    new_starts[n_positives.shape[0]] = filled
    return filled
