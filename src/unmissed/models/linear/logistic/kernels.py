"""Compiled passes of LogisticOVR: losses, gradients and samples of rows, and the minimization of a label's model.

`solver` explains the method and the notation.
"""

import math

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.float64_sums import add_rows, dot, scores_exact, total
from unmissed.numerics.simd import LANES, add_in_order

_MODEL_TOLERANCE = 0.2  # Norm of the model's gradient at its minimizer, relative to that of P.
_CG_TOLERANCE = 0.3  # Relative residual of the Newton directions of the model.
_MODEL_STEPS, _CG_STEPS = 10, 100
_SMALL = 2.0**-10  # Below this, four terms of the series of log1p have an error below 2e-13.
_ONE = np.float32(1)


@kernel()
def softplus(m):
    """Return log(1 + exp(m)) and its derivative, the logistic function of m."""
    decay = math.exp(-abs(m))
    inverse = 1.0 / (1.0 + decay)
    if decay < _SMALL:
        value = decay * (1.0 - decay * (0.5 - decay * (1.0 / 3.0 - 0.25 * decay)))
    else:
        value = math.log1p(decay)
    if m >= 0:
        return m + value, inverse
    return value, decay * inverse


@kernel()
def _positive_loss(m, costs):
    """Return the loss of a positive, its derivative, and the part of the loss below 0."""
    value, derivative = softplus(-m)
    curved = costs[0] + costs[1]
    linear = costs[1] * m
    return curved * value + linear, costs[1] - curved * derivative, min(linear, 0.0)


# 11 arguments: the state of all lanes is three arrays, and the output is four.
@kernel()
def lane_losses(X, norms, W, bias, costs, positives, sampling, R, sums, sample, counts):
    """Compute margins and losses of all rows for LANES labels, and a sample of the negatives.

    Parameters
    ----------
    X, norms : the CSR arrays, and |x|^2 of each row
    W, bias, costs : weights (n_features * LANES), bias and (positive, counter, negative) of each lane
    positives : the lanes whose label each row has, in CSR form
    sampling : threshold t and first value of the sum of r |x|^2, (2, LANES); the sum is changed
    R : the derivatives r, (n_samples * LANES) (output)
    sums : sum of losses, of r, of |r| and of the losses below 0, (4, LANES) (output)
    sample, counts : rows and weights of the sample of each lane, (LANES, n_samples) each, and its size (output)
    """
    indptr, indices, values = X
    starts, lanes = positives
    rows, weights = sample
    scores, losses, derivatives = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    sums[:] = 0.0
    counts[:] = 0
    for row in range(norms.shape[0]):
        scores[:] = 0.0
        add_in_order(indices, values, indptr[row], indptr[row + 1], W, scores)
        for lane in range(LANES):
            value, derivative = softplus(scores[lane] + bias[lane])
            losses[lane], derivatives[lane] = costs[lane, 2] * value, costs[lane, 2] * derivative
        for at in range(starts[row], starts[row + 1]):
            lane = lanes[at]
            losses[lane], derivatives[lane], below = _positive_loss(scores[lane] + bias[lane], costs[lane])
            sums[3, lane] += below
        target = R[row * LANES : (row + 1) * LANES]
        for lane in range(LANES):
            sums[0, lane] += losses[lane]
            sums[1, lane] += derivatives[lane]
            sums[2, lane] += abs(derivatives[lane])
            target[lane] = np.float32(derivatives[lane])
        for at in range(starts[row], starts[row + 1]):
            derivatives[lanes[at]] = 0.0
        for lane in range(LANES):
            sampling[1, lane] += derivatives[lane] * norms[row]
            if sampling[1, lane] > sampling[0, lane]:
                mass = derivatives[lane] * norms[row]
                rows[lane, counts[lane]], weights[lane, counts[lane]] = row, max(1.0, sampling[0, lane] / mass)
                counts[lane] += 1
                sampling[1, lane] -= max(sampling[0, lane], mass)


