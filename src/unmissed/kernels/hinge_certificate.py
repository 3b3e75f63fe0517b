"""The certificate of a label of PPD-Sparse in float64: bounds of its objective and of the dual, rounding counted.

`lengths` are |x| of the rows, rounded up; notation as in `sparse_hinge`.
"""

import numpy as np

from unmissed._jit import kernel

ROUNDING = 1e-9  # relative error of sums over rows or dual variables, at most; error of a score that is tolerated
_EPSILON = 2.0**-53  # relative error of one float64 operation


@kernel()
def hinge_objective(negative, positive, bias, c_positive, c_negative, squared, threshold, weights, errors):
    """Return at least the primal objective, given the scores of positives and of all negatives that can be violated.

    `errors` are the sum and the root of the sum of squares of bounds of the errors of these scores.
    """
    loss, missed, penalty = 0.0, 0.0, 0.5 * bias * bias
    for at in range(negative.shape[0]):
        r = max(0.0, 1.0 + negative[at] + bias)
        loss += r * r if squared else r
    for at in range(positive.shape[0]):
        r = max(0.0, 1.0 - positive[at] - bias)
        missed += r * r if squared else r
    for at in range(weights.shape[0]):
        weight = np.float64(weights[at])
        penalty += 0.5 * weight * weight + threshold * abs(weight)
    loss = c_negative * loss + c_positive * missed
    cost = max(c_positive, c_negative)
    if squared:  # errors e_i move the root of the loss by at most the length of the vector sqrt(c_i) e_i
        return penalty + (np.sqrt(loss) + np.sqrt(cost) * errors[1]) ** 2
    return penalty + loss + cost * errors[0]


@kernel()
def error_sums(lengths, near, positives, error):
    """Return the sum, and the root of the sum of squares, of error times 1 + |x| over some rows."""
    total, squares = 0.0, 0.0
    for rows in (near, positives):
        for at in range(rows.shape[0]):
            size = error * (1.0 + lengths[rows[at]])
            total += size
            squares += size * size
    return total, np.sqrt(squares)


@kernel()
def catch_up_error(touched, dense, reference, longest):
    """Return a bound, per unit of |x|, of what rounding does to a score while `reference` becomes `dense`.

    A score gets at most one addition per entry of its row and never exceeds |x| (|reference| + |dense|) meanwhile;
    three operations make each addition. The bound holds for a score that is computed from the start as well.
    """
    before, after = 0.0, 0.0
    for at in range(touched.shape[0]):
        before += reference[touched[at]] ** 2
        after += dense[touched[at]] ** 2
    return 4.0 * _EPSILON * (longest + 1) * (np.sqrt(before) + np.sqrt(after))


@kernel()
def dual_objective(rows, a, hs, n_pos, lengths, c_positive, c_negative, use_bias, half_square):
    """Return at most the dual objective of the variables a, positives first; `half_square` is 1/2 |S(v)|^2.

    An error of e in v moves |S(v)| by at most e, and v is a sum whose terms may cancel.
    """
    gain, balance, total, spread = 0.0, 0.0, 0.0, 0.0
    for at in range(rows.shape[0]):
        dual_variable = np.float64(a[at])
        total += dual_variable
        gain += dual_variable
        if hs[at] > 0:  # h of float32 is too coarse to certify with
            curved = 0.25 * dual_variable * dual_variable / (c_positive if at < n_pos else c_negative)
            gain -= curved
            total += curved
        balance += dual_variable if at < n_pos else -dual_variable
        spread += dual_variable * lengths[rows[at]]
    relative = 4.0 * _EPSILON * (rows.shape[0] + 4)
    length = np.sqrt(2.0 * half_square) * (1.0 + ROUNDING) + relative * spread
    offset = use_bias * (abs(balance) + relative * total)
    return gain - ROUNDING * total - 0.5 * length * length - 0.5 * offset * offset
