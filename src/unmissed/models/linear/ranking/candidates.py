"""Exact scores of the candidates that the quantized scan leaves, bit for bit those of `exact_scores`.

The weights of a candidate can be anywhere in memory, and cache misses cost more than the arithmetic. Scoring is
therefore a software pipeline: the positions of the weights are prefetched two candidates ahead, the weights one ahead.
A row's candidates are scored in descending order of their upper bounds. The k-th best exact score rises quickly then,
and candidates whose upper bound is below it are skipped.
"""

from typing import Any, NamedTuple

import numpy as np

from unmissed._jit import kernel
from unmissed.models.linear.ranking.chunks import FLAGS_PER_WORD, NO_LINE, entry_label, flag_of
from unmissed.models.linear.ranking.dense_products import add_product
from unmissed.numerics.bitset import count_ones
from unmissed.numerics.prefetch import LINE, prefetch
from unmissed.numerics.topk import put

CROWDED = -1
_RANK_SHIFT, _NONE, _ONE = np.uint64(FLAGS_PER_WORD), np.uint64(0), np.uint64(1)


class Candidates(NamedTuple):
    """Labels that may be among the k best of each row, with bounds on their scores.

    lower_bounds (n_rows, k) holds the k largest lower bounds of each row, in descending order. Row i has counts[i]
    candidates in labels[i], with upper bounds on their scores in upper_bounds[i]. counts[i] is CROWDED if they were too
    many: row i then has no candidates, and all its labels must be scored.
    """

    lower_bounds: Any
    counts: Any
    labels: Any
    upper_bounds: Any


class RowParts(NamedTuple):
    """The entries of one row, split by storage: features with dense lines and features with lists (workspace).

    Entries are in ascending order of feature; sizes holds the number of entries of each kind. An entry with a line has
    the index of its word in a label's flags, the bit in that word, and the row's value. An entry with a list has the
    bounds of the list, the number of line entries before it, and the row's value.
    """

    sizes: Any
    word: Any
    bit: Any
    value: Any
    lists: Any
    listed_value: Any


class LabelWeights(NamedTuple):
    """Positions in `exact` of a label's weights for the features of a row, and the row's values (workspace)."""

    position: Any
    value: Any


@kernel()
def allocate_row_parts(capacity):
    """Return empty parts with the given capacity in entries."""
    word, bit = np.empty(capacity, np.uint16), np.empty(capacity, np.uint64)
    values = np.empty((2, capacity), np.float32)
    return RowParts(np.zeros(2, np.int64), word, bit, values[0], np.empty((capacity, 3), np.int64), values[1])


@kernel()
def add_candidate(candidates, row, label, upper_bound, bound):
    """Add a label to a row's candidates; if the list is full, drop those below the bound first.

    A row becomes crowded if that frees less than half of the list.
    """
    position, capacity = candidates.counts[row], candidates.labels.shape[1]
    if position == capacity:
        labels, upper_bounds, position = candidates.labels[row], candidates.upper_bounds[row], 0
        for at in range(capacity):
            if not upper_bounds[at] < bound:  # NaN stays
                labels[position], upper_bounds[position] = labels[at], upper_bounds[at]
                position += 1
        if 2 * position > capacity:
            candidates.counts[row] = CROWDED
            return
    candidates.labels[row, position] = label
    candidates.upper_bounds[row, position] = upper_bound
    candidates.counts[row] = position + 1


@kernel()
def _select(chunk, first, candidates, best):
    """Return the rows and labels of the candidates in a chunk, and their upper bounds, best first in each row."""
    capacity = 0
    for count in candidates.counts:
        capacity += max(count, 0)
    items, upper_bounds, n_items = np.empty((capacity, 2), np.int64), np.empty(capacity, np.float32), 0
    for row in range(candidates.counts.shape[0]):
        bound, begin = max(candidates.lower_bounds[row, -1], best[row, -1]), n_items
        for position in range(candidates.counts[row]):
            label = np.int64(candidates.labels[row, position]) - first
            upper_bound = candidates.upper_bounds[row, position]
            if 0 <= label < chunk.label_ids.shape[0] and not upper_bound < bound:
                at = n_items
                while at > begin and upper_bounds[at - 1] < upper_bound:
                    items[at, 1], upper_bounds[at] = items[at - 1, 1], upper_bounds[at - 1]
                    at -= 1
                items[n_items, 0], items[at, 1], upper_bounds[at] = row, label, upper_bound
                n_items += 1
    return items[:n_items], upper_bounds[:n_items]


