"""Newton steps for one label of ProXML among the weights that are not 0: on a face the objective is smooth.

Coordinate descent finds the signs soon but goes on for thousands of epochs where features are alike; this does not
mind. Only rows that lose bend the objective, and a step reads them alone. Where rows have few of the features, the
products of columns are kept, and a row is read again only when it begins or ceases to lose. Notation as in
`l1_descent`.
"""

import numpy as np

from unmissed._jit import kernel

_SUFFICIENT = 0.01  # the share of the promised decrease that a step must keep
_HALVINGS = 8
_LEAST = 1e-12
_CG_ACCURACY = 0.1
_CG_STEPS = 40
_MOST_PRODUCTS = 2500  # features whose products are kept at most: 25 MB
_FAR = 0.1  # rows with so much room to spare do not make a direction
_STRANGERS = 0.05  # weights outside a face, as a share of those in it, from which another is worth finding
_SCATTERED = 3  # an entry that is read by column and written by row costs so many that are read by row
_FREQUENT = 128  # columns that are taken to be dense in the products
_LONG = 250  # entries per row from which products cost more than they save


@kernel()
def _rows_of_columns(local, slack, support):
    """Return the entries of the support by row, reading its columns: where rows begin, places in `support`, values.

    Rows far from losing are left empty: what is made of this is a direction only.
    """
    starts, places, entries = local
    begins = np.zeros(slack.shape[0] + 2, np.int64)  # row i is counted in i + 2: filling leaves its beginning in i
    for at in range(support.shape[0]):
        for here in range(np.uint64(starts[support[at]]), np.uint64(starts[support[at] + 1])):
            row = places[here]
            begins[row + np.uint32(2)] += slack[row] > -_FAR
    for row in range(slack.shape[0]):
        begins[row + 2] += begins[row + 1]
    size = begins[slack.shape[0] + 1]
    columns, values = np.empty(size, np.uint32), np.empty(size, np.float32)
    for at in range(support.shape[0]):
        for here in range(np.uint64(starts[support[at]]), np.uint64(starts[support[at] + 1])):
            row = places[here]
            if slack[row] > -_FAR:
                to = np.uint64(begins[row + np.uint32(1)])
                columns[to] = at
                values[to] = entries[here]
                begins[row + np.uint32(1)] += 1
    return begins[: slack.shape[0] + 1], columns, values


@kernel()
def _rows_of_x(place, size, scale, slack, support):
    """Return the same, reading the rows of X; `size` is the number of entries of those that are not left empty."""
    (indptr, indices, values), rows, features, name = place
    begins = np.zeros(rows.shape[0] + 1, np.int64)
    columns, entries = np.empty(size, np.uint32), np.empty(size, np.float32)
    for at in range(features.shape[0]):
        name[features[at]] = -1
    for at in range(support.shape[0]):
        name[features[support[at]]] = at
    filled = np.uint64(0)
    for at in range(rows.shape[0]):
        if slack[at] > -_FAR:
            for here in range(np.uint64(indptr[rows[at]]), np.uint64(indptr[rows[at] + 1])):
                column = name[indices[here]]
                columns[filled] = column
                entries[filled] = scale[at] * values[here]
                filled += np.uint64(column >= 0)
        begins[at + 1] = filled
    for at in range(features.shape[0]):
        name[features[at]] = at
    return begins, columns[:filled], entries[:filled]


@kernel()
def support_rows(place, local, scale, slack, support):
    """Return the entries of the support by row, read in the cheaper way; `place` is left as it was."""
    indptr, rows = place[0][0], place[1]
    of_x, of_columns = 0, 0
    for at in range(rows.shape[0]):
        if slack[at] > -_FAR:
            of_x += indptr[rows[at] + 1] - indptr[rows[at]]
    for at in range(support.shape[0]):
        of_columns += local[0][support[at] + 1] - local[0][support[at]]
    if _SCATTERED * of_columns < of_x:
        return _rows_of_columns(local, slack, support)
    return _rows_of_x(place, of_x, scale, slack, support)


@kernel()
def make_products(by_row, slack, n_columns):
    """Return an empty table of the products of columns, or one of no size where that would cost too much."""
    begins = by_row[0]
    size, pairs = 0, 0
    for row in range(slack.shape[0]):
        if slack[row] > 0:
            n = begins[row + 1] - begins[row]
            size += n
            pairs += n * n
    n = 0 if n_columns > _MOST_PRODUCTS or pairs > _LONG * size else n_columns
    return np.zeros((n, n), np.float32)


