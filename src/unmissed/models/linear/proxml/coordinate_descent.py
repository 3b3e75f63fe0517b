"""Coordinate descent for one label of ProXML over a working set of rows and features.

The objective is lambda |w|_1 + lambda |b| + sum_i c_i max(0, 1 - z_i (w.x_i + b))^2. The sum runs over the rows of the
working set and over the bias-only rows: negatives outside of it with the score b, which only the bias changes.
`bias_only_cost` is the sum of their costs.

`scale` is s_i = z_i sqrt(c_i), `slack` sqrt(c_i) (1 - z_i (w.x_i + b)), updated after each step, and `local` has the
columns of the working set with the entries s_i x_ij. The loss of a row is then max(0, slack_i)^2 for either sign and
any cost. `threshold` is lambda.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.models.linear.proxml.newton_face import bias_derivatives, face_step, find_face, support_changed
from unmissed.numerics.packed_rows import shuffle

_SUFFICIENT = 0.01  # sufficient decrease: the fraction of the predicted decrease that a step must reach
_HALVINGS = 30
_MIN_CURVATURE = 1e-12
_FACE_STEPS = 2


@kernel()
def _column_derivatives(positions, entries, slack):
    """Return the first and second derivative of the loss along one column."""
    derivative0, derivative1, curvature0, curvature1 = 0.0, 0.0, 0.0, 0.0
    pairs = positions.shape[0] // 2
    for pair in range(pairs):
        at = np.uint64(2 * pair)
        at1 = at + np.uint64(1)
        entry0, entry1 = np.float64(entries[at]), np.float64(entries[at1])
        slack0, slack1 = slack[positions[at]], slack[positions[at1]]
        derivative0 += entry0 * max(slack0, 0.0)
        derivative1 += entry1 * max(slack1, 0.0)
        curvature0 += entry0 * entry0 if slack0 > 0 else 0.0
        curvature1 += entry1 * entry1 if slack1 > 0 else 0.0
    if 2 * pairs < positions.shape[0]:
        at = np.uint64(2 * pairs)
        entry0, slack0 = np.float64(entries[at]), slack[positions[at]]
        derivative0 += entry0 * max(slack0, 0.0)
        curvature0 += entry0 * entry0 if slack0 > 0 else 0.0
    return -2.0 * (derivative0 + derivative1), 2.0 * (curvature0 + curvature1)


@kernel()
def newton_step(derivative, curvature, weight, threshold):
    """Return the step that minimizes the quadratic model of the loss plus threshold * |weight + step|."""
    curvature = max(curvature, _MIN_CURVATURE)
    if derivative + threshold < curvature * weight:
        return -(derivative + threshold) / curvature
    if derivative - threshold > curvature * weight:
        return -(derivative - threshold) / curvature
    return -weight


@kernel()
def violation(derivative, weight, threshold):
    """Return the violation of one weight's optimality condition: the smallest absolute subgradient."""
    if weight > 0:
        return abs(derivative + threshold)
    if weight < 0:
        return abs(derivative - threshold)
    return max(abs(derivative) - threshold, 0.0)


@kernel()
def _move(positions, entries, slack, step):
    """Update the slack for a step of one weight; return the change of the loss."""
    change = 0.0
    for at in range(positions.shape[0]):
        row = positions[at]
        before = slack[row]
        after = before - entries[at] * step
        slack[row] = after
        before, after = max(before, 0.0), max(after, 0.0)
        change += (after - before) * (after + before)
    return change


@kernel()
def _descend(positions, entries, slack, derivative, curvature, weight, threshold):
    """Update one weight by a Newton step with backtracking; return the weight and the change of the objective."""
    step = newton_step(derivative, curvature, weight, threshold)
    if step == 0:
        return weight, 0.0
    predicted = derivative * step + threshold * (abs(weight + step) - abs(weight))
    loss = _move(positions, entries, slack, step)
    for _ in range(_HALVINGS):
        change = loss + threshold * (abs(weight + step) - abs(weight))
        if change <= _SUFFICIENT * predicted:
            return weight + step, change
        step *= 0.5
        predicted *= 0.5
        loss += _move(positions, entries, slack, -step)
    _move(positions, entries, slack, -step)
    return weight, 0.0


