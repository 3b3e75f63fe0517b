"""Coordinate descent for one label of ProXML over a few rows and features.

lambda |w|_1 + lambda |b| + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2 over the rows of a working set, plus a crowd: rows
that have none of the features, so that all of them score b. `slack` is 1 - z (w.x + b) of each row, kept up to date.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.ascent import _shuffle

_SUFFICIENT = 0.01  # the share of the promised decrease that a step must keep
_HALVINGS = 30
_LEAST = 1e-12
_CG_ACCURACY = 0.1
_CG_STEPS = 40
_FACE_STEPS = 2
_FACE_HALVINGS = 8


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
    """Move one weight downhill, halving the Newton step until it keeps its promise; return the new weight."""
    step = newton_step(slope, bend, weight, threshold)
    if step == 0:
        return weight
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
            return weight + step
        step *= 0.5
        promised *= 0.5
    return weight


@kernel()
def _descend_bias(signs, costs, crowd, slack, bias, threshold):
    """Move the bias downhill; return it and its violation. The crowd costs `crowd` max(0, 1 + b)^2."""
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
        return bias, wrong
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
            return bias + step, wrong
        step *= 0.5
        promised *= 0.5
    return bias, wrong


@kernel()
def _dot(places, entries, begin, end, product):
    """Return the inner product of one column and a vector over rows: four partial sums in a fixed order."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    at = begin
    while at + np.uint64(3) < end:
        at1, at2, at3 = at + np.uint64(1), at + np.uint64(2), at + np.uint64(3)
        s0 += entries[at] * product[np.uint32(places[at])]
        s1 += entries[at1] * product[np.uint32(places[at1])]
        s2 += entries[at2] * product[np.uint32(places[at2])]
        s3 += entries[at3] * product[np.uint32(places[at3])]
        at += np.uint64(4)
    while at < end:
        s0 += entries[at] * product[np.uint32(places[at])]
        at += np.uint64(1)
    return (s0 + s1) + (s2 + s3)


@kernel()
def _multiply(starts, places, entries, weights, support, step, step_bias, product, out):
    """Set product = X step + step_bias by row, weigh it, and set out = X^T of that; return the part of the bias."""
    product[:] = step_bias
    for at in range(support.shape[0]):
        length = step[at]
        for place in range(np.uint64(starts[support[at]]), np.uint64(starts[support[at] + 1])):
            product[np.uint32(places[place])] += entries[place] * length
    total = 0.0
    for row in range(product.shape[0]):
        product[row] *= weights[row]
        total += product[row]
    for at in range(support.shape[0]):
        out[at] = _dot(places, entries, np.uint64(starts[support[at]]), np.uint64(starts[support[at] + 1]), product)
    return total


@kernel()
def _face_direction(starts, places, entries, weights, bias_weight, support, slopes, slope_bias, product):
    """Return the Newton step on the face of signs by conjugate gradients; a negative bias_weight leaves the bias."""
    n = support.shape[0]
    d, image = np.zeros(n), np.empty(n)
    residual, p = -slopes, -slopes
    d_bias, residual_bias = 0.0, -slope_bias
    p_bias = residual_bias
    square = (residual * residual).sum() + residual_bias * residual_bias
    enough = _CG_ACCURACY * _CG_ACCURACY * square
    for _ in range(min(2 * n + 10, _CG_STEPS)):
        image_bias = _multiply(starts, places, entries, weights, support, p, p_bias, product, image)
        image_bias = image_bias + bias_weight * p_bias if bias_weight >= 0 else 0.0
        bent = (p * image).sum() + p_bias * image_bias
        if bent <= _LEAST * ((p * p).sum() + p_bias * p_bias):
            break
        length = square / bent
        d += length * p
        d_bias += length * p_bias
        residual -= length * image
        residual_bias -= length * image_bias
        before = square
        square = (residual * residual).sum() + residual_bias * residual_bias
        if square <= enough:
            break
        p = residual + (square / before) * p
        p_bias = residual_bias + (square / before) * p_bias
    return d, d_bias


