"""Exact top k of rows under linear models: an integer scan with error bounds, then exact scores.

Weights and values are quantized, w = s q and x = u p, so that the sum of q p fits into int32. The scale s belongs to a
tile of TILE labels, u to a row. Nearly all q fit into int8; the others are stored separately as int16. The error of s u
(sum of q p) + b is bounded. A label whose upper bound is below the k-th largest lower bound cannot be among the k best.
The others are candidates: they are scored exactly when all chunks are scanned and the bounds are tightest, with the
arithmetic of `exact_scores`. The result is the exact top k, bit for bit. A row whose list of candidates overflows is
crowded: it gets no candidates, and all its labels are scored.

If rows have dense features, too, BLAS multiplies them with the dense weights of a chunk in float32, with the bias as
one more weight. The scan adds its scores to these products instead of the bias.

With n entries in the row, |x| and |x|_1 its norms, and |w| the largest norm of a weight vector of the tile,
quantization changes

    sum of q p  by at most  sqrt(n) |w| / (2 s) + |x|_1 / (2 u) + n / 4,

since rounding changes each q and p by at most 1/2, and the sum of |w_j| over the row's features is at most sqrt(n) |w|.
As |q| <= |w| / s + sqrt(n) / 2 <= NORM + sqrt(n) / 2, and |p| likewise, u is chosen so that |q| |p| < 2^31. The float32
rounding error of exact scores and of products by BLAS is added. It is at most m v / (1 - m v) times |b| + |w| |x|, of
both parts, with v = 2^-24 and m a little more than the number of features of the row, in any order of summation.
"""

from typing import Any, NamedTuple

import numpy as np

from unmissed._jit import kernel
from unmissed.models.linear.ranking.candidates import CROWDED, add_candidate
from unmissed.models.linear.ranking.chunks import NO_LINE, entry_label, entry_weight
from unmissed.models.linear.ranking.dense_products import product
from unmissed.models.linear.ranking.int8 import PREFETCH_DISTANCE, TILE, score_int8
from unmissed.numerics.prefetch import LINE, prefetch
from unmissed.numerics.topk import put_number

_MAX_INT16 = 32767.0
NORM = 40000.0  # largest norm of quantized weights; it shares 31 bits with the norm of quantized values
_EPSILON = 2.0**-24
_TABLE_DISTANCE, _LIST_DISTANCE = 24, 10  # prefetch distances in entries of a row: table entry, list
_FEW_ENTRIES = 4 * PREFETCH_DISTANCE  # batches up to this size prefetch the lines of the next tile as a whole
_UNDERFLOW = 1e-37  # bounds the loss where float32 products underflow, even if they flush to zero
_NO_OVERFLOW = 1e37  # float32 sums are finite, in any order, if the sum of the norms' products is at most this


class QuantizedBatch(NamedTuple):
    """Rows in CSR with int16 values: p of each entry (factors, from the first row on); u, |x| and |x|_1 of each row.

    `dense` has the dense features, then a 1 for the bias; `dense_norm` is the norm of a row's dense features.
    """

    indptr: Any
    indices: Any
    data: Any
    factors: Any
    unit: Any
    norm: Any
    l1_norm: Any
    dense_norm: Any
    dense: Any


@kernel()
def quantize_rows(rows):
    """Set factors, unit and the norms of rows; u is such that values fit into int16 and sums into int32."""
    for row in range(rows.unit.shape[0]):
        begin, end = rows.indptr[row], rows.indptr[row + 1]
        square, l1_norm, largest = 0.0, 0.0, 0.0
        for at in range(begin, end):
            value = np.float64(rows.data[at])
            square += value * value
            l1_norm += abs(value)
            largest = max(largest, abs(value))
        half, norm = 0.5 * np.sqrt(end - begin), np.sqrt(square)
        unit = max(largest / _MAX_INT16, norm / (2.0**31 / (NORM + half) - half - 1.0))
        unit = unit if unit > 0 else 1.0
        rows.unit[row], rows.norm[row], rows.l1_norm[row] = unit, norm, l1_norm
        rows.dense_norm[row] = np.sqrt(product(rows.dense[row, :-1], rows.dense[row, :-1]))
        for at in range(begin, end):
            rows.factors[at - rows.indptr[0]] = np.rint(np.float64(rows.data[at]) / unit)


