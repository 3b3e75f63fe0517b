"""The classifiers of one tree node side by side: dual coordinate ascent over the node's rows, all of them in lanes.

A node has few rows and at most about a hundred classifiers, most of whose rows matter to several of them: visiting all
rows in lanes costs less than going on alone over working sets. Notation as in `lanes`. A tuple `lanes` of zeros tells
the compiler how many lanes there are; a lane without a classifier has the bias -2 and no positives, and never moves.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.prefetch import prefetch_row

_ONE = np.float32(1)
_ZERO = np.float32(0)
_SCATTER = 4  # up to this many lanes of a row are updated one by one, more of them all at once
_LARGEST = 32767  # of the whole numbers that weights are rounded to


@kernel()
def list_rows(labels, starts, rows, seen, out):
    """List, in any order, the rows that have one of the labels; return how many. `seen` holds 0 before and after."""
    filled = 0
    for label in labels:
        for at in range(starts[label], starts[label + 1]):
            row = rows[at]
            if seen[row] == 0:
                seen[row] = 1
                out[filled] = row
                filled += 1
    for at in range(filled):
        seen[out[at]] = 0
    return filled


@kernel()
def list_positives(rows, starts, labels, column_of_label, cost_of_label, n_columns, indptr, columns, costs):
    """List each row's positive columns and what they cost: as much as the dearest of the row's labels in the column.

    column_of_label is a label's column plus 1, or 0 for labels that are not below the node.
    """
    place = np.empty(n_columns, np.int64)
    filled = 0
    indptr[0] = 0
    for at in range(rows.shape[0]):
        begin = filled
        place[:] = -1
        for entry in range(starts[rows[at]], starts[rows[at] + 1]):
            label = labels[entry]
            column = np.int64(column_of_label[label]) - 1
            if column < 0:
                continue
            if place[column] < begin:
                place[column] = filled
                columns[filled] = column
                costs[filled] = cost_of_label[label]
                filled += 1
            else:
                costs[place[column]] = max(costs[place[column]], cost_of_label[label])
        indptr[at + 1] = filled
    return filled


@kernel()
def sweep(lanes, order, indptr, indices, values, norms, pos_indptr, pos_lanes, pos_h, h_negative, W, bias, a):
    """Visit rows in the given order, once for all lanes, each time with the best step of one dual variable per lane.

    Row i has the positive lanes pos_lanes[pos_indptr[i]:pos_indptr[i + 1]], each with its own h in pos_h. The weights W
    (n_features, lanes), `bias` (lanes) and the dual variables a (n_samples, lanes) are changed in place.
    """
    score = np.empty(len(lanes), np.float32)
    step = np.empty(len(lanes), np.float32)
    moved = np.empty(len(lanes), np.int64)
    for turn in range(order.shape[0]):
        row = order[turn]
        if turn + 1 < order.shape[0]:
            prefetch_row(indptr, indices, values, order[turn + 1])
        begin, end = indptr[row], indptr[row + 1]
        _scores(lanes, indices, values, begin, end, W, bias, score)
        norm, mine = norms[row], a[row]
        curvature = norm + h_negative
        for lane in range(len(lanes)):
            step[lane] = max((score[lane] + _ONE - mine[lane] * h_negative) / curvature, -mine[lane])
        for place in range(pos_indptr[row], pos_indptr[row + 1]):
            lane, h = pos_lanes[place], pos_h[place]
            step[lane] = max((_ONE - score[lane] - mine[lane] * h) / (norm + h), -mine[lane])
        n_moved = 0
        for lane in range(len(lanes)):
            if step[lane] != _ZERO:
                moved[n_moved] = lane
                n_moved += 1
        if n_moved == 0:
            continue
        for lane in range(len(lanes)):
            mine[lane] += step[lane]
            step[lane] = -step[lane]
        for place in range(pos_indptr[row], pos_indptr[row + 1]):
            step[pos_lanes[place]] = -step[pos_lanes[place]]
        for lane in range(len(lanes)):  # `step` is now the change of a z
            bias[lane] += step[lane]
        if n_moved <= _SCATTER and len(lanes) > _SCATTER:
            for place in range(n_moved):
                lane = moved[place]
                for at in range(begin, end):
                    W[indices[at], lane] += step[lane] * values[at]
        else:
            for at in range(begin, end):
                w = W[indices[at]]
                v = values[at]
                for lane in range(len(lanes)):
                    w[lane] += step[lane] * v


@kernel()
def dual_objective(lanes, pos_indptr, pos_lanes, pos_h, h_negative, W, bias, a, dual):
    """Set each lane's dual objective, the sum of a - h a^2/2 less |w|^2/2 + b^2/2, to about float32 precision.

    It tells when sweeps gain little. Certificates are made of the sums in `node_certificate`.
    """
    square = np.zeros(len(lanes), np.float32)
    for lane in range(len(lanes)):
        dual[lane] = np.float64(bias[lane]) * np.float64(bias[lane])
    for top in range(0, W.shape[0], 256):  # short sums in float32, their sum in float64
        square[:] = 0
        for at in range(top, min(top + 256, W.shape[0])):
            w = W[at]
            for lane in range(len(lanes)):
                square[lane] += w[lane] * w[lane]
        for lane in range(len(lanes)):
            dual[lane] += np.float64(square[lane])
    for lane in range(len(lanes)):
        dual[lane] *= -0.5
    half = np.float32(0.5) * h_negative
    for row in range(a.shape[0]):
        mine = a[row]
        for lane in range(len(lanes)):
            dual[lane] += np.float64(mine[lane] - half * mine[lane] * mine[lane])
        for place in range(pos_indptr[row], pos_indptr[row + 1]):
            lane = pos_lanes[place]
            extra = np.float64(pos_h[place]) - np.float64(h_negative)
            dual[lane] -= 0.5 * extra * np.float64(mine[lane]) * np.float64(mine[lane])


@kernel()
def round_weights(W, n_columns, by_number, prune, scales, features, counts, columns, weights):
    """Keep weights of at least `prune` in size as whole numbers times their column's scale, feature by feature.

    by_number lists the places of features in rising order of their numbers; features[j] gets such a place, counts[j]
    how many weights it has, less 1. Returns how many features and weights were kept.
    """
    for column in range(n_columns):
        scales[column] = _ZERO
    for at in range(W.shape[0]):
        for column in range(n_columns):
            scales[column] = max(scales[column], abs(W[at, column]))
    for column in range(n_columns):
        scales[column] = scales[column] / np.float32(_LARGEST)
    n_features, filled = 0, 0
    for at in by_number:
        begin = filled
        for column in range(n_columns):
            w = W[at, column]
            if abs(w) >= prune and w != _ZERO:
                rounded = np.rint(w / scales[column])
                if rounded != 0:
                    columns[filled] = column
                    weights[filled] = rounded
                    filled += 1
        if filled > begin:
            features[n_features] = at
            counts[n_features] = filled - begin - 1
            n_features += 1
    return n_features, filled


@kernel()
def _scores(lanes, indices, values, begin, end, W, bias, score):
    """Set score = x.W + bias for one row, four non-zeros at a time."""
    for lane in range(len(lanes)):
        score[lane] = bias[lane]
    at = begin
    while at + 3 < end:
        w0, w1, w2, w3 = W[indices[at]], W[indices[at + 1]], W[indices[at + 2]], W[indices[at + 3]]
        v0, v1, v2, v3 = values[at], values[at + 1], values[at + 2], values[at + 3]
        for lane in range(len(lanes)):
            score[lane] += (v0 * w0[lane] + v1 * w1[lane]) + (v2 * w2[lane] + v3 * w3[lane])
        at += 4
    while at < end:
        w0 = W[indices[at]]
        v0 = values[at]
        for lane in range(len(lanes)):
            score[lane] += v0 * w0[lane]
        at += 1
