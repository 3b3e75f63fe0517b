"""The per-label phase: dual coordinate ascent for one label over a small working set of rows.

Only active rows (a > 0) determine the solution, often fewer than 1 in 100. Sweeps in lanes find most of them; after
that, many epochs over the working set cost as much as one pass over X. Notation as in `lane_ascent`.

The cost of a visit is loading the row, so rows may be packed (see `numerics.packed_rows`).
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.models.linear.dismec.weight_pairs import merge_weights, pair_add, pair_dot, pair_move, split_weights
from unmissed.numerics.dense_rows import dense_add, dense_dot, dense_pair_dot, dense_score, prefetch_dense_row
from unmissed.numerics.packed_rows import prefetch_packed_row, row_add, row_dot, shuffle

_ZERO = np.float32(0)
FAR_FROM_ACTIVE = 0.05  # An inactive row with a larger gradient is unlikely to become active soon.
_EPOCHS_WITHOUT_FAR = 4  # Epochs that leave out rows which are far from active at the start.
_INNER_TOLERANCE = 0.3  # Tolerance of epochs over active rows, relative to that of all epochs.
_MAX_FEATURES_PER_ENTRY = 4  # Weights stay unsplit if w has more features per non-zero of the working set.
_UNSPLIT_TOLERANCE = 0.3  # Factor of the tolerance for unsplit weights, which converge more slowly.
_MAX_GROWTH = 0.5  # Largest relative change of all negatives in one step.
_MIN_SCALE, _MAX_SCALE = 1e-3, 1e3  # Bounds of their total scale.
PREFETCH_DISTANCE = 3  # Prefetch distance, in rows.


@kernel()
def _step(gradient, curvature, old, own, cross_derivative, growth_curvature, scale):
    """Return the step of one variable, the relative growth of all negatives, and the joint curvature.

    The one-variable problem is solved jointly with the factor by which all negatives grow. `cross_derivative` is the
    derivative of the gradient by that growth, `growth_curvature` the second derivative by it, `own` the variable's own
    part in the growth, `scale` the factor so far. If the joint problem is ill-conditioned or the growth out of bounds,
    only the variable moves.
    """
    if growth_curvature > 0:
        joint_curvature = curvature - cross_derivative * cross_derivative / growth_curvature
        own_factor = 1 - cross_derivative * own / growth_curvature
        if joint_curvature > 0.1 * curvature and own_factor > 0.5:
            step = max(-gradient / joint_curvature, -old / own_factor)
            growth = -cross_derivative * step / growth_curvature
            if abs(growth) < _MAX_GROWTH and _MIN_SCALE < scale * (1 + growth) < _MAX_SCALE:
                return step, growth, joint_curvature
    return max(-gradient / curvature, -old), 0.0, curvature


# 17 arguments: packed rows are four arrays, and the state of a label is kept in one array per quantity.
@kernel()
def _epoch(
    indptr, entries, values, mask, dense, norms, use_bias, rows, h_of_rows, a, w, pairs, split, order, n, min_gain,
    far
):  # fmt: skip
    """Do coordinate steps for the variables order[:n]; skip steps that gain at most `min_gain`.

    Returns the updated `split` (see `_split_weights`) and the gain of the dual objective; far[t] tells whether row t is
    far from becoming active.
    """
    is_split, scale, bias, bias_positives, growth_curvature, square = split
    dense_begins, dense_values, n_dense, dense_steps = dense
    dense_begin, dense_step, gain = 0, np.float32(1), 0.0
    h_positives, h_negative, inverse_weights = h_of_rows
    n_positives, is_weighted = h_positives.shape[0], inverse_weights.shape[0] > 0
    for position in range(n):
        at = order[position]
        if position + PREFETCH_DISTANCE < n:
            ahead = rows[order[position + PREFETCH_DISTANCE]]
            prefetch_packed_row(indptr, entries, values, mask, ahead)
            if n_dense > 0:  # a call that does nothing costs much of a step on a short sparse row
                prefetch_dense_row(dense, ahead)
        begin, end = indptr[rows[at]], indptr[rows[at] + 1]
        if n_dense > 0:
            dense_begin, dense_step = dense_begins[rows[at]], dense_steps[rows[at]]
        sign, h = (1.0, np.float64(h_positives[at])) if at < n_positives else (-1.0, np.float64(h_negative))
        if is_weighted and at >= n_positives:
            h *= np.float64(inverse_weights[rows[at]])
        if is_split:
            score, score_positives = pair_dot(entries, values, begin, end, mask, pairs)
        else:
            score, score_positives = row_dot(entries, values, begin, end, w, mask), _ZERO
        if n_dense > 0 and is_split:
            of_negatives, of_positives = dense_pair_dot(dense_values, dense_begin, pairs, n_dense)
            score, score_positives = score + dense_step * of_negatives, score_positives + dense_step * of_positives
        elif n_dense > 0:
            score += dense_step * dense_dot(dense_values, dense_begin, w, 0, n_dense)
        scaled = is_split and sign < 0
        old = a[at] * scale if scaled else np.float64(a[at])
        cross_derivative = sign * scale * (score + bias)
        gradient = cross_derivative + sign * (score_positives + bias_positives) - 1 + h * old
        far[at] = gradient > FAR_FROM_ACTIVE
        if old == 0 and gradient >= 0:
            continue
        own = old if scaled else 0.0
        cross_derivative += h * own
        curvature = norms[rows[at]] + h
        step, growth, joint_curvature = _step(gradient, curvature, old, own, cross_derivative, growth_curvature, scale)
        step_gain = -step * (gradient + 0.5 * joint_curvature * step)
        if step_gain <= min_gain:
            continue
        gain += step_gain
        if not is_split:
            a[at] = old + step
            row_add(entries, values, begin, end, np.float32(step * sign), w, mask)
            if n_dense > 0:
                dense_add(dense_values, dense_begin, np.float32(step * sign * dense_step), w, 0, n_dense)
            square += step * (2 * sign * score + step * (norms[rows[at]] - use_bias))
            bias += use_bias * step * sign
            continue
        # 0 if step and growth were solved for jointly
        derivative = (1 + growth) * (cross_derivative * step + growth_curvature * growth)
        growth_curvature *= (1 + growth) * (1 + growth)
        scale *= 1 + growth
        if scaled:
            new = old * (1 + growth) + step
            a[at] = new / scale if new > 1e-9 * old else 0.0
            derivative += step * (gradient + curvature * step + cross_derivative * growth)
            growth_curvature += 2 * (1 + growth) * cross_derivative * step + curvature * step * step
            pair_add(entries, values, begin, end, mask, np.float32(step * sign / scale), pairs, 0)
            if n_dense > 0:
                dense_add(dense_values, dense_begin, np.float32(step * sign / scale * dense_step), pairs, 0, n_dense)
            bias += use_bias * step * sign / scale
        else:
            a[at] = old + step
            pair_add(entries, values, begin, end, mask, np.float32(step * sign), pairs, 1)
            if n_dense > 0:
                dense_add(dense_values, dense_begin, np.float32(step * sign * dense_step), pairs, n_dense, n_dense)
            bias_positives += use_bias * step * sign
        if growth_curvature > 0:  # a step that was clipped at a = 0 leaves a derivative
            growth = min(max(-derivative / growth_curvature, -_MAX_GROWTH), _MAX_GROWTH)
            if _MIN_SCALE < scale * (1 + growth) < _MAX_SCALE:
                growth_curvature *= (1 + growth) * (1 + growth)
                scale *= 1 + growth
    return (is_split, scale, bias, bias_positives, growth_curvature, square), gain


# 13 arguments: packed rows are four arrays, and the state of a label is kept in one array per quantity.
@kernel()
def _split_weights(indptr, entries, values, mask, dense, use_bias, rows, h_of_rows, a, w, pairs, bias, square):
    """Split w into the contributions of negatives, which can be scaled, and of positives, stored as `pairs`.

    Returns whether w was split, the scale, the negative and positive parts of the bias, the curvature of the dual
    objective along the scaling of all negatives, and |w|^2 as passed in. w is not split if no negative is active (it
    may then hold more than the working set contributed), or if it is too long compared with the working set.
    """
    dense_begins, dense_values, n_dense, dense_steps = dense
    h_positives, h_negative, inverse_weights = h_of_rows
    n_positives, is_weighted = h_positives.shape[0], inverse_weights.shape[0] > 0
    sum_negatives, squares, size = 0.0, 0.0, n_dense * rows.shape[0]
    for at in range(rows.shape[0]):
        size += indptr[rows[at] + 1] - indptr[rows[at]]
        if at >= n_positives:
            h = np.float64(h_negative)
            if is_weighted:
                h *= np.float64(inverse_weights[rows[at]])
            sum_negatives += np.float64(a[at])
            squares += h * np.float64(a[at]) * np.float64(a[at])
    if not sum_negatives > 0 or w.shape[0] > _MAX_FEATURES_PER_ENTRY * size:
        return False, 1.0, np.float64(bias), 0.0, 0.0, square
    square_negatives, product = split_weights(w, pairs, n_dense), 0.0  # |w_negatives|^2, w_negatives.w_positives
    for at in range(n_positives):
        if a[at] > 0:
            begin, end, variable = indptr[rows[at]], indptr[rows[at] + 1], np.float64(a[at])
            score, score_positives = pair_dot(entries, values, begin, end, mask, pairs)
            x_square = pair_move(entries, values, begin, end, mask, a[at], pairs)
            if n_dense > 0:
                dense_begin, dense_step = dense_begins[rows[at]], dense_steps[rows[at]]
                of_negatives, of_positives = dense_pair_dot(dense_values, dense_begin, pairs, n_dense)
                score, score_positives = score + dense_step * of_negatives, score_positives + dense_step * of_positives
                square_numbers = dense_score(dense_values, dense_begin, dense_values, dense_begin, n_dense)
                x_square += np.float64(dense_step) * np.float64(dense_step) * square_numbers
                dense_add(dense_values, dense_begin, -a[at] * dense_step, pairs, 0, n_dense)
                dense_add(dense_values, dense_begin, a[at] * dense_step, pairs, n_dense, n_dense)
            length = variable * x_square
            square_negatives += variable * (length - 2 * score)
            product += variable * (score - score_positives - length)
    square_negatives = max(square_negatives, 0.0)
    bias_negatives = -use_bias * sum_negatives
    growth_curvature = squares + square_negatives + bias_negatives * bias_negatives
    derivative = squares + square_negatives + product + bias_negatives * bias - sum_negatives
    growth = min(max(-derivative / growth_curvature, -_MAX_GROWTH), _MAX_GROWTH) if growth_curvature > 0 else 0.0
    return (
        True,
        1 + growth,
        bias_negatives,
        bias - bias_negatives,
        growth_curvature * (1 + growth) * (1 + growth),
        square,
    )


@kernel()
def _merge_weights(n_positives, a, w, pairs, n_dense, split, write_back):
    """Undo `_split_weights`; return the bias and |w|^2. Unless `write_back`, w and |w|^2 are stale."""
    is_split, scale, bias, bias_positives, _, square = split
    if is_split:
        for at in range(n_positives, a.shape[0]):
            a[at] *= np.float32(scale)
    if is_split and write_back:
        square = merge_weights(np.float32(scale), pairs, w, n_dense)
    return np.float32(scale * bias + bias_positives), max(square, 0.0)


@kernel()
def _far_last(order, a, far):
    """Move inactive rows that are far to the end; return the number of the others."""
    near = 0
    for position in range(order.shape[0]):
        at = order[position]
        if a[at] > _ZERO or not far[at]:
            order[position] = order[near]
            order[near] = at
            near += 1
    return near


@kernel()
def _active_first(order, n, a):
    """Move active rows to the front of order[:n]; return their number."""
    active = 0
    for position in range(n):
        at = order[position]
        if a[at] > _ZERO:
            order[position] = order[active]
            order[active] = at
            active += 1
    return active


# 19 arguments: rows are four arrays and the dense ones, the state of a label is six, four numbers say when to stop.
@kernel()
def ascend(
    indptr, entries, values, mask, dense, norms, use_bias, rows, h_of_rows, a, far, w, pairs, bias, square,
    tolerance, max_epochs, seed, write_back
):  # fmt: skip
    """Maximize the dual objective over a working set until an epoch gains at most `tolerance`.

    `h_of_rows` is (h of each positive, h of a negative of weight 1, 1/weight of each row of X, or nothing if all
    weights are 1); positives are the first of `rows`. Returns the bias, |w|^2 (approximate) and the number of epochs.

    Each epoch over the working set is followed by up to five over its active rows; every other epoch skips rows that
    are far from active. Inactive rows with `far` at the start are left out of the first epochs; `far` is updated.
    Steps that gain less than their part of the tolerance are skipped.

    Negatives are correlated, if only by the constant feature: when one grows, all others should shrink, which takes
    many one-variable steps. Each step is therefore solved jointly with a factor that scales all negatives. To this
    end w is split into the contributions of negatives and of positives; `pairs` (two numbers per feature) is workspace.
    Unless `write_back`, w and |w|^2 are stale afterwards.
    """
    n = rows.shape[0]
    order = np.arange(n)
    state = np.uint64(seed) ^ np.uint64(88172645463325252)
    X = indptr, entries, values, mask, dense
    split = _split_weights(*X, use_bias, rows, h_of_rows, a, w, pairs, bias, square)
    if not split[0]:
        tolerance *= _UNSPLIT_TOLERANCE
    min_gain = _INNER_TOLERANCE * tolerance / max(n, 1)
    visited = _far_last(order, a, far)
    epochs, near = 0, visited
    while epochs < max_epochs:
        epochs += 1
        state = shuffle(order, near, state)
        split, gain = _epoch(*X, norms, use_bias, rows, h_of_rows, a, w, pairs, split, order, near, min_gain, far)
        if gain <= tolerance:
            break
        near = _far_last(order[:visited], a, far)
        active = _active_first(order, near, a)
        for _ in range(5):
            state = shuffle(order, active, state)
            split, inner_gain = _epoch(
                *X, norms, use_bias, rows, h_of_rows, a, w, pairs, split, order, active, min_gain, far
            )
            if inner_gain <= max(_INNER_TOLERANCE * tolerance, 0.1 * gain):
                break
        if epochs == _EPOCHS_WITHOUT_FAR:
            visited = n
        if epochs % 2 == 0:
            near = visited
    bias, square = _merge_weights(h_of_rows[0].shape[0], a, w, pairs, dense[2], split, write_back)
    return bias, square, epochs


@kernel()
def best_bias_shift(slack, slack_weights, positive_scores, positive_costs, cost_negative, offset):
    """Return the shift d <= 0 of the bias that minimizes the primal objective with w fixed.

    After the per-label phase the bias is too high, and many rows outside the working set are slightly violated only
    because of it. Rows that stay violated after the shift are worth adding to the working set. `slack_weights` are the
    weights of the rows of `slack`, or nothing if all are 1. `offset` is the penalized part of the bias.
    """
    shift, cost, is_weighted = 0.0, np.float64(cost_negative), slack_weights.shape[0] > 0
    remaining, n = slack.copy(), slack.shape[0]  # rows beyond the first n are not violated while the bias falls
    weights = slack_weights.copy()
    for _ in range(30):
        derivative, curvature = np.float64(offset) + shift, 1.0
        violated = 0
        for at in range(n):
            slack_now = np.float64(remaining[at]) + shift
            if slack_now > 0:
                if is_weighted:
                    cost = cost_negative * weights[at]
                    weights[at], weights[violated] = weights[violated], weights[at]
                derivative += 2 * cost * slack_now
                curvature += 2 * cost
                remaining[at], remaining[violated] = remaining[violated], remaining[at]
                violated += 1
        for at in range(positive_scores.shape[0]):
            shortfall = 1.0 - np.float64(positive_scores[at]) - shift
            if shortfall > 0:
                derivative -= 2 * positive_costs[at] * shortfall
                curvature += 2 * positive_costs[at]
        newton_step = derivative / curvature
        shift = min(shift - newton_step, 0.0)
        n = violated if newton_step > 0 else slack.shape[0]
        if abs(newton_step) < 1e-4:
            break
    return shift
