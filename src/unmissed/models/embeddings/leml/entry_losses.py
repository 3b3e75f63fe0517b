"""Kernels for the losses of the entries of a low-rank score matrix A B^T, on dense tiles or on observed entries.

A constant selects the loss: SQUARED (s - y)^2 / 2, LOGISTIC log(1 + exp(-z s)), SQUARED_HINGE max(0, 1 - z s)^2, with
y in {0, 1} and z = 2y - 1.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.losses.margin import (
    logistic_curvature,
    logistic_derivative,
    logistic_value,
    squared_hinge_curvature,
    squared_hinge_derivative,
    squared_hinge_value,
)
from unmissed.models.embeddings.low_rank import dot

SQUARED, LOGISTIC, SQUARED_HINGE = 0, 1, 2

_ZERO, _HALF, _ONE, _TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
_logistic_value, _hinge_value = kernel()(logistic_value), kernel()(squared_hinge_value)
_logistic_derivative, _hinge_derivative = kernel()(logistic_derivative), kernel()(squared_hinge_derivative)
_logistic_curvature, _hinge_curvature = kernel()(logistic_curvature), kernel()(squared_hinge_curvature)


@kernel()
def _value(loss, y, score):
    z = _TWO * y - _ONE
    if loss == LOGISTIC:
        return _logistic_value(z * score)
    if loss == SQUARED_HINGE:
        return _hinge_value(z * score)
    return _HALF * (score - y) * (score - y)


@kernel()
def _derivative(loss, y, score):
    z = _TWO * y - _ONE
    if loss == LOGISTIC:
        return z * _logistic_derivative(z * score)
    if loss == SQUARED_HINGE:
        return z * _hinge_derivative(z * score)
    return score - y


@kernel()
def _curvature(loss, y, score):
    z = _TWO * y - _ONE
    if loss == LOGISTIC:
        return _logistic_curvature(z * score)
    if loss == SQUARED_HINGE:
        return _hinge_curvature(z * score)
    return _ONE


@kernel()
def tile_derivatives(loss, indptr, indices, first, scores):
    """Replace each score of a dense tile by the derivative of its loss; return the sum of the losses.

    The positives of row i are the columns indices[indptr[i]:indptr[i + 1]], sorted; column 0 of the tile is column
    `first`.
    """
    total = 0.0
    for row in range(scores.shape[0]):
        at, end = indptr[row], indptr[row + 1]
        while at < end and indices[at] < first:
            at += 1
        for column in range(scores.shape[1]):
            y = _ZERO
            if at < end and indices[at] == first + column:
                y = _ONE
                at += 1
            score = scores[row, column]
            total += _value(loss, y, score)
            scores[row, column] = _derivative(loss, y, score)
    return total


@kernel()
def tile_curvatures(loss, indptr, indices, first, scores, change):
    """Multiply each change of a score by the curvature of its loss, for the same layout as `tile_derivatives`."""
    for row in range(scores.shape[0]):
        at, end = indptr[row], indptr[row + 1]
        while at < end and indices[at] < first:
            at += 1
        for column in range(scores.shape[1]):
            y = _ZERO
            if at < end and indices[at] == first + column:
                y = _ONE
                at += 1
            change[row, column] *= _curvature(loss, y, scores[row, column])


@kernel()
def observed_derivatives(loss, indptr, indices, targets, left, right, out):
    """Set out[i] = sum over observed (i, j) of derivative_ij right[j]; return the sum of the losses."""
    total = 0.0
    for row in range(indptr.shape[0] - 1):
        out_row = out[row]
        for j in range(out_row.shape[0]):
            out_row[j] = _ZERO
        for at in range(indptr[row], indptr[row + 1]):
            other = right[indices[at]]
            score = dot(left[row], other)
            total += _value(loss, targets[at], score)
            derivative = _derivative(loss, targets[at], score)
            for j in range(out_row.shape[0]):
                out_row[j] += derivative * other[j]
    return total


@kernel()
def observed_curvatures(loss, indptr, indices, targets, left, right, change, out):
    """Set out[i] = sum over observed (i, j) of curvature_ij (change[i] . right[j]) right[j]."""
    for row in range(indptr.shape[0] - 1):
        out_row = out[row]
        for j in range(out_row.shape[0]):
            out_row[j] = _ZERO
        for at in range(indptr[row], indptr[row + 1]):
            other = right[indices[at]]
            scale = _curvature(loss, targets[at], dot(left[row], other)) * dot(change[row], other)
            for j in range(out_row.shape[0]):
                out_row[j] += scale * other[j]
