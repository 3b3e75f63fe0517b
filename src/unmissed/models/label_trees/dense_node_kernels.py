"""Dual coordinate ascent for the classifiers of a tree node whose rows have dense features, one column at a time.

A dense row has a value for every feature, so that lanes save no gathers, and most rows matter to few columns. Each
column therefore visits its own working set: rows that are active or violated. Rows are visited block by block, and in a
block column by column: a block of rows stays in the cache for all columns.

Notation as in `node_kernels`, with columns first: W (n_columns, n_features), dense features first, and the dual
variables a (n_columns, n_samples). Column c has the positives pos_rows[pos_starts[c]:pos_starts[c + 1]], ascending,
each with its own cost in pos_costs.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.dense_rows import dense_add, dense_dot, prefetch_dense_row
from unmissed.numerics.packed_rows import shuffle

_ZERO = np.float32(0)
_ONE = np.float32(1)
_PREFETCH_DISTANCE = 2  # in rows
_LEAST_COST = 1e-30  # avoids an infinite h for a cost of 0


# 12 arguments: rows have four arrays and their dense part, and the state of the columns is three arrays.
@kernel()
def ascend_columns(dense, indptr, indices, values, norms, columns, lists, block_rows, n_epochs, seed, W, bias, a):
    """Do epochs of coordinate steps for some columns, each over its list of rows.

    `lists` is (starts, rows, h): column columns[t] has the rows from starts[t] to starts[t + 1], ascending, with
    h = 1/(2c), negative for rows that are negatives. Each epoch splits the rows into new random blocks of `block_rows`
    and visits a column's rows of a block in random order: fixed blocks or orders take up to twice as many epochs.
    """
    starts, rows, h = lists
    n_rows, size = norms.shape[0], rows.shape[0]
    n_blocks = -(-n_rows // block_rows)
    shuffled, block_of_row = np.arange(n_rows), np.empty(n_rows, np.int32)
    bounds = np.empty((columns.shape[0], n_blocks + 1), np.int64)
    visited = np.empty(size, np.int32), np.empty(size, np.float32), np.empty(size, np.float32)
    order, state = np.empty(n_rows, np.int64), np.uint64(seed)
    for _ in range(n_epochs):
        state = shuffle(shuffled, n_rows, state)
        for position in range(n_rows):
            block_of_row[shuffled[position]] = position // block_rows
        for at in range(columns.shape[0]):
            mine = rows[starts[at] : starts[at + 1]], h[starts[at] : starts[at + 1]], a[columns[at]]
            _sort_by_block(*mine, block_of_row, starts[at], bounds[at], *visited)
        for block in range(n_blocks):
            for at in range(columns.shape[0]):
                column, begin, end = columns[at], bounds[at, block], bounds[at, block + 1]
                for position in range(end - begin):
                    order[position] = position
                state = shuffle(order, end - begin, state)
                mine = visited[0][begin:end], visited[1][begin:end], visited[2][begin:end], order
                bias[column] = _visit(dense, indptr, indices, values, norms, *mine, W[column], bias[column])
        for at in range(columns.shape[0]):
            for position in range(starts[at], starts[at + 1]):
                a[columns[at], visited[0][position]] = visited[2][position]


@kernel()
def _sort_by_block(rows, h, a, block_of_row, first, bounds, sorted_rows, sorted_h, sorted_a):
    """Write the rows of a column, with their h and dual variables, sorted by block from position `first` on.

    Block b has the positions from bounds[b] to bounds[b + 1]. Visits then read consecutive memory.
    """
    bounds[:] = 0
    for at in range(rows.shape[0]):
        bounds[block_of_row[rows[at]] + 1] += 1
    bounds[0] = first
    for block in range(1, bounds.shape[0]):
        bounds[block] += bounds[block - 1]
    for at in range(rows.shape[0]):
        row = rows[at]
        target = bounds[block_of_row[row]]
        sorted_rows[target], sorted_h[target], sorted_a[target] = row, h[at], a[row]
        bounds[block_of_row[row]] = target + 1
    for block in range(bounds.shape[0] - 1, 0, -1):
        bounds[block] = bounds[block - 1]
    bounds[0] = first


# 11 arguments: rows have four arrays and their dense part, and what is visited has four.
@kernel()
def _visit(dense, indptr, indices, values, norms, listed, h, a, order, w, bias):
    """Take the optimal step of the dual variables a of the listed rows of one column, in order; return the new bias."""
    begins, numbers, n_dense, _ = dense
    for position in range(listed.shape[0]):
        if position + _PREFETCH_DISTANCE < listed.shape[0]:
            prefetch_dense_row(dense, listed[order[position + _PREFETCH_DISTANCE]])
        at = order[position]
        row, own, sign = listed[at], abs(h[at]), _ONE if h[at] > _ZERO else -_ONE
        first = begins[row]
        score = bias + dense_dot(numbers, first, w, 0, n_dense)
        for entry in range(indptr[row], indptr[row + 1]):
            score += values[entry] * w[indices[entry]]
        step = max((_ONE - sign * score - own * a[at]) / (norms[row] + own), -a[at])
        if step != _ZERO:
            a[at] += step
            step *= sign
            bias += step
            dense_add(numbers, first, step, w, 0, n_dense)
            for entry in range(indptr[row], indptr[row + 1]):
                w[indices[entry]] += step * values[entry]
    return bias


@kernel()
def add_sparse_scores(indptr, indices, values, first, n_dense, transposed, scores):
    """Add the products of sparse features of the rows from `first` on to scores (n_rows, n_columns).

    `transposed` (n_sparse, n_columns) has the weights of sparse features.
    """
    for at in range(scores.shape[0]):
        line = scores[at]
        for entry in range(indptr[first + at], indptr[first + at + 1]):
            weights, value = transposed[indices[entry] - n_dense], values[entry]
            for column in range(line.shape[0]):
                line[column] += value * weights[column]


@kernel()
def best_biases(scores, columns, positives, negative, steps, min_decrease, bias, loss):
    """Set bias[c] and loss[c] for columns[t] = c with the scores scores[t] to the best bias and the loss there.

    Newton's method on b^2/2 + the loss, which is piecewise quadratic, from bias[c] on; the best iterate is kept. It
    stops after `steps` steps or when a step would decrease the objective by less than `min_decrease`, relatively.
    """
    signed = np.empty(scores.shape[1])
    for at in range(columns.shape[0]):
        column = columns[at]
        _sign_costs(column, positives, negative, signed)
        line, best, current = scores[at], np.inf, bias[column]
        loss[column] = np.inf  # remains if numbers overflow
        for _ in range(steps + 1):
            b = np.float64(current)
            value, derivative, curvature = _loss_at(line, signed, b)
            objective = 0.5 * b * b + value
            if objective < best:
                best, bias[column], loss[column] = objective, current, value
            step = -(b + derivative) / (1 + curvature)
            if not step * step * (1 + curvature) > 2 * min_decrease * objective:
                break
            current = np.float32(b + step)


@kernel()
def dual_objectives(columns, positives, negative, squares, bias, a):
    """Return max over t of D(t a) for some columns; squares[c] is |w|^2. Certificates use `sum_active_rows` instead."""
    duals = np.zeros(columns.shape[0])
    signed = np.empty(a.shape[1])
    for at in range(columns.shape[0]):
        column = columns[at]
        _sign_costs(column, positives, negative, signed)
        total, curved = 0.0, squares[column] + np.float64(bias[column]) ** 2
        for row in range(a.shape[1]):
            variable = np.float64(a[column, row])
            total += variable
            curved += 0.5 / abs(signed[row]) * variable * variable
        if total > 0:
            duals[at] = 0.5 * total * total / curved
    return duals


@kernel()
def _loss_at(scores, signed, bias):
    """Return the loss of one column over all rows, and its first two derivatives with respect to the bias."""
    loss, derivative, curvature = 0.0, 0.0, 0.0
    for row in range(scores.shape[0]):
        cost = signed[row]
        z = 1.0 if cost > 0 else -1.0
        slack = max(1.0 - z * (np.float64(scores[row]) + bias), 0.0)
        loss += abs(cost) * slack * slack
        derivative -= 2.0 * cost * slack
        curvature += 2.0 * abs(cost) if slack > 0.0 else 0.0
    return loss, derivative, curvature


@kernel()
def _sign_costs(column, positives, negative, signed):
    """Set the cost of each row of a column, negative for rows that are negatives; a positive of cost 0 has 1e-30."""
    pos_starts, pos_rows, pos_costs = positives
    signed[:] = -negative
    for position in range(pos_starts[column], pos_starts[column + 1]):
        signed[pos_rows[position]] = max(pos_costs[position], _LEAST_COST)


@kernel()
def list_rows_to_visit(scores, columns, positives, negative, bias, a, starts, rows, h):
    """Count or list each column's rows that are active or violated; see `ascend_columns` for the lists.

    If `rows` is empty, starts[t + 1] is set to the number of rows of columns[t]. Otherwise the lists are filled.
    """
    signed = np.empty(scores.shape[1])
    for at in range(columns.shape[0]):
        column, line, filled = columns[at], scores[at], starts[at] if rows.shape[0] else 0
        _sign_costs(column, positives, negative, signed)
        for row in range(line.shape[0]):
            z = _ONE if signed[row] > 0 else -_ONE
            if a[column, row] > _ZERO or z * (line[row] + bias[column]) < _ONE:
                if rows.shape[0]:
                    rows[filled] = row
                    h[filled] = 0.5 / signed[row]
                filled += 1
        if not rows.shape[0]:
            starts[at + 1] = filled


# 11 arguments: rows have four arrays and their dense part, and two arrays of sums are written.
@kernel()
def sum_active_rows(dense, indptr, indices, values, norms, positives, negative, a, exact, W, sums):
    """Set W to sum_i a_i z_i x_i, summed in float64, and sums (6, n_columns) to what a certificate needs.

    The sums are those of a, h a^2, a z and a |x|, then |w|^2 before and after rounding to float32. The dual variable of
    a positive with cost 0 becomes 0, since h = 1/(2c) is infinite. `exact` (n_features) is workspace.
    """
    begins, numbers, n_dense, _ = dense
    signed = np.empty(a.shape[1])
    sums[:] = 0.0
    for column in range(a.shape[0]):
        _sign_costs(column, positives, negative, signed)
        exact[:] = 0.0
        mine, own = a[column], sums[:, column]
        for row in range(mine.shape[0]):
            if mine[row] == _ZERO:
                continue
            if 0 < signed[row] <= _LEAST_COST:
                mine[row] = _ZERO
                continue
            value = np.float64(mine[row])
            change = value if signed[row] > 0 else -value
            own[0] += value
            own[1] += 0.5 / abs(signed[row]) * value * value
            own[2] += change
            own[3] += value * np.sqrt(np.float64(norms[row]))
            first = begins[row]
            x, out = numbers[first : first + n_dense], exact[:n_dense]
            for feature in range(n_dense):
                out[feature] += change * np.float64(x[feature])
            for entry in range(indptr[row], indptr[row + 1]):
                exact[indices[entry]] += change * np.float64(values[entry])
        for feature in range(exact.shape[0]):
            rounded = np.float32(exact[feature])
            own[4] += exact[feature] * exact[feature]
            own[5] += np.float64(rounded) * np.float64(rounded)
            W[column, feature] = rounded
