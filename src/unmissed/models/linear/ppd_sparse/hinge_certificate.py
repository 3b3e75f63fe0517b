"""Rigorous bounds of the primal and dual objective of a label of PPD-Sparse, with rounding errors included.

`lengths` are the norms |x| of the rows, rounded up. Notation as in `hinge_ascent`.
"""

import numpy as np

from unmissed._jit import kernel

ROUNDING = 1e-9  # bound of the relative error of sums over rows, and the tolerated error of a score
_EPSILON = 2.0**-53  # relative error of one float64 operation


@kernel()
def hinge_objective(negative, positive, bias, c_positive, c_negative, squared, threshold, weights, errors):
    """Return an upper bound of the primal objective from the scores of positives and of negatives near the margin.

    `errors` are the l1 and l2 norms of the vector of error bounds of these scores.
    """
    loss, positive_loss, penalty = 0.0, 0.0, 0.5 * bias * bias
    for at in range(negative.shape[0]):
        r = max(0.0, 1.0 + negative[at] + bias)
        loss += r * r if squared else r
    for at in range(positive.shape[0]):
        r = max(0.0, 1.0 - positive[at] - bias)
        positive_loss += r * r if squared else r
    for at in range(weights.shape[0]):
        weight = np.float64(weights[at])
        penalty += 0.5 * weight * weight + threshold * abs(weight)
    loss = c_negative * loss + c_positive * positive_loss
    cost = max(c_positive, c_negative)
    if squared:  # errors e_i change sqrt(loss) by at most the l2 norm of sqrt(c_i) e_i
        return penalty + (np.sqrt(loss) + np.sqrt(cost) * errors[1]) ** 2
    return penalty + loss + cost * errors[0]


@kernel()
def error_sums(lengths, near, positives, error):
    """Return the l1 and l2 norms of the error bounds error * (1 + |x|) of the rows `near` and `positives`."""
    total, squares = 0.0, 0.0
    for rows in (near, positives):
        for at in range(rows.shape[0]):
            size = error * (1.0 + lengths[rows[at]])
            total += size
            squares += size * size
    return total, np.sqrt(squares)


@kernel()
def update_error(touched, dense, reference, longest):
    """Return a bound, per unit of |x|, of the rounding error of updating a score from `reference` to `dense`.

    A score gets at most one addition of three operations per non-zero of its row and never exceeds
    |x| (|reference| + |dense|) meanwhile. The bound also holds for a score that is computed from 0.
    """
    before, after = 0.0, 0.0
    for at in range(touched.shape[0]):
        before += reference[touched[at]] ** 2
        after += dense[touched[at]] ** 2
    return 4.0 * _EPSILON * (longest + 1) * (np.sqrt(before) + np.sqrt(after))


@kernel()
def dual_objective(rows, a, hs, n_pos, lengths, c_positive, c_negative, use_bias, half_square):
    """Return a lower bound of the dual objective of the variables a, positives first.

    `half_square` is 1/2 |S(v)|^2. An error e of v changes |S(v)| by at most |e|; the terms of v may cancel.
    """
    value, balance, total, spread = 0.0, 0.0, 0.0, 0.0
    for at in range(rows.shape[0]):
        dual_variable = np.float64(a[at])
        total += dual_variable
        value += dual_variable
        if hs[at] > 0:  # recomputed from the cost: the float32 h is too inaccurate for a bound
            curved = 0.25 * dual_variable * dual_variable / (c_positive if at < n_pos else c_negative)
            value -= curved
            total += curved
        balance += dual_variable if at < n_pos else -dual_variable
        spread += dual_variable * lengths[rows[at]]
    relative = 4.0 * _EPSILON * (rows.shape[0] + 4)
    length = np.sqrt(2.0 * half_square) * (1.0 + ROUNDING) + relative * spread
    offset = use_bias * (abs(balance) + relative * total)
    return value - ROUNDING * total - 0.5 * length * length - 0.5 * offset * offset
