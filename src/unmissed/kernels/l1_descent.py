"""Coordinate descent for one label of ProXML over a few rows and features.

lambda |w|_1 + lambda |b| + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 over the rows of a working set, plus a crowd: rows
that have none of the features, so that all of them score b. `slack` is 1 - z (w.x + b) of each row, kept up to date.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.ascent import _shuffle
from unmissed.kernels.l1_face import face_step

_SUFFICIENT = 0.01  # the share of the promised decrease that a step must keep
_HALVINGS = 30
_LEAST = 1e-12
_FACE_STEPS = 2


@kernel()
def _slope(places, entries, signs, costs, slack):
    """Return the first and second derivative of the loss along one column."""
    slope, bend = 0.0, 0.0
    for at in range(places.shape[0]):
        row = places[at]
        if slack[row] > 0:
            pull = 2.0 * costs[row] * entries[at]
            slope -= signs[row] * pull * slack[row]
            bend += pull * entries[at]
    return slope, bend


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
def _descend(places, entries, signs, costs, slack, slope, bend, weight, threshold):
    """Move one weight downhill, halving the Newton step until it keeps its promise; return it and the change."""
    step = newton_step(slope, bend, weight, threshold)
    if step == 0:
        return weight, 0.0
    promised = slope * step + threshold * (abs(weight + step) - abs(weight))
    for _ in range(_HALVINGS):
        change = threshold * (abs(weight + step) - abs(weight))
        for at in range(places.shape[0]):
            row = places[at]
            before = slack[row]
            after = max(before - signs[row] * entries[at] * step, 0.0)
            before = max(before, 0.0)
            change += costs[row] * (after - before) * (after + before)
        if change <= _SUFFICIENT * promised:
            for at in range(places.shape[0]):
                slack[places[at]] -= signs[places[at]] * entries[at] * step
            return weight + step, change
        step *= 0.5
        promised *= 0.5
    return weight, 0.0


@kernel()
def _descend_bias(signs, costs, crowd, slack, bias, threshold):
    """Move the bias downhill; return it, its violation and the change. The crowd costs `crowd` max(0, 1 + b)^2."""
    slope, bend = 0.0, 0.0
    for row in range(slack.shape[0]):
        if slack[row] > 0:
            slope -= signs[row] * 2.0 * costs[row] * slack[row]
            bend += 2.0 * costs[row]
    if 1.0 + bias > 0:
        slope += 2.0 * crowd * (1.0 + bias)
        bend += 2.0 * crowd
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
            after, before = max(slack[row] - signs[row] * step, 0.0), max(slack[row], 0.0)
            change += costs[row] * (after - before) * (after + before)
        if change <= _SUFFICIENT * promised:
            for row in range(slack.shape[0]):
                slack[row] -= signs[row] * step
            return bias + step, wrong, change
        step *= 0.5
        promised *= 0.5
    return bias, wrong, 0.0


@kernel()
def _epoch(local, signs, costs, crowd, slack, w, bias, use_bias, threshold, goal, order):
    """Visit the bias and every weight once; return the bias, the worst violation met, and by how much all fell."""
    starts, places, entries = local
    worst, fall = 0.0, 0.0
    if use_bias != 0:
        bias, worst, change = _descend_bias(signs, costs, crowd, slack, bias, threshold)
        fall -= change
    for place in range(order.shape[0]):
        column = order[place]
        begin, end = starts[column], starts[column + 1]
        slope, bend = _slope(places[begin:end], entries[begin:end], signs, costs, slack)
        wrong = violation(slope, w[column], threshold)
        worst = max(worst, wrong)
        if wrong > 0.1 * goal:
            w[column], change = _descend(
                places[begin:end], entries[begin:end], signs, costs, slack, slope, bend, w[column], threshold
            )
            fall -= change
    return bias, worst, fall


@kernel()
def l1_descend(local, signs, costs, crowd, slack, w, bias, use_bias, threshold, goal, enough, max_epochs, seed):
    """Lower the objective until an epoch finds every optimality condition to hold within `goal`; return bias, epochs.

    Or until an epoch adds no more than the share `enough` to what all have won. Between two epochs of coordinate
    descent come up to _FACE_STEPS Newton steps among the weights that are not 0.
    """
    order = np.arange(w.shape[0])
    state = np.uint64(seed) ^ np.uint64(88172645463325252)
    won = 0.0
    for epoch in range(max_epochs):
        state = _shuffle(order, w.shape[0], state)
        bias, worst, fall = _epoch(local, signs, costs, crowd, slack, w, bias, use_bias, threshold, goal, order)
        if worst <= goal:
            return bias, epoch + 1
        if epoch > 0:
            for _ in range(_FACE_STEPS):
                bias, change = face_step(local, signs, costs, crowd, slack, w, bias, use_bias, threshold)
                fall -= change
                if change >= 0:
                    break
        won += fall
        if epoch > 0 and fall <= enough * won:
            return bias, epoch + 1
    return bias, max_epochs
