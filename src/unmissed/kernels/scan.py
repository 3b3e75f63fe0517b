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
from unmissed.kernels.prefetch import LINE, prefetch
from unmissed.kernels.whole import TILE, add_whole, byte_place, count_ones, to_byte

_MOST = 32767.0
BYTE = 127  # the largest q in a line
NORM = 40000.0  # the longest q; more would leave less for p, which have to share 31 bits
_EPSILON = 2.0**-24
_AHEAD = 10  # lists of weights are asked for so many entries before they are used
_WORD, _PLACE, _ONE = np.uint64(6), np.uint64(63), np.uint64(1)  # words have 64 bits
_SMALL = 1e-37  # for what is lost where products are too small for float32


class ChunkArrays(NamedTuple):
    """Consecutive labels as the scan reads them, TILE of them beside each other.

    Labels whose weights are of like size share a tile, so that few are rounded by too large a scale: here they have
    places, and names[l] is the number of the one at place l.

    A feature f that many labels use has its whole weights in all tiles, tile t's from dense[t, TILE * lines[f]] on; any
    other has lines[f] = -1. A feature's list, starts[f] to starts[f + 1], has the weights, each for a label, that no
    line holds: all, or those beyond 8 bits. A tile has the scale of its weights, the norm of the longest and the
    largest bias.

    The weights themselves: `listed` has those of the lists. Of features with lines, label l has `own` from
    own_starts[l] on, lines rising, side by side so that scoring a label stays within a few pages; bit b of bits[l, t]
    tells whether there is one for line 64 t + b, and ranks[l, t] how many there are for earlier t.
    """

    names: Any
    lines: Any
    dense: Any
    starts: Any
    labels: Any
    weights: Any
    scale: Any
    norm: Any
    largest: Any
    bias: Any
    listed: Any
    own_starts: Any
    own: Any
    bits: Any
    ranks: Any


class Candidates(NamedTuple):
    """Labels that may be among the k best of each row, and what their scores are at most.

    `floor` (n_rows, k) holds the best of what scores are at least, falling; counts[row] candidates are in labels[row].
    """

    floor: Any
    counts: Any
    labels: Any
    most: Any


@kernel()
def survey_shard(features, starts, labels, weights, first, counts, sizes, squares, peaks):
    """Count a shard's weights per feature and label, and note each label's squared norm and largest weight.

    Label l of the shard is number first + l of the chunk; those outside of it are left out.
    """
    for at in range(features.shape[0]):
        for place in range(starts[at], starts[at + 1]):
            label = first + np.int64(labels[place])
            if 0 <= label < peaks.shape[0]:
                counts[features[at]] += 1
                sizes[label] += 1
                weight = np.float64(weights[place])
                squares[label] += weight * weight
                peaks[label] = max(peaks[label], abs(weight))


