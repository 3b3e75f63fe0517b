"""Validation of input matrices and their conversion to canonical CSR.

scipy's checks accept indices and pointers that make compiled code read and write out of bounds. Therefore every sparse
matrix is validated here before any of its methods is called.

* `check_X(X)`: features, finite float32. `check_Y(Y)`: labels, every entry 0 or 1; zeros are removed. Both accept any
  sparse format, matrix or array, or a dense array, and return a canonical `csr_matrix`; the argument is not modified.
* `check_dense(X)`: features as a finite float32 array.
* `canonical_csr(matrix, name)`: the same for any other matrix; keeps its dtype.
* `stored_csr(...)`: the three arrays of a stored CSR matrix, which must be canonical.
* `check_compressed(...)`: the three arrays of a CSR or CSC matrix; `check_claims(...)`: sizes that a file claims.
* `restore(...)`: a matrix of any format whose arrays come from a file.
* `rises(...)`: whether pointers are non-decreasing; `(np.diff(p) < 0).any()` misses differences that overflow.
* `assemble(...)`: a CSR matrix from arrays known to be canonical, without validation.

A canonical float32 matrix is validated in one compiled pass over its arrays and is not copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.errors import InputError
from unmissed.precision import warn_of_rounding

Array = npt.NDArray[Any]
LARGEST = np.iinfo(np.int32).max
_FREE = 1 << 24  # rows or columns that a file may claim regardless of its number of entries
_BLOCK = 1 << 20  # values of a dense array that are checked at a time
_INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))


def check_X(X: Any, n_features: int | None = None) -> sparse.csr_matrix:
    """Return features as a canonical float32 CSR matrix; raise InputError if X is invalid.

    Warns if rounding to float32 makes different rows equal, or changes rows noticeably.

    Parameters
    ----------
    X : sparse matrix or array of any format, or a dense array, of shape (n_samples, n_features)
    n_features : number of features that a fitted model expects
    """
    matrix, finite = _reuse_if_canonical(X, "X")
    valid = matrix if matrix is not None else _validated(X, "X")
    if matrix is None:
        matrix = _canonical(valid, np.dtype(np.float32))
        finite = _is_finite(matrix.data)
    if not finite:
        row = _row_of(matrix.indptr, int(np.argmin(np.isfinite(matrix.data))))
        raise InputError(f"X holds a value in row {row} that is infinite or not a number in float32")
    if n_features is not None and matrix.shape[1] != n_features:
        raise InputError(f"X has {matrix.shape[1]} features, the model was fitted on {n_features}")
    if not np.can_cast(valid.dtype, np.float32, "safe"):
        warn_of_rounding(_canonical(valid, None) if sparse.issparse(valid) else valid, "X", stacklevel=2)
    return matrix


def check_dense(X: Any, name: str = "X", *, keep_half: bool = False) -> Array:
    """Return features as a finite float32 array in C order; raise InputError if X is invalid.

    A float32 array in C order is not copied. Warns as `check_X` does if rounding to float32 loses digits that matter.

    Parameters
    ----------
    X : array or nested lists of numbers, (n_samples, n_features)
    name : name of the array in messages
    keep_half : whether float16 stays float16
    """
    if sparse.issparse(X):
        raise InputError(f"{name} is a sparse matrix; expected an array: sparse features come first, dense ones second")
    given = _validated_dense(X, name, keep_half=keep_half)
    if max(given.shape) > LARGEST:
        raise InputError(f"{name} has shape {given.shape}; at most {LARGEST} rows and columns are supported")
    if given.dtype in (np.float16, np.float32):
        dense = given
    else:
        with np.errstate(over="ignore"):  # overflow to infinity raises below
            dense = given.astype(np.float32)
    step = max(1, _BLOCK // max(dense.shape[1], 1))
    for begin in range(0, dense.shape[0], step):
        finite = np.isfinite(dense[begin : begin + step])
        if not finite.all():
            row = begin + int(np.argmin(finite.all(axis=1)))
            raise InputError(f"{name} holds a value in row {row} that is infinite or not a number in float32")
    if not np.can_cast(given.dtype, np.float32, "safe"):
        warn_of_rounding(given, name, stacklevel=2)
    return dense


def check_Y(Y: Any, n_samples: int | None = None) -> sparse.csr_matrix:
    """Return labels as a canonical CSR matrix of float32 ones; raise InputError if Y is invalid.

    Parameters
    ----------
    Y : sparse matrix or array of any format, or a dense array, of shape (n_samples, n_labels), each entry 0 or 1
    n_samples : number of rows of X
    """
    reused, _ = _reuse_if_canonical(Y, "Y")
    valid = _validated(Y, "Y") if reused is None else reused
    if n_samples is not None and valid.shape[0] != n_samples:
        raise InputError(f"Y has {valid.shape[0]} rows, X has {n_samples}")
    if reused is not None and (reused.data == 1).all():
        return reused
    _check_binary(valid)
    matrix = _canonical(valid, np.dtype(np.float32))
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    if not (matrix.data == 1).all():  # duplicate entries have been summed
        row = _row_of(matrix.indptr, int(np.argmax(matrix.data != 1)))
        raise InputError(f"Y names a label twice in row {row}")
    return matrix


def canonical_csr(matrix: Any, name: str, dtype: np.dtype[Any] | None = None) -> sparse.csr_matrix:
    """Return a matrix as canonical CSR (sorted indices, no duplicates), with `dtype` or its own dtype."""
    reused, _ = _reuse_if_canonical(matrix, name) if dtype in (None, np.float32) else (None, False)
    return _canonical(_validated(matrix, name), dtype) if reused is None else reused


def assemble(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> sparse.csr_matrix:
    """Return a `csr_matrix` of arrays known to be canonical, without a copy and without validation."""
    wanted = np.int32 if data.size <= LARGEST else np.int64
    empty: Any = shape  # scipy's stubs do not know that a shape makes an empty matrix of a given type
    matrix = sparse.csr_matrix(empty, dtype=data.dtype)
    matrix.data = np.asarray(data)  # a plain view of a memory-mapped array: slices of it are much cheaper
    matrix.indices = np.asarray(indices).astype(wanted, copy=False)
    matrix.indptr = np.asarray(indptr).astype(wanted, copy=False)
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    return matrix


def stored_csr(
    name: str, data: Array, indices: Array, indptr: Array, shape: tuple[int, int], *, ones: bool = False
) -> sparse.csr_matrix:
    """Return a matrix from stored canonical arrays; raise InputError if they are not canonical."""
    if data.dtype != np.float32 or indices.dtype != indptr.dtype or indices.dtype not in _INTEGERS:
        raise _invalid(name, f"its arrays are {data.dtype}, {indices.dtype} and {indptr.dtype}")
    data, indices, indptr = np.asarray(data), np.asarray(indices), np.asarray(indptr)
    canonical, finite = _check_entries(name, data, indices, indptr, *shape)
    if not canonical:
        raise _invalid(name, "the columns of a row do not rise")
    if not finite:
        raise _invalid(name, "it holds a value that is infinite or not a number")
    if ones and data.size and not data.min() == data.max() == 1:
        raise _invalid(name, "it holds a value that is not 1")
    return assemble(data, indices, indptr, shape)


def check_claims(where: str, n_entries: int, **sizes: int) -> None:
    """Raise InputError if sizes are out of proportion to the entries: memory is allocated per row and column."""
    for what, size in sizes.items():
        if size > min(LARGEST, _FREE + 16 * n_entries):
            raise InputError(f"{where}: claims {size} {what} and holds {n_entries} entries; is that a mistake?")


def check_compressed(name: str, data: Array, indices: Array, indptr: Array, n_major: int, n_minor: int) -> None:
    """Raise InputError unless the arrays of a CSR (major: rows) or CSC (major: columns) matrix are safe for kernels."""
    _check_sizes(name, data, indices, indptr, n_major)
    _check_range(name, indices, n_minor)


def _check_sizes(name: str, data: Array, indices: Array, indptr: Array, n_major: int) -> None:
    """Raise InputError unless the pointers are valid and the arrays fit together; entries are not read."""
    _check_integers(name, "indices", indices, 1)
    _check_integers(name, "pointers", indptr, 1)
    if data.ndim != 1 or data.shape[0] != indices.shape[0]:
        raise _invalid(name, f"it has {indices.shape[0]} indices and values of shape {data.shape}")
    _check_pointers(name, indptr, n_major, indices.shape[0])


def _check_entries(
    name: str, data: Array, indices: Array, indptr: Array, n_major: int, n_minor: int
) -> tuple[bool, bool]:
    """Return whether float32 arrays of a CSR matrix are canonical, and finite; raise InputError if they are unsafe.

    Every entry is read once.
    """
    from unmissed.numerics.csr import NOT_FINITE, NOT_SORTED, OUT_OF_RANGE, find_faults, read_only

    _check_sizes(name, data, indices, indptr, n_major)
    faults = find_faults(read_only(indptr), read_only(indices), read_only(data).view(np.uint32), n_minor)
    if faults & OUT_OF_RANGE:
        _check_range(name, indices, n_minor)  # raises, with the index
    return not faults & NOT_SORTED, not faults & NOT_FINITE


def restore(form: str, shape: tuple[int, int], parts: Mapping[str, Array], name: str) -> Any:
    """Return a validated matrix from the arrays of a file, named as in scipy; raise KeyError if one is missing."""
    if form not in ("csr", "csc", "bsr", "coo", "dia"):
        raise InputError(f"{name}: an unknown sparse matrix format, {form[:20]!r}")
    if form in ("csr", "csc"):
        major, minor = shape if form == "csr" else shape[::-1]
        check_compressed(name, parts["data"], parts["indices"], parts["indptr"], major, minor)
    return _validated_parts(SimpleNamespace(format=form, shape=shape, **parts), name)


def rises(values: Array, *, strictly: bool = False) -> bool:
    """Return whether values are non-decreasing, or strictly increasing; compares, as differences could overflow."""
    return not (values[1:] <= values[:-1] if strictly else values[1:] < values[:-1]).any()


def _reuse_if_canonical(matrix: Any, name: str) -> tuple[sparse.csr_matrix | None, bool]:
    """Validate a float32 CSR matrix; return it without conversion if it is canonical, and whether it is finite.

    This avoids scipy's constructors, which take longer than ranking a row. Any other matrix gives None.
    """
    if not (sparse.issparse(matrix) and matrix.format == "csr" and len(matrix.shape) == 2):
        return None, False
    data, indices, indptr = matrix.data, matrix.indices, matrix.indptr
    parts = (data, indices, indptr)
    plain = all(type(one) is np.ndarray and one.ndim == 1 and one.flags.c_contiguous for one in parts)
    if not plain or data.dtype != np.float32:
        return None, False
    if not indices.dtype == indptr.dtype == np.int32 or not indptr.size or int(indptr[-1]) != data.size:
        return None, False
    shape = (int(matrix.shape[0]), int(matrix.shape[1]))
    if min(shape) < 0 or max(shape) > LARGEST:
        return None, False
    canonical, finite = _check_entries(name, data, indices, indptr, *shape)
    return assemble(data, indices, indptr, shape) if canonical else None, finite


def _canonical(matrix: Any, dtype: np.dtype[Any] | None) -> sparse.csr_matrix:
    """Convert a validated matrix to canonical CSR."""
    number = matrix.dtype if dtype is None else dtype
    with np.errstate(over="ignore"):  # overflow to infinity; check_X raises for it
        converted = sparse.csr_matrix(matrix, dtype=number)
    if converted.has_canonical_format:
        return assemble(converted.data, converted.indices, converted.indptr, converted.shape)
    converted = converted.copy()  # sum_duplicates works in place, and the arrays may belong to the caller
    with np.errstate(over="ignore"):
        converted.sum_duplicates()
    return assemble(converted.data, converted.indices, converted.indptr, converted.shape)


def _validated(matrix: Any, name: str) -> Any:
    """Return a validated matrix that scipy can convert safely: dense, or newly constructed CSR, CSC or COO.

    Flags such as `has_sorted_indices` are dropped, because they may be wrong.
    """
    if not sparse.issparse(matrix):
        return _validated_dense(matrix, name)
    if len(matrix.shape) != 2:
        raise InputError(f"{name} must have two dimensions, rows and columns; got {len(matrix.shape)}")
    if matrix.format in ("lil", "dok"):  # made of Python objects; the converted arrays are validated below
        matrix = _from_lists(matrix, name)
    return _validated_parts(matrix, name)


def _validated_parts(matrix: Any, name: str) -> Any:
    """Return a validated matrix from an object with the attributes of a CSR, CSC, BSR, DIA or COO matrix."""
    shape = (int(matrix.shape[0]), int(matrix.shape[1]))
    if min(shape) < 0 or max(shape) > LARGEST:
        raise InputError(f"{name} has shape {shape}; at most {LARGEST} rows and columns are supported")
    data = _numbers(matrix.data, name)
    if matrix.format in ("csr", "csc"):
        container, (major, minor) = _CONTAINERS[matrix.format], shape if matrix.format == "csr" else shape[::-1]
        indices, indptr = np.asarray(matrix.indices), np.asarray(matrix.indptr)
        _check_integers(name, "pointers", indptr, 1)
        if indptr.size and 0 <= int(indptr[-1]) < data.shape[0]:  # spare capacity that scipy keeps
            data, indices = data[: int(indptr[-1])], indices[: int(indptr[-1])]
        check_compressed(name, data, indices, indptr, major, minor)
        return container((data, _signed(indices), _signed(indptr)), shape=shape)
    if matrix.format == "bsr":
        data, rows, columns = _from_blocks(name, data, matrix.indices, matrix.indptr, shape)
    elif matrix.format == "dia":
        data, rows, columns = _from_diagonals(name, data, matrix.offsets, shape)
    else:
        data, rows, columns = data, np.asarray(matrix.row), np.asarray(matrix.col)
    return _from_coordinates(name, data, rows, columns, shape)


_CONTAINERS = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix}


def _from_lists(matrix: Any, name: str) -> Any:
    """Convert a LIL matrix to CSR, or a DOK matrix to COO, without validation."""
    try:
        if matrix.format == "dok":
            return matrix.tocoo()
        if [len(row) for row in matrix.rows] != [len(row) for row in matrix.data]:
            raise _invalid(name, "a row has more indices than values, or fewer")
        indices = np.array(list(chain.from_iterable(matrix.rows)), dtype=np.int64)
        values = np.array(list(chain.from_iterable(matrix.data)), dtype=matrix.dtype)
        indptr = np.concatenate(([0], np.cumsum([len(row) for row in matrix.rows], dtype=np.int64)))
        return sparse.csr_matrix((values, indices, indptr), shape=matrix.shape)
    except InputError:
        raise
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise _invalid(name, str(error)) from error


def _validated_dense(matrix: Any, name: str, *, keep_half: bool = False) -> Array:
    try:
        dense = np.asarray(matrix)
    except ValueError as error:
        raise InputError(f"{name} must have two dimensions, rows and columns: {error}") from error
    if dense.ndim != 2:
        raise InputError(f"{name} must have two dimensions, rows and columns; got {dense.ndim}")
    return _numbers(dense, name, keep_half=keep_half)


def _numbers(data: Any, name: str, *, keep_half: bool = False) -> Array:
    """Return values as real numbers in native byte order; float16 is widened to float32 unless `keep_half`."""
    values = np.asarray(data)
    if values.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold numbers; expected bool, int or float, got {values.dtype}")
    if values.dtype.itemsize == 2 and values.dtype.kind == "f" and not keep_half:
        return values.astype(np.float32, order="C")
    return np.asarray(values, dtype=values.dtype.newbyteorder("="), order="C")


def _from_coordinates(name: str, data: Array, rows: Array, columns: Array, shape: tuple[int, int]) -> sparse.coo_matrix:
    for what, positions, size in (("rows", rows, shape[0]), ("columns", columns, shape[1])):
        _check_integers(name, what, positions, 1)
        if data.ndim != 1 or positions.shape != data.shape:
            raise _invalid(name, f"it has {positions.shape[0]} {what} and values of shape {data.shape}")
        _check_range(name, positions, size)
    return sparse.coo_matrix((data, (_signed(rows), _signed(columns))), shape=shape)


def _from_blocks(
    name: str, blocks: Array, indices: Any, indptr: Any, shape: tuple[int, int]
) -> tuple[Array, Array, Array]:
    """Return the values, rows and columns of a BSR matrix."""
    indices, indptr = np.asarray(indices), np.asarray(indptr)
    if blocks.ndim != 3 or 0 in blocks.shape[1:]:
        raise _invalid(name, f"its blocks have the shape {blocks.shape[1:]}")
    n_blocks, height, width = blocks.shape
    if shape[0] % height or shape[1] % width:
        raise _invalid(name, f"blocks of {height} x {width} do not divide the shape {shape}")
    _check_integers(name, "indices", indices, 1)
    _check_integers(name, "pointers", indptr, 1)
    if indices.shape[0] != n_blocks:
        raise _invalid(name, f"it has {indices.shape[0]} indices and {n_blocks} blocks")
    _check_pointers(name, indptr, shape[0] // height, n_blocks)
    _check_range(name, indices, shape[1] // width)
    tops = np.repeat(np.arange(shape[0] // height, dtype=np.int64) * height, np.diff(_signed(indptr)))
    rows = tops[:, None, None] + np.arange(height)[None, :, None]
    columns = (indices.astype(np.int64) * width)[:, None, None] + np.arange(width)[None, None, :]
    return blocks.ravel(), np.broadcast_to(rows, blocks.shape).ravel(), np.broadcast_to(columns, blocks.shape).ravel()


def _from_diagonals(name: str, data: Array, offsets: Any, shape: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Return the values, rows and columns of a DIA matrix; data[d, j] is in row j - offsets[d], column j."""
    offsets = np.asarray(offsets)
    _check_integers(name, "offsets", offsets, 1)
    if data.ndim != 2 or data.shape[0] != offsets.shape[0]:
        raise _invalid(name, f"it has {offsets.shape[0]} offsets and values of shape {data.shape}")
    if offsets.size and (int(offsets.min()) < -LARGEST or int(offsets.max()) > LARGEST):
        raise _invalid(name, "an offset lies outside of it")
    if np.unique(offsets).size != offsets.size:
        raise _invalid(name, "an offset stands twice")
    data = data[:, : shape[1]]
    columns = np.broadcast_to(np.arange(data.shape[1], dtype=np.int64), data.shape)
    rows = columns - offsets.astype(np.int64)[:, None]
    inside = (rows >= 0) & (rows < shape[0]) & (data != 0)
    return data[inside], rows[inside], columns[inside]