@kernel()
def label_losses(X, norms, w, bias, costs, is_positive, sampling, r, sums, sample):
    """Do the same as `lane_losses` for one label, with the same bits; return the size of the sample."""
    indptr, indices, values = X
    rows, weights = sample
    threshold, summed = sampling
    sums[:] = 0.0
    count = 0
    for row in range(norms.shape[0]):
        score = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            score += np.float64(values[at]) * np.float64(w[indices[at]])
        if is_positive[row]:
            loss, derivative, below = _positive_loss(score + bias, costs)
            sums[3] += below
        else:
            value, derivative = softplus(score + bias)
            loss, derivative = costs[2] * value, costs[2] * derivative
            mass = derivative * norms[row]
            summed += mass
            if summed > threshold:
                rows[count], weights[count] = row, max(1.0, threshold / mass)
                count += 1
                summed -= max(threshold, mass)
        sums[0] += loss
        sums[1] += derivative
        sums[2] += abs(derivative)
        r[row] = np.float32(derivative)
    return count


@kernel()
def lane_gradients(columns, W, R, G, squares):
    """Set G to W + X' R, the gradients of the weights, for LANES labels, and `squares` to their squared norms."""
    starts, rows, values = columns
    sums = np.empty(LANES)
    squares[:] = 0.0
    for feature in range(starts.shape[0] - 1):
        sums[:] = 0.0
        add_in_order(rows, values, starts[feature], starts[feature + 1], R, sums)
        w, g = W[feature * LANES : (feature + 1) * LANES], G[feature * LANES : (feature + 1) * LANES]
        for lane in range(LANES):
            partial = sums[lane] + np.float64(w[lane])
            squares[lane] += partial * partial
            g[lane] = np.float32(partial)


@kernel()
def label_gradient(columns, w, r, g):
    """Do the same as `lane_gradients` for one label, with the same bits; return the squared norm."""
    starts, rows, values = columns
    square = 0.0
    for feature in range(starts.shape[0] - 1):
        partial = 0.0
        for at in range(starts[feature], starts[feature + 1]):
            partial += np.float64(values[at]) * np.float64(r[rows[at]])
        partial += np.float64(w[feature])
        square += partial * partial
        g[feature] = np.float32(partial)
    return square


@kernel()
def sample_derivatives(margins, losses, r, curvature):
    """Set r and the curvature of the losses curved * log(1 + exp(m)) - constant * m, `losses` = (curved, constant)."""
    curved, constant = losses
    for at in range(margins.shape[0]):
        _, sigma = softplus(margins[at])
        r[at] = curved[at] * sigma - constant[at]
        curvature[at] = curved[at] * sigma * (1.0 - sigma)


@kernel()
def _direction(X, rows, curvature, use_bias, residual, residual_bias, vectors):
    """Solve H d = residual by preconditioned conjugate gradients; d is vectors[0], its bias is returned.

    H is the identity plus the rows times their curvature. `residual` is overwritten.
    """
    indptr, indices, values = X
    d, p, q, diagonal = vectors[0], vectors[1], vectors[2], vectors[3]
    d[:], diagonal[:] = 0.0, 1.0
    diagonal_bias, d_bias = 1.0, 0.0
    for at in range(rows.shape[0]):
        c = np.float32(curvature[at])
        for position in range(indptr[rows[at]], indptr[rows[at] + 1]):
            diagonal[indices[position]] += c * values[position] * values[position]
        diagonal_bias += curvature[at]
    for at in range(d.shape[0]):
        diagonal[at] = _ONE / diagonal[at]
        p[at] = residual[at] * diagonal[at]
    p_bias = residual_bias / diagonal_bias
    square = dot(residual, p) + residual_bias * p_bias
    target = _CG_TOLERANCE * _CG_TOLERANCE * square
    scores = np.empty(rows.shape[0])
    for _ in range(_CG_STEPS):
        if not square > target:
            break
        scores_exact(*X, rows, p, p_bias, scores)
        for at in range(rows.shape[0]):
            scores[at] *= curvature[at]
        q[:] = p
        add_rows(*X, rows, scores, q)
        q_bias = use_bias * (p_bias + total(scores))
        step = square / (dot(p, q) + p_bias * q_bias)
        d_bias += step * p_bias
        residual_bias -= step * q_bias
        factor = np.float32(step)
        for at in range(d.shape[0]):
            d[at] += factor * p[at]
            residual[at] -= factor * q[at]
            q[at] = residual[at] * diagonal[at]
        before, square = square, dot(residual, q) + residual_bias * residual_bias / diagonal_bias
        factor = np.float32(square / before)
        for at in range(d.shape[0]):
            p[at] = q[at] + factor * p[at]
        p_bias = residual_bias / diagonal_bias + square / before * p_bias
    return d_bias