@kernel()
def _face_step(starts, places, entries, signs, costs, crowd, slack, w, bias, use_bias, threshold):
    """Do one Newton step among the weights that are not 0; those that would change their sign become 0.

    Coordinate descent finds the signs soon but goes on for thousands of epochs where features are alike; this does not
    mind. Returns the bias and whether the objective fell.
    """
    n_rows = slack.shape[0]
    support = np.flatnonzero(w)
    weights, product = np.zeros(n_rows), np.empty(n_rows)
    slope_bias = 0.0
    for row in range(n_rows):
        if slack[row] > 0:
            weights[row] = 2.0 * costs[row]
            slope_bias -= signs[row] * 2.0 * costs[row] * slack[row]
    slopes = np.empty(support.shape[0])
    for at in range(support.shape[0]):
        column = support[at]
        begin, end = starts[column], starts[column + 1]
        slope, _ = _slope(places[begin:end], entries[begin:end], signs, costs, slack)
        slopes[at] = slope + (threshold if w[column] > 0 else -threshold)
    crowd_loses = 1.0 + bias > 0
    if crowd_loses:
        slope_bias += 2.0 * crowd * (1.0 + bias)
    moves_bias = use_bias != 0 and bias != 0
    slope_bias = slope_bias + (threshold if bias > 0 else -threshold) if moves_bias else 0.0
    bias_weight = (2.0 * crowd if crowd_loses else 0.0) if moves_bias else -1.0
    d, d_bias = _face_direction(starts, places, entries, weights, bias_weight, support, slopes, slope_bias, product)
    length = 1.0
    for _ in range(_FACE_HALVINGS):
        step_bias = length * d_bias if (bias + length * d_bias) * bias > 0 else -bias if moves_bias else 0.0
        promised = slope_bias * step_bias
        product[:] = step_bias
        change = threshold * (abs(bias + step_bias) - abs(bias))
        for at in range(support.shape[0]):
            old = w[support[at]]
            step = length * d[at] if (old + length * d[at]) * old > 0 else -old
            promised += slopes[at] * step
            change += threshold * (abs(old + step) - abs(old))
            for place in range(starts[support[at]], starts[support[at] + 1]):
                product[places[place]] += entries[place] * step
        after, before = max(1.0 + bias + step_bias, 0.0), max(1.0 + bias, 0.0)
        change += crowd * (after - before) * (after + before)
        for row in range(n_rows):
            after, before = max(slack[row] - signs[row] * product[row], 0.0), max(slack[row], 0.0)
            change += costs[row] * (after - before) * (after + before)
        if change < 0 and change <= _SUFFICIENT * promised:
            for row in range(n_rows):
                slack[row] -= signs[row] * product[row]
            for at in range(support.shape[0]):
                old = w[support[at]]
                w[support[at]] = old + length * d[at] if (old + length * d[at]) * old > 0 else 0.0
            return bias + step_bias, True
        length *= 0.5
    return bias, False


@kernel()
def l1_descend(
    starts, places, entries, signs, costs, crowd, slack, w, bias, use_bias, threshold, goal, max_epochs, seed
):
    """Lower the objective until an epoch finds every optimality condition to hold within `goal`; return bias, epochs.

    Between two epochs of coordinate descent come up to _FACE_STEPS Newton steps among the weights that are not 0.
    """
    n = w.shape[0]
    order = np.arange(n)
    state = np.uint64(seed) ^ np.uint64(88172645463325252)
    for epoch in range(max_epochs):
        state = _shuffle(order, n, state)
        worst = 0.0
        if use_bias != 0:
            bias, worst = _descend_bias(signs, costs, crowd, slack, bias, threshold)
        for place in range(n):
            column = order[place]
            begin, end = starts[column], starts[column + 1]
            slope, bend = _slope(places[begin:end], entries[begin:end], signs, costs, slack)
            wrong = violation(slope, w[column], threshold)
            worst = max(worst, wrong)
            if wrong > 0.1 * goal:
                w[column] = _descend(
                    places[begin:end], entries[begin:end], signs, costs, slack, slope, bend, w[column], threshold
                )
        if worst <= goal:
            return bias, epoch + 1
        if epoch > 0:
            for _ in range(_FACE_STEPS):
                bias, fell = _face_step(
                    starts, places, entries, signs, costs, crowd, slack, w, bias, use_bias, threshold
                )
                if not fell:
                    break
    return bias, max_epochs
