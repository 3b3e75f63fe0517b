"""Neighbours: rows that share the most labels, and the labels that neighbours vote for."""

import numpy as np

from unmissed._jit import kernel

_ZERO = np.float32(0)


@kernel()
def _weaker(value, index, other_value, other_index):
    """Whether (value, index) ranks behind the other: the larger value leads, among equals the smaller index."""
    return value < other_value or (value == other_value and index > other_index)


@kernel()
def _sink(values, indices, size):
    """Let the top of a heap whose weakest entry is on top sink to its place."""
    place = 0
    while True:
        weakest = place
        for child in (2 * place + 1, 2 * place + 2):
            if child < size and _weaker(values[child], indices[child], values[weakest], indices[weakest]):
                weakest = child
        if weakest == place:
            return
        values[place], values[weakest] = values[weakest], values[place]
        indices[place], indices[weakest] = indices[weakest], indices[place]
        place = weakest


@kernel()
def _rise(values, indices, place):
    """Let the last entry of a heap rise to its place."""
    while place > 0:
        above = (place - 1) >> 1
        if not _weaker(values[place], indices[place], values[above], indices[above]):
            return
        values[place], values[above] = values[above], values[place]
        indices[place], indices[above] = indices[above], indices[place]
        place = above


@kernel()
def most_similar(indptr, indices, values, column_indptr, column_rows, column_values, first, sums, found, products):
    """Find, for some rows of a sparse matrix, the k rows of the largest inner product above 0; fewer are padded by -1.

    Parameters
    ----------
    indptr, indices, values : the matrix by rows
    column_indptr, column_rows, column_values : the same matrix by columns
    first : the first row; as many are worked on as `found` has
    sums : zeros, one per row of the matrix, and zeros again afterwards
    found, products : (rows, k), the rows found, in no particular order, and their inner products
    """
    k = found.shape[1]
    touched = np.empty(sums.shape[0], np.int32)
    for at in range(found.shape[0]):
        n_touched = 0
        for place in range(indptr[first + at], indptr[first + at + 1]):
            column, value = indices[place], values[place]
            for entry in range(column_indptr[column], column_indptr[column + 1]):
                row = column_rows[entry]
                if sums[row] == _ZERO:
                    touched[n_touched] = row
                    n_touched += 1
                sums[row] += value * column_values[entry]
        size = 0
        heap, heap_rows = products[at], found[at]
        for place in range(n_touched):
            row = touched[place]
            value = sums[row]
            sums[row] = _ZERO
            if size < k:
                heap[size], heap_rows[size] = value, row
                _rise(heap, heap_rows, size)
                size += 1
            elif _weaker(heap[0], heap_rows[0], value, row):
                heap[0], heap_rows[0] = value, row
                _sink(heap, heap_rows, size)
        for place in range(size, k):
            heap[place], heap_rows[place] = _ZERO, -1


@kernel()
def count_votes(neighbours, indptr, indices, share, sums, labels, best):
    """Rank labels by the share of a row's neighbours that have them; neighbours of -1 are none.

    Parameters
    ----------
    neighbours : (rows, n), training rows
    indptr, indices : the labels of training rows
    share : what one neighbour's label counts for
    sums : zeros, one per label, and zeros again afterwards
    labels, best : (rows, k), filled with -1 and -inf; the k best labels and their scores
    """
    touched = np.empty(sums.shape[0], np.int32)
    k = labels.shape[1]
    for row in range(neighbours.shape[0]):
        n_touched = 0
        for neighbour in neighbours[row]:
            if neighbour >= 0:
                for at in range(indptr[neighbour], indptr[neighbour + 1]):
                    label = indices[at]
                    if sums[label] == 0:
                        touched[n_touched] = label
                        n_touched += 1
                    sums[label] += 1
        for at in range(n_touched):
            label = touched[at]
            score = np.float32(sums[label] * share)
            sums[label] = 0
            place = k
            while place > 0 and (
                labels[row, place - 1] < 0 or _weaker(best[row, place - 1], labels[row, place - 1], score, label)
            ):
                place -= 1
                if place + 1 < k:
                    labels[row, place + 1], best[row, place + 1] = labels[row, place], best[row, place]
            if place < k:
                labels[row, place], best[row, place] = label, score
