"""The solver of one label of PPD-Sparse: its working set, its passes over all rows and its duality gap.

Most labels have few positives, few non-zero weights and few rows with a dual variable above 0. A pass over all rows
therefore reads only the columns of non-zero weights. If the weights have changed by less than d in norm since a pass,
the score of a row has changed by less than d |x|, and only rows near the margin are scored again. The work of a label
is thus proportional to the data it needs. Notation as in `hinge_ascent`; `raw` is w.x, the score without bias.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.models.linear.column_kernels import add_columns, append_features, column_size, row_score, update_scores
from unmissed.models.linear.ppd_sparse.hinge_ascent import hinge_ascend
from unmissed.models.linear.ppd_sparse.hinge_certificate import (
    ROUNDING,
    dual_objective,
    error_sums,
    hinge_objective,
    update_error,
)
from unmissed.numerics.shrinkage import shrink

_IN_WORKING_SET = 1  # row_state of negatives in the working set; 0 is that of other negatives
_POSITIVE = 2
_EPOCHS = 50  # maximum number of epochs per round
_APPROXIMATE_ENTRIES = 100_000  # entries of X that an approximate pass may read
_APPROXIMATE_ROUNDS = 3  # rounds with an approximate pass before the first certificate, for labels with long passes
_KEEP = 0.8  # features take part in the ascent if |v| exceeds this fraction of the threshold
_MANY = 300_000  # entries of X above which a pass tries to skip columns
_DRIFT = 0.1  # maximum norm of the weight changes that such a pass may skip
_BELOW = np.float32(1 - 2**-24)  # a float32 times this is the next smaller float32


# 11 arguments: the rows are three arrays, and the list of features that occur is kept in three.
@kernel()
def gather_weights(indptr, indices, values, threshold, rows, signs, a, touched, total, features, w):
    """Recompute v = sum a z x in float64 into `total` and list the non-zero weights S(v) in `features` and `w`.

    Returns their number and 1/2 |S(v)|^2.
    """
    for at in range(touched.shape[0]):
        total[touched[at]] = 0
    for at in range(rows.shape[0]):
        if a[at] != 0:
            step = np.float64(a[at]) * np.float64(signs[at])
            for position in range(indptr[rows[at]], indptr[rows[at] + 1]):
                total[indices[position]] += step * np.float64(values[position])
    n = 0
    half_square = 0.0
    for at in range(touched.shape[0]):
        weight = shrink(total[touched[at]], threshold)
        if weight != 0:
            half_square += 0.5 * weight * weight
            features[n] = touched[at]
            w[n] = weight
            n += 1
    return n, half_square


# 15 arguments: the rows are three arrays, and each row has a sign, a bound, a diagonal term and a variable.
@kernel()
def ascend_working_set(
    indptr, indices, values, use_bias, threshold, rows, signs, caps, hs, a, touched, total, local_index, goal, seed
):
    """Maximize the dual over the working set, with the features whose |v| is above or near the threshold.

    `total` is v. The weights of other features are taken as 0. `local_index` (int32) is a work array of -1, reset on
    return. Returns the number of epochs.
    """
    n = 0
    v = np.empty(touched.shape[0], np.float32)
    for at in range(touched.shape[0]):
        if abs(total[touched[at]]) > _KEEP * threshold:
            local_index[touched[at]] = n
            v[n] = total[touched[at]]
            n += 1
    size = 0
    for at in range(rows.shape[0]):
        size += indptr[rows[at] + 1] - indptr[rows[at]]
    starts = np.zeros(rows.shape[0] + 1, np.int64)
    local = np.empty(size, np.uint32)
    entries = np.empty(size, np.float32)
    size = 0
    for at in range(rows.shape[0]):
        for position in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = local_index[indices[position]]
            if feature >= 0:
                local[size] = feature
                entries[size] = values[position]
                size += 1
        starts[at + 1] = size
    for at in range(touched.shape[0]):
        local_index[touched[at]] = -1
    bias = use_bias * np.float32((a * signs).sum())
    return hinge_ascend(
        starts, local, entries, use_bias, np.float32(threshold), signs, caps, hs, a, v, bias, goal, _EPOCHS, seed
    )


@kernel()
def dual_bounds(cost, squared):
    """Return the upper bound and the h of a dual variable; the bound is 0 for a cost of 0."""
    if squared and cost > 0:
        return np.float32(np.inf), np.float32(0.5 / cost)
    cap = np.float32(cost)
    return cap if np.float64(cap) <= cost else cap * _BELOW, np.float32(0)


@kernel()
def initial_dual_variables(indptr, indices, values, use_bias, threshold, positives, cap, h, v):
    """Return initial dual variables of the positives: one update each, with the bias fixed at -1; v is reset to 0."""
    a = np.zeros(positives.shape[0], np.float32)
    bias_size = np.float64(use_bias)
    for at in range(positives.shape[0]):
        begin, end = indptr[positives[at]], indptr[positives[at] + 1]
        score, square = -bias_size, 0.0
        for position in range(begin, end):
            value = np.float64(values[position])
            score += value * shrink(v[indices[position]], threshold)
            square += value * value
        if square > 0:
            a[at] = min(max((1.0 - score) / (square + h), 0.0), np.float64(cap))
        for position in range(begin, end):
            v[indices[position]] += np.float64(a[at]) * np.float64(values[position])
    for at in range(positives.shape[0]):
        for position in range(indptr[positives[at]], indptr[positives[at] + 1]):
            v[indices[position]] = 0
    return a


@kernel()
def near_margin(indptr, indices, values, lengths, row_state, raw, dense, drift, min_score):
    """Return the negatives of score above `min_score` and their scores; `raw` has errors of up to drift |x|."""
    n = 0
    for row in range(raw.shape[0]):
        n += row_state[row] != _POSITIVE and raw[row] + drift * lengths[row] > min_score
    rows = np.empty(n, np.int32)
    scores = np.empty(n)
    n = 0
    for row in range(raw.shape[0]):
        if row_state[row] != _POSITIVE and raw[row] + drift * lengths[row] > min_score:
            score = raw[row]
            if drift > 0:
                score = row_score(indptr, indices, values, row, dense)
            if score > min_score:
                rows[n] = row
                scores[n] = score
                n += 1
    return rows[:n], scores[:n]


@kernel()
def _loss_derivative(scores, n, sign, bias, squared):
    """Return the absolute derivative in the bias of the unweighted loss of the first n scores."""
    total = 0.0
    for at in range(n):
        slack = 1.0 - sign * (scores[at] + bias)
        if slack > 0:
            total += 2.0 * slack if squared else 1.0
    return total


@kernel()
def optimal_bias(negative, positive, c_positive, c_negative, squared, max_bias):
    """Return the b <= max_bias that minimizes 1/2 b^2 + loss by bisection, and the derivative at `max_bias`."""
    max_score = -np.inf
    candidates = np.empty(negative.shape[0])
    n = 0
    for at in range(negative.shape[0]):
        max_score = max(max_score, negative[at])
        if negative[at] > -1.0 - max_bias:
            candidates[n] = negative[at]
            n += 1
    low = min(-1.0 - max_score, max_bias, 0.0)
    n_pos = positive.shape[0]
    derivative = max_bias + c_negative * _loss_derivative(candidates, n, -1.0, max_bias, squared)
    derivative -= c_positive * _loss_derivative(positive, n_pos, 1.0, max_bias, squared)
    n_always, always_sum = 0, 0.0  # negatives with a loss at `low` already, and the sum of 1 + score over them
    for _ in range(60 if derivative > 0 else 0):
        middle = 0.5 * (low + max_bias)
        now = 2.0 * (always_sum + n_always * middle) if squared else np.float64(n_always)
        now = middle + c_negative * (now + _loss_derivative(candidates, n, -1.0, middle, squared))
        increasing = now - c_positive * _loss_derivative(positive, n_pos, 1.0, middle, squared) > 0
        kept = 0
        for at in range(n):
            if increasing == (candidates[at] > -1.0 - middle):
                candidates[kept] = candidates[at]
                kept += 1
            elif not increasing:
                n_always += 1
                always_sum += 1.0 + candidates[at]
        if increasing:
            max_bias = middle
        else:
            low = middle
        n = kept
        if max_bias - low <= 1e-7:
            break
    return max_bias, derivative


@kernel()
def approximate_candidates(columns, row_state, features, w, n_wanted, raw):
    """Return about `n_wanted` negatives outside the working set that have the highest approximate scores.

    Only the columns of largest squared weight per non-zero are read. If they give too few positive scores, the first
    rows fill the list.
    """
    starts, rows, entries = columns
    priority = np.empty(features.shape[0])
    for at in range(features.shape[0]):
        priority[at] = -(np.float64(w[at]) ** 2) / (starts[features[at] + 1] - starts[features[at]])
    order = np.argsort(priority)
    n, size = 0, 0
    while n < order.shape[0] and (n == 0 or size <= _APPROXIMATE_ENTRIES):
        size += starts[features[order[n]] + 1] - starts[features[order[n]]]
        n += 1
    raw[:] = 0
    add_columns(starts, rows, entries, features[order[:n]], w[order[:n]], raw)
    new_rows = np.empty(raw.shape[0], np.int32)
    scores = np.empty(raw.shape[0])
    n = 0
    for row in range(raw.shape[0]):
        if row_state[row] == 0 and raw[row] > 0:
            new_rows[n] = row
            scores[n] = raw[row]
            n += 1
    if n > n_wanted:
        return new_rows[:n][scores[:n] >= np.partition(scores[:n], n - n_wanted)[n - n_wanted]][:n_wanted]
    for row in range(raw.shape[0]):
        if n < n_wanted and row_state[row] == 0 and raw[row] <= 0:
            new_rows[n] = row
            n += 1
    return new_rows[:n].copy()


@kernel()
def most_violated_rows(rows, scores, row_state, min_score, n_wanted):
    """Return up to `n_wanted` rows outside the working set with the highest scores that are at least `min_score`."""
    n = 0
    candidates = np.empty(rows.shape[0])
    for at in range(rows.shape[0]):
        if row_state[rows[at]] == 0 and scores[at] >= min_score:
            candidates[n] = scores[at]
            n += 1
    if n > n_wanted:
        min_score = np.partition(candidates[:n], n - n_wanted)[n - n_wanted]
    new_rows = np.empty(min(n, n_wanted), np.int32)
    n = 0
    for at in range(rows.shape[0]):
        if n < n_wanted and row_state[rows[at]] == 0 and scores[at] >= min_score:
            new_rows[n] = rows[at]
            n += 1
    return new_rows[:n]


# 13 arguments: costs, loss and bias of a label are five numbers; matrices and buffers are tuples already.
@kernel()
def score_label(
    X, columns, lengths, positives, c_positive, c_negative, squared, use_bias, touched, max_bias, sizes, error, buffers
):
    """Score positives and negatives near the margin under the weights `dense`, and find the optimal bias.

    `max_bias` is a first guess of an upper bound of the bias; it is raised while the derivative there is negative.
    `error` bounds the rounding error of `raw` per unit of |x|; if it gets too large, `raw` is computed again from 0.
    Returns the near negatives, their scores, the scores of positives, the bias and the new error.
    """
    indptr, indices, values = X
    raw, row_state, dense, reference = buffers
    longest, largest = sizes
    error += update_error(touched, dense, reference, longest)
    if error * largest > ROUNDING:
        raw[:] = 0
        for at in range(touched.shape[0]):
            reference[touched[at]] = 0
        error = update_error(touched, dense, reference, longest)
    min_score = -1.0 - max(ROUNDING, error * largest)
    size = 0
    for at in range(touched.shape[0]):
        if dense[touched[at]] != reference[touched[at]]:
            size += columns[0][touched[at] + 1] - columns[0][touched[at]]
    drift, size = update_scores(columns, touched, dense, reference, raw, _DRIFT if size > _MANY else 0.0)
    if drift > 0:
        near = 0
        for row in range(raw.shape[0]):
            if row_state[row] != _POSITIVE and raw[row] + drift * lengths[row] > -1.0 - max_bias:
                near += indptr[row + 1] - indptr[row]
        if near > size:
            drift, _ = update_scores(columns, touched, dense, reference, raw, 0.0)
    positive = np.empty(positives.shape[0])
    for at in range(positives.shape[0]):
        positive[at] = row_score(indptr, indices, values, positives[at], dense)
    step = 0.1
    while True:
        rows, negative = near_margin(
            indptr, indices, values, lengths, row_state, raw, dense, drift, min_score - max_bias
        )
        if use_bias == 0:
            return rows, negative, positive, 0.0, error
        bias, derivative = optimal_bias(negative, positive, c_positive, c_negative, squared, max_bias)
        if derivative >= 0:
            return rows, negative, positive, np.float64(np.float32(bias)), error
        max_bias += step
        step *= 2


# 14 arguments: costs, loss, penalty and limits of a label are seven numbers; matrices and buffers are tuples already.
# 111 lines: one loop, whose steps share two dozen local variables; each step of size is a kernel of its own.
@kernel()
def solve_hinge_label(
    X,
    lengths,
    sizes,
    use_bias,
    columns,
    positives,
    c_positive,
    c_negative,
    squared,
    threshold,
    tol,
    max_rounds,
    seed,
    buffers,
):
    """Return the features, weights, bias, objective, relative gap, epochs, rounds and working-set size of one label.

    Parameters
    ----------
    X, columns : (indptr, indices, values) of the rows, (starts, rows, entries) of the columns
    lengths : norms |x| of the rows, rounded up
    sizes : the largest number of non-zeros in a row, and the largest of the lengths
    positives : rows that have the label
    squared : whether the hinge is squared
    threshold : lambda
    buffers : work arrays. Of n_features: total, dense, reference (float64, 0), touched, features (int32), local_index
        (int32, -1), seen (bool, False), w (float32). Of n_samples: raw, approximate_scores (float64), row_state (int8,
        0). Arrays with a stated value have it on entry and are reset to it
    """
    indptr, indices, values = X
    total, dense, reference, touched, features, local_index, seen, w, raw, approximate_scores, row_state = buffers
    rows, n_pos = positives, positives.shape[0]
    for at in range(n_pos):
        row_state[positives[at]] = _POSITIVE
    n_touched = append_features(indptr, indices, positives, seen, touched, 0)
    cap, h = dual_bounds(c_positive, squared)
    signs, caps, hs = np.ones(n_pos, np.float32), np.full(n_pos, cap), np.full(n_pos, h)
    a = initial_dual_variables(indptr, indices, values, use_bias, threshold, positives, cap, h, dense)
    cap, h = dual_bounds(c_negative, squared)
    n, _ = gather_weights(indptr, indices, values, threshold, rows, signs, a, touched[:n_touched], total, features, w)
    dual_sum = a.sum() + 1.0
    n_wanted = np.int64(min(32 + 2 * dual_sum / max(c_negative, 1e-30), raw.shape[0] - n_pos))
    new_rows = approximate_candidates(columns, row_state, features[:n], w[:n], n_wanted, approximate_scores)
    initial_a = min(dual_sum / max(n_wanted, 1), np.float64(cap))
    max_bias = -1.0 if use_bias != 0 else 0.0
    raw[:] = 0
    error = 0.0
    objective, gap, bias, epochs, rounds = dual_sum, np.inf, 0.0, 0, 0
    approximate_rounds = _APPROXIMATE_ROUNDS if column_size(columns[0], features[:n]) > _MANY else 0
    while True:
        n_new = new_rows.shape[0]
        for at in range(n_new):
            row_state[new_rows[at]] = _IN_WORKING_SET
        rows = np.concatenate((rows, new_rows))
        signs = np.concatenate((signs, np.full(n_new, -1, np.float32)))
        caps = np.concatenate((caps, np.full(n_new, cap)))
        hs = np.concatenate((hs, np.full(n_new, h)))
        a = np.concatenate((a, np.full(n_new, initial_a, np.float32)))
        n_touched = append_features(indptr, indices, new_rows, seen, touched, n_touched)
        if initial_a > 0:
            gather_weights(indptr, indices, values, threshold, rows, signs, a, touched[:n_touched], total, features, w)
            initial_a = 0.0
        goal = max(0.3 * tol, 0.1 * min(gap, 0.1)) * objective
        epochs += ascend_working_set(
            indptr,
            indices,
            values,
            use_bias,
            threshold,
            rows,
            signs,
            caps,
            hs,
            a,
            touched[:n_touched],
            total,
            local_index,
            goal,
            seed + epochs,
        )
        n, half_square = gather_weights(
            indptr, indices, values, threshold, rows, signs, a, touched[:n_touched], total, features, w
        )
        if approximate_rounds > 0:
            approximate_rounds -= 1
            new_rows = approximate_candidates(
                columns, row_state, features[:n], w[:n], min(n_wanted, raw.shape[0] - rows.shape[0]), approximate_scores
            )
            continue
        rounds += 1
        for at in range(n_touched):
            dense[touched[at]] = 0
        for at in range(n):
            dense[features[at]] = w[at]
        near, negative, positive, bias, error = score_label(
            X,
            columns,
            lengths,
            positives,
            c_positive,
            c_negative,
            squared,
            use_bias,
            touched[:n_touched],
            max_bias,
            sizes,
            error,
            (raw, row_state, dense, reference),
        )
        if use_bias != 0:
            max_bias = bias + 0.02
        errors = error_sums(lengths, near, positives, error)
        objective = hinge_objective(negative, positive, bias, c_positive, c_negative, squared, threshold, w[:n], errors)
        dual = dual_objective(rows, a, hs, n_pos, lengths, c_positive, c_negative, use_bias, half_square)
        gap = max(objective * (1.0 + ROUNDING) - dual, 0.0) / max(objective, 1e-300)
        if gap <= tol or rounds >= max_rounds:
            break
        new_rows = most_violated_rows(near, negative, row_state, -1.0 - bias, max(32, rows.shape[0]))
    for at in range(rows.shape[0]):
        row_state[rows[at]] = 0
    for at in range(n_touched):
        seen[touched[at]] = False
        dense[touched[at]] = reference[touched[at]] = total[touched[at]] = 0
    return features[:n].copy(), w[:n].copy(), bias, objective, gap, epochs, rounds, rows.shape[0]
