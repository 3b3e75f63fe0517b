"""Kernels of SLEEC: nearest neighbors in label space, and votes of neighbors for labels."""

import numpy as np

from unmissed._jit import kernel

_ZERO = np.float32(0)


@kernel()
def _ranks_below(value, index, other_value, other_index):
    """Return whether (value, index) ranks below the other: smaller value, or equal value and larger index."""
    return value < other_value or (value == other_value and index > other_index)


@kernel()
def _sift_down(values, indices, size):
    """Sift the root of a min-heap down."""
    position = 0
    while True:
        weakest = position
        for child in (2 * position + 1, 2 * position + 2):
            if child < size and _ranks_below(values[child], indices[child], values[weakest], indices[weakest]):
                weakest = child
        if weakest == position:
            return
        values[position], values[weakest] = values[weakest], values[position]
        indices[position], indices[weakest] = indices[weakest], indices[position]
        position = weakest


@kernel()
def _sift_up(values, indices, position):
    """Sift an entry of a min-heap up."""
    while position > 0:
        above = (position - 1) >> 1
        if not _ranks_below(values[position], indices[position], values[above], indices[above]):
            return
        values[position], values[above] = values[above], values[position]
        indices[position], indices[above] = indices[above], indices[position]
        position = above


@kernel()
def most_similar(indptr, indices, values, column_indptr, column_rows, column_values, first, sums, found, products):
    """Find the k rows of largest positive inner product with each row of a sparse matrix, padded with -1.

    Parameters
    ----------
    indptr, indices, values : the matrix in CSR
    column_indptr, column_rows, column_values : the matrix in CSC
    first : the first query row; `found` has one row per query
    sums : workspace of zeros, one per row of the matrix; zero again afterwards
    found, products : (queries, k), the rows, unsorted, and their inner products
    """
    k = found.shape[1]
    touched = np.empty(sums.shape[0], np.int32)
    for at in range(found.shape[0]):
        n_touched = 0
        for position in range(indptr[first + at], indptr[first + at + 1]):
            column, value = indices[position], values[position]
            for entry in range(column_indptr[column], column_indptr[column + 1]):
                row = column_rows[entry]
                if sums[row] == _ZERO:
                    touched[n_touched] = row
                    n_touched += 1
                sums[row] += value * column_values[entry]
        size = 0
        heap, heap_rows = products[at], found[at]
        for position in range(n_touched):
            row = touched[position]
            value = sums[row]
            sums[row] = _ZERO
            if size < k:
                heap[size], heap_rows[size] = value, row
                _sift_up(heap, heap_rows, size)
                size += 1
            elif _ranks_below(heap[0], heap_rows[0], value, row):
                heap[0], heap_rows[0] = value, row
                _sift_down(heap, heap_rows, size)
        for position in range(size, k):
            heap[position], heap_rows[position] = _ZERO, -1


@kernel()
def count_votes(neighbors, indptr, indices, weight, sums, labels, best):
    """Rank labels by the number of neighbors that have them; a neighbor of -1 is padding.

    Parameters
    ----------
    neighbors : (rows, n), the nearest training rows
    indptr, indices : the labels of training rows in CSR
    weight : score of one vote
    sums : workspace of zeros, one per label; zero again afterwards
    labels, best : (rows, k), the k best labels and their scores; initially -1 and -inf
    """
    touched = np.empty(sums.shape[0], np.int32)
    k = labels.shape[1]
    for row in range(neighbors.shape[0]):
        n_touched = 0
        for neighbor in neighbors[row]:
            if neighbor >= 0:
                for at in range(indptr[neighbor], indptr[neighbor + 1]):
                    label = indices[at]
                    if sums[label] == 0:
                        touched[n_touched] = label
                        n_touched += 1
                    sums[label] += 1
        for at in range(n_touched):
            label = touched[at]
            score = np.float32(sums[label] * weight)
            sums[label] = 0
            position = k
            while position > 0 and (
                labels[row, position - 1] < 0
                or _ranks_below(best[row, position - 1], labels[row, position - 1], score, label)
            ):
                position -= 1
                if position + 1 < k:
                    labels[row, position + 1], best[row, position + 1] = labels[row, position], best[row, position]
            if position < k:
                labels[row, position], best[row, position] = label, score
