"""What one label of ProXML reads of all rows: its loss, the gradient of it, and its certificate.

Scores come from the columns of non-zero weights, the gradient from the rows that lose. Most rows have none of the
features and score b: they are the crowd, which counts as one row. Notation as in `l1_descent`.

The certificate: theta_i = 2 c_i r_i with r_i = max(0, slack_i), scaled by s so that |sum_i s theta_i z_i x_ij| <=
lambda for every feature, is feasible in the dual, whose value is sum_i s theta_i - (s theta_i)^2 / (4 c_i).
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.columns import row_score

_HALVINGS = 30
INSIDE = 1  # mark of negatives in the working set
POSITIVE = 2
NOTHING = 1e-12  # what remains of a score after its weights have gone
WIDER = 1.0 + 1e-9  # rounding of sums in float64 counts against the certificate


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
        if mark[row] == POSITIVE:
            continue
        if abs(raw[row]) <= NOTHING:
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
