"""A pair of scipy's `.npz` files, given as one path: `X.npz,Y.npz`."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

from scipy import sparse

from unmissed.data.dataset import Dataset
from unmissed.data.names import names_beside, write_names_beside
from unmissed.data.streams import write_stream
from unmissed.errors import InputError


def split_pair(path: str | os.PathLike[str]) -> tuple[Path, Path] | None:
    """Return the two paths of `X.npz,Y.npz`, or None if this is not such a pair."""
    parts = os.fspath(path).split(",")
    if len(parts) == 2 and all(part.lower().endswith(".npz") for part in parts):
        return Path(parts[0].strip()), Path(parts[1].strip())
    return None


def read_npz(pair: tuple[Path, Path]) -> Dataset:
    """Read X and Y, and the names in `features.txt` and `labels.txt` beside them."""
    X, Y = _read_matrix(pair[0]), _read_matrix(pair[1])
    try:
        return Dataset(
            X,
            Y,
            label_names=names_beside(pair[1], "labels.txt", Y.shape[1]),
            feature_names=names_beside(pair[0], "features.txt", X.shape[1]),
        )
    except InputError as error:
        raise InputError(f"{pair[0]},{pair[1]}: {error}") from error


def write_npz(dataset: Dataset, pair: tuple[Path, Path]) -> None:
    """Write X and Y as scipy's `.npz`, and known names beside them."""
    write_names_beside(pair[1], "labels.txt", dataset.label_names)
    write_names_beside(pair[0], "features.txt", dataset.feature_names)
    for matrix, path in zip((dataset.X, dataset.Y), pair, strict=True):
        with write_stream(path) as stream:
            sparse.save_npz(stream, matrix)


def _read_matrix(path: Path) -> Any:
    if not path.exists():
        raise InputError(f"{path}: no such file")
    try:
        with open(path, "rb") as stream:  # numpy leaves a file open that it cannot read
            matrix = sparse.load_npz(stream)
        if len(matrix.shape) != 2:
            raise InputError(f"{path}: holds {len(matrix.shape)} dimensions; expected a matrix")
        return matrix
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError,
        NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error,
    ) as error:  # fmt: skip
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not a sparse matrix written by scipy.sparse.save_npz: {error}") from error
