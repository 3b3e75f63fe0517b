"""Exact scores of labels that a scan has left, with the arithmetic of `kernels.ranking`: the same bits.

A label's weights lie anywhere in memory, and to wait for them takes longer than to add them up. So what a candidate
needs is asked for two candidates before it is scored: first where its weights are, then the weights.
"""

from typing import Any, NamedTuple

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.best import put
from unmissed.kernels.bits import count_ones
from unmissed.kernels.chunks import MARKS, NO_LINE, mark_of, word_label
from unmissed.kernels.prefetch import LINE, prefetch

_RANK, _NONE, _ONE = np.uint64(MARKS), np.uint64(0), np.uint64(1)


class Candidates(NamedTuple):
    """Labels that may be among the k best of each row, and what their scores are at most.

    `floor` (n_rows, k) holds the best of what scores are at least, falling; counts[row] candidates are in labels[row].
    """

    floor: Any
    counts: Any
    labels: Any
    most: Any


class RowParts(NamedTuple):
    """A row's entries for features with lines, and for others with lists, in rising order of feature; scratch.

    An entry with a line has the word of marks and the bit in it that tell whether a label has a weight; another one
    has the ends of its list, and the number of entries with lines before it. `sizes` has how many there are of both.
    """

    sizes: Any
    word: Any
    bit: Any
    value: Any
    lists: Any
    listed_value: Any


class Weights(NamedTuple):
    """Where in `exact` a label's weights for a row's features are, and the row's values for them; scratch."""

    place: Any
    value: Any


@kernel()
def row_parts(room):
    """Return room for the parts of a row with so many entries."""
    word, bit, values = np.empty(room, np.uint16), np.empty(room, np.uint64), np.empty((2, room), np.float32)
    return RowParts(np.zeros(2, np.int64), word, bit, values[0], np.empty((room, 3), np.int64), values[1])


@kernel()
def score_candidates(chunk, first, rows, found, labels, best):
    """Merge the exact scores of candidates among a chunk's labels into each row's k best, once all were scanned."""
    n_rows, longest = rows.unit.shape[0], 1
    items, n_items = np.empty((found.counts.sum(), 2), np.int64), 0
    for row in range(n_rows):
        longest = max(longest, rows.indptr[row + 1] - rows.indptr[row])
        bound = found.floor[row, -1]
        for place in range(found.counts[row]):
            label = np.int64(found.labels[row, place]) - first
            if 0 <= label < chunk.names.shape[0] and not found.most[row, place] < bound:
                items[n_items, 0], items[n_items, 1] = row, label
                n_items += 1
    parts, sizes = row_parts(longest), np.zeros(2, np.int64)
    places, values = np.empty((2, longest), np.int64), np.empty((2, longest), np.float32)
    for at in range(n_items + 2):
        if at + 1 < n_items and items[at, 0] != items[at + 1, 0]:
            _ask_table(chunk, rows, items[at + 1, 0])
        if at < n_items:
            if at == 0 or items[at - 1, 0] != items[at, 0]:
                _ask_lists(chunk, rows, items[at, 0])
            _ask_label(chunk, items[at, 1])
        if 0 < at <= n_items:
            if at == 1 or items[at - 2, 0] != items[at - 1, 0]:
                part_row(chunk, rows, items[at - 1, 0], parts)
            sizes[at % 2] = _find(chunk, items[at - 1, 1], parts, Weights(places[at % 2], values[at % 2]))
        if at > 1:
            row, label = items[at - 2]
            turn = (at - 1) % 2
            score = _add(chunk, label, Weights(places[turn], values[turn]), sizes[turn])
            put(labels[row], best[row], chunk.names[label], score)


@kernel()
def score_label(chunk, label, parts, places, values):
    """Return bias[l] + w_l.x of a row in parts, added in rising order of feature; `places` and `values` are scratch."""
    weights = Weights(places, values)
    return _add(chunk, label, weights, _find(chunk, label, parts, weights))


@kernel()
def _ask_table(chunk, rows, row):
    """Ask for what tells where the lines and lists of a row's features are."""
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        prefetch(chunk.table, 2 * np.int64(rows.indices[entry]))


@kernel()
def _ask_lists(chunk, rows, row):
    """Ask for the lists of a row's features without lines: all of a short one, where a search in a long one begins."""
    table, words, indices = chunk.table, chunk.words, rows.indices
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        feature = indices[entry]
        has_list = np.int64(table[feature, 1] == NO_LINE)  # without a branch, which would have to wait for it
        begin, end = has_list * np.int64(table[feature, 0]), has_list * np.int64(table[feature + 1, 0])
        for quarter in range(4):
            prefetch(words, begin + ((quarter * (end - begin)) >> 2))


@kernel()
def _ask_label(chunk, label):
    """Ask for what tells which lines a label uses."""
    marks = chunk.marks[label]
    for word in range(0, marks.shape[0], LINE // 2):
        prefetch(marks, word)


@kernel()
def part_row(chunk, rows, row, parts):
    """Set the parts of a row."""
    table, indices, data = chunk.table, rows.indices, rows.data
    n_lines, n_lists = 0, 0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        feature, value = indices[entry], data[entry]
        line = table[feature, 1]
        if line != NO_LINE:
            parts.word[n_lines], parts.bit[n_lines] = mark_of(line)
            parts.value[n_lines] = value
            n_lines += 1
        elif table[feature, 0] < table[feature + 1, 0]:
            parts.lists[n_lists, 0], parts.lists[n_lists, 1] = table[feature, 0], table[feature + 1, 0]
            parts.lists[n_lists, 2] = n_lines
            parts.listed_value[n_lists] = value
            n_lists += 1
    parts.sizes[0], parts.sizes[1] = n_lines, n_lists


@kernel()
def _find(chunk, label, parts, weights):
    """Note a label's weights for a row's features; return how many there are."""
    marks, start, exact = chunk.marks[label], chunk.own_starts[label], chunk.exact
    size, done = _NONE, _NONE  # unsigned: no index has to be looked at for being below 0
    for at in range(parts.sizes[1] + 1):
        place, until = np.int64(-1), np.uint64(parts.sizes[0])
        if at < parts.sizes[1]:
            place, until = _search(chunk, label, parts.lists[at, 0], parts.lists[at, 1]), np.uint64(parts.lists[at, 2])
            if place < 0:
                continue
        for entry in range(done, until):
            word, bit = marks[parts.word[entry]], parts.bit[entry]
            target = start + np.int64(word >> _RANK) + count_ones(word & (bit - _ONE))
            prefetch(exact, target)
            weights.place[size] = target
            weights.value[size] = parts.value[entry]
            size += np.uint64((word & bit) != _NONE)  # without a branch: what a label has is no pattern
        done = until
        if place >= 0:
            prefetch(exact, place)
            weights.place[size] = place
            weights.value[size] = parts.listed_value[at]
            size += _ONE
    return np.int64(size)


@kernel()
def _search(chunk, label, low, end):
    """Return where in a list, whose labels have rising names, a label is; -1 if it is not there."""
    words, names, size = chunk.words, chunk.names, end - low
    while size > 1:
        half = size >> 1
        low += half if names[word_label(words[low + half])] <= names[label] else 0
        size -= half
    return low if word_label(words[low]) == label else -1


@kernel()
def _add(chunk, label, weights, size):
    """Return the bias of a label and the products of weights and values, added one by one."""
    score, exact = chunk.bias[label], chunk.exact
    for at in range(size):
        score += weights.value[at] * exact[np.uint64(weights.place[at])]
    return score
