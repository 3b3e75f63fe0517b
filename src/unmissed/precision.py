"""Warnings about the precision lost when features are rounded to float32: rows that become equal or change too much.

Rows are processed in blocks; memory is about 50 bytes per row plus a few megabytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.settings import SETTINGS

Array = npt.NDArray[Any]
MOVED = 1e-3  # tolerated change of a row by rounding, relative to its L2 norm
_SAME = 1e-12  # relative difference of rows explained by float64 rounding errors


class PrecisionWarning(UserWarning):
    """Features lost significant digits when they were rounded to float32."""


def warn_of_rounding(matrix: Any, name: str, stacklevel: int) -> None:
    """Warn if rounding to float32 makes different rows equal, or changes a row by more than MOVED of its L2 norm.

    Parameters
    ----------
    matrix : dense array or canonical CSR matrix, its values finite in float32
    name : name of the matrix in the message
    stacklevel : stack level of the caller, as in `warnings.warn`
    """
    if all((data.astype(np.float32) == data).all() for data, _, _ in _row_blocks(matrix)):  # common for integers
        return
    digests, projections, sizes, moved = [], [], [], 0
    for data, indices, indptr in _row_blocks(matrix):
        rounded = data.astype(np.float32).astype(np.float64)
        moved += _count_moved(data, rounded, indptr)
        mixed = _mix(indices.astype(np.uint64))
        entries = np.where(rounded == 0, np.uint64(0), _mix(mixed ^ rounded.view(np.uint64)))
        digests.append(_row_sums(entries, indptr))
        projections.append(_row_sums(data * (0.5 + mixed * 2.0**-64), indptr))
        sizes.append(_row_sums(np.abs(data), indptr))
    merged = _count_merged(*(np.concatenate(part) for part in (digests, projections, sizes)))
    problems = [f"{merged:,} rows that differ become equal"] if merged else []
    problems += [f"{moved:,} rows change by more than {MOVED:g} of their length"] if moved else []
    if problems:
        message = f"{name} is rounded from {matrix.dtype} to float32: {' and '.join(problems)}; center or rescale it"
        warnings.warn(message, PrecisionWarning, stacklevel=stacklevel + 1)


def _row_blocks(matrix: Any) -> Iterator[tuple[Array, Array, Array]]:
    """Yield float64 values, column indices and row pointers of consecutive rows, in blocks."""
    n_rows = matrix.shape[0]
    if not sparse.issparse(matrix):
        step = max(1, SETTINGS.precision_entries // max(matrix.shape[1], 1))
        for begin in range(0, n_rows, step):
            part = sparse.csr_matrix(matrix[begin : begin + step].astype(np.float64))
            yield part.data, part.indices, part.indptr
        return
    begin = 0
    while begin < n_rows:
        first = matrix.indptr[begin]
        end = max(begin + 1, int(np.searchsorted(matrix.indptr, first + SETTINGS.precision_entries, side="right")) - 1)
        end = min(end, begin + SETTINGS.precision_entries, n_rows)
        entries = slice(first, matrix.indptr[end])
        data = matrix.data[entries].astype(np.float64)
        yield data, matrix.indices[entries], matrix.indptr[begin : end + 1] - first
        begin = end


def _row_sums(values: Array, indptr: Array, add: np.ufunc = np.add) -> Array:
    """Return the sum of each row, 0 for empty rows."""
    sums = np.zeros(len(indptr) - 1, values.dtype)
    filled = np.flatnonzero(indptr[1:] > indptr[:-1])
    if len(filled):
        sums[filled] = add.reduceat(values, indptr[filled])
    return sums


def _count_moved(data: Array, rounded: Array, indptr: Array) -> int:
    """Return the number of rows that rounding changes by more than MOVED of their L2 norm.

    Values are divided by the largest of the row, because their squares may underflow in float64.
    """
    if not len(data) or np.abs(data[data != 0]).min(initial=1.0) >= np.finfo(np.float32).tiny:
        return 0  # only subnormal float32 values have a relative error above 2^-24
    largest = np.repeat(_row_sums(np.abs(data), indptr, np.maximum), np.diff(indptr))
    scale = np.where(largest > 0, largest, 1.0)
    errors = _row_sums(((data - rounded) / scale) ** 2, indptr)
    return int((errors > MOVED**2 * _row_sums((data / scale) ** 2, indptr)).sum())


def _count_merged(digests: Array, projections: Array, sizes: Array) -> int:
    """Return the number of rows whose rounded values have the same hash as those of a row with another projection.

    A projection is an inner product with fixed pseudo-random numbers; unlike a hash, it measures how much rows differ.
    """
    order = np.lexsort((projections, digests))
    digests, projections = digests[order], projections[order]
    firsts = np.flatnonzero(np.append(True, digests[1:] != digests[:-1]))
    lasts = np.append(firsts[1:], len(digests)) - 1
    apart = projections[lasts] - projections[firsts] > _SAME * np.maximum.reduceat(sizes[order], firsts)
    return int((lasts - firsts + 1)[apart].sum())


def _mix(numbers: Array) -> Array:
    """Return a 64-bit hash of each number (the finalizer of SplitMix64)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    hashed: Array = mixed ^ (mixed >> np.uint64(31))
    return hashed
