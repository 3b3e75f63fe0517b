"""Inverse propensities 1/p: validation, clipping, and the factors of corrections and weightings.

This module is the only definition of each formula. The factors take 1/p, clipped or not, as a Python number, a numpy
array or a PyTorch tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.errors import InputError
from unmissed.losses.half import Array
from unmissed.matrices import assemble, canonical_csr


def bound_factor(inverse: Any) -> Any:
    """Return 2/p - 1: the factor of l+ in the convex bound of the unbiased loss."""
    return 2 * inverse - 1


def missing_odds(inverse: Any) -> Any:
    """Return 1/p - 1: the odds that a true label is missing, and the shift of the unbiased 0-1 loss."""
    return inverse - 1


def counter_factor(inverse: Any) -> Any:
    """Return 1 - 1/p <= 0: the factor of l- for a present label in Theorem 1."""
    return 1 - inverse


def check_propensities(p: npt.ArrayLike, source: str = "") -> Array:
    """Return propensities as float64; raise InputError unless all lie in (0, 1].

    Parameters
    ----------
    p
        One propensity, or an array with one per label.
    source
        Where they come from, for the error message.
    """
    values = np.asarray(p, dtype=np.float64)
    prefix = f"{source}: " if source else ""
    if values.ndim > 1:
        raise InputError(
            f"{prefix}propensities must be one number or one number per label, not of shape {values.shape}"
        )
    invalid = ~((values > 0) & (values <= 1))
    if invalid.any():
        value = float(values[invalid][0])
        subject = f"label {np.flatnonzero(invalid)[0]} has the propensity" if values.ndim else "the propensity is"
        advice = " (for an inverse propensity give 1 / value)" if value > 1 else ""
        raise InputError(f"{prefix}{subject} {value:g}; it must lie in (0, 1]{advice}")
    return values


def check_cells(values: Any, Y: sparse.csr_matrix, name: str, *, inverse: bool = False) -> sparse.csr_matrix:
    """Return a number per observed positive as a float64 matrix that shares the index arrays of Y.

    Raise InputError unless `values` is a sparse matrix with the shape and the pattern of Y, and each number is a
    propensity, in (0, 1], or, with `inverse`, an inverse one, finite and at least 1.

    Parameters
    ----------
    values
        Sparse matrix of any format; a value for each entry of Y and for no other cell.
    Y
        The observed labels, canonical CSR.
    name
        What the values are, for the error message.
    """
    if not sparse.issparse(values):
        raise InputError(f"{name} must be a sparse matrix with a value for each observed positive of Y")
    cells = canonical_csr(values, name)
    if cells.shape != Y.shape:
        raise InputError(f"{name} has the shape {cells.shape}, Y has {Y.shape}; expected the same")
    if not (np.array_equal(cells.indptr, Y.indptr) and np.array_equal(cells.indices, Y.indices)):
        first = int(np.setxor1d(cell_keys(cells), cell_keys(Y))[0])
        row, label = divmod(first, Y.shape[1])
        what = "no value for a label of Y" if Y[row, label] else "a value for a label that Y does not have"
        raise InputError(f"{name} has {what}: row {row}, label {label}; expected the pattern of Y")
    data = cells.data.astype(np.float64)
    valid = (data >= 1) & np.isfinite(data) if inverse else (data > 0) & (data <= 1)
    if not valid.all():
        at = int(np.argmin(valid))
        row = int(np.searchsorted(Y.indptr, at, side="right")) - 1
        expected = "at least 1 and finite" if inverse else "above 0 and at most 1"
        raise InputError(f"{name} is {data[at]:g} in row {row}, label {Y.indices[at]}; expected {expected}")
    return assemble(data, Y.indices, Y.indptr, Y.shape)


def cell_keys(matrix: Any) -> npt.NDArray[np.int64]:
    """Return a number per entry of a canonical CSR matrix, row * n_labels + label, in increasing order."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return np.asarray(rows * matrix.shape[1] + matrix.indices)


def inverse_propensities(p: npt.ArrayLike, max_inverse: float | None = None) -> Array:
    """Return min(1/p, max_inverse); raise InputError unless all p lie in (0, 1].

    Parameters
    ----------
    p
        One propensity, or an array with one per label.
    max_inverse
        Upper limit of 1/p. Labels with p < 1/max_inverse get a biased loss of lower variance.
    """
    inverse = np.asarray(1.0 / check_propensities(p))
    if max_inverse is None:
        return inverse
    if not max_inverse >= 1:
        raise InputError(f"max_inverse must be at least 1, not {max_inverse}")
    return np.asarray(np.minimum(inverse, max_inverse))


def check_inverse_propensities(inverse: npt.ArrayLike, n_labels: int) -> Array:
    """Return inverse propensities as float64; raise InputError unless all are finite and at least 1."""
    try:
        values = np.asarray(inverse, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"inverse propensities are {repr(inverse)[:60]}; expected one number per label, such as "
            "1 / Jain().estimate(label_counts, n_samples)"
        ) from error
    if values.shape != (n_labels,):
        raise InputError(f"inverse propensities have the shape {values.shape}; {n_labels} of them were expected")
    wrong = np.flatnonzero(~((values >= 1) & np.isfinite(values)))
    if wrong.size:
        advice = " (for a propensity give 1 / value)" if 0 < values[wrong[0]] < 1 else ""
        raise InputError(
            f"label {wrong[0]} has the inverse propensity {values[wrong[0]]:g}; expected at least 1 and finite{advice}"
        )
    return values
