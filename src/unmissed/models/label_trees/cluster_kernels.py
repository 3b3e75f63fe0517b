"""Spherical clustering of labels: label representations, balanced 2-means and k-means.

A label's representation is the L2-normalized sum of its rows, kept sparse. Sums have a fixed order, so clusters do not
depend on the number of threads.
"""

import numpy as np

from unmissed._jit import kernel

_ZERO = np.float32(0)
_ONE = np.float32(1)


# 12 arguments: labels and features are six, and the sums are written to three.
@kernel()
def sum_label_rows(
    starts, rows, indptr, indices, data, dense, total, is_listed, seen, lengths, out_indices, out_values
):
    """Write the representations of consecutive labels; return the number of entries written.

    Label l has the rows starts[l] to starts[l + 1]; lengths[l] is set to its number of entries. `dense` (n_samples,
    n_dense) has further features, numbered after the sparse ones. `total` and `is_listed` (n_features) hold zeros
    before and after; `seen` (n_features) is workspace.
    """
    filled, n_dense = 0, dense.shape[1]
    n_sparse = total.shape[0] - n_dense
    for label in range(starts.shape[0] - 1):
        n_seen = 0
        for position in range(starts[label], starts[label + 1]):
            row = rows[position]
            for at in range(indptr[row], indptr[row + 1]):
                feature = indices[at]
                if is_listed[feature] == 0:
                    is_listed[feature] = 1
                    seen[n_seen] = feature
                    n_seen += 1
                total[feature] += data[at]
            x, of_dense = dense[row], total[n_sparse:]
            for feature in range(n_dense):
                of_dense[feature] += x[feature]
        for feature in range(n_sparse, n_sparse + n_dense):
            seen[n_seen] = feature
            n_seen += 1
        square = 0.0
        begin = filled
        for at in range(n_seen):
            feature = seen[at]
            value = total[feature]
            total[feature] = _ZERO
            is_listed[feature] = 0
            if value != _ZERO:
                out_indices[filled] = feature
                out_values[filled] = value
                square += np.float64(value) ** 2
                filled += 1
        lengths[label] = filled - begin
        if square > 0:
            scale = np.float32(1 / np.sqrt(square))
            for at in range(begin, filled):
                out_values[at] *= scale
    return filled


@kernel()
def split_in_half(indptr, indices, values, labels, first, second, max_steps, tolerance, sums, order):
    """Split labels into two halves by balanced spherical 2-means; return the number of steps and the mean cosine.

    The initial means are labels[first] and labels[second]. Each step sorts the labels by the difference of their
    cosines with the two means (ties by position), assigns the first half, rounded up, to the first mean, and updates
    the means. It stops when the mean cosine of labels and their mean gains less than `tolerance`. `order` is set to the
    positions of the labels, first half first. `sums` (n_features, 2) holds zeros before and after.
    """
    n = labels.shape[0]
    half = (n + 1) // 2
    dots = np.empty((n, 2), np.float32)
    difference = np.empty(n, np.float32)
    side = np.full(n, -1, np.int8)
    _add(indptr, indices, values, labels[first], _ONE, sums, 0)
    _add(indptr, indices, values, labels[second], _ONE, sums, 1)
    squares = np.ones(2)
    mean_cosine = -np.inf
    steps = 0
    while True:
        _two_dots(indptr, indices, values, labels, sums, dots)
        if steps:  # unit vectors: the cosines of a half with its mean sum to the norm of its sum
            squares[:] = 0
            for at in range(n):
                squares[side[at]] += dots[at, side[at]]
            new_mean_cosine = (np.sqrt(max(squares[0], 0.0)) + np.sqrt(max(squares[1], 0.0))) / n
            if steps >= max_steps or new_mean_cosine - mean_cosine < tolerance:
                _clear(indptr, indices, labels, sums)
                return steps, max(new_mean_cosine, mean_cosine)
            mean_cosine = new_mean_cosine
        scale0 = np.float32(1 / np.sqrt(squares[0])) if squares[0] > 0 else _ZERO
        scale1 = np.float32(1 / np.sqrt(squares[1])) if squares[1] > 0 else _ZERO
        for at in range(n):
            difference[at] = dots[at, 1] * scale1 - dots[at, 0] * scale0
        order[:] = np.argsort(difference, kind="mergesort")
        if not steps:
            _clear(indptr, indices, labels, sums)
        for position in range(n):
            at, new = order[position], 0 if position < half else 1
            if side[at] != new:
                if side[at] >= 0:
                    _add(indptr, indices, values, labels[at], -_ONE, sums, side[at])
                _add(indptr, indices, values, labels[at], _ONE, sums, new)
                side[at] = new
        steps += 1


