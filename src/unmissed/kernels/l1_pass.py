"""What one label of ProXML reads of all rows: its loss, the gradient of it, and its certificate.

Scores come from the columns of non-zero weights, the gradient from the rows that lose. Most rows have none of the
features and score b: they are the crowd, which counts as one row. Notation as in `l1_descent`.

The certificate: theta_i = 2 c_i r_i with r_i = max(0, slack_i), scaled by s so that |sum_i s theta_i z_i x_ij| <=
lambda for every feature, is feasible in the dual, whose value is sum_i s theta_i - (s theta_i)^2 / (4 c_i).
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.columns import row_score
from unmissed.kernels.l1_descent import newton_step, violation
from unmissed.kernels.prefetch import prefetch_row

_HALVINGS = 30
_BIAS_STEPS = 8
INSIDE = 1  # mark of negatives in the working set
POSITIVE = 2
NOTHING = 1e-12  # what remains of a score after its weights have gone
WIDER = 1.0 + 1e-9  # rounding of sums in float64 counts against the certificate


@kernel()
def _add_few(X, rows, factors, gradient, seen, touched):
    """Add factor x of some rows to the gradient, noting every feature that is met; return how many these are."""
    indptr, indices, values = X
    n = 0
    for at in range(rows.shape[0]):
        if at + 1 < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + 1])
        for place in range(np.uint64(indptr[rows[at]]), np.uint64(indptr[rows[at] + 1])):
            feature = indices[place]
            if not seen[feature]:
                seen[feature] = True
                touched[n] = feature
                n += 1
            gradient[feature] += factors[at] * np.float64(values[place])
    return n


@kernel()
def _add_many(X, rows, factors, gradient, seen, touched):
    """Do the same for so many rows that it is quicker to look at all features afterwards."""
    indptr, indices, values = X
    for at in range(rows.shape[0]):
        factor = factors[at]
        if at + 1 < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + 1])
        for place in range(np.uint64(indptr[rows[at]]), np.uint64(indptr[rows[at] + 1])):
            gradient[indices[place]] += factor * np.float64(values[place])
    n = 0
    for feature in range(gradient.shape[0]):
        if gradient[feature] != 0:
            seen[feature] = True
            touched[n] = feature
            n += 1
    return n


@kernel()
def lose(X, totals, mark, positives, bias, c_positive, c_negative, raw, dense, gradient, seen, touched):
    """Find the loss of all rows and its gradient.

    Returns the sum of c r^2, the sum of 2 c r, the slope of the bias, and how many features `touched` lists; features
    that it does not list have the gradient over * totals, with `over` the last of the five.
    """
    indptr, indices, values = X
    crowd_over = max(1.0 + bias, 0.0)
    loss, mass, slope, n, n_crowd, size = 0.0, 0.0, 0.0, 0, 0, 0
    rows, factors = np.empty(raw.shape[0], np.int32), np.empty(raw.shape[0])
    for at in range(positives.shape[0]):
        r = max(1.0 - bias - row_score(indptr, indices, values, positives[at], dense), 0.0)
        loss += c_positive * r * r
        mass += 2.0 * c_positive * r
        slope -= 2.0 * c_positive * r
        rows[n] = positives[at]
        factors[n] = -2.0 * (c_positive * r + c_negative * crowd_over)
        n += factors[n] != 0
    for row in range(raw.shape[0]):
        if mark[row] == POSITIVE:
            continue
        if abs(raw[row]) <= NOTHING:
            n_crowd += 1
            continue
        r = max(1.0 + bias + raw[row], 0.0)
        loss += c_negative * r * r
        mass += 2.0 * c_negative * r
        slope += 2.0 * c_negative * r
        rows[n] = row
        factors[n] = 2.0 * c_negative * (r - crowd_over)
        n += factors[n] != 0
    loss += c_negative * n_crowd * crowd_over * crowd_over
    mass += 2.0 * c_negative * n_crowd * crowd_over
    slope += 2.0 * c_negative * n_crowd * crowd_over
    over = 2.0 * c_negative * crowd_over
    for at in range(n):
        size += indptr[rows[at] + 1] - indptr[rows[at]]
    if size > gradient.shape[0]:
        n = _add_many(X, rows[:n], factors[:n], gradient, seen, touched)
    else:
        n = _add_few(X, rows[:n], factors[:n], gradient, seen, touched)
    for at in range(n):
        gradient[touched[at]] += over * totals[touched[at]]
    return loss, mass, slope, n, over


@kernel()
def _bias_slope(mark, positives, raw, bias, c_positive, c_negative):
    """Return the loss of all rows and its first and second derivative in the bias."""
    loss, slope, losing = 0.0, 0.0, 0
    for row in range(raw.shape[0]):
        r = max(1.0 + bias + raw[row], 0.0) if mark[row] != POSITIVE else 0.0
        loss += r * r
        slope += r
        losing += r > 0
    missed, pull, missing = 0.0, 0.0, 0
    for at in range(positives.shape[0]):
        r = max(1.0 - bias - raw[positives[at]], 0.0)
        missed += r * r
        pull += r
        missing += r > 0
    slope, bend = 2.0 * (c_negative * slope - c_positive * pull), 2.0 * (c_negative * losing + c_positive * missing)
    return c_negative * loss + c_positive * missed, slope, bend


@kernel()
def settle_bias(mark, positives, raw, bias, c_positive, c_negative, threshold, goal):
    """Return the bias that suits the scores of all rows: its optimality condition fails by `goal` at most.

    The slope of the bias sums over more rows than any other, and rows outside the working set count in it: left where
    the working set put it, the bias alone would often spoil the certificate.
    """
    least, best = np.inf, bias
    for _ in range(_BIAS_STEPS):
        loss, slope, bend = _bias_slope(mark, positives, raw, bias, c_positive, c_negative)
        loss += threshold * abs(bias)
        if not loss < least:
            break
        least, best = loss, bias
        if violation(slope, bias, threshold) <= goal:
            break
        bias += newton_step(slope, bend, bias, threshold)
    return best


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
def l1_dual(loss, mass, steepest_slope, threshold):
    """Return the best dual value among the multiples of theta = 2 c r that are feasible."""
    if loss <= 0:
        return 0.0
    s = mass / (2.0 * loss)
    if steepest_slope > 0:
        s = min(s, threshold / (WIDER * steepest_slope))
    return s * mass - s * s * loss


@kernel()
def loss_between(mark, positives, raw, raw_base, bias, bias_base, c_positive, c_negative, t):
    """Return the loss at base + t (trial - base), given the scores at both ends."""
    loss = 0.0
    b = bias_base + t * (bias - bias_base)
    for row in range(raw.shape[0]):
        if mark[row] != POSITIVE:
            r = max(1.0 + b + raw_base[row] + t * (raw[row] - raw_base[row]), 0.0)
            loss += c_negative * r * r
    for at in range(positives.shape[0]):
        row = positives[at]
        r = max(1.0 - b - raw_base[row] - t * (raw[row] - raw_base[row]), 0.0)
        loss += c_positive * r * r
    return loss


@kernel()
def step_back(mark, positives, w, w_base, raw, raw_base, bias, bias_base, c_positive, c_negative, threshold, before):
    """Return the largest t in 1, 1/2, 1/4, ... at which the objective between base and trial is below `before`."""
    t = 1.0
    for _ in range(_HALVINGS):
        penalty = abs(bias_base + t * (bias - bias_base))
        for at in range(w.shape[0]):
            penalty += abs(w_base[at] + t * (w[at] - w_base[at]))
        loss = loss_between(mark, positives, raw, raw_base, bias, bias_base, c_positive, c_negative, t)
        if not threshold * penalty + loss > before * (1 + NOTHING):
            return t
        t *= 0.5
    return 0.0
