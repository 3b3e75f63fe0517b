"""Newton steps for one label of ProXML over its non-zero weights (the support).

With the signs of the weights fixed, the objective is smooth; this set of weights is called a face. Coordinate descent
finds the signs fast but converges slowly if features are correlated; Newton steps do not.

Only rows with a loss contribute to the Hessian, so a step reads only these. If rows have few features of the support,
the Hessian's products of columns are stored, and updated only for rows whose loss becomes or ceases to be positive.
Notation as in `coordinate_descent`.
"""

import numpy as np

from unmissed._jit import kernel

_SUFFICIENT = 0.01  # sufficient decrease: the fraction of the predicted decrease that a step must reach
_HALVINGS = 8
_MIN_CURVATURE = 1e-12
_CG_ACCURACY = 0.1
_CG_STEPS = 40
_MOST_PRODUCTS = 2500  # maximum support size for stored products: 25 MB
_FAR = 0.1  # rows whose slack is below -_FAR are left out of the direction
_MAX_NEW_SUPPORT = 0.05  # new non-zero weights, as a fraction of the support, above which the face is rebuilt
_SCATTER_COST = 3  # cost of an entry read by column and written by row, relative to one read by row
_N_DENSE = 128  # number of most frequent columns that are stored as dense in the products
_MAX_ROW_ENTRIES = 250  # mean entries per row above which products are not stored


@kernel()
def _rows_of_columns(local, slack, support):
    """Return the columns of the support as CSR (row pointer, positions in `support`, values), read by column.

    Rows whose slack is far below 0 are left empty: the result is only used for a search direction.
    """
    starts, positions, entries = local
    begins = np.zeros(slack.shape[0] + 2, np.int64)  # row i is counted at i + 2, so that filling leaves its start at i
    for at in range(support.shape[0]):
        for entry in range(np.uint64(starts[support[at]]), np.uint64(starts[support[at] + 1])):
            row = positions[entry]
            begins[row + np.uint32(2)] += slack[row] > -_FAR
    for row in range(slack.shape[0]):
        begins[row + 2] += begins[row + 1]
    size = begins[slack.shape[0] + 1]
    columns, values = np.empty(size, np.uint32), np.empty(size, np.float32)
    for at in range(support.shape[0]):
        for entry in range(np.uint64(starts[support[at]]), np.uint64(starts[support[at] + 1])):
            row = positions[entry]
            if slack[row] > -_FAR:
                to = np.uint64(begins[row + np.uint32(1)])
                columns[to] = at
                values[to] = entries[entry]
                begins[row + np.uint32(1)] += 1
    return begins[: slack.shape[0] + 1], columns, values


@kernel()
def _rows_of_x(subset, size, scale, slack, support):
    """Return the same, read from the rows of X; `size` is the number of non-zeros of the rows not left empty."""
    (indptr, indices, values), rows, features, local_index = subset
    begins = np.zeros(rows.shape[0] + 1, np.int64)
    columns, entries = np.empty(size, np.uint32), np.empty(size, np.float32)
    for at in range(features.shape[0]):
        local_index[features[at]] = -1
    for at in range(support.shape[0]):
        local_index[features[support[at]]] = at
    filled = np.uint64(0)
    for at in range(rows.shape[0]):
        if slack[at] > -_FAR:
            for entry in range(np.uint64(indptr[rows[at]]), np.uint64(indptr[rows[at] + 1])):
                column = local_index[indices[entry]]
                columns[filled] = column
                entries[filled] = scale[at] * values[entry]
                filled += np.uint64(column >= 0)
        begins[at + 1] = filled
    for at in range(features.shape[0]):
        local_index[features[at]] = at
    return begins, columns[:filled], entries[:filled]


