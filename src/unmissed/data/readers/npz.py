"""Reader and writer of a pair of scipy's `.npz` files, given as one path: `X.npz,Y.npz`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from scipy import sparse

from unmissed.data.dataset import Dataset
from unmissed.data.names import read_name_files, write_name_files
from unmissed.data.readers.reader import DatasetWriter, MatrixReader, PathLike, ReadOptions, Source, suffix_of_file
from unmissed.data.streams import write_stream
from unmissed.errors import InputError
from unmissed.files import read_npz, reading
from unmissed.matrices import check_claims, check_X, restore
from unmissed.progress import Progress, silent

_MEMBERS = ("format", "shape", "data", "indices", "indptr", "offsets", "row", "col")


class NpzPair(MatrixReader, DatasetWriter):
    """Reads and writes X and Y as scipy's `.npz` files, with names in `features.txt` and `labels.txt` next to them."""

    name = "a pair of .npz files"

    def sniff(self, source: Source, *, labels: bool = True) -> bool:
        """Return whether a path names a pair; with `labels=False`, one file of features is accepted, too."""
        if not isinstance(source, str | os.PathLike):
            return False
        return self.writes(source) or (not labels and suffix_of_file(source) == ".npz")

    def writes(self, path: PathLike) -> bool:
        """Return whether a path names a pair."""
        return split_pair(path) is not None

    def files(self, path: PathLike) -> tuple[Path, ...]:
        """Return the two files."""
        return split_pair(path) or (Path(path),)

    def read(
        self,
        path: PathLike,
        options: ReadOptions,
        *,
        n_features: int | None = None,
        n_labels: int | None = None,
        progress: Progress = silent,
    ) -> Dataset:
        """Read X, Y and their names."""
        pair, form = self.files(path), options.columns.unicode_normalization
        X, Y = map(read_matrix, pair)
        try:
            return Dataset(
                X,
                Y,
                label_names=read_name_files(pair[1], "labels.txt", Y.shape[1], form),
                feature_names=read_name_files(pair[0], "features.txt", X.shape[1], form),
            )
        except InputError as error:
            raise InputError(f"{pair[0]},{pair[1]}: {error}") from error

    def read_features(
        self, path: PathLike, options: ReadOptions, *, progress: Progress = silent
    ) -> tuple[sparse.csr_matrix, list[str] | None]:
        """Read X of a pair, or the only file that is given."""
        if split_pair(path) is None:
            return check_X(read_matrix(path)), None
        return super().read_features(path, options, progress=progress)

    def write(self, dataset: Dataset, path: PathLike, progress: Progress = silent) -> None:
        """Write X, Y and their names; existing files must hold the same bytes."""
        pair = self.files(path)
        write_name_files(pair[1], "labels.txt", dataset.label_names)
        write_name_files(pair[0], "features.txt", dataset.feature_names)
        for matrix, file in zip((dataset.X, dataset.Y), pair, strict=True):
            with write_stream(file, keep_same=True) as stream:
                sparse.save_npz(stream, matrix)


def split_pair(path: PathLike) -> tuple[Path, Path] | None:
    """Return the two paths of `X.npz,Y.npz`, or None if this is not such a pair."""
    parts = os.fspath(path).split(",")
    if len(parts) == 2 and all(part.lower().endswith(".npz") for part in parts):
        return Path(parts[0].strip()), Path(parts[1].strip())
    return None


def read_matrix(path: PathLike) -> Any:
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