def _check_integers(name: str, what: str, array: Any, n_axes: int) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.ndim != n_axes:
        raise _invalid(name, f"its {what} are not a list of integers")


def _check_pointers(name: str, indptr: Array, n_major: int, n_entries: int) -> None:
    """Raise InputError unless there are n_major + 1 pointers that start at 0, never decrease and end at n_entries."""
    if indptr.shape[0] != n_major + 1:
        raise _invalid(name, f"it has {indptr.shape[0]} pointers; expected {n_major + 1}")
    if int(indptr[0]) != 0:
        raise _invalid(name, f"its pointers begin with {indptr[0]}; expected 0")
    if not rises(indptr):
        raise _invalid(name, f"its pointers fall after entry {int(np.argmax(indptr[1:] < indptr[:-1]))}")
    if int(indptr[-1]) != n_entries:
        raise _invalid(name, f"its last pointer is {indptr[-1]}; expected {n_entries}, the number of its entries")


def _check_range(name: str, indices: Array, size: int) -> None:
    """Raise InputError for indices that are negative or too large, in one pass: the maximum of their unsigned view.

    In at least 32 bits, a negative integer viewed as unsigned exceeds every valid size.
    """
    if not indices.size:
        return
    if indices.dtype.itemsize < 4:  # -1 in 8 bits would be viewed as 255, a possible index
        indices = indices.astype(np.int32)
    unsigned = indices.view(f"{indices.dtype.byteorder}u{indices.dtype.itemsize}")
    if int(unsigned.max()) >= size:
        wrong = indices[int(np.argmax(unsigned >= size))]
        raise _invalid(name, f"it holds the index {wrong}; expected 0 to {size - 1}")


