"""Dual coordinate ascent for the classifiers of one tree node, one classifier per SIMD lane.

A node has few rows and at most about a hundred classifiers, and most rows matter to several of them. Visiting all rows
in lanes therefore costs less than one working set per classifier. Notation as in the lane kernels of DiSMEC. The length
of the tuple `lanes` is the number of lanes at compile time. An unused lane has bias -2 and no positives, and never
changes.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.prefetch import prefetch_row

_ONE = np.float32(1)
_ZERO = np.float32(0)
_MAX_SCATTER = 4  # up to this many changed lanes are updated one by one, more by SIMD
_MAX_INT16 = 32767


@kernel()
def list_rows(labels, starts, rows, seen, out):
    """List the rows that have one of the labels, in any order; return their number. `seen` holds 0 before and after."""
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
    """List each row's positive columns with their cost: the highest cost among the row's labels in the column.

    column_of_label is a label's column plus 1, or 0 for labels that are not below the node.
    """
    position = np.empty(n_columns, np.int64)
    filled = 0
    indptr[0] = 0
    for at in range(rows.shape[0]):
        begin = filled
        position[:] = -1
        for entry in range(starts[rows[at]], starts[rows[at] + 1]):
            label = labels[entry]
            column = np.int64(column_of_label[label]) - 1
            if column < 0:
                continue
            if position[column] < begin:
                position[column] = filled
                columns[filled] = column
                costs[filled] = cost_of_label[label]
                filled += 1
            else:
                costs[position[column]] = max(costs[position[column]], cost_of_label[label])
        indptr[at + 1] = filled
    return filled


# 13 arguments: the rows are three arrays, and the positives of all lanes are three.
@kernel()
def sweep(lanes, order, indptr, indices, values, norms, pos_indptr, pos_lanes, pos_h, h_negative, W, bias, a):
    """Visit rows in the given order; per row, take the optimal step of one dual variable per lane.

    Row i has the positive lanes pos_lanes[pos_indptr[i]:pos_indptr[i + 1]], each with its own h in pos_h. The weights W
    (n_features, lanes), `bias` (lanes) and the dual variables a (n_samples, lanes) are updated in place.
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
        for position in range(pos_indptr[row], pos_indptr[row + 1]):
            lane, h = pos_lanes[position], pos_h[position]
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
        for position in range(pos_indptr[row], pos_indptr[row + 1]):
            step[pos_lanes[position]] = -step[pos_lanes[position]]
        for lane in range(len(lanes)):  # `step` is now the change of a z
            bias[lane] += step[lane]
        if n_moved <= _MAX_SCATTER and len(lanes) > _MAX_SCATTER:
            for position in range(n_moved):
                lane = moved[position]
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
    """Set each lane's dual objective, sum of a - h a^2/2 minus |w|^2/2 + b^2/2, to about float32 precision.

    It only detects when sweeps gain little. Certificates use the float64 sums of `node_certificate`.
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
        for position in range(pos_indptr[row], pos_indptr[row + 1]):
            lane = pos_lanes[position]
            extra = np.float64(pos_h[position]) - np.float64(h_negative)
            dual[lane] -= 0.5 * extra * np.float64(mine[lane]) * np.float64(mine[lane])


@kernel()
def quantize_weights(W, n_columns, feature_order, prune, scales, features, counts, columns, weights):
    """Quantize the weights of at least `prune` in magnitude to int16 with a scale per column, stored by feature.

    feature_order lists the rows of W in ascending order of feature. features[j] is set to such a row, counts[j] to its
    number of weights minus 1. `scales` holds 0 before, or the largest magnitude of a column's weights elsewhere.
    Returns the number of features and of weights kept.
    """
    for at in range(W.shape[0]):
        for column in range(n_columns):
            scales[column] = max(scales[column], abs(W[at, column]))
    for column in range(n_columns):
        scales[column] = scales[column] / np.float32(_MAX_INT16)
    n_features, filled = 0, 0
    for at in feature_order:
        begin = filled
        for column in range(n_columns):
            w = W[at, column]
            if abs(w) >= prune and w != _ZERO:
                quantized = np.rint(w / scales[column])
                if quantized != 0:
                    columns[filled] = column
                    weights[filled] = quantized
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
