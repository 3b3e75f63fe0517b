"""CSR matrices for kernels: check, normalize, count and reorder rows of X; collect pruned weights by feature."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed._jit import kernel
from unmissed.numerics.float64_sums import squared_norm, total
from unmissed.numerics.prefetch import LINE, prefetch

_N_SUMS = 16  # Partial sums, so that the compiler can vectorize.
_PREFETCH_DISTANCE = 1  # Prefetch distance, in rows.
OUT_OF_RANGE, NOT_SORTED, NOT_FINITE = 1, 2, 4  # what `find_faults` finds
_INFINITE = np.uint32(0x7F800000)  # exponent bits of infinities and NaN


@kernel()
def find_faults(indptr, indices, numbers, n_columns):
    """Return the faults of the entries of a CSR matrix, as a sum of OUT_OF_RANGE, NOT_SORTED and NOT_FINITE.

    Each array is read once. `indptr` must be valid. `numbers` has the float32 values viewed as uint32. NOT_SORTED means
    that the columns of a row do not rise strictly.
    """
    outside, unsorted, infinite = False, False, False
    for row in range(indptr.shape[0] - 1):
        begin, end = indptr[row], indptr[row + 1]
        columns, entries = indices[begin:end], numbers[begin:end]
        for at in range(columns.shape[0]):
            outside |= (columns[at] < 0) | (columns[at] >= n_columns)
            infinite |= (entries[at] & _INFINITE) == _INFINITE
        for at in range(1, columns.shape[0]):
            unsorted |= columns[at] <= columns[at - 1]
    return OUT_OF_RANGE * outside + NOT_SORTED * unsorted + NOT_FINITE * infinite


@kernel()
def _unit_factor(entries):
    """Return 1 / L2 norm of a row, 0 if it is empty or 0; squares are added in order, in float64."""
    square = 0.0
    for at in range(entries.shape[0]):
        square += np.float64(entries[at]) * np.float64(entries[at])
    return 1.0 / np.sqrt(square) if square > 0 else 0.0


@kernel()
def unit_factors(indptr, values, factors):
    """Set `factors` to the numbers that rows are multiplied by to have norm 1."""
    for row in range(indptr.shape[0] - 1):
        factors[row] = _unit_factor(values[indptr[row] : indptr[row + 1]])


@kernel()
def scale_to_unit(indptr, values, scaled):
    """Set `scaled` to the values of rows divided by their L2 norm."""
    for row in range(indptr.shape[0] - 1):
        entries, targets = values[indptr[row] : indptr[row + 1]], scaled[indptr[row] : indptr[row + 1]]
        factor = _unit_factor(entries)
        for at in range(entries.shape[0]):
            targets[at] = np.float32(np.float64(entries[at]) * factor)


@kernel()
def count_features(indices, counts):
    """Add the number of non-zeros of each feature to `counts`."""
    for at in range(indices.shape[0]):
        counts[indices[at]] += 1


@kernel()
def count_rows(begins, ends, indices, counts, seen):
    """Count the non-zeros of each feature over selected rows; list the features in `seen` and return their number."""
    n_seen = 0
    for row in range(begins.shape[0]):
        for at in range(begins[row], ends[row]):
            feature = indices[at]
            if counts[feature] == 0:
                seen[n_seen] = feature
                n_seen += 1
            counts[feature] += 1
    return n_seen


@kernel()
def reorder(begins, ends, indices, values, factors, new_index, n_features, new_indptr, new_indices, new_values, norms):
    """Copy the rows begins[i]:ends[i] with permuted features; set norms[i] to |x|^2.

    `factors` are two arrays with a number per row, or without any: values are multiplied by the first one (float64),
    rounded to float32, and multiplied by the second one (float32).
    The features of a dense row are sorted, so that kernels need not read its indices.
    """
    filled = 0
    new_indptr[0] = 0
    firsts, seconds = factors
    is_scaled = firsts.shape[0] > 0
    for row in range(begins.shape[0]):
        begin, end = begins[row], ends[row]
        if row + _PREFETCH_DISTANCE < begins.shape[0]:
            for at in range(begins[row + _PREFETCH_DISTANCE], ends[row + _PREFETCH_DISTANCE], LINE):
                prefetch(indices, at)
                prefetch(values, at)
        features, entries = indices[begin:end], values[begin:end]
        last = filled + end - begin
        new_features, new_entries = new_indices[filled:last], new_values[filled:last]
        full = end - begin == n_features
        for at in range(features.shape[0]):
            position = new_index[np.uint64(features[at])]
            target = np.uint64(position) if full else np.uint64(at)
            new_features[target] = position
            value = entries[at]
            if is_scaled:
                value = np.float32(np.float64(value) * firsts[row]) * seconds[row]
            new_entries[target] = value
        filled = last
        new_indptr[row + 1] = filled
        norms[row] = squared_norm(new_entries)


@kernel()
def list_kept_weights(w, threshold, positions, weights):
    """List indices and values of the non-zero weights with |w| >= threshold; return their number.

    The second return value is the sum of squares of the dropped weights.
    """
    filled = 0
    dropped = np.zeros(_N_SUMS)
    for begin in range(0, w.shape[0], _N_SUMS):
        block = w[begin : begin + _N_SUMS]
        n_large = np.int32(0)
        for at in range(block.shape[0]):
            weight = np.float64(block[at])
            is_large = abs(block[at]) >= threshold
            n_large += np.int32(is_large)
            dropped[at] += 0.0 if is_large else weight * weight
        if n_large == 0:  # the common case
            continue
        for at in range(block.shape[0]):
            if abs(block[at]) >= threshold and block[at] != 0:
                positions[filled] = begin + at
                weights[filled] = block[at]
                filled += 1
    return filled, total(dropped)


@kernel()
def append_by_feature(positions, kept, label, filled, labels, weights):
    """Append one label's weights to the lists of their features; filled[f] is the end of feature f's list."""
    for at in range(positions.shape[0]):
        target = filled[positions[at]]
        labels[target] = label
        weights[target] = kept[at]
        filled[positions[at]] = target + 1


def csr_arrays(X: sp.csr_matrix) -> tuple[npt.NDArray[Any], ...]:
    """Return (indptr, indices, data) as kernels expect them: int64, uint32 and data, all read-only."""
    arrays = X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False).view(np.uint32), X.data
    return tuple(read_only(array) for array in arrays)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a contiguous read-only view: kernels are compiled once, for memory-mapped arrays and others alike."""
    view: npt.NDArray[Any] = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