def _check_binary(matrix: Any) -> None:
    """Raise InputError unless every label entry is exactly 0 or 1."""
    values = matrix.data if sparse.issparse(matrix) else matrix
    odd = values != 1
    odd &= values != 0
    if not odd.any():
        return
    position = int(np.argmax(odd))
    if not sparse.issparse(matrix):
        where = f" in row {position // matrix.shape[1]}"
    else:
        where = f" in row {_row_of(matrix.indptr, position)}" if matrix.format == "csr" else ""
    raise InputError(
        f"Y holds {values.ravel()[position]:g}{where}, neither 0 nor 1; expected 1 for a label, 0 or nothing elsewhere"
    )


def _is_finite(values: Array) -> bool:
    return not values.size or bool(np.isfinite(values.max()) and np.isfinite(values.min()))


def _row_of(indptr: Array, position: int) -> int:
    return int(np.searchsorted(indptr, position, side="right")) - 1


def _signed(positions: Array) -> Array:
    """Return checked indices or pointers as int32 or int64, contiguous."""
    if positions.dtype in _INTEGERS:
        return np.ascontiguousarray(positions)
    return np.ascontiguousarray(positions, dtype=np.int32 if positions.dtype.itemsize < 4 else np.int64)


def _invalid(name: str, what: str) -> InputError:
    return InputError(f"{name} is not a valid sparse matrix: {what}")