@kernel()
def support_rows(subset, local, scale, slack, support):
    """Return the columns of the support as CSR, read in the cheaper of two ways; `subset` is unchanged."""
    indptr, rows = subset[0][0], subset[1]
    size_of_rows, size_of_columns = 0, 0
    for at in range(rows.shape[0]):
        if slack[at] > -_FAR:
            size_of_rows += indptr[rows[at] + 1] - indptr[rows[at]]
    for at in range(support.shape[0]):
        size_of_columns += local[0][support[at] + 1] - local[0][support[at]]
    if _SCATTER_COST * size_of_columns < size_of_rows:
        return _rows_of_columns(local, slack, support)
    return _rows_of_x(subset, size_of_rows, scale, slack, support)


@kernel()
def make_products(by_row, slack, n_columns):
    """Return a zero matrix for the products of columns, or an empty one if storing them would cost too much."""
    begins = by_row[0]
    size, pairs = 0, 0
    for row in range(slack.shape[0]):
        if slack[row] > 0:
            n = begins[row + 1] - begins[row]
            size += n
            pairs += n * n
    n = 0 if n_columns > _MOST_PRODUCTS or pairs > _MAX_ROW_ENTRIES * size else n_columns
    return np.zeros((n, n), np.float32)


@kernel()
def find_face(subset, local, scale, slack, w):
    """Return the face of the non-zero weights: support, its CSR rows, products, and which rows are in the products."""
    support = np.flatnonzero(w)
    support = support[np.argsort(subset[2][support])]  # most frequent features first
    by_row = support_rows(subset, local, scale, slack, support)
    products = make_products(by_row, slack, support.shape[0])
    return support, by_row, products, np.zeros(slack.shape[0], np.bool_)


@kernel()
def support_changed(face, w):
    """Return whether the non-zero weights outside the support exceed a fraction of those in it."""
    n_known, n_nonzero = 0, 0
    for at in range(face[0].shape[0]):
        n_known += w[face[0][at]] != 0
    for at in range(w.shape[0]):
        n_nonzero += w[at] != 0
    return n_nonzero - n_known > _MAX_NEW_SUPPORT * n_known


@kernel()
def update_products(by_row, slack, counted, products):
    """Update the lower triangle of A^T A, with A the rows with a loss; counted[row] tells whether a row is in it.

    The first columns are the most frequent. A row's entries in them are scattered to a dense vector, and whole vectors
    are added, which is faster than adding pairs of entries.
    """
    begins, columns, values = by_row
    width = min(_N_DENSE, products.shape[0])
    frequent = np.zeros(width, np.float32)
    rare, rare_values = np.empty(products.shape[0], np.uint32), np.empty(products.shape[0], np.float32)
    for row in range(slack.shape[0]):
        has_loss = slack[row] > 0
        if has_loss == counted[row]:
            continue
        counted[row] = has_loss
        begin, end = np.uint64(begins[row]), np.uint64(begins[row + 1])
        n = 0
        for at in range(begin, end):
            if columns[at] < width:
                frequent[columns[at]] = values[at]
            else:
                rare[n] = columns[at]
                rare_values[n] = values[at]
                n += 1
        for at in range(begin, end):
            value = values[at] if has_loss else -values[at]
            line = products[columns[at], :width]
            for other in range(width):
                line[other] += value * frequent[other]
        for first in range(n):
            value, column = rare_values[first] if has_loss else -rare_values[first], rare[first]
            for second in range(np.uint64(first), np.uint64(n)):
                other = rare[second]
                products[max(column, other), min(column, other)] += value * rare_values[second]
        for at in range(begin, end):
            if columns[at] < width:
                frequent[columns[at]] = 0


@kernel(fastmath={"reassoc"})
def _add_line(line, factor, p, out):
    """Add factor * line to out and return line.p; the sum may be reordered, so that it can be vectorized."""
    total = np.float32(0)
    for at in range(line.shape[0]):
        out[at] += factor * line[at]
        total += line[at] * p[at]
    return total


@kernel()
def multiply_products(products, p, out):
    """Set out = A^T A p from the lower triangle of A^T A, for the columns where p is not 0."""
    out[:] = 0
    for at in range(p.shape[0]):
        if p[at] != 0:
            more = _add_line(products[at, :at], p[at], p[:at], out[:at])
            out[at] += more + products[at, at] * p[at]


