"""Reader and writer of a pair of scipy's `.npz` files, given as one path: `X.npz,Y.npz`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from scipy import sparse

from unmissed.data.dataset import Dataset
from unmissed.data.names import read_name_files, write_name_files
from unmissed.data.streams import write_stream
from unmissed.errors import InputError
from unmissed.files import read_npz, reading
from unmissed.matrices import check_claims, restore

_MEMBERS = ("format", "shape", "data", "indices", "indptr", "offsets", "row", "col")


def split_pair(path: str | os.PathLike[str]) -> tuple[Path, Path] | None:
    """Return the two paths of `X.npz,Y.npz`, or None if this is not such a pair."""
    parts = os.fspath(path).split(",")
    if len(parts) == 2 and all(part.lower().endswith(".npz") for part in parts):
        return Path(parts[0].strip()), Path(parts[1].strip())
    return None


def read_pair(pair: tuple[Path, Path], form: str = "nfc") -> Dataset:
    """Read X, Y and the names in `features.txt` and `labels.txt` next to them, normalized to `form`."""
    X, Y = read_matrix(pair[0]), read_matrix(pair[1])
    try:
        return Dataset(
            X,
            Y,
            label_names=read_name_files(pair[1], "labels.txt", Y.shape[1], form),
            feature_names=read_name_files(pair[0], "features.txt", X.shape[1], form),
        )
    except InputError as error:
        raise InputError(f"{pair[0]},{pair[1]}: {error}") from error


def write_npz(dataset: Dataset, pair: tuple[Path, Path]) -> None:
    """Write X and Y as scipy's `.npz`, and names next to them; existing files must hold the same bytes."""
    write_name_files(pair[1], "labels.txt", dataset.label_names)
    write_name_files(pair[0], "features.txt", dataset.feature_names)
    for matrix, path in zip((dataset.X, dataset.Y), pair, strict=True):
        with write_stream(path, keep_same=True) as stream:
            sparse.save_npz(stream, matrix)


def read_matrix(path: str | os.PathLike[str]) -> Any:
    """Read one of scipy's `.npz` files and validate its indices and pointers."""
    what = "a sparse matrix written by scipy.sparse.save_npz"
    stored = read_npz(path, _MEMBERS, what)
    with reading(path, what):
        form = stored.pop("format").item()
        form = form.decode("ascii") if isinstance(form, bytes) else str(form)
        shape = tuple(stored.pop("shape").tolist())
        if len(shape) != 2 or not all(type(size) is int for size in shape):
            raise InputError(f"{path}: holds {len(shape)} dimensions; expected a matrix")
        check_claims(str(path), sum(array.size for array in stored.values()), rows=shape[0], columns=shape[1])
        return restore(form, shape, stored, str(path))
