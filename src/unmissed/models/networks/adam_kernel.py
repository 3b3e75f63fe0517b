"""A step of Adam for some rows of a table, in one pass over them."""

import numpy as np

from unmissed._jit import kernel


@kernel()
def adam_step(rows, gradient, weights, mean, square, constants):
    """Update the moments of the given rows, and take a step; row i of the gradient belongs to row rows[i].

    `constants` are 1 - beta1, beta2, 1 - beta2, the bias correction of the second moment, epsilon, and the step size.
    """
    fresh, keep, new, correction, epsilon, step = constants
    for i in range(rows.shape[0]):
        row, g = rows[i], gradient[i]
        m, v, w = mean[row], square[row], weights[row]
        for j in range(g.shape[0]):
            m[j] += fresh * (g[j] - m[j])
            v[j] = keep * v[j] + new * (g[j] * g[j])
            w[j] -= step * (m[j] / (np.sqrt(v[j] * correction) + epsilon))