@kernel()
def scan_chunk(chunk, first, rows, offsets, sums, scores, candidates):
    """Add the labels of a chunk that may be among each row's top k to its candidates.

    The labels have the positions first, first + 1, ... in the scan. `offsets` is added to the scores of the sparse
    part: one line for all rows, or one per row. `sums` (int32) and `scores` (float32) are workspaces of shape (n_rows,
    n_tiles TILE). `scores` may be the memory of `sums` or of `offsets`.
    """
    n_rows, n_tiles = rows.unit.shape[0], chunk.scale.shape[0]
    capacity = rows.factors.shape[0] + n_rows + PREFETCH_DISTANCE + 2
    positions, factors = np.zeros(capacity, np.uint32), np.empty(capacity, np.int16)
    begins, shifts = np.zeros(n_rows + 1, np.int64), np.empty(n_rows, np.int64)
    for row in range(n_rows):
        begins[row + 1], shifts[row] = _add_lists(chunk, rows, row, positions, factors, begins[row], sums[row])
    peaks = np.empty((n_rows, n_tiles), np.float32)
    for tile in range(n_tiles):
        begin, end = TILE * tile, TILE * (tile + 1)
        weights = chunk.lines[tile]
        if begins[n_rows] <= _FEW_ENTRIES and tile + 1 < n_tiles:
            _prefetch_lines(chunk.lines[tile + 1], positions, begins[n_rows])
        for row in range(n_rows):
            scale = np.float32(chunk.scale[tile] * rows.unit[row])
            line, target = sums[row, begin:end], scores[row, begin:end]
            offset = offsets[min(row, offsets.shape[0] - 1), begin:end]
            peaks[row, tile] = score_int8(
                positions, factors, begins[row], begins[row + 1], weights, line, shifts[row], scale, offset, target
            )
    errors, largest_lower_bounds = np.empty(n_tiles, np.float32), np.empty(candidates.lower_bounds.shape[1], np.float32)
    for row in range(n_rows):
        if candidates.counts[row] != CROWDED:
            _set_errors(chunk, rows, row, errors)
            bound = _kth_lower_bound(peaks[row], errors, candidates.lower_bounds[row], largest_lower_bounds)
            _add_candidates(chunk, first, row, scores[row], peaks[row], errors, bound, candidates)


@kernel()
def _add_candidates(chunk, first, row, scores, peaks, errors, bound, candidates):
    """Add the labels of a chunk whose upper bound reaches `bound` to a row's candidates, and raise its lower bounds."""
    lower_bounds, n_labels = candidates.lower_bounds[row], chunk.label_ids.shape[0]
    for tile in range(peaks.shape[0]):
        error = errors[tile]
        if peaks[tile] + error < bound:
            continue
        for label in range(TILE * tile, min(TILE * (tile + 1), n_labels)):
            upper_bound, lower_bound = scores[label] + error, scores[label] - error
            if upper_bound < bound:  # NaN compares false, so it becomes a candidate
                continue
            if lower_bound > lower_bounds[-1]:
                put_number(lower_bounds, lower_bound)
                bound = max(bound, lower_bounds[-1])
            add_candidate(candidates, row, first + label, upper_bound, bound)
            if candidates.counts[row] == CROWDED:
                return


@kernel()
def _prefetch_lines(weights, positions, n):
    """Prefetch the lines of a tile at the first n positions."""
    for at in range(n):
        prefetch(weights, np.int64(positions[at]))


@kernel()
def _kth_lower_bound(peaks, errors, lower_bounds, largest_lower_bounds):
    """Return the k-th largest lower bound of a row, from its lower bounds and the best score of each tile."""
    largest_lower_bounds[:] = lower_bounds
    for tile in range(peaks.shape[0]):
        lower_bound = peaks[tile] - errors[tile]
        if lower_bound > largest_lower_bounds[-1]:
            put_number(largest_lower_bounds, lower_bound)
    return largest_lower_bounds[-1]


@kernel()
def _add_lists(chunk, rows, row, positions, factors, end, sums):
    """Set a row's sums to the contribution of the lists, and collect its features with lines, padded to an even number.

    Returns the end of the collected positions and 128 times the sum of their factors.
    """
    sums[:] = 0
    table, entries, total, start = chunk.table, chunk.entries, 0, end
    indices, last, begin = rows.indices, rows.indptr[row + 1], rows.indptr[0]
    for entry in range(rows.indptr[row], last):
        feature = indices[entry]
        prefetch(table, 2 * np.int64(indices[min(entry + _TABLE_DISTANCE, last - 1)]))
        later = np.int64(table[indices[min(entry + _LIST_DISTANCE, last - 1)], 0])
        for line in range(0, 3 * LINE, LINE):  # the hardware prefetcher does not cover short lists at random addresses
            prefetch(entries, later + line)
        factor = np.int32(rows.factors[entry - begin])
        has_line = np.int64(table[feature, 1] != NO_LINE)
        positions[end] = TILE * has_line * np.int64(table[feature, 1])
        factors[end] = factor
        end += has_line  # no branch: it could not be predicted
        total += has_line * np.int64(factor)
        for at in range(np.int64(table[feature, 0]), np.int64(table[feature + 1, 0])):
            sums[np.uint64(entry_label(entries[at]))] += factor * np.int32(entry_weight(entries[at]))
    if (end - start) % 2:
        positions[end] = 0
        factors[end] = 0
        end += 1
    return end, 128 * total


@kernel()
def _set_errors(chunk, rows, row, errors):
    """Set a bound per tile on the difference between scan scores and exact scores."""
    n = np.float64(rows.indptr[row + 1] - rows.indptr[row])
    root, unit, l1_norm, row_norm = np.sqrt(n), rows.unit[row], rows.l1_norm[row], rows.norm[row]
    n_roundings = n + rows.dense.shape[1] + 8.0
    rounding = n_roundings * _EPSILON / (1.0 - n_roundings * _EPSILON)
    for tile in range(errors.shape[0]):
        scale, norm = chunk.scale[tile], chunk.norm[tile]
        quantization_error = 0.5 * root * norm * unit + 0.5 * l1_norm * scale + 0.25 * n * scale * unit
        size = chunk.max_bias[tile] + norm * row_norm + chunk.dense_norm[tile] * rows.dense_norm[row]
        error = 1.001 * (quantization_error + rounding * (size + quantization_error) + n_roundings * _UNDERFLOW)
        errors[tile] = error if size <= _NO_OVERFLOW else np.inf  # the sum of two infinities is no number