@kernel()
def multiply_rows(by_row, slack, p, out):
    """Set out = A^T A p by a pass over the rows of A."""
    begins, columns, values = by_row
    out[:] = 0
    for row in range(slack.shape[0]):
        if slack[row] > 0:
            begin, end = np.uint64(begins[row]), np.uint64(begins[row + 1])
            s0, s1 = np.float32(0), np.float32(0)
            at = begin
            while at + np.uint64(1) < end:
                s0 += values[at] * p[columns[at]]
                s1 += values[at + np.uint64(1)] * p[columns[at + np.uint64(1)]]
                at += np.uint64(2)
            if at < end:
                s0 += values[at] * p[columns[at]]
            s0 += s1
            for at in range(begin, end):
                out[columns[at]] += values[at] * s0


@kernel()
def _support_derivatives(local, scale, slack, w, support, threshold):
    """Return the gradient over the support, the diagonal of the Hessian, and its mixed derivatives with the bias.

    Only rows with a loss contribute. For weights of 0 the gradient is that of the loss, without the penalty.
    """
    starts, positions, entries = local
    n = support.shape[0]
    gradient, curvatures, mixed_curvatures = np.empty(n), np.empty(n), np.empty(n)
    for at in range(n):
        derivative, curvature, mixed = 0.0, 0.0, 0.0
        for entry in range(np.uint64(starts[support[at]]), np.uint64(starts[support[at] + 1])):
            row, value = positions[entry], np.float64(entries[entry])
            has_loss = 1.0 if slack[row] > 0 else 0.0
            derivative += value * max(slack[row], 0.0)
            curvature += has_loss * value * value
            mixed += has_loss * value * scale[row]
        gradient[at] = threshold * np.sign(w[support[at]]) - 2.0 * derivative
        curvatures[at], mixed_curvatures[at] = 2.0 * curvature, 2.0 * mixed
    return gradient, curvatures, mixed_curvatures


@kernel()
def _face_direction(
    by_row, slack, products, scaling, scaling_bias, gradient, gradient_bias, mixed_curvatures, curvature_bias
):
    """Return the Newton direction on the face by conjugate gradients with a diagonal preconditioner.

    Weights whose `scaling` is 0 do not move.
    """
    n = gradient.shape[0]
    d, p = np.zeros(n), np.empty(n)
    residual = -gradient
    p_float32, image = np.empty(n, np.float32), np.empty(n, np.float32)  # accurate enough for a search direction
    d_bias, residual_bias = 0.0, -gradient_bias
    square = residual_bias * residual_bias * scaling_bias
    for at in range(n):
        p[at] = scaling[at] * residual[at]
        square += residual[at] * p[at]
    p_bias = scaling_bias * residual_bias
    target = _CG_ACCURACY * _CG_ACCURACY * square
    for _ in range(_CG_STEPS):
        for at in range(n):
            p_float32[at] = p[at]
        if products.shape[0] > 0:
            multiply_products(products, p_float32, image)
        else:
            multiply_rows(by_row, slack, p_float32, image)
        image_bias = curvature_bias * p_bias
        curvature_along_p, size = 0.0, p_bias * p_bias
        for at in range(n):
            curvature_along_p += p[at] * (2.0 * image[at] + mixed_curvatures[at] * p_bias)
            image_bias += mixed_curvatures[at] * p[at]
            size += p[at] * p[at]
        curvature_along_p += p_bias * image_bias
        if not curvature_along_p > _MIN_CURVATURE * size:
            break
        length = square / curvature_along_p
        before, square = square, 0.0
        for at in range(n):
            d[at] += length * p[at]
            residual[at] -= length * (2.0 * image[at] + mixed_curvatures[at] * p_bias)
            square += residual[at] * residual[at] * scaling[at]
        d_bias += length * p_bias
        residual_bias -= length * image_bias
        square += residual_bias * residual_bias * scaling_bias
        if square <= target:
            break
        for at in range(n):
            p[at] = scaling[at] * residual[at] + (square / before) * p[at]
        p_bias = scaling_bias * residual_bias + (square / before) * p_bias
    return d, d_bias