@kernel()
def find_face(place, local, scale, slack, w):
    """Return what `face_step` wants to know of the weights that are not 0."""
    support = np.flatnonzero(w)
    support = support[np.argsort(place[2][support])]  # the most frequent features first
    by_row = support_rows(place, local, scale, slack, support)
    products = make_products(by_row, slack, support.shape[0])
    return support, by_row, products, np.zeros(slack.shape[0], np.bool_)


@kernel()
def has_left(face, w):
    """Tell whether more than a few weights are not 0 that were 0 when the face was found."""
    known, now = 0, 0
    for at in range(face[0].shape[0]):
        known += w[face[0][at]] != 0
    for at in range(w.shape[0]):
        now += w[at] != 0
    return now - known > _STRANGERS * known


@kernel()
def update_products(by_row, slack, counted, products):
    """Bring the lower half of A^T A, with A the rows that lose, up to date; counted[row] tells which are in it.

    The first columns are the most frequent: a row's entries in them are spread out and added line by line, which is
    quicker than pair by pair.
    """
    begins, columns, values = by_row
    width = min(_FREQUENT, products.shape[0])
    frequent = np.zeros(width, np.float32)
    rare, rare_values = np.empty(products.shape[0], np.uint32), np.empty(products.shape[0], np.float32)
    for row in range(slack.shape[0]):
        loses = slack[row] > 0
        if loses == counted[row]:
            continue
        counted[row] = loses
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
            value = values[at] if loses else -values[at]
            line = products[columns[at], :width]
            for other in range(width):
                line[other] += value * frequent[other]
        for first in range(n):
            value, column = rare_values[first] if loses else -rare_values[first], rare[first]
            for second in range(np.uint64(first), np.uint64(n)):
                other = rare[second]
                products[max(column, other), min(column, other)] += value * rare_values[second]
        for at in range(begin, end):
            if columns[at] < width:
                frequent[columns[at]] = 0


@kernel(fastmath={"reassoc"})
def _add_line(line, factor, p, out):
    """Add factor * line to out and return line.p; the sum may be taken in any order, which makes it fast."""
    total = np.float32(0)
    for at in range(line.shape[0]):
        out[at] += factor * line[at]
        total += line[at] * p[at]
    return total


@kernel()
def multiply_products(products, p, out):
    """Set out = A^T A p from the lower half of A^T A, for the columns where p is not 0."""
    out[:] = 0
    for at in range(p.shape[0]):
        if p[at] != 0:
            more = _add_line(products[at, :at], p[at], p[:at], out[:at])
            out[at] += more + products[at, at] * p[at]


@kernel()
def multiply_rows(by_row, slack, p, out):
    """Set out = A^T A p, row by row."""
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
def _slopes(local, scale, slack, w, support, threshold):
    """Return the slope of the objective in each weight of the support, its curvature, and that with the bias.

    Only rows that lose count. The slope is that of the loss alone where the weight is 0.
    """
    starts, places, entries = local
    n = support.shape[0]
    slopes, bends, beside = np.empty(n), np.empty(n), np.empty(n)
    for at in range(n):
        slope, bend, mixed = 0.0, 0.0, 0.0
        for here in range(np.uint64(starts[support[at]]), np.uint64(starts[support[at] + 1])):
            row, value = places[here], np.float64(entries[here])
            loses = 1.0 if slack[row] > 0 else 0.0
            slope += value * max(slack[row], 0.0)
            bend += loses * value * value
            mixed += loses * value * scale[row]
        slopes[at] = threshold * np.sign(w[support[at]]) - 2.0 * slope
        bends[at], beside[at] = 2.0 * bend, 2.0 * mixed
    return slopes, bends, beside


@kernel()
def _face_direction(by_row, slack, products, scaling, scaling_bias, slopes, slope_bias, beside, bend_bias):
    """Return the Newton step on the face by conjugate gradients, each weight measured by its own curvature.

    A weight whose scaling is 0 stays where it is.
    """
    n = slopes.shape[0]
    d, p = np.zeros(n), np.empty(n)
    residual = -slopes
    narrow, image = np.empty(n, np.float32), np.empty(n, np.float32)  # they only make a direction
    d_bias, residual_bias = 0.0, -slope_bias
    square = residual_bias * residual_bias * scaling_bias
    for at in range(n):
        p[at] = scaling[at] * residual[at]
        square += residual[at] * p[at]
    p_bias = scaling_bias * residual_bias
    enough = _CG_ACCURACY * _CG_ACCURACY * square
    for _ in range(_CG_STEPS):
        for at in range(n):
            narrow[at] = p[at]
        if products.shape[0] > 0:
            multiply_products(products, narrow, image)
        else:
            multiply_rows(by_row, slack, narrow, image)
        image_bias = bend_bias * p_bias
        bent, size = 0.0, p_bias * p_bias
        for at in range(n):
            bent += p[at] * (2.0 * image[at] + beside[at] * p_bias)
            image_bias += beside[at] * p[at]
            size += p[at] * p[at]
        bent += p_bias * image_bias
        if not bent > _LEAST * size:
            break
        length = square / bent
        before, square = square, 0.0
        for at in range(n):
            d[at] += length * p[at]
            residual[at] -= length * (2.0 * image[at] + beside[at] * p_bias)
            square += residual[at] * residual[at] * scaling[at]
        d_bias += length * p_bias
        residual_bias -= length * image_bias
        square += residual_bias * residual_bias * scaling_bias
        if square <= enough:
            break
        for at in range(n):
            p[at] = scaling[at] * residual[at] + (square / before) * p[at]
        p_bias = scaling_bias * residual_bias + (square / before) * p_bias
    return d, d_bias