@kernel()
def _descend_bias(scale, bias_only_cost, slack, bias, threshold):
    """Update the bias by a Newton step with backtracking; return it, its violation and the change of the objective."""
    derivative, curvature = bias_derivatives(scale, bias_only_cost, slack, bias, 0.0)
    excess = violation(derivative, bias, threshold)
    step = newton_step(derivative, curvature, bias, threshold)
    if step == 0:
        return bias, excess, 0.0
    predicted = derivative * step + threshold * (abs(bias + step) - abs(bias))
    for _ in range(_HALVINGS):
        change = threshold * (abs(bias + step) - abs(bias))
        after, before = max(1.0 + bias + step, 0.0), max(1.0 + bias, 0.0)
        change += bias_only_cost * (after - before) * (after + before)
        for row in range(slack.shape[0]):
            after, before = max(slack[row] - scale[row] * step, 0.0), max(slack[row], 0.0)
            change += (after - before) * (after + before)
        if change <= _SUFFICIENT * predicted:
            for row in range(slack.shape[0]):
                slack[row] -= scale[row] * step
            return bias + step, excess, change
        step *= 0.5
        predicted *= 0.5
    return bias, excess, 0.0


@kernel()
def _epoch(local, scale, bias_only_cost, slack, w, bias, use_bias, threshold, goal, order):
    """Visit the bias and each weight once; return the bias, the largest violation and the decrease of the objective."""
    starts, positions, entries = local
    max_violation, decrease = 0.0, 0.0
    if use_bias != 0:
        bias, max_violation, change = _descend_bias(scale, bias_only_cost, slack, bias, threshold)
        decrease -= change
    for position in range(order.shape[0]):
        column = order[position]
        begin, end = starts[column], starts[column + 1]
        derivative, curvature = _column_derivatives(positions[begin:end], entries[begin:end], slack)
        excess = violation(derivative, w[column], threshold)
        max_violation = max(max_violation, excess)
        if excess > 0.1 * goal:
            w[column], change = _descend(
                positions[begin:end], entries[begin:end], slack, derivative, curvature, w[column], threshold
            )
            decrease -= change
    return bias, max_violation, decrease


# 13 arguments: weights and slack of a label are four values, and five numbers say when to stop.
@kernel()
def l1_descend(
    subset,
    local,
    scale,
    bias_only_cost,
    slack,
    w,
    bias,
    use_bias,
    threshold,
    goal,
    min_decrease_share,
    max_epochs,
    seed,
):
    """Minimize the objective over the working set until no violation exceeds `goal`; return the bias and the epochs.

    Stops earlier if the decrease of an epoch is at most `min_decrease_share` of the total decrease. Up to _FACE_STEPS
    Newton steps over the non-zero weights follow each epoch but the first. `subset` is X, the rows and features of the
    working set, and `local_index`, the map from features to working-set columns.
    """
    order = np.arange(w.shape[0])
    state = np.uint64(seed) ^ np.uint64(88172645463325252)
    total_decrease = 0.0
    face = find_face(subset, local, scale, slack, np.zeros(0))
    for epoch in range(max_epochs):
        state = shuffle(order, w.shape[0], state)
        bias, max_violation, decrease = _epoch(
            local, scale, bias_only_cost, slack, w, bias, use_bias, threshold, goal, order
        )
        if max_violation <= goal:
            return bias, epoch + 1
        if epoch > 0:
            if support_changed(face, w):
                face = find_face(subset, local, scale, slack, w)
            for _ in range(_FACE_STEPS):
                bias, change = face_step(local, face, scale, bias_only_cost, slack, w, bias, use_bias, threshold)
                decrease -= change
                if change >= 0:
                    break
        total_decrease += decrease
        if epoch > 0 and decrease <= min_decrease_share * total_decrease:
            return bias, epoch + 1
    return bias, max_epochs