@kernel()
def mark_shard(features, starts, labels, weights, first, places, lines, scale, bits, counts):
    """Mark which labels use which lines, and count the weights that go into each feature's list."""
    for at in range(features.shape[0]):
        line = lines[features[at]]
        for place in range(starts[at], starts[at + 1]):
            label = first + np.int64(labels[place])
            if 0 <= label < bits.shape[0]:
                label = places[label]
                whole = np.rint(np.float64(weights[place]) / scale[label // TILE])
                counts[features[at]] += line < 0 or abs(whole) > BYTE
                if line >= 0:
                    bits[label, line >> 6] |= np.uint64(1) << np.uint64(line & 63)


@kernel()
def count_marks(bits, ranks, own_starts):
    """Note before each word of bits how many its label has had, and after each label how many there are."""
    for label in range(bits.shape[0]):
        total = 0
        for word in range(bits.shape[1]):
            ranks[label, word] = total
            total += count_ones(bits[label, word])
        own_starts[label + 1] = own_starts[label] + total


@kernel()
def lay_shard(features, starts, labels, weights, first, places, chunk, counts):
    """Write a shard's weights into a chunk; `counts` tells how many each feature's list has already."""
    for at in range(features.shape[0]):
        feature = features[at]
        line = chunk.lines[feature]
        for place in range(starts[at], starts[at + 1]):
            label = first + np.int64(labels[place])
            if not 0 <= label < chunk.bias.shape[0]:
                continue
            label = places[label]
            tile, lane = label // TILE, label % TILE
            whole = np.rint(np.float64(weights[place]) / chunk.scale[tile])
            if line >= 0:
                if abs(whole) <= BYTE:
                    chunk.dense[tile, TILE * line + byte_place(lane)] = to_byte(whole, lane)
                chunk.own[_place_of_line(chunk, label, line)] = weights[place]
            if line < 0 or abs(whole) > BYTE:
                target = chunk.starts[feature] + counts[feature]
                chunk.labels[target] = label
                chunk.weights[target] = whole
                chunk.listed[target] = weights[place]
                counts[feature] += 1


@kernel()
def _place_of_line(chunk, label, line):
    """Return where in `own` the weight of a label for a line is, if there is one."""
    before = chunk.bits[label, line >> 6] & ((np.uint64(1) << np.uint64(line & 63)) - np.uint64(1))
    return chunk.own_starts[label] + np.int64(chunk.ranks[label, line >> 6]) + count_ones(before)


@kernel()
def scan_chunk(chunk, first, indptr, indices, data, sums, found, labels, best):
    """Add those of a chunk's labels, numbered from `first` on, that may be among each row's k best to its candidates.

    Where a list of candidates is full, labels are scored at once. `sums` (n_rows, whole tiles) is scratch.
    """
    n_rows = indptr.shape[0] - 1
    n_entries = indptr[n_rows] - indptr[0]
    lines, factors = np.empty(n_entries + n_rows, np.uint16), np.empty(n_entries + n_rows, np.int16)
    begins, units = np.zeros(n_rows + 1, np.int64), np.empty(n_rows, np.float64)
    for row in range(n_rows):
        at, end = indptr[row], indptr[row + 1]
        units[row] = _unit(data[at:end])
        begins[row + 1] = _round_row(
            chunk, indices[at:end], data[at:end], units[row], lines, factors, begins[row], sums[row]
        )
    for tile in range(chunk.scale.shape[0]):
        for row in range(n_rows):
            line = sums[row, TILE * tile : TILE * (tile + 1)]
            add_whole(lines, factors, begins[row], begins[row + 1], chunk.dense[tile], line)
    n_labels = chunk.bias.shape[0]
    scores = np.empty(sums.shape[1], np.float32)
    errors, peaks = np.empty(chunk.scale.shape[0], np.float32), np.empty(chunk.scale.shape[0], np.float32)
    products = np.empty(n_entries + 1, np.float32)
    for row in range(n_rows):
        at, end = indptr[row], indptr[row + 1]
        _set_errors(chunk, data[at:end], units[row], errors)
        _set_scores(chunk, sums[row], units[row], scores, peaks)
        bound = _raise_floor(scores, n_labels, errors, peaks, found.floor[row])
        for tile in range(errors.shape[0]):
            if peaks[tile] + errors[tile] < bound:
                continue
            for label in range(TILE * tile, min(TILE * (tile + 1), n_labels)):
                if scores[label] + errors[tile] < bound:  # so written, what is not a number is looked at
                    continue
                place = found.counts[row]
                if place < found.labels.shape[1]:
                    found.labels[row, place] = first + label
                    found.most[row, place] = scores[label] + errors[tile]
                    found.counts[row] = place + 1
                else:
                    score = _exact(chunk, label, indices[at:end], data[at:end], products)
                    put(labels[row], best[row], first + chunk.names[label], score)


@kernel()
def score_candidates(chunk, first, indptr, indices, data, found, labels, best):
    """Merge the exact scores of candidates among a chunk's labels into each row's k best, once all were scanned."""
    n_rows = indptr.shape[0] - 1
    n_entries = indptr[n_rows] - indptr[0]
    products = np.empty(n_entries + 1, np.float32)
    for row in range(n_rows):
        at, end = indptr[row], indptr[row + 1]
        bound = found.floor[row, -1]
        for place in range(found.counts[row]):
            label = found.labels[row, place] - first
            if 0 <= label < chunk.bias.shape[0] and not found.most[row, place] < bound:
                score = _exact(chunk, label, indices[at:end], data[at:end], products)
                put(labels[row], best[row], first + chunk.names[label], score)


@kernel()
def _unit(data):
    """Return the u of a row: its values fit into 16 bits, and sums into 32."""
    square, most = 0.0, 0.0
    for at in range(data.shape[0]):
        value = np.float64(data[at])
        square += value * value
        most = max(most, abs(value))
    half = 0.5 * np.sqrt(data.shape[0])
    unit = max(most / _MOST, np.sqrt(square) / (2.0**31 / (NORM + half) - half - 1.0))
    return unit if unit > 0 else 1.0


@kernel()
def _round_row(chunk, indices, data, unit, lines, factors, begin, sums):
    """Round a row, add what lists have to its sums, and note its features with lines; return where the notes end."""
    sums[:] = 0
    end = begin
    for entry in range(indices.shape[0]):
        feature = indices[entry]
        if entry + _AHEAD < indices.shape[0]:
            later = chunk.starts[indices[entry + _AHEAD]]
            for line in range(0, 4 * LINE, 2 * LINE):  # lists are short, and lie anywhere
                prefetch(chunk.labels, later + line)
                prefetch(chunk.weights, later + line)
        factor = np.int32(np.rint(np.float64(data[entry]) / unit))
        if chunk.lines[feature] >= 0:
            lines[end] = chunk.lines[feature]
            factors[end] = factor
            end += 1
        for at in range(chunk.starts[feature], chunk.starts[feature + 1]):
            sums[chunk.labels[at]] += factor * np.int32(chunk.weights[at])
    if (end - begin) % 2:
        lines[end] = 0
        factors[end] = 0
        end += 1
    return end


@kernel()
def _set_errors(chunk, data, unit, errors):
    """Bound, per tile, how far a score of the scan can be from the exact one."""
    n = np.float64(data.shape[0])
    absolute, square = 0.0, 0.0
    for at in range(data.shape[0]):
        value = np.float64(data[at])
        absolute += abs(value)
        square += value * value
    for tile in range(errors.shape[0]):
        scale, norm = chunk.scale[tile], chunk.norm[tile]
        moved = 0.5 * np.sqrt(n) * norm * unit + 0.5 * absolute * scale + 0.25 * n * scale * unit
        size = chunk.largest[tile] + norm * np.sqrt(square) + moved
        errors[tile] = 1.001 * (moved + (n + 8.0) * (_EPSILON * size + _SMALL))


@kernel()
def _set_scores(chunk, sums, unit, scores, peaks):
    """Turn sums into scores, and note the largest of each tile."""
    for tile in range(peaks.shape[0]):
        scale = np.float32(chunk.scale[tile] * unit)
        begin, end = TILE * tile, min(TILE * (tile + 1), chunk.bias.shape[0])
        for label in range(begin, end):
            scores[label] = np.float32(sums[label]) * scale + chunk.bias[label]
        scores[end : begin + TILE] = -np.inf
        p0, p1, p2, p3 = scores[begin], scores[begin + 1], scores[begin + 2], scores[begin + 3]
        for label in range(begin + 4, begin + TILE, 4):  # four at a time: each waits for the one before
            p0 = scores[label] if scores[label] > p0 else p0
            p1 = scores[label + 1] if scores[label + 1] > p1 else p1
            p2 = scores[label + 2] if scores[label + 2] > p2 else p2
            p3 = scores[label + 3] if scores[label + 3] > p3 else p3
        peaks[tile] = max(max(p0, p1), max(p2, p3))


@kernel()
def _raise_floor(scores, n_labels, errors, peaks, floor):
    """Put what scores are at least into a row's floor; return its last, a score that k labels have at least."""
    last = floor.shape[0] - 1
    for tile in range(peaks.shape[0]):
        if peaks[tile] - errors[tile] <= floor[last]:
            continue
        for label in range(TILE * tile, min(TILE * (tile + 1), n_labels)):
            low = scores[label] - errors[tile]
            if low > floor[last]:
                put_number(floor, low)
    return floor[last]


@kernel()
def _exact(chunk, label, indices, data, products):
    """Return bias[l] + w_l.x, added in rising order of feature."""
    lines, starts, labels, names = chunk.lines, chunk.starts, chunk.labels, chunk.names
    bits, ranks, own = chunk.bits[label], chunk.ranks[label], chunk.own[chunk.own_starts[label] :]
    n_products = 0
    for entry in range(indices.shape[0]):
        feature = indices[entry]
        if lines[feature] >= 0:
            line = np.uint64(lines[feature])
            word, place = bits[line >> _WORD], line & _PLACE
            rank = np.int64(ranks[line >> _WORD]) + count_ones(word & ((_ONE << place) - _ONE))
            products[n_products] = data[entry] * own[rank]
            n_products += np.int64((word >> place) & _ONE)  # without a branch: what a label has is no pattern
            continue
        low, high = starts[feature], starts[feature + 1]
        while low < high:
            middle = (low + high) >> 1
            if names[labels[middle]] < names[label]:
                low = middle + 1
            else:
                high = middle
        if low < starts[feature + 1] and labels[low] == label:
            products[n_products] = data[entry] * chunk.listed[low]
            n_products += 1
    score = chunk.bias[label]
    for product in range(n_products):
        score += products[product]
    return score
