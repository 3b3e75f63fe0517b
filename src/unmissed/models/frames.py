"""Conversion of data frames with named columns, and of labels as lists of names, to matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.data.unicode import check_strings
from unmissed.errors import InputError

Names = npt.NDArray[np.object_]
_COLLECTIONS = (list, tuple, set, frozenset, np.ndarray)


def as_names(names: Sequence[str] | None) -> Names | None:
    """Return names as an array of objects; None if there are none."""
    return None if names is None else np.array(names, dtype=object)


def open_features(X: Any) -> tuple[Any, Names | None]:
    """Return the values of a data frame and its column names; return other input unchanged, with None."""
    if not _is_frame(X):
        return X, None
    return _numbers(X), _column_names(X)


def check_feature_names(found: Names | None, expected: Names | None) -> None:
    """Raise unless the columns of a data frame are those of `fit`, in the same order."""
    if found is None or expected is None or np.array_equal(found, expected):
        return
    missing = [name for name in expected if name not in set(found)]
    if missing:
        raise InputError(f"X has no column {missing[0]!r}, which the model was fitted on")
    extra = [name for name in found if name not in set(expected)]
    if extra:
        raise InputError(f"X has a column {extra[0]!r}, which the model was not fitted on")
    raise InputError("X has the columns that the model was fitted on in another order")


def one_of(Y: Any, y: Any) -> Any:
    """Return the labels, passed as Y or under scikit-learn's name y; raise if both are given."""
    if Y is not None and y is not None:
        raise InputError("labels are given twice, as Y and as y")
    return y if Y is None else Y


def open_labels(Y: Any) -> tuple[Any, Names | None]:
    """Return labels as a 0/1 matrix and their names: the columns of a data frame, or the names in the lists.

    Lists of names, one per row (also as a pandas or polars Series), become columns in sorted order. Other input is
    returned unchanged, with None.
    """
    if _is_frame(Y):
        return _numbers(Y), _column_names(Y)
    if hasattr(Y, "to_list") and hasattr(Y, "to_numpy"):  # a Series
        Y = Y.to_list()
    if _is_lists_of_names(Y):
        lists = [sorted(set(row)) for row in Y]
        names = sorted({name for row in lists for name in row})
        check_strings("label names", names)
        column = {name: position for position, name in enumerate(names)}
        indices = np.array([column[name] for row in lists for name in row], np.int32)
        starts = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int64)
        matrix = sp.csr_matrix((np.ones(len(indices), np.float32), indices, starts), shape=(len(lists), len(names)))
        return matrix, np.array(names, dtype=object)
    return Y, None


def match_labels(Y: Any, classes: Names) -> tuple[Any, int]:
    """Return labels in the column order of a fitted model, and the number of names that it does not know.

    Unknown names get the last columns: held-out rows may have labels that no training row has. If no name is known, the
    labels belong to another problem, and an error is raised.
    """
    matrix, names = open_labels(Y)
    if names is None:
        return matrix, 0
    column = {name: position for position, name in enumerate(classes)}
    unknown = [name for name in names if name not in column]
    if len(unknown) == len(names):
        raise InputError(f"the model does not know the label {unknown[0]!r}, nor any other label of Y")
    column |= {name: len(classes) + position for position, name in enumerate(unknown)}
    found = sp.coo_matrix(matrix)
    columns = np.array([column[name] for name in names], np.int64)
    shape = (found.shape[0], len(column))
    return sp.csr_matrix((found.data, (found.row, columns[found.col])), shape=shape), len(unknown)


def _is_frame(value: Any) -> bool:
    return hasattr(value, "columns") and hasattr(value, "to_numpy")


def _numbers(frame: Any) -> Any:
    if hasattr(frame, "sparse") and all(getattr(kind, "subtype", None) is not None for kind in frame.dtypes):
        return frame.sparse.to_coo().tocsr()
    return frame.to_numpy()


def _column_names(frame: Any) -> Names | None:
    names = list(frame.columns)
    check_strings("columns", [name for name in names if isinstance(name, str)])
    return np.array(names, dtype=object) if names and all(isinstance(name, str) for name in names) else None


def _is_lists_of_names(Y: Any) -> bool:
    """Return whether Y is one collection of names per row; collections may be empty."""
    if sp.issparse(Y) or isinstance(Y, str) or not isinstance(Y, Sequence | np.ndarray):
        return False
    if isinstance(Y, np.ndarray) and (Y.dtype != object or Y.ndim != 1):
        return False
    if not all(isinstance(row, _COLLECTIONS) for row in Y):
        return False
    return any(len(row) for row in Y) and all(isinstance(name, str) for row in Y for name in row)