@kernel()
def score_candidates(chunk, first, rows, candidates, labels, best):
    """Merge the exact scores of the candidates in a chunk into each row's top k; call it after the scan."""
    items, upper_bounds = _select(chunk, first, candidates, best)
    n_items, longest = items.shape[0], 1
    for row in range(rows.unit.shape[0]):
        longest = max(longest, rows.indptr[row + 1] - rows.indptr[row])
    parts, sizes = allocate_row_parts(longest), np.zeros(2, np.int64)
    positions, values = np.empty((2, longest), np.int64), np.empty((2, longest), np.float32)
    for at in range(n_items + 2):
        if at + 1 < n_items and items[at, 0] != items[at + 1, 0]:
            _prefetch_table(chunk, rows, items[at + 1, 0])
        if at < n_items:
            if at == 0 or items[at - 1, 0] != items[at, 0]:
                _prefetch_lists(chunk, rows, items[at, 0])
            if not upper_bounds[at] < best[items[at, 0], -1]:
                _prefetch_label(chunk, items[at, 1])
        if 0 < at <= n_items:
            row, label = items[at - 1]
            if at == 1 or items[at - 2, 0] != row:
                split_row(chunk, rows, row, parts)
            sizes[at % 2] = -1
            if not upper_bounds[at - 1] < best[row, -1]:
                sizes[at % 2] = _gather(chunk, label, parts, LabelWeights(positions[at % 2], values[at % 2]))
        turn = (at - 1) % 2
        if at > 1 and sizes[turn] >= 0:
            row, label = items[at - 2]
            score = _sum(chunk, label, LabelWeights(positions[turn], values[turn]), sizes[turn])
            if rows.dense.shape[1] > 1:  # adding 0 would change the sign of -0
                score = add_product(score, rows.dense[row, :-1], chunk.dense[label, :-1])
            put(labels[row], best[row], chunk.label_ids[label], score)


@kernel()
def _prefetch_table(chunk, rows, row):
    """Prefetch the table entries of a row's features."""
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        prefetch(chunk.table, 2 * np.int64(rows.indices[entry]))


@kernel()
def _prefetch_lists(chunk, rows, row):
    """Prefetch the lists of a row's features: at four points, where a binary search begins."""
    table, entries, indices = chunk.table, chunk.entries, rows.indices
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        feature = indices[entry]
        has_list = np.int64(table[feature, 1] == NO_LINE)  # no branch: it would wait for the load
        begin, end = has_list * np.int64(table[feature, 0]), has_list * np.int64(table[feature + 1, 0])
        for quarter in range(4):
            prefetch(entries, begin + ((quarter * (end - begin)) >> 2))


@kernel()
def _prefetch_label(chunk, label):
    """Prefetch the flags of a label."""
    flags = chunk.flags[label]
    for word in range(0, flags.shape[0], LINE // 2):
        prefetch(flags, word)


@kernel()
def split_row(chunk, rows, row, parts):
    """Split a row's entries into features with lines and features with lists."""
    table, indices, data = chunk.table, rows.indices, rows.data
    n_lines, n_lists = 0, 0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        feature, value = indices[entry], data[entry]
        line = table[feature, 1]
        if line != NO_LINE:
            parts.word[n_lines], parts.bit[n_lines] = flag_of(line)
            parts.value[n_lines] = value
            n_lines += 1
        elif table[feature, 0] < table[feature + 1, 0]:
            parts.lists[n_lists, 0], parts.lists[n_lists, 1] = table[feature, 0], table[feature + 1, 0]
            parts.lists[n_lists, 2] = n_lines
            parts.listed_value[n_lists] = value
            n_lists += 1
    parts.sizes[0], parts.sizes[1] = n_lines, n_lists


@kernel()
def _gather(chunk, label, parts, weights):
    """Write the positions of a label's weights for a row's features; return their number."""
    flags, start, exact = chunk.flags[label], chunk.label_starts[label], chunk.exact
    size, done = _NONE, _NONE  # unsigned: no check for negative indices
    for at in range(parts.sizes[1] + 1):
        position, until = np.int64(-1), np.uint64(parts.sizes[0])
        if at < parts.sizes[1]:
            position, until = (
                _search(chunk, label, parts.lists[at, 0], parts.lists[at, 1]),
                np.uint64(parts.lists[at, 2]),
            )
            if position < 0:
                continue
        for entry in range(done, until):
            word, bit = flags[parts.word[entry]], parts.bit[entry]
            target = start + np.int64(word >> _RANK_SHIFT) + count_ones(word & (bit - _ONE))
            prefetch(exact, target)
            weights.position[size] = target
            weights.value[size] = parts.value[entry]
            size += np.uint64((word & bit) != _NONE)  # no branch: it could not be predicted
        done = until
        if position >= 0:
            prefetch(exact, position)
            weights.position[size] = position
            weights.value[size] = parts.listed_value[at]
            size += _ONE
    return np.int64(size)


@kernel()
def _search(chunk, label, low, end):
    """Return the position of a label in a list by binary search, -1 if absent; the list is sorted by label id."""
    entries, label_ids, size = chunk.entries, chunk.label_ids, end - low
    while size > 1:
        half = size >> 1
        low += half if label_ids[entry_label(entries[low + half])] <= label_ids[label] else 0
        size -= half
    return low if entry_label(entries[low]) == label else -1


@kernel()
def _sum(chunk, label, weights, size):
    """Return the bias plus the products of weights and values, summed sequentially."""
    score, exact = chunk.bias[label], chunk.exact
    for at in range(size):
        score += weights.value[at] * exact[np.uint64(weights.position[at])]
    return score
