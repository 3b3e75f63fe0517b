"""The k best labels of sparse rows under sparse linear classifiers: a scan in whole numbers, then exact scores.

Weights and values are rounded to whole numbers, w = s q and x = u p, so that the sum of q p fits into 32 bits; s
belongs to a tile of TILE labels, u to a row. Nearly all q fit into 8 bits, and the few others are kept apart, in 16. By
how much the score of a label can differ from s u (sum of q p) + b is bounded, so only labels that may be among the k
best are scored exactly, with the arithmetic of `kernels.ranking`: the answer is the same, bit for bit. Which these are
is known best when all labels were scanned; until then a row has a list of those that may be.

With n entries in the row, |x| and |x|_1 its norms, and |w| the longest weights of the tile, rounding moves

    sum of q p  by at most  sqrt(n) |w| / (2 s) + |x|_1 / (2 u) + n / 4,

for each entry moves q and p by 1/2 at most, and the sum over the row's features of |w_j| is at most sqrt(n) |w|. As
|q| <= |w| / s + sqrt(n) / 2 <= NORM + sqrt(n) / 2, and |p| likewise, u is chosen so that |q| |p| < 2^31. What float32
does to exact scores, at most (n + 2) 2^-24 (|b| + |w| |x|), is added.
"""

from typing import Any, NamedTuple

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.best import put, put_number
from unmissed.kernels.candidates import part_row, row_parts, score_label
from unmissed.kernels.chunks import NO_LINE, word_label, word_weight
from unmissed.kernels.prefetch import LINE, prefetch
from unmissed.kernels.whole import AHEAD, TILE, score_whole

_MOST = 32767.0
NORM = 40000.0  # the longest q; more would leave less for p, which have to share 31 bits
_EPSILON = 2.0**-24
_FAR, _AHEAD = 24, 10  # where a list begins, and the list, are asked for so many entries before they are used
_FEW = 4 * AHEAD  # where all rows together have so few entries, to ask AHEAD of them comes too late for many
_SMALL = 1e-37  # for what is lost where products are too small for float32


class WholeRows(NamedTuple):
    """Rows in CSR and as whole numbers: p of each entry, counted from the first row's, u, |x| and |x|_1 of each row."""

    indptr: Any
    indices: Any
    data: Any
    factors: Any
    unit: Any
    norm: Any
    absolute: Any


@kernel()
def round_rows(rows):
    """Set all but the first three arrays of some rows: u is such that values fit into 16 bits, and sums into 32."""
    for row in range(rows.unit.shape[0]):
        begin, end = rows.indptr[row], rows.indptr[row + 1]
        square, absolute, most = 0.0, 0.0, 0.0
        for at in range(begin, end):
            value = np.float64(rows.data[at])
            square += value * value
            absolute += abs(value)
            most = max(most, abs(value))
        half, norm = 0.5 * np.sqrt(end - begin), np.sqrt(square)
        unit = max(most / _MOST, norm / (2.0**31 / (NORM + half) - half - 1.0))
        unit = unit if unit > 0 else 1.0
        rows.unit[row], rows.norm[row], rows.absolute[row] = unit, norm, absolute
        for at in range(begin, end):
            rows.factors[at - rows.indptr[0]] = np.rint(np.float64(rows.data[at]) / unit)


