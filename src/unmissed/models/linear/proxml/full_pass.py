"""Loss, gradient and duality gap of one label of ProXML over all rows.

Scores are computed from the columns of non-zero weights, the gradient from the rows with a loss. Most rows have no
feature of non-zero weight and the score b. These bias-only rows are treated as one row with their summed cost. Notation
as in `coordinate_descent`; `raw` is w.x, the score without bias.

The dual point is s theta with theta_i = 2 c_i r_i and r_i = max(0, 1 - z_i (w.x_i + b)). The factor s is chosen so that
|sum_i s theta_i z_i x_ij| <= lambda for each feature j. Its dual value is sum_i s theta_i - (s theta_i)^2 / (4 c_i).
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.models.linear.column_kernels import row_score
from unmissed.models.linear.proxml.coordinate_descent import newton_step, violation
from unmissed.numerics.prefetch import prefetch_row

_HALVINGS = 30
_BIAS_STEPS = 8
IN_WORKING_SET = 1  # row_state of negatives in the working set; 0 is that of other negatives
POSITIVE = 2
ROUNDED_TO_ZERO = 1e-12  # scores up to this size are rounding errors of 0
SAFETY = 1.0 + 1e-9  # factor that covers rounding errors of float64 sums in the certificate


@kernel()
def _add_to_sparse_gradient(X, rows, factors, gradient, seen, touched):
    """Add factors[i] * x of each row to the gradient and list its features in `touched`; return their number."""
    indptr, indices, values = X
    n = 0
    for at in range(rows.shape[0]):
        if at + 1 < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + 1])
        for position in range(np.uint64(indptr[rows[at]]), np.uint64(indptr[rows[at] + 1])):
            feature = indices[position]
            if not seen[feature]:
                seen[feature] = True
                touched[n] = feature
                n += 1
            gradient[feature] += factors[at] * np.float64(values[position])
    return n


@kernel()
def _add_to_dense_gradient(X, rows, factors, gradient, seen, touched):
    """Do the same for many rows, where it is faster to scan all features for non-zero gradients afterwards."""
    indptr, indices, values = X
    for at in range(rows.shape[0]):
        factor = factors[at]
        if at + 1 < rows.shape[0]:
            prefetch_row(indptr, indices, values, rows[at + 1])
        for position in range(np.uint64(indptr[rows[at]]), np.uint64(indptr[rows[at] + 1])):
            gradient[indices[position]] += factor * np.float64(values[position])
    n = 0
    for feature in range(gradient.shape[0]):
        if gradient[feature] != 0:
            seen[feature] = True
            touched[n] = feature
            n += 1
    return n


# 12 arguments: costs and bias of a label are three numbers, and the gradient by the features that occur is four arrays.
@kernel()
def loss_and_gradient(
    X, totals, row_state, positives, bias, c_positive, c_negative, raw, dense, gradient, seen, touched
):
    """Compute the loss of all rows and its gradient.

    Returns the sum of c r^2, the sum of 2 c r, the derivative in the bias, the number of features in `touched`, and
    `bias_only_gradient`. Features that are not in `touched` have the gradient bias_only_gradient * totals.
    """
    indptr, indices, values = X
    bias_only_slack = max(1.0 + bias, 0.0)
    loss, dual_sum, derivative, n, n_bias_only, size = 0.0, 0.0, 0.0, 0, 0, 0
    rows, factors = np.empty(raw.shape[0], np.int32), np.empty(raw.shape[0])
    for at in range(positives.shape[0]):
        r = max(1.0 - bias - row_score(indptr, indices, values, positives[at], dense), 0.0)
        loss += c_positive * r * r
        dual_sum += 2.0 * c_positive * r
        derivative -= 2.0 * c_positive * r
        rows[n] = positives[at]
        factors[n] = -2.0 * (c_positive * r + c_negative * bias_only_slack)
        n += factors[n] != 0
    for row in range(raw.shape[0]):
        if row_state[row] == POSITIVE:
            continue
        if abs(raw[row]) <= ROUNDED_TO_ZERO:
            n_bias_only += 1
            continue
        r = max(1.0 + bias + raw[row], 0.0)
        loss += c_negative * r * r
        dual_sum += 2.0 * c_negative * r
        derivative += 2.0 * c_negative * r
        rows[n] = row
        factors[n] = 2.0 * c_negative * (r - bias_only_slack)
        n += factors[n] != 0
    loss += c_negative * n_bias_only * bias_only_slack * bias_only_slack
    dual_sum += 2.0 * c_negative * n_bias_only * bias_only_slack
    derivative += 2.0 * c_negative * n_bias_only * bias_only_slack
    bias_only_gradient = 2.0 * c_negative * bias_only_slack
    for at in range(n):
        size += indptr[rows[at] + 1] - indptr[rows[at]]
    if size > gradient.shape[0]:
        n = _add_to_dense_gradient(X, rows[:n], factors[:n], gradient, seen, touched)
    else:
        n = _add_to_sparse_gradient(X, rows[:n], factors[:n], gradient, seen, touched)
    for at in range(n):
        gradient[touched[at]] += bias_only_gradient * totals[touched[at]]
    return loss, dual_sum, derivative, n, bias_only_gradient


@kernel()
def _bias_derivatives(row_state, positives, raw, bias, c_positive, c_negative):
    """Return the loss of all rows and its first and second derivative in the bias."""
    loss, derivative, n_negative = 0.0, 0.0, 0
    for row in range(raw.shape[0]):
        r = max(1.0 + bias + raw[row], 0.0) if row_state[row] != POSITIVE else 0.0
        loss += r * r
        derivative += r
        n_negative += r > 0
    positive_loss, positive_sum, n_positive = 0.0, 0.0, 0
    for at in range(positives.shape[0]):
        r = max(1.0 - bias - raw[positives[at]], 0.0)
        positive_loss += r * r
        positive_sum += r
        n_positive += r > 0
    derivative, curvature = (
        2.0 * (c_negative * derivative - c_positive * positive_sum),
        2.0 * (c_negative * n_negative + c_positive * n_positive),
    )
    return c_negative * loss + c_positive * positive_loss, derivative, curvature


@kernel()
def optimize_bias(row_state, positives, raw, bias, c_positive, c_negative, threshold, goal):
    """Return the optimal bias for the scores of all rows, up to a violation of `goal`, by Newton's method.

    The derivative in the bias is a sum over all rows, including those outside the working set. The bias that is optimal
    for the working set would often be the largest violation in the certificate.
    """
    lowest, best = np.inf, bias
    for _ in range(_BIAS_STEPS):
        loss, derivative, curvature = _bias_derivatives(row_state, positives, raw, bias, c_positive, c_negative)
        loss += threshold * abs(bias)
        if not loss < lowest:
            break
        lowest, best = loss, bias
        if violation(derivative, bias, threshold) <= goal:
            break
        bias += newton_step(derivative, curvature, bias, threshold)
    return best


@kernel()
def max_abs_gradient(gradient, totals, bias_only_gradient, seen, touched):
    """Return the largest absolute gradient entry over all features."""
    largest = 0.0
    for at in range(touched.shape[0]):
        largest = max(largest, abs(gradient[touched[at]]))
    if bias_only_gradient > 0:
        for feature in range(totals.shape[0]):
            if not seen[feature]:
                largest = max(largest, bias_only_gradient * abs(totals[feature]))
    return largest


@kernel()
def l1_dual(loss, dual_sum, gradient_bound, threshold):
    """Return the maximum of the dual objective over feasible multiples of theta = 2 c r."""
    if loss <= 0:
        return 0.0
    s = dual_sum / (2.0 * loss)
    if gradient_bound > 0:
        s = min(s, threshold / (SAFETY * gradient_bound))
    return s * dual_sum - s * s * loss


@kernel()
def loss_between(row_state, positives, raw, raw_base, bias, bias_base, c_positive, c_negative, t):
    """Return the loss at base + t (trial - base), given the scores of both points."""
    loss = 0.0
    b = bias_base + t * (bias - bias_base)
    for row in range(raw.shape[0]):
        if row_state[row] != POSITIVE:
            r = max(1.0 + b + raw_base[row] + t * (raw[row] - raw_base[row]), 0.0)
            loss += c_negative * r * r
    for at in range(positives.shape[0]):
        row = positives[at]
        r = max(1.0 - b - raw_base[row] - t * (raw[row] - raw_base[row]), 0.0)
        loss += c_positive * r * r
    return loss


# 12 arguments: weights, scores and bias before and after the step are six values.
@kernel()
def backtrack(
    row_state, positives, w, w_base, raw, raw_base, bias, bias_base, c_positive, c_negative, threshold, before
):
    """Return the largest t in 1, 1/2, 1/4, ... whose objective at base + t (trial - base) is at most `before`."""
    t = 1.0
    for _ in range(_HALVINGS):
        penalty = abs(bias_base + t * (bias - bias_base))
        for at in range(w.shape[0]):
            penalty += abs(w_base[at] + t * (w[at] - w_base[at]))
        loss = loss_between(row_state, positives, raw, raw_base, bias, bias_base, c_positive, c_negative, t)
        if not threshold * penalty + loss > before * (1 + ROUNDED_TO_ZERO):
            return t
        t *= 0.5
    return 0.0
