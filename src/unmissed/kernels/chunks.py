"""Weights laid out for a scan in whole numbers (`kernels.scan`), and what is asked of the layout label by label."""

from typing import Any, NamedTuple

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.bits import count_ones
from unmissed.kernels.whole import TILE, byte_place, to_byte

BYTE = 127  # the largest q in a line
NO_LINE = 2**32 - 1
MARKS = 48  # bits of a word of marks; the others count
_HALF, _WORD = 2**15, 16  # bits of a word


class ChunkArrays(NamedTuple):
    """Labels of a like number of weights as the scan reads them, TILE of them beside each other.

    Labels whose weights are of like size share a tile, so that few are rounded by too large a scale: here they have
    places, and names[l] is the number of the one at place l.

    A feature f that many labels use has its whole weights in all tiles, tile t's from dense[t, TILE * table[f, 1]] on;
    any other has NO_LINE there. A feature's list, table[f, 0] to table[f + 1, 0], has the weights, each for a label,
    that no line holds: all, or those beyond 8 bits. A word of it is both, place and weight. A tile has the scale of its
    weights, the norm of the longest and the largest bias; `bias` has -inf after the last label of the last tile.

    The weights themselves: `exact` begins with those of the lists. Of features with lines, label l has its own from
    own_starts[l] on, lines rising, side by side so that scoring a label stays within a few pages; bit b of marks[l, t]
    tells whether there is one for line MARKS t + b, and the highest 16 bits how many there are for earlier t.
    """

    names: Any
    table: Any
    dense: Any
    words: Any
    scale: Any
    norm: Any
    largest: Any
    bias: Any
    exact: Any
    own_starts: Any
    marks: Any


@kernel()
def survey_shard(starts, labels, weights, sizes, squares, peaks):
    """Count a shard's weights per label, and note each label's squared norm and largest weight."""
    for place in range(starts[-1]):
        label, weight = labels[place], np.float64(weights[place])
        sizes[label] += 1
        squares[label] += weight * weight
        peaks[label] = max(peaks[label], abs(weight))


@kernel()
def count_shard(features, starts, labels, chunk_of, counts):
    """Count a shard's weights per chunk and feature."""
    for at in range(features.shape[0]):
        for place in range(starts[at], starts[at + 1]):
            counts[chunk_of[labels[place]], features[at]] += 1


@kernel()
def mark_shard(features, starts, labels, weights, places, lines, scale, marks, counts):
    """Mark which labels of a chunk use which lines, and count the weights that go into each feature's list.

    Label l of the shard has place places[l] in the chunk, or -1.
    """
    for at in range(features.shape[0]):
        line = lines[features[at]]
        for place in range(starts[at], starts[at + 1]):
            label = places[labels[place]]
            if label >= 0:
                whole = np.rint(np.float64(weights[place]) / scale[label // TILE])
                counts[features[at]] += line < 0 or abs(whole) > BYTE
                if line >= 0:
                    word, bit = mark_of(line)
                    marks[label, word] |= bit


@kernel()
def count_marks(marks, own_starts):
    """Note in each word of marks how many its label has had before, and after each label how many there are."""
    for label in range(marks.shape[0]):
        total = np.uint64(0)
        for word in range(marks.shape[1]):
            here = np.uint64(count_ones(marks[label, word]))
            marks[label, word] |= total << np.uint64(MARKS)
            total += here
        own_starts[label + 1] = own_starts[label] + np.int64(total)


@kernel()
def lay_shard(features, starts, labels, weights, places, chunk, counts):
    """Write a shard's weights into a chunk; `counts` tells how many each feature's list has already."""
    for at in range(features.shape[0]):
        feature = features[at]
        line = np.int64(chunk.table[feature, 1])
        for place in range(starts[at], starts[at + 1]):
            label = np.int64(places[labels[place]])
            if label < 0:
                continue
            tile, lane = label // TILE, label % TILE
            whole = np.rint(np.float64(weights[place]) / chunk.scale[tile])
            if line != NO_LINE:
                if abs(whole) <= BYTE:
                    chunk.dense[tile, TILE * line + byte_place(lane)] = to_byte(whole, lane)
                chunk.exact[place_of_line(chunk, label, line)] = weights[place]
            if line == NO_LINE or abs(whole) > BYTE:
                target = np.int64(chunk.table[feature, 0]) + counts[feature]
                chunk.words[target] = (label << _WORD) + np.int64(whole)
                chunk.exact[target] = weights[place]
                counts[feature] += 1


@kernel()
def word_label(word):
    """Return the place of the label that a word of a list is for."""
    return (np.int64(word) + _HALF) >> _WORD


@kernel()
def word_weight(word):
    """Return the whole weight in a word of a list, from -32767 to 32767."""
    return np.int64(word) - (word_label(word) << _WORD)


@kernel()
def mark_of(line):
    """Return the word of marks that a line has, and the bit in it."""
    return line // MARKS, np.uint64(1) << np.uint64(line % MARKS)


@kernel()
def place_of_line(chunk, label, line):
    """Return where in `exact` the weight of a label for a line is, if there is one."""
    at, bit = mark_of(line)
    word = chunk.marks[label, at]
    return chunk.own_starts[label] + np.int64(word >> np.uint64(MARKS)) + count_ones(word & (bit - np.uint64(1)))
