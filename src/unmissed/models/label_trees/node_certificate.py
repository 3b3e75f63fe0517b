"""Float64 sums that certify the classifiers of a tree node, one classifier per SIMD lane.

Products of float32 numbers are exact in float64, and sums have a fixed order. Rounding errors therefore have the bounds
of `models.linear.certificate`. Notation as in `node_kernels`. Row i has the positive lanes
pos_lanes[pos_indptr[i]:pos_indptr[i + 1]] with the costs pos_costs; any other lane has the cost `negative`.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.prefetch import prefetch_row

_MAX_SCATTER = 8  # up to this many active lanes are added one by one, more by SIMD
_MIN_DECREASE = 1e-8  # a bias has converged if a Newton step would decrease the objective by less, relatively


# 12 arguments: the rows are three arrays, and the positives of all lanes are three.
@kernel()
def sum_duals(lanes, indptr, indices, values, norms, pos_indptr, pos_lanes, pos_costs, negative, a, exact, sums):
    """Set exact = sum_i a_i z_i x_i, and the rows of sums to sum a, sum h a^2, sum a z and sum a |x| per lane.

    The dual variable of a row with cost 0 becomes 0, since h = 1/(2c) is infinite.
    """
    exact[:] = 0.0
    sums[:] = 0.0
    h_negative = 0.5 / negative
    h, z = np.full(len(lanes), h_negative), np.full(len(lanes), -1.0)
    added, active = np.empty(len(lanes)), np.empty(len(lanes), np.int64)
    total, quadratic, signed, spread = sums[0], sums[1], sums[2], sums[3]
    for row in range(a.shape[0]):
        if row + 1 < a.shape[0]:
            prefetch_row(indptr, indices, values, row + 1)
        mine, length = a[row], np.sqrt(np.float64(norms[row]))
        for position in range(pos_indptr[row], pos_indptr[row + 1]):
            lane = pos_lanes[position]
            z[lane], h[lane] = 1.0, 0.0
            if pos_costs[position] > 0:
                h[lane] = 0.5 / pos_costs[position]
            else:
                mine[lane] = 0
        for lane in range(len(lanes)):
            value = np.float64(mine[lane])
            total[lane] += value
            quadratic[lane] += h[lane] * value * value
            spread[lane] += value * length
            added[lane] = z[lane] * value
            signed[lane] += added[lane]
        for position in range(pos_indptr[row], pos_indptr[row + 1]):
            z[pos_lanes[position]], h[pos_lanes[position]] = -1.0, h_negative
        n_active = 0
        for lane in range(len(lanes)):
            if added[lane] != 0:
                active[n_active] = lane
                n_active += 1
        if n_active <= _MAX_SCATTER and len(lanes) > _MAX_SCATTER:
            for position in range(n_active):
                lane = active[position]
                for at in range(indptr[row], indptr[row + 1]):
                    exact[indices[at], lane] += added[lane] * np.float64(values[at])
        else:
            for at in range(indptr[row], indptr[row + 1]):
                w, v = exact[indices[at]], np.float64(values[at])
                for lane in range(len(lanes)):
                    w[lane] += added[lane] * v


@kernel()
def store_weights(lanes, exact, W, squares):
    """Store float32 weights in W; set squares[0] to each lane's |w|^2 before rounding, squares[1] to that after it."""
    squares[:] = 0.0
    before, after = squares[0], squares[1]
    for at in range(W.shape[0]):
        exact_row, new = exact[at], W[at]
        for lane in range(len(lanes)):
            before[lane] += exact_row[lane] * exact_row[lane]
            new[lane] = np.float32(exact_row[lane])
            after[lane] += np.float64(new[lane]) * np.float64(new[lane])


@kernel()
def float64_scores(lanes, indptr, indices, values, W, scores):
    """Set scores[i] = x_i.W in float64, without the bias, four non-zeros at a time."""
    for row in range(indptr.shape[0] - 1):
        if row + 2 < indptr.shape[0]:
            prefetch_row(indptr, indices, values, row + 1)
        score = scores[row]
        at, end = indptr[row], indptr[row + 1]
        score[:] = 0.0
        while at + 3 < end:
            w0, w1, w2, w3 = W[indices[at]], W[indices[at + 1]], W[indices[at + 2]], W[indices[at + 3]]
            v0, v1 = np.float64(values[at]), np.float64(values[at + 1])
            v2, v3 = np.float64(values[at + 2]), np.float64(values[at + 3])
            for lane in range(len(lanes)):
                score[lane] += (v0 * np.float64(w0[lane]) + v1 * np.float64(w1[lane])) + (
                    v2 * np.float64(w2[lane]) + v3 * np.float64(w3[lane])
                )
            at += 4
        while at < end:
            w0, v0 = W[indices[at]], np.float64(values[at])
            for lane in range(len(lanes)):
                score[lane] += v0 * np.float64(w0[lane])
            at += 1


@kernel()
def best_bias(lanes, scores, pos_indptr, pos_lanes, pos_costs, negative, steps, bias, loss):
    """Set each lane's bias to the minimizer of its objective for fixed weights, and its loss there.

    Newton's method on b^2/2 + the loss, which is piecewise quadratic; the best iterate is kept.
    """
    derivative, curvature = np.empty(len(lanes)), np.empty(len(lanes))
    current, best = np.empty(len(lanes)), np.full(len(lanes), np.inf)
    best_at = bias.copy()
    loss[:] = np.inf  # remains if numbers overflow
    for _ in range(steps + 1):
        _loss_at(lanes, scores, pos_indptr, pos_lanes, pos_costs, negative, bias, current, derivative, curvature)
        improvable = False
        for lane in range(len(lanes)):
            b = np.float64(bias[lane])
            value = 0.5 * b * b + current[lane]
            if value < best[lane]:
                best[lane] = value
                best_at[lane] = bias[lane]
                loss[lane] = current[lane]
            newton_step = -(b + derivative[lane]) / (1 + curvature[lane])
            improvable |= newton_step * newton_step * (1 + curvature[lane]) > 2 * _MIN_DECREASE * value
            bias[lane] = np.float32(b + newton_step)
        if not improvable:
            break
    bias[:] = best_at


@kernel()
def _loss_at(lanes, scores, pos_indptr, pos_lanes, pos_costs, negative, bias, loss, derivative, curvature):
    """Set each lane's loss over all rows, and its first two derivatives with respect to the bias."""
    loss[:] = 0.0
    derivative[:] = 0.0
    curvature[:] = 0.0
    z, cost = np.full(len(lanes), -1.0), np.full(len(lanes), np.float64(negative))
    for row in range(scores.shape[0]):
        line = scores[row]
        for position in range(pos_indptr[row], pos_indptr[row + 1]):
            z[pos_lanes[position]], cost[pos_lanes[position]] = 1.0, pos_costs[position]
        for lane in range(len(lanes)):
            slack = max(1.0 - z[lane] * (line[lane] + np.float64(bias[lane])), 0.0)
            cost_times_slack = cost[lane] * slack
            loss[lane] += cost_times_slack * slack
            derivative[lane] -= 2.0 * z[lane] * cost_times_slack
            curvature[lane] += 2.0 * cost[lane] if slack > 0.0 else 0.0
        for position in range(pos_indptr[row], pos_indptr[row + 1]):
            z[pos_lanes[position]], cost[pos_lanes[position]] = -1.0, negative