@kernel()
def _stop_at_zero(old, step):
    """Return the step, or the step to 0 if the weight would change its sign."""
    return step if (old + step) * old > 0 else -old


# 12 arguments: weights and slack of a label are four values, and a direction with its gradient is five.
@kernel()
def _line_search(local, scale, bias_only_cost, slack, w, bias, support, gradient, gradient_bias, d, d_bias, threshold):
    """Backtrack along d until the decrease is sufficient; weights that would change their sign become 0.

    Returns the bias and the change of the objective.
    """
    starts, positions, entries = local
    product = np.empty(slack.shape[0])
    length = 1.0
    for _ in range(_HALVINGS):
        step_bias = _stop_at_zero(bias, length * d_bias) if d_bias != 0 else 0.0
        predicted = gradient_bias * step_bias
        change = threshold * (abs(bias + step_bias) - abs(bias))
        for row in range(slack.shape[0]):
            product[row] = scale[row] * step_bias
        for at in range(support.shape[0]):
            if d[at] != 0:
                column = support[at]
                step = _stop_at_zero(w[column], length * d[at])
                predicted += gradient[at] * step
                change += threshold * (abs(w[column] + step) - abs(w[column]))
                for entry in range(np.uint64(starts[column]), np.uint64(starts[column + 1])):
                    product[positions[entry]] += entries[entry] * step
        after, before = max(1.0 + bias + step_bias, 0.0), max(1.0 + bias, 0.0)
        change += bias_only_cost * (after - before) * (after + before)
        for row in range(slack.shape[0]):
            after, before = max(slack[row] - product[row], 0.0), max(slack[row], 0.0)
            change += (after - before) * (after + before)
        if change < 0 and change <= _SUFFICIENT * predicted:
            for row in range(slack.shape[0]):
                slack[row] -= product[row]
            for at in range(support.shape[0]):
                if d[at] != 0:
                    w[support[at]] += _stop_at_zero(w[support[at]], length * d[at])
            return bias + step_bias, change
        length *= 0.5
    return bias, 0.0


@kernel()
def bias_derivatives(scale, bias_only_cost, slack, bias, derivative):
    """Return `derivative` plus the first derivative of the loss in the bias, and the second derivative.

    The loss of the bias-only rows is bias_only_cost * max(0, 1 + b)^2.
    """
    curvature = 0.0
    for row in range(slack.shape[0]):
        if slack[row] > 0:
            derivative -= 2.0 * scale[row] * slack[row]
            curvature += 2.0 * scale[row] * scale[row]
    if 1.0 + bias > 0:
        derivative += 2.0 * bias_only_cost * (1.0 + bias)
        curvature += 2.0 * bias_only_cost
    return derivative, curvature


@kernel()
def face_step(local, face, scale, bias_only_cost, slack, w, bias, use_bias, threshold):
    """Do one Newton step over the non-zero weights; return the bias and the change of the objective.

    `face` is the result of `find_face`.
    """
    support, by_row, products, counted = face
    if products.shape[0] > 0:
        update_products(by_row, slack, counted, products)
    gradient, curvatures, mixed_curvatures = _support_derivatives(local, scale, slack, w, support, threshold)
    gradient_bias, curvature_bias = bias_derivatives(
        scale, bias_only_cost, slack, bias, threshold if bias > 0 else -threshold
    )
    scaling, scaling_bias = np.zeros(support.shape[0]), 0.0
    for at in range(support.shape[0]):
        if w[support[at]] != 0 and curvatures[at] > _MIN_CURVATURE:  # no row with a loss: left to coordinate descent
            scaling[at] = 1.0 / curvatures[at]
    if use_bias != 0 and bias != 0 and curvature_bias > _MIN_CURVATURE:
        scaling_bias = 1.0 / curvature_bias
    d, d_bias = _face_direction(
        by_row, slack, products, scaling, scaling_bias, gradient, gradient_bias, mixed_curvatures, curvature_bias
    )
    return _line_search(
        local, scale, bias_only_cost, slack, w, bias, support, gradient, gradient_bias, d, d_bias, threshold
    )