@kernel()
def _step_size(margins, changes, losses, slope, curvature):
    """Return a step t in (0, 1] along a direction: 1 unless it overshoots the minimum of the model by far.

    `slope` and `curvature` are the derivative, at t = 0, and the second derivative of the rest of the model.
    """
    curved, constant = losses
    low, high, t, first = 0.0, 1.0, 0.0, 0.0
    for trial in range(30):
        now = slope + t * curvature
        for at in range(margins.shape[0]):
            _, sigma = softplus(margins[at] + t * changes[at])
            now += (curved[at] * sigma - constant[at]) * changes[at]
        if trial == 0:
            first, t = now, 1.0
            continue
        if now > -0.2 * first:
            high = t
        elif now < 0.8 * first and t < 1.0:
            low = t
        else:
            break
        t = 0.5 * (low + high)
    return t


@kernel()
def minimize_model(X, rows, losses, use_bias, g, g_bias, w, bias, vectors):
    """Minimize the model of P around (w, bias) and move there; return the bias and the slope of P along the step.

    Parameters
    ----------
    X : the CSR arrays
    rows, losses : the sample, and its losses as in `derivatives`
    use_bias : 1 if there is a bias, else 0
    g, g_bias : the gradient of P
    w, bias : the current point; w is changed
    vectors : 6 work arrays of the length of w; after the call, the last is the step
    """
    d, residual, moved = vectors[0], vectors[4], vectors[5]
    n = rows.shape[0]
    margins, changes, r0, r, curvature = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    scores_exact(*X, rows, w, bias, margins)
    sample_derivatives(margins, losses, r0, curvature)
    for at in range(w.shape[0]):
        moved[at], residual[at] = 0.0, -g[at]
    moved_bias, residual_bias = 0.0, -g_bias
    target = _MODEL_TOLERANCE * _MODEL_TOLERANCE * (dot(g, g) + g_bias * g_bias)
    for _ in range(_MODEL_STEPS):
        d_bias = _direction(X, rows, curvature, use_bias, residual, residual_bias, vectors)
        scores_exact(*X, rows, d, d_bias, changes)
        slope = dot(g, d) + g_bias * d_bias + dot(moved, d) + moved_bias * d_bias
        for at in range(n):
            slope -= r0[at] * changes[at]
        t = _step_size(margins, changes, losses, slope, dot(d, d) + d_bias * d_bias)
        moved_bias += t * d_bias
        for at in range(n):
            margins[at] += t * changes[at]
        sample_derivatives(margins, losses, r, curvature)
        step = np.float32(t)
        for at in range(w.shape[0]):
            moved[at] += step * d[at]
            residual[at] = -(g[at] + moved[at])
        for at in range(n):
            r[at] = r0[at] - r[at]
        add_rows(*X, rows, r, residual)
        residual_bias = use_bias * (total(r) - g_bias - moved_bias)
        if not dot(residual, residual) + residual_bias * residual_bias > target:
            break
    for at in range(w.shape[0]):
        w[at] += moved[at]
    return bias + moved_bias, dot(g, moved) + g_bias * moved_bias
