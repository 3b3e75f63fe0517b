"""Coordinate descent for one label of ProXML over a few rows and features.

lambda |w|_1 + lambda |b| + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 over the rows of a working set, plus a crowd: rows
that have none of the features, so that all of them score b. With s_i = z_i sqrt(c_i) in `scale`, `slack` is
sqrt(c_i) (1 - z_i (w.x_i + b)) of each row, kept up to date, and the entries of its columns are s_i x_ij: the loss of a
row is then max(0, slack)^2, whatever its sign and cost.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.ascent import _shuffle
from unmissed.kernels.l1_face import bias_slope, face_step, find_face, has_left

_SUFFICIENT = 0.01  # the share of the promised decrease that a step must keep
_HALVINGS = 30
_LEAST = 1e-12
_FACE_STEPS = 2


@kernel()
def _slope(places, entries, slack):
    """Return the first and second derivative of the loss along one column."""
    slope0, slope1, bend0, bend1 = 0.0, 0.0, 0.0, 0.0
    pairs = places.shape[0] // 2
    for pair in range(pairs):
        at = np.uint64(2 * pair)
        at1 = at + np.uint64(1)
        entry0, entry1 = np.float64(entries[at]), np.float64(entries[at1])
        slack0, slack1 = slack[places[at]], slack[places[at1]]
        slope0 += entry0 * max(slack0, 0.0)
        slope1 += entry1 * max(slack1, 0.0)
        bend0 += entry0 * entry0 if slack0 > 0 else 0.0
        bend1 += entry1 * entry1 if slack1 > 0 else 0.0
    if 2 * pairs < places.shape[0]:
        at = np.uint64(2 * pairs)
        entry0, slack0 = np.float64(entries[at]), slack[places[at]]
        slope0 += entry0 * max(slack0, 0.0)
        bend0 += entry0 * entry0 if slack0 > 0 else 0.0
    return -2.0 * (slope0 + slope1), 2.0 * (bend0 + bend1)


@kernel()
def newton_step(slope, bend, weight, threshold):
    """Return the step that minimises the quadratic model of the loss plus threshold |weight + step|."""
    bend = max(bend, _LEAST)
    if slope + threshold < bend * weight:
        return -(slope + threshold) / bend
    if slope - threshold > bend * weight:
        return -(slope - threshold) / bend
    return -weight


@kernel()
def violation(slope, weight, threshold):
    """Return by how much the optimality condition of one weight fails."""
    if weight > 0:
        return abs(slope + threshold)
    if weight < 0:
        return abs(slope - threshold)
    return max(abs(slope) - threshold, 0.0)


@kernel()
def _move(places, entries, slack, step):
    """Move the slack along one column; return by how much the loss changed."""
    change = 0.0
    for at in range(places.shape[0]):
        row = places[at]
        before = slack[row]
        after = before - entries[at] * step
        slack[row] = after
        before, after = max(before, 0.0), max(after, 0.0)
        change += (after - before) * (after + before)
    return change


@kernel()
def _descend(places, entries, slack, slope, bend, weight, threshold):
    """Move one weight downhill, halving the Newton step until it keeps its promise; return it and the change."""
    step = newton_step(slope, bend, weight, threshold)
    if step == 0:
        return weight, 0.0
    promised = slope * step + threshold * (abs(weight + step) - abs(weight))
    loss = _move(places, entries, slack, step)
    for _ in range(_HALVINGS):
        change = loss + threshold * (abs(weight + step) - abs(weight))
        if change <= _SUFFICIENT * promised:
            return weight + step, change
        step *= 0.5
        promised *= 0.5
        loss += _move(places, entries, slack, -step)
    _move(places, entries, slack, -step)
    return weight, 0.0


@kernel()
def _descend_bias(scale, crowd, slack, bias, threshold):
    """Move the bias downhill; return it, its violation and the change. The crowd costs `crowd` max(0, 1 + b)^2."""
    slope, bend = bias_slope(scale, crowd, slack, bias, 0.0)
    wrong = violation(slope, bias, threshold)
    step = newton_step(slope, bend, bias, threshold)
    if step == 0:
        return bias, wrong, 0.0
    promised = slope * step + threshold * (abs(bias + step) - abs(bias))
    for _ in range(_HALVINGS):
        change = threshold * (abs(bias + step) - abs(bias))
        after, before = max(1.0 + bias + step, 0.0), max(1.0 + bias, 0.0)
        change += crowd * (after - before) * (after + before)
        for row in range(slack.shape[0]):
            after, before = max(slack[row] - scale[row] * step, 0.0), max(slack[row], 0.0)
            change += (after - before) * (after + before)
        if change <= _SUFFICIENT * promised:
            for row in range(slack.shape[0]):
                slack[row] -= scale[row] * step
            return bias + step, wrong, change
        step *= 0.5
        promised *= 0.5
    return bias, wrong, 0.0


@kernel()
def _epoch(local, scale, crowd, slack, w, bias, use_bias, threshold, goal, order):
    """Visit the bias and every weight once; return the bias, the worst violation met, and by how much all fell."""
    starts, places, entries = local
    worst, fall = 0.0, 0.0
    if use_bias != 0:
        bias, worst, change = _descend_bias(scale, crowd, slack, bias, threshold)
        fall -= change
    for place in range(order.shape[0]):
        column = order[place]
        begin, end = starts[column], starts[column + 1]
        slope, bend = _slope(places[begin:end], entries[begin:end], slack)
        wrong = violation(slope, w[column], threshold)
        worst = max(worst, wrong)
        if wrong > 0.1 * goal:
            w[column], change = _descend(
                places[begin:end], entries[begin:end], slack, slope, bend, w[column], threshold
            )
            fall -= change
    return bias, worst, fall


@kernel()
def l1_descend(place, local, scale, crowd, slack, w, bias, use_bias, threshold, goal, enough, max_epochs, seed):
    """Lower the objective until an epoch finds every optimality condition to hold within `goal`; return bias, epochs.

    Or until an epoch adds no more than the share `enough` to what all have won. Between two epochs of coordinate
    descent come up to _FACE_STEPS Newton steps among the weights that are not 0. `place` is X, the rows and features of
    the working set, and the names of the features.
    """
    order = np.arange(w.shape[0])
    state = np.uint64(seed) ^ np.uint64(88172645463325252)
    won = 0.0
    face = find_face(place, local, scale, slack, np.zeros(0))
    for epoch in range(max_epochs):
        state = _shuffle(order, w.shape[0], state)
        bias, worst, fall = _epoch(local, scale, crowd, slack, w, bias, use_bias, threshold, goal, order)
        if worst <= goal:
            return bias, epoch + 1
        if epoch > 0:
            if has_left(face, w):
                face = find_face(place, local, scale, slack, w)
            for _ in range(_FACE_STEPS):
                bias, change = face_step(local, face, scale, crowd, slack, w, bias, use_bias, threshold)
                fall -= change
                if change >= 0:
                    break
        won += fall
        if epoch > 0 and fall <= enough * won:
            return bias, epoch + 1
    return bias, max_epochs
