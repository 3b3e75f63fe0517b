"""Newton steps for one label of ProXML among the weights that are not 0: on a face the objective is smooth.

Coordinate descent finds the signs soon but goes on for thousands of epochs where features are alike; this does not
mind. Only rows that lose bend the objective, and a step reads them alone. Notation as in `l1_descent`.
"""

import numpy as np

from unmissed._jit import kernel

_SUFFICIENT = 0.01  # the share of the promised decrease that a step must keep
_HALVINGS = 8
_LEAST = 1e-12
_CG_ACCURACY = 0.1
_CG_STEPS = 40


@kernel()
def _losing_part(local, signs, costs, slack, support):
    """Return the rows that lose, cut to the columns of the support, each times the root of its curvature.

    That is where rows begin, places in the support and entries (float32: they only make a direction); then the root
    per row, and the slope and the curvature of each column.
    """
    starts, places, entries = local
    place_of = np.full(slack.shape[0], -1, np.int32)
    roots, pulls = np.empty(slack.shape[0]), np.empty(slack.shape[0])
    n = 0
    for row in range(slack.shape[0]):
        if slack[row] > 0 and costs[row] > 0:
            place_of[row] = n
            roots[n] = np.sqrt(2.0 * costs[row])
            pulls[n] = signs[row] * 2.0 * costs[row] * slack[row]
            n += 1
    begins = np.zeros(n + 2, np.int64)  # counts of row i go to i + 2, so that filling leaves its beginning in i
    slopes, bends = np.zeros(support.shape[0]), np.zeros(support.shape[0])
    for at in range(support.shape[0]):
        for here in range(np.uint64(starts[support[at]]), np.uint64(starts[support[at] + 1])):
            row = place_of[np.uint32(places[here])]
            if row >= 0:
                slopes[at] -= pulls[row] * entries[here]
                bends[at] += (roots[row] * entries[here]) ** 2
                begins[row + 2] += 1
    for row in range(n):
        begins[row + 2] += begins[row + 1]
    columns, scaled = np.empty(begins[n + 1], np.uint32), np.empty(begins[n + 1], np.float32)
    for at in range(support.shape[0]):
        for here in range(np.uint64(starts[support[at]]), np.uint64(starts[support[at] + 1])):
            row = place_of[np.uint32(places[here])]
            if row >= 0:
                columns[begins[row + 1]] = at
                scaled[begins[row + 1]] = roots[row] * entries[here]
                begins[row + 1] += 1
    return (begins, columns, scaled), roots[:n], slopes, bends


@kernel()
def _multiply(part, roots, step, step_bias, out):
    """Set out = A^T (A step + roots step_bias), row by row; return the part of the bias."""
    begins, columns, scaled = part
    out[:] = 0
    total = 0.0
    for row in range(roots.shape[0]):
        s0, s1, s2, s3 = roots[row] * step_bias, 0.0, 0.0, 0.0
        begin, end = np.uint64(begins[row]), np.uint64(begins[row + 1])
        at = begin
        while at + np.uint64(3) < end:
            at1, at2, at3 = at + np.uint64(1), at + np.uint64(2), at + np.uint64(3)
            s0 += np.float64(scaled[at]) * step[columns[at]]
            s1 += np.float64(scaled[at1]) * step[columns[at1]]
            s2 += np.float64(scaled[at2]) * step[columns[at2]]
            s3 += np.float64(scaled[at3]) * step[columns[at3]]
            at += np.uint64(4)
        while at < end:
            s0 += np.float64(scaled[at]) * step[columns[at]]
            at += np.uint64(1)
        product = (s0 + s1) + (s2 + s3)
        total += roots[row] * product
        for at in range(begin, end):
            out[columns[at]] += np.float64(scaled[at]) * product
    return total