@kernel()
def scan_chunk(chunk, first, rows, sums, scores, found, labels, best):
    """Add those of a chunk's labels, placed from `first` on, that may be among each row's k best to its candidates.

    Where a list of candidates is full, labels are scored at once. `sums` (n_rows, whole tiles) is scratch, and `scores`
    is the same memory as float32.
    """
    n_rows, n_tiles, n_labels = rows.unit.shape[0], chunk.scale.shape[0], chunk.names.shape[0]
    room = rows.factors.shape[0] + n_rows + AHEAD + 2
    places, factors = np.zeros(room, np.uint32), np.empty(room, np.int16)
    begins, shifts = np.zeros(n_rows + 1, np.int64), np.empty(n_rows, np.int64)
    for row in range(n_rows):
        begins[row + 1], shifts[row] = _add_lists(chunk, rows, row, places, factors, begins[row], sums[row])
    peaks = np.empty((n_rows, n_tiles), np.float32)
    for tile in range(n_tiles):
        begin, end = TILE * tile, TILE * (tile + 1)
        weights, bias = chunk.dense[tile], chunk.bias[begin:end]
        if begins[n_rows] <= _FEW and tile + 1 < n_tiles:
            _ask_lines(chunk.dense[tile + 1], places, begins[n_rows])
        for row in range(n_rows):
            scale = np.float32(chunk.scale[tile] * rows.unit[row])
            line, target = sums[row, begin:end], scores[row, begin:end]
            peaks[row, tile] = score_whole(
                places, factors, begins[row], begins[row + 1], weights, line, shifts[row], scale, bias, target
            )
    errors, lows = np.empty(n_tiles, np.float32), np.empty(found.floor.shape[1], np.float32)
    for row in range(n_rows):
        _set_errors(chunk, rows, row, errors)
        floor = found.floor[row]
        bound = _bound(peaks[row], errors, floor, lows)
        for tile in range(n_tiles):
            if peaks[row, tile] + errors[tile] < bound:
                continue
            for label in range(TILE * tile, min(TILE * (tile + 1), n_labels)):
                most = scores[row, label] + errors[tile]
                if most < bound:  # so written, what is not a number is looked at
                    continue
                low = scores[row, label] - errors[tile]
                if low > floor[-1]:
                    put_number(floor, low)
                    bound = max(bound, floor[-1])
                place = found.counts[row]
                if place < found.labels.shape[1]:
                    found.labels[row, place] = first + label
                    found.most[row, place] = most
                    found.counts[row] = place + 1
                else:
                    _score_now(chunk, label, rows, row, labels[row], best[row])


@kernel()
def _ask_lines(weights, places, n):
    """Ask for the lines of a tile at the first n places."""
    for at in range(n):
        prefetch(weights, np.int64(places[at]))


@kernel()
def _bound(peaks, errors, floor, lows):
    """Return a score that k labels have at least, by a row's floor and the largest score of each tile."""
    lows[:] = floor
    for tile in range(peaks.shape[0]):
        low = peaks[tile] - errors[tile]
        if low > lows[-1]:
            put_number(lows, low)
    return lows[-1]


@kernel()
def _score_now(chunk, label, rows, row, labels, best):
    """Merge the exact score of one label into a row's k best."""
    size = rows.indptr[row + 1] - rows.indptr[row]
    parts = row_parts(size)
    part_row(chunk, rows, row, parts)
    score = score_label(chunk, label, parts, np.empty(size, np.int64), np.empty(size, np.float32))
    put(labels, best, chunk.names[label], score)


@kernel()
def _add_lists(chunk, rows, row, places, factors, end, sums):
    """Set a row's sums to what lists have, and note its features with lines, an even number.

    Returns where the notes end, and 128 times the sum of their factors.
    """
    sums[:] = 0
    table, words, total, odd = chunk.table, chunk.words, 0, end
    indices, last, begin = rows.indices, rows.indptr[row + 1], rows.indptr[0]
    for entry in range(rows.indptr[row], last):
        feature = indices[entry]
        prefetch(table, 2 * np.int64(indices[min(entry + _FAR, last - 1)]))
        later = np.int64(table[indices[min(entry + _AHEAD, last - 1)], 0])
        for line in range(0, 3 * LINE, LINE):  # lists are short, and lie anywhere
            prefetch(words, later + line)
        factor = np.int32(rows.factors[entry - begin])
        has_line = np.int64(table[feature, 1] != NO_LINE)
        places[end] = TILE * has_line * np.int64(table[feature, 1])
        factors[end] = factor
        end += has_line  # without a branch: it is no pattern
        total += has_line * np.int64(factor)
        for at in range(np.int64(table[feature, 0]), np.int64(table[feature + 1, 0])):
            sums[np.uint64(word_label(words[at]))] += factor * np.int32(word_weight(words[at]))
    if (end - odd) % 2:
        places[end] = 0
        factors[end] = 0
        end += 1
    return end, 128 * total


@kernel()
def _set_errors(chunk, rows, row, errors):
    """Bound, per tile, how far a score of the scan can be from the exact one."""
    n = np.float64(rows.indptr[row + 1] - rows.indptr[row])
    root, unit, absolute, length = np.sqrt(n), rows.unit[row], rows.absolute[row], rows.norm[row]
    for tile in range(errors.shape[0]):
        scale, norm = chunk.scale[tile], chunk.norm[tile]
        moved = 0.5 * root * norm * unit + 0.5 * absolute * scale + 0.25 * n * scale * unit
        size = chunk.largest[tile] + norm * length + moved
        errors[tile] = 1.001 * (moved + (n + 8.0) * (_EPSILON * size + _SMALL))
