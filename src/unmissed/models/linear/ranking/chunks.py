"""The weight layout of the quantized scan (`scan`), and the kernels that build and read it."""

from typing import Any, NamedTuple

import numpy as np

from unmissed._jit import kernel
from unmissed.models.linear.ranking.int8 import TILE, byte_slot, to_byte
from unmissed.numerics.bitset import count_ones

MAX_INT8 = 127  # largest absolute int8 weight in a line
NO_LINE = 2**32 - 1
FLAGS_PER_WORD = 48  # of 64 bits; the upper 16 hold the rank
_HALF, _WEIGHT_BITS = 2**15, 16  # lower bits of a packed entry


class ChunkArrays(NamedTuple):
    """Quantized and exact weights of labels with a similar number of weights, in tiles of TILE labels.

    Labels with weights of similar magnitude share a tile, because a tile has one quantization scale. Label l here is a
    position in the chunk; label_ids[l] is its id in the model.

    Quantized weights: a frequent feature f has a line of int8 per tile, at lines[t, TILE * table[f, 1]] for tile t.
    Other features have NO_LINE in table[f, 1]. The list of feature f is entries[table[f, 0]:table[f + 1, 0]]. It holds
    the weights that no line holds: all of them if there is no line, otherwise those outside the int8 range. A packed
    entry is a label position and an int16 weight in 32 bits.

    Per tile: scale of the weights, largest norm of a weight vector (norm), largest |bias| (max_bias), largest norm of
    the dense weights of a label (dense_norm). `bias` is padded with -inf to full tiles.

    Dense features: dense[l] has the weights of label l, then its bias, as the weight of a feature that is 1 in all
    rows. Labels that fill up the last tile have a finite bias below all others, because infinity times 0 is no number.
    Without dense features, `dense` has no rows.

    Exact weights: `exact` starts with those of the lists. The weights of label l for features with lines start at
    exact[label_starts[l]], in ascending order of line, so that scoring one label touches few pages. flags[l] is a bit
    set with ranks: bit b of flags[l, t] is set if the label has a weight for line FLAGS_PER_WORD t + b, and the upper
    16 bits count the flags set in earlier words.
    """

    label_ids: Any
    table: Any
    lines: Any
    entries: Any
    scale: Any
    norm: Any
    max_bias: Any
    bias: Any
    exact: Any
    label_starts: Any
    flags: Any
    dense: Any
    dense_norm: Any


@kernel()
def add_label_statistics(starts, labels, weights, sizes, squares, peaks):
    """Add a shard to each label's number of weights, squared norm and largest absolute weight."""
    for position in range(starts[-1]):
        label, weight = labels[position], np.float64(weights[position])
        sizes[label] += 1
        squares[label] += weight * weight
        peaks[label] = max(peaks[label], abs(weight))


@kernel()
def count_weights(features, starts, labels, chunk_of, counts):
    """Count a shard's weights per chunk and feature."""
    for at in range(features.shape[0]):
        for position in range(starts[at], starts[at + 1]):
            counts[chunk_of[labels[position]], features[at]] += 1


@kernel()
def flag_weights(features, starts, labels, weights, positions, lines, scale, flags, counts):
    """Set the flags of a chunk's labels for their lines, and count the packed entries of each feature's list.

    Label l of the shard is at positions[l] in the chunk, -1 if it is in another one.
    """
    for at in range(features.shape[0]):
        line = lines[features[at]]
        for position in range(starts[at], starts[at + 1]):
            label = positions[labels[position]]
            if label >= 0:
                quantized = np.rint(np.float64(weights[position]) / scale[label // TILE])
                counts[features[at]] += line < 0 or abs(quantized) > MAX_INT8
                if line >= 0:
                    word, bit = flag_of(line)
                    flags[label, word] |= bit


@kernel()
def count_flags(flags, label_starts):
    """Store in each word the number of flags set in the label's earlier words, and set label_starts."""
    for label in range(flags.shape[0]):
        total = np.uint64(0)
        for word in range(flags.shape[1]):
            here = np.uint64(count_ones(flags[label, word]))
            flags[label, word] |= total << np.uint64(FLAGS_PER_WORD)
            total += here
        label_starts[label + 1] = label_starts[label] + np.int64(total)


@kernel()
def write_weights(features, starts, labels, weights, positions, chunk, counts):
    """Write a shard's weights into a chunk; counts[f] is the number of entries in the list of feature f so far."""
    for at in range(features.shape[0]):
        feature = features[at]
        line = np.int64(chunk.table[feature, 1])
        for position in range(starts[at], starts[at + 1]):
            label = np.int64(positions[labels[position]])
            if label < 0:
                continue
            tile, lane = label // TILE, label % TILE
            quantized = np.rint(np.float64(weights[position]) / chunk.scale[tile])
            if line != NO_LINE:
                if abs(quantized) <= MAX_INT8:
                    chunk.lines[tile, TILE * line + byte_slot(lane)] = to_byte(quantized, lane)
                chunk.exact[exact_position(chunk, label, line)] = weights[position]
            if line == NO_LINE or abs(quantized) > MAX_INT8:
                target = np.int64(chunk.table[feature, 0]) + counts[feature]
                chunk.entries[target] = (label << _WEIGHT_BITS) + np.int64(quantized)
                chunk.exact[target] = weights[position]
                counts[feature] += 1


@kernel()
def entry_label(entry):
    """Return the label position of a packed entry."""
    return (np.int64(entry) + _HALF) >> _WEIGHT_BITS


@kernel()
def entry_weight(entry):
    """Return the int16 weight of a packed entry, from -32767 to 32767."""
    return np.int64(entry) - (entry_label(entry) << _WEIGHT_BITS)


@kernel()
def flag_of(line):
    """Return the word index and the bit of a line's flag."""
    return line // FLAGS_PER_WORD, np.uint64(1) << np.uint64(line % FLAGS_PER_WORD)


@kernel()
def exact_position(chunk, label, line):
    """Return the position in `exact` of a label's weight for a line; undefined if the flag is not set."""
    at, bit = flag_of(line)
    word = chunk.flags[label, at]
    before, earlier_bits = np.int64(word >> np.uint64(FLAGS_PER_WORD)), bit - np.uint64(1)
    return chunk.label_starts[label] + before + count_ones(word & earlier_bits)
