"""All of one label of PPD-Sparse in one call: its working set, its passes and its certificate.

Most labels have few positives, and then few weights, few rows with a dual variable above 0 and nothing in common with
most rows. So a pass over all rows reads only the columns of the non-zero weights; and while the weights have moved by
less than d since that pass, the score of a row of length 1 has moved by less than d, so that the next certificate
scores only the rows that come near their margin. What a label costs is what it touches. Notation as in `sparse_hinge`;
`raw` is a score without bias.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.columns import add_columns, catch_up, column_size, row_score, see_features
from unmissed.kernels.hinge_certificate import (
    ROUNDING,
    catch_up_error,
    dual_objective,
    error_sums,
    hinge_objective,
)
from unmissed.kernels.sparse_hinge import hinge_ascend, shrink

_INSIDE = 1  # mark of negatives in the working set
_POSITIVE = 2
_EPOCHS = 50  # at most, between two passes
_ROUGH = 100_000  # entries of X that a rough pass may read
_ROUGH_ROUNDS = 3  # rounds with such a pass before the first certificate, for labels whose passes are long
_KEEP = 0.8  # features whose v comes to this share of the threshold take part in the ascent
_MANY = 300_000  # entries of X that a pass reads without trying to leave some out
_DRIFT = 0.1  # how much of the weights, by length, such a pass may leave out
_BELOW = np.float32(1 - 2**-24)  # times a number, the next smaller one


@kernel()
def gather_weights(indptr, indices, values, threshold, rows, signs, a, touched, total, features, w):
    """Recompute v = sum a z x in float64 from the dual variables and list the non-zero weights S(v), float32.

    Returns how many there are and 1/2 |S(v)|^2.
    """
    for at in range(touched.shape[0]):
        total[touched[at]] = 0
    for at in range(rows.shape[0]):
        if a[at] != 0:
            step = np.float64(a[at]) * np.float64(signs[at])
            for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
                total[indices[place]] += step * np.float64(values[place])
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


@kernel()
def ascend_locally(
    indptr, indices, values, use_bias, threshold, rows, signs, caps, hs, a, touched, total, name, goal, seed
):
    """Raise the dual over the working set with the features that are, or may soon be, above the threshold.

    `total` is v; the other features keep the weight 0 here, whatever becomes of their v. `name` (int32, -1 everywhere
    and left so) is scratch. Returns the number of epochs.
    """
    n = 0
    v = np.empty(touched.shape[0], np.float32)
    for at in range(touched.shape[0]):
        if abs(total[touched[at]]) > _KEEP * threshold:
            name[touched[at]] = n
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
        for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = name[indices[place]]
            if feature >= 0:
                local[size] = feature
                entries[size] = values[place]
                size += 1
        starts[at + 1] = size
    for at in range(touched.shape[0]):
        name[touched[at]] = -1
    bias = use_bias * np.float32((a * signs).sum())
    return hinge_ascend(
        starts, local, entries, use_bias, np.float32(threshold), signs, caps, hs, a, v, bias, goal, _EPOCHS, seed
    )


@kernel()
def bounds_of(cost, squared):
    """Return the cap and the h of a dual variable; a row that costs nothing stays at 0."""
    if squared and cost > 0:
        return np.float32(np.inf), np.float32(0.5 / cost)
    cap = np.float32(cost)
    return cap if np.float64(cap) <= cost else cap * _BELOW, np.float32(0)


@kernel()
def visit_once(indptr, indices, values, use_bias, threshold, positives, cap, h, v):
    """Return the dual variables of positives visited once each, while the bias is held at -1; v stays 0."""
    a = np.zeros(positives.shape[0], np.float32)
    held = np.float64(use_bias)
    for at in range(positives.shape[0]):
        begin, end = indptr[positives[at]], indptr[positives[at] + 1]
        score, square = -held, 0.0
        for place in range(begin, end):
            value = np.float64(values[place])
            score += value * shrink(v[indices[place]], threshold)
            square += value * value
        if square > 0:
            a[at] = min(max((1.0 - score) / (square + h), 0.0), np.float64(cap))
        for place in range(begin, end):
            v[indices[place]] += np.float64(a[at]) * np.float64(values[place])
    for at in range(positives.shape[0]):
        for place in range(indptr[positives[at]], indptr[positives[at] + 1]):
            v[indices[place]] = 0
    return a


@kernel()
def near_margin(indptr, indices, values, lengths, mark, raw, dense, drift, least):
    """List the negatives whose score exceeds `least`, and their scores, given scores that are off by drift |x|."""
    n = 0
    for row in range(raw.shape[0]):
        n += mark[row] != _POSITIVE and raw[row] + drift * lengths[row] > least
    rows = np.empty(n, np.int32)
    scores = np.empty(n)
    n = 0
    for row in range(raw.shape[0]):
        if mark[row] != _POSITIVE and raw[row] + drift * lengths[row] > least:
            score = raw[row]
            if drift > 0:
                score = row_score(indptr, indices, values, row, dense)
            if score > least:
                rows[n] = row
                scores[n] = score
                n += 1
    return rows[:n], scores[:n]


@kernel()
def _pull(scores, n, sign, bias, squared):
    """Return how many of the first n scores lose with this bias, or twice the sum of what they lose."""
    total = 0.0
    for at in range(n):
        slack = 1.0 - sign * (scores[at] + bias)
        if slack > 0:
            total += 2.0 * slack if squared else 1.0
    return total


@kernel()
def best_bias(negative, positive, c_positive, c_negative, squared, high):
    """Return the b <= high that minimises 1/2 b^2 + the loss of scores raw + b, and the slope of that at `high`."""
    top = -np.inf
    spare = np.empty(negative.shape[0])
    n = 0
    for at in range(negative.shape[0]):
        top = max(top, negative[at])
        if negative[at] > -1.0 - high:
            spare[n] = negative[at]
            n += 1
    low = min(-1.0 - top, high, 0.0)
    n_pos = positive.shape[0]
    slope = high + c_negative * _pull(spare, n, -1.0, high, squared)
    slope -= c_positive * _pull(positive, n_pos, 1.0, high, squared)
    always, sure = 0, 0.0  # negatives that lose at `low` already, and the sum of what they lose at bias 0
    for _ in range(60 if slope > 0 else 0):
        middle = 0.5 * (low + high)
        now = 2.0 * (sure + always * middle) if squared else np.float64(always)
        now = middle + c_negative * (now + _pull(spare, n, -1.0, middle, squared))
        rising = now - c_positive * _pull(positive, n_pos, 1.0, middle, squared) > 0
        kept = 0
        for at in range(n):
            if rising == (spare[at] > -1.0 - middle):
                spare[kept] = spare[at]
                kept += 1
            elif not rising:
                always += 1
                sure += 1.0 + spare[at]
        if rising:
            high = middle
        else:
            low = middle
        n = kept
        if high - low <= 1e-7:
            break
    return high, slope


@kernel()
def rough_candidates(columns, mark, features, w, most, raw):
    """Return about `most` negatives outside the working set that the weights score highest.

    Only the columns that say most for what they cost are read; where they say nothing, the first rows fill the list.
    """
    starts, rows, entries = columns
    worth = np.empty(features.shape[0])
    for at in range(features.shape[0]):
        worth[at] = -(np.float64(w[at]) ** 2) / (starts[features[at] + 1] - starts[features[at]])
    order = np.argsort(worth)
    n, size = 0, 0
    while n < order.shape[0] and (n == 0 or size <= _ROUGH):
        size += starts[features[order[n]] + 1] - starts[features[order[n]]]
        n += 1
    raw[:] = 0
    add_columns(starts, rows, entries, features[order[:n]], w[order[:n]], raw)
    found = np.empty(raw.shape[0], np.int32)
    scores = np.empty(raw.shape[0])
    n = 0
    for row in range(raw.shape[0]):
        if mark[row] == 0 and raw[row] > 0:
            found[n] = row
            scores[n] = raw[row]
            n += 1
    if n > most:
        return found[:n][scores[:n] >= np.partition(scores[:n], n - most)[n - most]][:most]
    for row in range(raw.shape[0]):
        if n < most and mark[row] == 0 and raw[row] <= 0:
            found[n] = row
            n += 1
    return found[:n].copy()


@kernel()
def worst(rows, scores, mark, least, most):
    """Return rows outside the working set that score at least `least`: at most about `most`, those of the highest."""
    n = 0
    spare = np.empty(rows.shape[0])
    for at in range(rows.shape[0]):
        if mark[rows[at]] == 0 and scores[at] >= least:
            spare[n] = scores[at]
            n += 1
    if n > most:
        least = np.partition(spare[:n], n - most)[n - most]
    found = np.empty(min(n, most), np.int32)
    n = 0
    for at in range(rows.shape[0]):
        if n < most and mark[rows[at]] == 0 and scores[at] >= least:
            found[n] = rows[at]
            n += 1
    return found[:n]


@kernel()
def score_label(
    X, columns, lengths, positives, c_positive, c_negative, squared, use_bias, touched, high, sizes, error, buffers
):
    """Score positives and near negatives under the weights `dense` and find the best bias, not far above `high`.

    `error` bounds the rounding error of `raw` per unit of |x|. When it gets too large, `raw` is computed again from 0.
    Returns the near negatives, their scores, the scores of positives, the bias and the new error.
    """
    indptr, indices, values = X
    raw, mark, dense, reference = buffers
    longest, largest = sizes
    error += catch_up_error(touched, dense, reference, longest)
    if error * largest > ROUNDING:
        raw[:] = 0
        for at in range(touched.shape[0]):
            reference[touched[at]] = 0
        error = catch_up_error(touched, dense, reference, longest)
    least = -1.0 - max(ROUNDING, error * largest)
    size = 0
    for at in range(touched.shape[0]):
        if dense[touched[at]] != reference[touched[at]]:
            size += columns[0][touched[at] + 1] - columns[0][touched[at]]
    drift, size = catch_up(columns, touched, dense, reference, raw, _DRIFT if size > _MANY else 0.0)
    if drift > 0:
        near = 0
        for row in range(raw.shape[0]):
            if mark[row] != _POSITIVE and raw[row] + drift * lengths[row] > -1.0 - high:
                near += indptr[row + 1] - indptr[row]
        if near > size:
            drift, _ = catch_up(columns, touched, dense, reference, raw, 0.0)
    positive = np.empty(positives.shape[0])
    for at in range(positives.shape[0]):
        positive[at] = row_score(indptr, indices, values, positives[at], dense)
    step = 0.1
    while True:
        rows, negative = near_margin(indptr, indices, values, lengths, mark, raw, dense, drift, least - high)
        if use_bias == 0:
            return rows, negative, positive, 0.0, error
        bias, slope = best_bias(negative, positive, c_positive, c_negative, squared, high)
        if slope >= 0:
            return rows, negative, positive, np.float64(np.float32(bias)), error
        high += step
        step *= 2


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
    """Solve one label; return its features, weights, bias, objective, relative gap, epochs and rounds.

    Parameters
    ----------
    X, columns : (indptr, indices, values) of the rows, (starts, rows, entries) of the columns
    lengths : |x| of the rows, rounded up
    sizes : the most entries that a row has, and the largest of the lengths
    positives : rows that have the label
    squared : whether the hinge is squared
    threshold : lambda
    buffers : total, dense, reference (float64, zeros and left so), touched, features (int32), name (int32, -1
        everywhere and left so), seen (bool, False and left so) and w (float32), of n_features; raw, rough (float64)
        and mark (int8, all 0 and left so), of n_samples
    """
    indptr, indices, values = X
    total, dense, reference, touched, features, name, seen, w, raw, rough, mark = buffers
    rows, n_pos = positives, positives.shape[0]
    for at in range(n_pos):
        mark[positives[at]] = _POSITIVE
    n_touched = see_features(indptr, indices, positives, seen, touched, 0)
    cap, h = bounds_of(c_positive, squared)
    signs, caps, hs = np.ones(n_pos, np.float32), np.full(n_pos, cap), np.full(n_pos, h)
    a = visit_once(indptr, indices, values, use_bias, threshold, positives, cap, h, dense)
    cap, h = bounds_of(c_negative, squared)
    n, _ = gather_weights(indptr, indices, values, threshold, rows, signs, a, touched[:n_touched], total, features, w)
    mass = a.sum() + 1.0
    most = np.int64(min(32 + 2 * mass / max(c_negative, 1e-30), raw.shape[0] - n_pos))
    found = rough_candidates(columns, mark, features[:n], w[:n], most, rough)
    share = min(mass / max(most, 1), np.float64(cap))
    high = -1.0 if use_bias != 0 else 0.0
    raw[:] = 0
    error = 0.0
    objective, gap, bias, epochs, rounds = mass, np.inf, 0.0, 0, 0
    rough_rounds = _ROUGH_ROUNDS if column_size(columns[0], features[:n]) > _MANY else 0
    while True:
        n_new = found.shape[0]
        for at in range(n_new):
            mark[found[at]] = _INSIDE
        rows = np.concatenate((rows, found))
        signs = np.concatenate((signs, np.full(n_new, -1, np.float32)))
        caps = np.concatenate((caps, np.full(n_new, cap)))
        hs = np.concatenate((hs, np.full(n_new, h)))
        a = np.concatenate((a, np.full(n_new, share, np.float32)))
        n_touched = see_features(indptr, indices, found, seen, touched, n_touched)
        if share > 0:
            gather_weights(indptr, indices, values, threshold, rows, signs, a, touched[:n_touched], total, features, w)
            share = 0.0
        goal = max(0.3 * tol, 0.1 * min(gap, 0.1)) * objective
        epochs += ascend_locally(
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
            name,
            goal,
            seed + epochs,
        )
        n, half_square = gather_weights(
            indptr, indices, values, threshold, rows, signs, a, touched[:n_touched], total, features, w
        )
        if rough_rounds > 0:
            rough_rounds -= 1
            found = rough_candidates(columns, mark, features[:n], w[:n], min(most, raw.shape[0] - rows.shape[0]), rough)
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
            high,
            sizes,
            error,
            (raw, mark, dense, reference),
        )
        if use_bias != 0:
            high = bias + 0.02
        errors = error_sums(lengths, near, positives, error)
        objective = hinge_objective(negative, positive, bias, c_positive, c_negative, squared, threshold, w[:n], errors)
        dual = dual_objective(rows, a, hs, n_pos, lengths, c_positive, c_negative, use_bias, half_square)
        gap = max(objective * (1.0 + ROUNDING) - dual, 0.0) / max(objective, 1e-300)
        if gap <= tol or rounds >= max_rounds:
            break
        found = worst(near, negative, mark, -1.0 - bias, max(32, rows.shape[0]))
    for at in range(rows.shape[0]):
        mark[rows[at]] = 0
    for at in range(n_touched):
        seen[touched[at]] = False
        dense[touched[at]] = reference[touched[at]] = total[touched[at]] = 0
    return features[:n].copy(), w[:n].copy(), bias, objective, gap, epochs, rounds, rows.shape[0]