@kernel()
def _add(indptr, indices, values, label, factor, sums, column):
    """Add `factor` times a label's representation to one of the sums."""
    for at in range(indptr[label], indptr[label + 1]):
        sums[indices[at], column] += factor * values[at]


@kernel()
def _two_dots(indptr, indices, values, labels, sums, dots):
    """Set the dot products of each label with both sums."""
    for position in range(labels.shape[0]):
        a0, a1, b0, b1 = _ZERO, _ZERO, _ZERO, _ZERO
        at, end = np.uint64(indptr[labels[position]]), np.uint64(indptr[labels[position] + 1])
        while at + np.uint64(1) < end:
            i, j = indices[at], indices[at + np.uint64(1)]
            v, u = values[at], values[at + np.uint64(1)]
            a0 += v * sums[i, 0]
            a1 += v * sums[i, 1]
            b0 += u * sums[j, 0]
            b1 += u * sums[j, 1]
            at += np.uint64(2)
        if at < end:
            a0 += values[at] * sums[indices[at], 0]
            a1 += values[at] * sums[indices[at], 1]
        dots[position, 0] = a0 + b0
        dots[position, 1] = a1 + b1


@kernel()
def _clear(indptr, indices, labels, sums):
    """Reset the sums to zeros at the features of the labels."""
    for position in range(labels.shape[0]):
        for at in range(indptr[labels[position]], indptr[labels[position] + 1]):
            sums[indices[at], 0] = _ZERO
            sums[indices[at], 1] = _ZERO


@kernel()
def assign_labels(indptr, indices, values, labels, means, assignments):
    """Assign each label to the mean with the largest cosine, ties to the first; return the sum of those cosines.

    Means are the L2-normalized columns of `means` (n_features, n_means).
    """
    cosines = np.empty(means.shape[1], np.float32)
    total_cosine = 0.0
    for position in range(labels.shape[0]):
        cosines[:] = 0
        for at in range(indptr[labels[position]], indptr[labels[position] + 1]):
            line, value = means[indices[at]], values[at]
            for mean in range(means.shape[1]):
                cosines[mean] += value * line[mean]
        best = 0
        for mean in range(1, means.shape[1]):
            if cosines[mean] > cosines[best]:
                best = mean
        assignments[position] = best
        total_cosine += np.float64(cosines[best])
    return total_cosine


@kernel()
def update_means(indptr, indices, values, labels, assignments, means):
    """Set each column of `means` to the L2-normalized sum of its labels; a column without labels is 0."""
    means[:] = 0
    for position in range(labels.shape[0]):
        _add(indptr, indices, values, labels[position], _ONE, means, assignments[position])
    square = np.zeros(means.shape[1])
    for at in range(means.shape[0]):
        for mean in range(means.shape[1]):
            square[mean] += np.float64(means[at, mean]) ** 2
    scale = np.zeros(means.shape[1], np.float32)
    for mean in range(means.shape[1]):
        if square[mean] > 0:
            scale[mean] = 1 / np.sqrt(square[mean])
    for at in range(means.shape[0]):
        for mean in range(means.shape[1]):
            means[at, mean] *= scale[mean]
