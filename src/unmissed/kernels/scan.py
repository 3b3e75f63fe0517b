"""The k best labels of sparse rows under sparse linear classifiers: a scan in whole numbers, then exact scores.

Weights and values are rounded to whole numbers of 16 bits, w = s q and x = u p, so that the sum of q p fits into 32
bits; s belongs to a tile of TILE labels, u to a row. By how much the score of a label can differ from s u (sum of q p)
+ b is bounded, so only labels that may be among the k best are scored exactly, with the arithmetic of
`kernels.ranking`: the answer is the same, bit for bit.

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
from unmissed.kernels.whole import TILE, add_whole, count_ones

_MOST = 32767.0
NORM = 40000.0  # the longest q; more would leave less for p, which have to share 31 bits
_EPSILON = 2.0**-24
_AHEAD = 4  # lists of weights are asked for so many entries before they are used
_SMALL = 1e-37  # for what is lost where products are too small for float32


class ChunkArrays(NamedTuple):
    """Consecutive labels as the scan reads them, TILE of them beside each other.

    A feature f that many labels use has its whole weights in all tiles, tile t's from dense[t, TILE * lines[f]] on; any
    other, where lines[f] is -1, has the weights starts[f] to starts[f + 1], each for a label. A tile has the scale of
    its weights, the norm of the longest and the largest bias.

    exact[exact_starts[f]:exact_starts[f + 1]] are the weights themselves, labels rising. Of a feature with a line, bit
    b of masks[t, line] tells whether label b of tile t has one, and ranks[t, line] how many labels of earlier tiles do.
    """

    lines: Any
    dense: Any
    starts: Any
    labels: Any
    weights: Any
    scale: Any
    norm: Any
    largest: Any
    bias: Any
    exact_starts: Any
    exact: Any
    masks: Any
    ranks: Any


@kernel()
def survey_shard(features, starts, labels, weights, first, counts, squares, peaks):
    """Count a shard's weights per feature, and note each label's squared norm and largest weight.

    Label l of the shard is number first + l of the chunk; those outside of it are left out.
    """
    for at in range(features.shape[0]):
        for place in range(starts[at], starts[at + 1]):
            label = first + np.int64(labels[place])
            if 0 <= label < peaks.shape[0]:
                counts[features[at]] += 1
                weight = np.float64(weights[place])
                squares[label] += weight * weight
                peaks[label] = max(peaks[label], abs(weight))


@kernel()
def lay_shard(features, starts, labels, weights, first, chunk, counts):
    """Write a shard's weights into a chunk; `counts` tells how many each feature has there already."""
    for at in range(features.shape[0]):
        feature = features[at]
        line = chunk.lines[feature]
        for place in range(starts[at], starts[at + 1]):
            label = first + np.int64(labels[place])
            if not 0 <= label < chunk.bias.shape[0]:
                continue
            tile, lane = label // TILE, label % TILE
            rank = counts[feature]
            counts[feature] += 1
            chunk.exact[chunk.exact_starts[feature] + rank] = weights[place]
            whole = np.rint(np.float64(weights[place]) / chunk.scale[tile])
            if line >= 0:
                chunk.dense[tile, TILE * line + lane] = whole
                if chunk.masks[tile, line] == 0:
                    chunk.ranks[tile, line] = rank
                chunk.masks[tile, line] |= np.uint64(1) << np.uint64(lane)
            else:
                chunk.labels[chunk.starts[feature] + rank] = label
                chunk.weights[chunk.starts[feature] + rank] = whole


@kernel()
def rank_chunk(chunk, first, indptr, indices, data, sums, labels, best):
    """Merge the scores of a chunk's labels, numbered from `first` on, into each row's k best.

    `sums` (n_rows, whole tiles) is scratch.
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
    scores, floor = np.empty(sums.shape[1], np.float32), np.empty(best.shape[1], np.float32)
    errors, peaks = np.empty(chunk.scale.shape[0], np.float32), np.empty(chunk.scale.shape[0], np.float32)
    hits, values = np.empty(n_entries + 1, np.int64), np.empty(n_entries + 1, np.float32)
    for row in range(n_rows):
        at, end = indptr[row], indptr[row + 1]
        _set_errors(chunk, data[at:end], units[row], errors)
        _set_scores(chunk, sums[row], units[row], scores, peaks)
        bound = _bound(scores, n_labels, errors, peaks, labels[row], best[row], floor)
        for tile in range(errors.shape[0]):
            if peaks[tile] + errors[tile] < bound:
                continue
            for label in range(TILE * tile, min(TILE * (tile + 1), n_labels)):
                if not scores[label] + errors[tile] < bound:  # so written, what is not a number is looked at
                    score = _exact(chunk, label, indices[at:end], data[at:end], hits, values)
                    put(labels[row], best[row], first + label, score)


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
    """Round a row, add what it has of rare features to its sums, and list the others; return where the list ends."""
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
        else:
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
def _bound(scores, n_labels, errors, peaks, labels, best, floor):
    """Return a score that k labels have at least: the k-th largest of those found before and of lower bounds here."""
    last = floor.shape[0] - 1
    for place in range(floor.shape[0]):
        floor[place] = best[place] if labels[place] >= 0 else -np.inf
    for tile in range(peaks.shape[0]):
        if peaks[tile] - errors[tile] <= floor[last]:
            continue
        for label in range(TILE * tile, min(TILE * (tile + 1), n_labels)):
            low = scores[label] - errors[tile]
            if low > floor[last]:
                put_number(floor, low)
    return floor[last]


@kernel()
def _exact(chunk, label, indices, data, hits, values):
    """Return bias[l] + w_l.x, added in rising order of feature; the weights lie anywhere and are asked for first."""
    tile, lane = label // TILE, np.uint64(label % TILE)
    n_hits = 0
    for entry in range(indices.shape[0]):
        feature = indices[entry]
        line = chunk.lines[feature]
        if line >= 0:
            mask = chunk.masks[tile, line]
            rank = np.int64(chunk.ranks[tile, line]) + count_ones(mask & ((np.uint64(1) << lane) - np.uint64(1)))
            there = np.int64((mask >> lane) & np.uint64(1))
        else:
            low, high = chunk.starts[feature], chunk.starts[feature + 1]
            while low < high:
                middle = (low + high) >> 1
                if chunk.labels[middle] < label:
                    low = middle + 1
                else:
                    high = middle
            rank = low - chunk.starts[feature]
            there = np.int64(low < chunk.starts[feature + 1] and chunk.labels[low] == label)
        hits[n_hits] = chunk.exact_starts[feature] + rank
        prefetch(chunk.exact, hits[n_hits])
        values[n_hits] = data[entry]
        n_hits += there  # without a branch: which features a label has is no pattern
    score = chunk.bias[label]
    for hit in range(n_hits):
        score += values[hit] * chunk.exact[hits[hit]]
    return score
