"""Clusters of labels on the sphere: directions of labels from the rows that have them, and how to split a set of them.

A label's direction is the sum of its rows, scaled to length 1 and kept sparse. Sums are taken in a fixed order, so that
clusters do not depend on who computes them.
"""

import numpy as np

from unmissed._jit import kernel

_ZERO = np.float32(0)
_ONE = np.float32(1)


@kernel()
def add_up(starts, rows, indptr, indices, data, total, listed, seen, lengths, out_indices, out_values):
    """Write the directions of labels one behind the other; label l has the rows starts[l] to starts[l + 1].

    `total` and `listed` (n_features) hold zeros before and after, `seen` (n_features) is scratch; lengths[l] gets how
    many entries label l has. Returns how many were written.
    """
    filled = 0
    for label in range(starts.shape[0] - 1):
        n_seen = 0
        for place in range(starts[label], starts[label + 1]):
            row = rows[place]
            for at in range(indptr[row], indptr[row + 1]):
                feature = indices[at]
                if listed[feature] == 0:
                    listed[feature] = 1
                    seen[n_seen] = feature
                    n_seen += 1
                total[feature] += data[at]
        square = 0.0
        begin = filled
        for at in range(n_seen):
            feature = seen[at]
            value = total[feature]
            total[feature] = _ZERO
            listed[feature] = 0
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
    """Split labels into two halves of equal size by balanced 2-means on the sphere; return the steps and the fit.

    From the directions of labels[first] and labels[second] on: labels are sorted by the difference of their cosines
    with the two means (ties in the order given), the first half (the larger one where their number is odd) belongs to
    the first mean, and the means are taken again; until the fit, the mean cosine of labels and their own mean, gains
    less than `tolerance`. `order` gets the places of the labels, the first half first. `sums` (n_features, 2) holds
    zeros before and after.
    """
    n = labels.shape[0]
    half = (n + 1) // 2
    towards = np.empty((n, 2), np.float32)
    difference = np.empty(n, np.float32)
    side = np.full(n, -1, np.int8)
    _add(indptr, indices, values, labels[first], _ONE, sums, 0)
    _add(indptr, indices, values, labels[second], _ONE, sums, 1)
    squares = np.ones(2)
    fit = -np.inf
    steps = 0
    while True:
        _two_dots(indptr, indices, values, labels, sums, towards)
        if steps:  # unit vectors: the cosines of a half with its mean add up to the length of its sum
            squares[:] = 0
            for at in range(n):
                squares[side[at]] += towards[at, side[at]]
            reached = (np.sqrt(max(squares[0], 0.0)) + np.sqrt(max(squares[1], 0.0))) / n
            if steps >= max_steps or reached - fit < tolerance:
                _clear(indptr, indices, labels, sums)
                return steps, max(reached, fit)
            fit = reached
        scale0 = np.float32(1 / np.sqrt(squares[0])) if squares[0] > 0 else _ZERO
        scale1 = np.float32(1 / np.sqrt(squares[1])) if squares[1] > 0 else _ZERO
        for at in range(n):
            difference[at] = towards[at, 1] * scale1 - towards[at, 0] * scale0
        order[:] = np.argsort(difference, kind="mergesort")
        if not steps:
            _clear(indptr, indices, labels, sums)
        for place in range(n):
            at, new = order[place], 0 if place < half else 1
            if side[at] != new:
                if side[at] >= 0:
                    _add(indptr, indices, values, labels[at], -_ONE, sums, side[at])
                _add(indptr, indices, values, labels[at], _ONE, sums, new)
                side[at] = new
        steps += 1


@kernel()
def _add(indptr, indices, values, label, factor, sums, column):
    """Add a label's direction to one of the sums, or take it out."""
    for at in range(indptr[label], indptr[label + 1]):
        sums[indices[at], column] += factor * values[at]


@kernel()
def _two_dots(indptr, indices, values, labels, sums, towards):
    """Set the dot products of each label with both sums."""
    for place in range(labels.shape[0]):
        a0, a1, b0, b1 = _ZERO, _ZERO, _ZERO, _ZERO
        at, end = np.uint64(indptr[labels[place]]), np.uint64(indptr[labels[place] + 1])
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
        towards[place, 0] = a0 + b0
        towards[place, 1] = a1 + b1


@kernel()
def _clear(indptr, indices, labels, sums):
    """Set the sums back to zeros where labels may have touched them."""
    for place in range(labels.shape[0]):
        for at in range(indptr[labels[place]], indptr[labels[place] + 1]):
            sums[indices[at], 0] = _ZERO
            sums[indices[at], 1] = _ZERO


@kernel()
def nearest_means(indptr, indices, values, labels, means, which):
    """Set for each label the mean with the largest cosine, among equals the first; return the sum of those cosines.

    Means are the columns of `means` (n_features, n_means), each of length 1.
    """
    cosines = np.empty(means.shape[1], np.float32)
    fit = 0.0
    for place in range(labels.shape[0]):
        cosines[:] = 0
        for at in range(indptr[labels[place]], indptr[labels[place] + 1]):
            line, value = means[indices[at]], values[at]
            for mean in range(means.shape[1]):
                cosines[mean] += value * line[mean]
        best = 0
        for mean in range(1, means.shape[1]):
            if cosines[mean] > cosines[best]:
                best = mean
        which[place] = best
        fit += np.float64(cosines[best])
    return fit


@kernel()
def sum_means(indptr, indices, values, labels, which, means):
    """Set each column of `means` to the direction of the sum of its labels; a column without labels becomes 0."""
    means[:] = 0
    for place in range(labels.shape[0]):
        _add(indptr, indices, values, labels[place], _ONE, means, which[place])
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