@kernel()
def _towards(old, step):
    """Return the step, or the one to 0 where the weight would change its sign."""
    return step if (old + step) * old > 0 else -old


@kernel()
def _search(local, scale, crowd, slack, w, bias, support, slopes, slope_bias, d, d_bias, threshold):
    """Go along d, halving the step until it keeps its promise; weights that would change their sign become 0.

    Returns the bias and by how much the objective changed.
    """
    starts, places, entries = local
    product = np.empty(slack.shape[0])
    length = 1.0
    for _ in range(_HALVINGS):
        step_bias = _towards(bias, length * d_bias) if d_bias != 0 else 0.0
        promised = slope_bias * step_bias
        change = threshold * (abs(bias + step_bias) - abs(bias))
        for row in range(slack.shape[0]):
            product[row] = scale[row] * step_bias
        for at in range(support.shape[0]):
            if d[at] != 0:
                column = support[at]
                step = _towards(w[column], length * d[at])
                promised += slopes[at] * step
                change += threshold * (abs(w[column] + step) - abs(w[column]))
                for here in range(np.uint64(starts[column]), np.uint64(starts[column + 1])):
                    product[places[here]] += entries[here] * step
        after, before = max(1.0 + bias + step_bias, 0.0), max(1.0 + bias, 0.0)
        change += crowd * (after - before) * (after + before)
        for row in range(slack.shape[0]):
            after, before = max(slack[row] - product[row], 0.0), max(slack[row], 0.0)
            change += (after - before) * (after + before)
        if change < 0 and change <= _SUFFICIENT * promised:
            for row in range(slack.shape[0]):
                slack[row] -= product[row]
            for at in range(support.shape[0]):
                if d[at] != 0:
                    w[support[at]] += _towards(w[support[at]], length * d[at])
            return bias + step_bias, change
        length *= 0.5
    return bias, 0.0


@kernel()
def bias_slope(scale, crowd, slack, bias, slope):
    """Return `slope` with the derivative of the loss in the bias, and the second one.

    The crowd costs `crowd` max(0, 1 + b)^2.
    """
    bend = 0.0
    for row in range(slack.shape[0]):
        if slack[row] > 0:
            slope -= 2.0 * scale[row] * slack[row]
            bend += 2.0 * scale[row] * scale[row]
    if 1.0 + bias > 0:
        slope += 2.0 * crowd * (1.0 + bias)
        bend += 2.0 * crowd
    return slope, bend


@kernel()
def face_step(local, face, scale, crowd, slack, w, bias, use_bias, threshold):
    """Do one Newton step among the weights that are not 0; return the bias and by how much the objective changed.

    `face` is the support, its rows by `support_rows`, the products of its columns, and which rows are in these.
    """
    support, by_row, products, counted = face
    if products.shape[0] > 0:
        update_products(by_row, slack, counted, products)
    slopes, bends, beside = _slopes(local, scale, slack, w, support, threshold)
    slope_bias, bend_bias = bias_slope(scale, crowd, slack, bias, threshold if bias > 0 else -threshold)
    scaling, scaling_bias = np.zeros(support.shape[0]), 0.0
    for at in range(support.shape[0]):
        if w[support[at]] != 0 and bends[at] > _LEAST:  # no row that loses: left to coordinate descent
            scaling[at] = 1.0 / bends[at]
    if use_bias != 0 and bias != 0 and bend_bias > _LEAST:
        scaling_bias = 1.0 / bend_bias
    d, d_bias = _face_direction(by_row, slack, products, scaling, scaling_bias, slopes, slope_bias, beside, bend_bias)
    return _search(local, scale, crowd, slack, w, bias, support, slopes, slope_bias, d, d_bias, threshold)