@kernel()
def _face_direction(part, roots, bias_weight, slopes, slope_bias, bends):
    """Return the Newton step on the face by conjugate gradients, each weight measured by its own curvature.

    A negative bias_weight leaves the bias where it is.
    """
    n = slopes.shape[0]
    d, image = np.zeros(n), np.empty(n)
    residual = -slopes
    p, scaling = np.empty(n), np.empty(n)
    d_bias, residual_bias = 0.0, -slope_bias
    bend_bias = bias_weight + (roots * roots).sum()
    scaling_bias = 1.0 / bend_bias if bias_weight >= 0 and bend_bias > _LEAST else 0.0
    square = residual_bias * residual_bias * scaling_bias
    for at in range(n):
        scaling[at] = 1.0 / bends[at] if bends[at] > _LEAST else 0.0  # no row that loses: left to coordinate descent
        p[at] = scaling[at] * residual[at]
        square += residual[at] * p[at]
    p_bias = scaling_bias * residual_bias
    enough = _CG_ACCURACY * _CG_ACCURACY * square
    for _ in range(min(2 * n + 10, _CG_STEPS)):
        image_bias = _multiply(part, roots, p, p_bias, image)
        image_bias = image_bias + bias_weight * p_bias if bias_weight >= 0 else 0.0
        bent, size = p_bias * image_bias, p_bias * p_bias
        for at in range(n):
            bent += p[at] * image[at]
            size += p[at] * p[at]
        if bent <= _LEAST * size:
            break
        length = square / bent
        before, square = square, 0.0
        for at in range(n):
            d[at] += length * p[at]
            residual[at] -= length * image[at]
            square += residual[at] * residual[at] * scaling[at]
        d_bias += length * p_bias
        residual_bias -= length * image_bias
        square += residual_bias * residual_bias * scaling_bias
        if square <= enough:
            break
        for at in range(n):
            p[at] = scaling[at] * residual[at] + (square / before) * p[at]
        p_bias = scaling_bias * residual_bias + (square / before) * p_bias
    return d, d_bias


@kernel()
def face_step(local, signs, costs, crowd, slack, w, bias, use_bias, threshold):
    """Do one Newton step among the weights that are not 0; those that would change their sign become 0.

    Returns the bias and by how much the objective changed.
    """
    starts, places, entries = local
    n_rows = slack.shape[0]
    support = np.flatnonzero(w)
    part, roots, slopes, bends = _losing_part(local, signs, costs, slack, support)
    for at in range(support.shape[0]):
        slopes[at] += threshold if w[support[at]] > 0 else -threshold
    moves_bias = use_bias != 0 and bias != 0
    slope_bias, bias_weight = 0.0, -1.0
    if moves_bias:
        slope_bias, bias_weight = threshold if bias > 0 else -threshold, 0.0
        for row in range(n_rows):
            slope_bias -= signs[row] * 2.0 * costs[row] * max(slack[row], 0.0)
        if 1.0 + bias > 0:
            slope_bias += 2.0 * crowd * (1.0 + bias)
            bias_weight = 2.0 * crowd
    d, d_bias = _face_direction(part, roots, bias_weight, slopes, slope_bias, bends)
    product = np.empty(n_rows)
    length = 1.0
    for _ in range(_HALVINGS):
        step_bias = length * d_bias if (bias + length * d_bias) * bias > 0 else -bias if moves_bias else 0.0
        promised = slope_bias * step_bias
        product[:] = step_bias
        change = threshold * (abs(bias + step_bias) - abs(bias))
        for at in range(support.shape[0]):
            old = w[support[at]]
            step = length * d[at] if (old + length * d[at]) * old > 0 else -old
            promised += slopes[at] * step
            change += threshold * (abs(old + step) - abs(old))
            for place in range(np.uint64(starts[support[at]]), np.uint64(starts[support[at] + 1])):
                product[np.uint32(places[place])] += entries[place] * step
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
            return bias + step_bias, change
        length *= 0.5
    return bias, 0.0
