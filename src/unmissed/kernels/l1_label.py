"""All of one label of ProXML in one call: working sets of features and of rows, passes, and the certificate.

At the optimum few features have a weight and few rows a loss, so the problem is solved over those few, and a pass
finds what was left out: scores by the columns of non-zero weights, the gradient by the rows that lose. Most rows have
none of the features and score b: they are the crowd, which counts as one row. Notation as in `l1_descent`.

The certificate: theta_i = 2 c_i r_i with r_i = max(0, slack_i), scaled by s so that |sum_i s theta_i z_i x_ij| <=
lambda for every feature, is feasible in the dual, whose value is sum_i s theta_i - (s theta_i)^2 / (4 c_i).
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.columns import catch_up, row_score
from unmissed.kernels.l1_descent import l1_descend

_INSIDE = 1  # mark of negatives in the working set
_POSITIVE = 2
_EPOCHS = 200  # at most, between two passes
_FEATURES = 16  # that a working set takes in at least, where so many are wanted
_ROWS = 64  # the same of rows
_FAR = 0.5  # negatives with so much room to spare leave the working set
_FORGET = 30  # after so many rounds none leaves it any more
_HALVINGS = 30
_ROUGHLY = 0.1  # a working set is solved to this share of what the steepest slope exceeds lambda by
_NOTHING = 1e-12  # what remains of a score after its weights have gone
_NEAR = 0.98  # features whose gradient comes to this share of lambda may enter
_WIDER = 1.0 + 1e-9  # rounding of sums in float64 counts against the certificate


@kernel()
def _local_columns(indptr, indices, values, rows, n_features, name):
    """Return the entries of some rows in some features (those with name >= 0), by feature."""
    starts = np.zeros(n_features + 1, np.int64)
    for at in range(rows.shape[0]):
        for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = name[indices[place]]
            if feature >= 0:
                starts[feature + 1] += 1
    for feature in range(n_features):
        starts[feature + 1] += starts[feature]
    filled = starts[:-1].copy()
    places = np.empty(starts[n_features], np.int32)
    entries = np.empty(starts[n_features])
    for at in range(rows.shape[0]):
        for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
            feature = name[indices[place]]
            if feature >= 0:
                places[filled[feature]] = at
                entries[filled[feature]] = values[place]
                filled[feature] += 1
    return starts, places, entries


@kernel()
def _add_row(indptr, indices, values, row, factor, gradient, seen, touched, n):
    """Add factor x to the gradient, noting features that are met for the first time; return how many are known."""
    for place in range(indptr[row], indptr[row + 1]):
        feature = indices[place]
        if not seen[feature]:
            seen[feature] = True
            touched[n] = feature
            n += 1
        gradient[feature] += factor * np.float64(values[place])
    return n


@kernel()
def _largest(values, most):
    """Return a bound that about `most` of the values reach."""
    if values.shape[0] <= most:
        return -np.inf
    return np.partition(values, values.shape[0] - most)[values.shape[0] - most]


@kernel()
def lose(X, totals, mark, positives, bias, c_positive, c_negative, raw, dense, gradient, seen, touched):
    """Find the loss of all rows and its gradient.

    Returns the sum of c r^2, the sum of 2 c r, the slope of the bias, and how many features `touched` lists; features
    that it does not list have the gradient over * totals, with `over` the last of the five.
    """
    indptr, indices, values = X
    crowd_over = max(1.0 + bias, 0.0)
    loss, mass, slope, n, n_crowd = 0.0, 0.0, 0.0, 0, 0
    for at in range(positives.shape[0]):
        r = max(1.0 - bias - row_score(indptr, indices, values, positives[at], dense), 0.0)
        loss += c_positive * r * r
        mass += 2.0 * c_positive * r
        slope -= 2.0 * c_positive * r
        factor = -2.0 * (c_positive * r + c_negative * crowd_over)
        if factor != 0:
            n = _add_row(indptr, indices, values, positives[at], factor, gradient, seen, touched, n)
    for row in range(raw.shape[0]):
        if mark[row] == _POSITIVE:
            continue
        if abs(raw[row]) <= _NOTHING:
            n_crowd += 1
            continue
        r = max(1.0 + bias + raw[row], 0.0)
        loss += c_negative * r * r
        mass += 2.0 * c_negative * r
        slope += 2.0 * c_negative * r
        if r != crowd_over:
            n = _add_row(indptr, indices, values, row, 2.0 * c_negative * (r - crowd_over), gradient, seen, touched, n)
    loss += c_negative * n_crowd * crowd_over * crowd_over
    mass += 2.0 * c_negative * n_crowd * crowd_over
    slope += 2.0 * c_negative * n_crowd * crowd_over
    over = 2.0 * c_negative * crowd_over
    for at in range(n):
        gradient[touched[at]] += over * totals[touched[at]]
    return loss, mass, slope, n, over


@kernel()
def steepest(gradient, totals, over, seen, touched):
    """Return the largest gradient in size over all features."""
    most = 0.0
    for at in range(touched.shape[0]):
        most = max(most, abs(gradient[touched[at]]))
    if over > 0:
        for feature in range(totals.shape[0]):
            if not seen[feature]:
                most = max(most, over * abs(totals[feature]))
    return most


@kernel()
def choose_features(gradient, totals, lengths, over, seen, touched, features, w, name, threshold):
    """Return the next working set, features and weights: those that have a weight, and those that promise most.

    A feature promises by how much its gradient exceeds the threshold, measured by the length of its column: a frequent
    feature moves many rows. name[feature] is the place of a feature in the present working set, or -1.
    """
    n_known = totals.shape[0] if over > 0 else touched.shape[0]
    found = np.empty(n_known, np.int32)
    sizes = np.empty(n_known)
    n, kept = 0, 0
    for at in range(n_known):
        feature = at if over > 0 else touched[at]
        size = abs(gradient[feature]) if seen[feature] else over * abs(totals[feature])
        if size > _NEAR * threshold and (name[feature] < 0 or w[name[feature]] == 0):
            found[n] = feature
            sizes[n] = (size - threshold) / lengths[feature]
            n += 1
    for at in range(features.shape[0]):
        kept += w[at] != 0
    least = _largest(sizes[:n], max(_FEATURES, 2 * kept))
    chosen = np.empty(kept + n, np.int32)
    weights = np.zeros(kept + n)
    filled = 0
    for at in range(features.shape[0]):
        if w[at] != 0:
            chosen[filled] = features[at]
            weights[filled] = w[at]
            filled += 1
    for at in range(n):
        if sizes[at] >= least:
            chosen[filled] = found[at]
            filled += 1
    return chosen[:filled], weights[:filled]


@kernel()
def choose_rows(raw, mark, bias, rows):
    """Return the working set with the negatives that lose most added, and mark those."""
    found = np.empty(raw.shape[0], np.int32)
    over = np.empty(raw.shape[0])
    n = 0
    for row in range(raw.shape[0]):
        if mark[row] == 0 and abs(raw[row]) > _NOTHING and 1.0 + bias + raw[row] > 0:
            found[n] = row
            over[n] = raw[row]
            n += 1
    least = _largest(over[:n], max(_ROWS, rows.shape[0] // 2))
    filled = 0
    for at in range(n):
        if over[at] >= least:
            mark[found[at]] = _INSIDE
            found[filled] = found[at]
            filled += 1
    return np.concatenate((rows, found[:filled]))


@kernel()
def take_touched(columns, features, mark, rows):
    """Return the working set with all negatives that have one of the features, and mark those.

    While the crowd loses, its rows pull at the features they have: only rows that have none may stay in it.
    """
    starts, column_rows, _ = columns
    found = np.empty(mark.shape[0], np.int32)
    n = 0
    for at in range(features.shape[0]):
        for place in range(starts[features[at]], starts[features[at] + 1]):
            if mark[column_rows[place]] == 0:
                mark[column_rows[place]] = _INSIDE
                found[n] = column_rows[place]
                n += 1
    return np.concatenate((rows, found[:n]))


@kernel()
def forget_rows(raw, mark, bias, rows, n_positives):
    """Return the working set without the negatives that are far from losing."""
    kept = np.empty(rows.shape[0], np.int32)
    kept[:n_positives] = rows[:n_positives]
    n = n_positives
    for at in range(n_positives, rows.shape[0]):
        if 1.0 + bias + raw[rows[at]] > -_FAR:
            kept[n] = rows[at]
            n += 1
        else:
            mark[rows[at]] = 0
    return kept[:n]


@kernel()
def loss_between(mark, positives, raw, raw_base, bias, bias_base, c_positive, c_negative, t):
    """Return the loss at base + t (trial - base), given the scores at both ends."""
    loss = 0.0
    b = bias_base + t * (bias - bias_base)
    for row in range(raw.shape[0]):
        if mark[row] != _POSITIVE:
            r = max(1.0 + b + raw_base[row] + t * (raw[row] - raw_base[row]), 0.0)
            loss += c_negative * r * r
    for at in range(positives.shape[0]):
        row = positives[at]
        r = max(1.0 - b - raw_base[row] - t * (raw[row] - raw_base[row]), 0.0)
        loss += c_positive * r * r
    return loss


@kernel()
def descend_locally(
    X, rows, n_positives, features, w, bias, use_bias, raw, mark, c_positive, c_negative, threshold, goal, name, seed
):
    """Solve for the weights w of some features over some rows (positives first) and the crowd; return bias, epochs."""
    indptr, indices, values = X
    starts, places, entries = _local_columns(indptr, indices, values, rows, features.shape[0], name)
    n = rows.shape[0]
    signs, costs = np.full(n, -1.0), np.full(n, c_negative)
    signs[:n_positives] = 1.0
    costs[:n_positives] = c_positive
    slack = 1.0 - signs * bias
    for at in range(features.shape[0]):
        if w[at] != 0:
            for place in range(starts[at], starts[at + 1]):
                slack[places[place]] -= signs[places[place]] * w[at] * entries[place]
    crowd = 0
    for row in range(raw.shape[0]):
        crowd += mark[row] == 0 and abs(raw[row]) <= _NOTHING
    return l1_descend(
        starts,
        places,
        entries,
        signs,
        costs,
        c_negative * crowd,
        slack,
        w,
        bias,
        use_bias,
        threshold,
        goal,
        _EPOCHS,
        seed,
    )


@kernel()
def l1_dual(loss, mass, steepest_slope, threshold):
    """Return the best dual value among the multiples of theta = 2 c r that are feasible."""
    if loss <= 0:
        return 0.0
    s = mass / (2.0 * loss)
    if steepest_slope > 0:
        s = min(s, threshold / (_WIDER * steepest_slope))
    return s * mass - s * s * loss


@kernel()
def step_back(mark, positives, features, w, w_base, raw, raw_base, bias, bias_base, costs, threshold, before):
    """Return the largest t in 1, 1/2, 1/4, ... at which the objective between base and trial is below `before`."""
    t = 1.0
    for _ in range(_HALVINGS):
        penalty = abs(bias_base + t * (bias - bias_base))
        for at in range(features.shape[0]):
            penalty += abs(w_base[at] + t * (w[at] - w_base[at]))
        loss = loss_between(mark, positives, raw, raw_base, bias, bias_base, costs[0], costs[1], t)
        if not threshold * penalty + loss > before * (1 + _NOTHING):
            return t
        t *= 0.5
    return 0.0


@kernel()
def solve_l1_label(
    X, columns, totals, lengths, use_bias, positives, c_positive, c_negative, threshold, tol, max_rounds, seed, buffers
):
    """Solve one label; return its features, weights, bias, objective, relative gap, epochs and rounds.

    Parameters
    ----------
    X, columns : (indptr, indices, values) of the rows, (starts, rows, entries) of the columns
    totals, lengths : the sum and the length of each column
    positives : rows that have the label
    threshold : lambda
    buffers : dense, reference, gradient (float64, zeros), listed, seen (bool, False), name (int32, -1), known, touched
        (int32), of n_features; raw, raw_base (float64) and mark (int8, zeros), of n_samples; all but the lists and the
        scores are left as they were
    """
    dense, reference, gradient, listed, seen, name, known, touched, raw, raw_base, mark = buffers
    raw[:] = 0
    n_pos = positives.shape[0]
    for at in range(n_pos):
        mark[positives[at]] = _POSITIVE
    rows = positives
    features, w = np.empty(0, np.int32), np.empty(0)
    n_known, bias, gap, objective, lower, most, epochs, rounds = 0, 0.0, np.inf, np.inf, 0.0, threshold, 0, 0
    while True:
        for at in range(features.shape[0]):
            name[features[at]] = at
            if not listed[features[at]]:
                listed[features[at]] = True
                known[n_known] = features[at]
                n_known += 1
        raw_base[:] = raw
        w_base, bias_base = w.copy(), bias
        goal = max(max(0.3 * tol, 0.1 * min(gap, 1.0)) * threshold, _ROUGHLY * (most - threshold))
        bias, more = descend_locally(
            X,
            rows,
            n_pos,
            features,
            w,
            bias,
            use_bias,
            raw,
            mark,
            c_positive,
            c_negative,
            threshold,
            goal,
            name,
            seed + epochs,
        )
        epochs += more
        rounds += 1
        for at in range(features.shape[0]):
            dense[features[at]] = w[at]
        catch_up(columns, known[:n_known], dense, reference, raw, 0.0)
        if rounds < max_rounds:
            rows = choose_rows(raw, mark, bias, rows)
            t = step_back(
                mark,
                positives,
                features,
                w,
                w_base,
                raw,
                raw_base,
                bias,
                bias_base,
                (c_positive, c_negative),
                threshold,
                objective,
            )
            if t < 1:
                bias = bias_base + t * (bias - bias_base)
                for row in range(raw.shape[0]):
                    raw[row] = raw_base[row] + t * (raw[row] - raw_base[row])
                for at in range(features.shape[0]):
                    w[at] = w_base[at] + t * (w[at] - w_base[at])
                    dense[features[at]] = reference[features[at]] = w[at]
            elif rounds < _FORGET:
                rows = forget_rows(raw, mark, bias, rows, n_pos)
        penalty = abs(bias)
        for at in range(features.shape[0]):
            penalty += abs(w[at])
        loss, mass, slope, n, over = lose(
            X, totals, mark, positives, bias, c_positive, c_negative, raw, dense, gradient, seen, touched
        )
        most = max(steepest(gradient, totals, over, seen, touched[:n]), abs(slope) if use_bias != 0 else 0.0)
        objective = threshold * penalty + loss
        lower = l1_dual(loss, mass, most, threshold) / _WIDER
        gap = max(_WIDER * objective - lower, 0.0) / max(objective, 1e-300)
        done = gap <= 0.9 * tol or rounds >= max_rounds
        old = features
        if not done:
            features, w = choose_features(
                gradient, totals, lengths, over, seen, touched[:n], features, w, name, threshold
            )
            if over > 0:
                rows = take_touched(columns, features, mark, rows)
            for at in range(old.shape[0]):
                name[old[at]] = -1
        for at in range(n):
            gradient[touched[at]] = 0
            seen[touched[at]] = False
        if done:
            break
    # the weights that are kept are float32: the objective is theirs, the dual point may be that of the exact ones
    bias = np.float64(np.float32(bias))
    penalty = abs(bias)
    for at in range(features.shape[0]):
        w[at] = np.float64(np.float32(w[at]))
        dense[features[at]] = w[at]
        penalty += abs(w[at])
    catch_up(columns, known[:n_known], dense, reference, raw, 0.0)
    objective = threshold * penalty + loss_between(mark, positives, raw, raw, bias, bias, c_positive, c_negative, 0.0)
    gap = max(_WIDER * objective - lower, 0.0) / max(objective, 1e-300)
    for at in range(rows.shape[0]):
        mark[rows[at]] = 0
    for at in range(n_known):
        dense[known[at]] = reference[known[at]] = 0
        listed[known[at]] = False
        name[known[at]] = -1
    return features, w, bias, objective, gap, epochs, rounds
