"""Reader and writer of scipy's and numpy's files, given as one path: `X.npz,Y.npz` or `X.npz,E.npy,Y.npz`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unmissed.data.dataset import Dataset
from unmissed.data.dense_part import read_dense
from unmissed.data.names import read_name_files, write_name_files
from unmissed.data.readers.reader import DatasetWriter, MatrixReader, PathLike, ReadOptions, Source
from unmissed.data.streams import write_stream
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.files import read_npz, reading
from unmissed.matrices import check_claims, check_X, restore
from unmissed.progress import Progress, silent

_MEMBERS = ("format", "shape", "data", "indices", "indptr", "offsets", "row", "col")


class MatrixFiles(NamedTuple):
    """The files of a path: sparse features (X.npz), dense features (E.npy) and labels (Y.npz); None if left out."""

    sparse: Path | None
    dense: Path | None
    labels: Path | None

    @classmethod
    def of(cls, path: PathLike, *, labels: bool = True) -> MatrixFiles | None:
        """Return the files that a path names; None if it names none, or no labels although `labels` is set."""
        files = [Path(part.strip()) for part in os.fspath(path).split(",")]
        kinds = ",".join(one.suffix.lower() for one in files)
        if kinds in (".npz,.npz", ".npz,.npy,.npz", ".npy,.npz"):
            *features, truth = files
        elif not labels and (kinds == ".npz,.npy" or (kinds in (".npz", ".npy") and files[0].is_file())):
            features, truth = files, None
        else:
            return None
        by_suffix = {one.suffix.lower(): one for one in features}
        return cls(by_suffix.get(".npz"), by_suffix.get(".npy"), truth)

    @property
    def given(self) -> tuple[Path, ...]:
        """The files that are named, in their order."""
        return tuple(one for one in self if one is not None)

    def __str__(self) -> str:
        return ",".join(map(str, self.given))


class NumpyFiles(MatrixReader, DatasetWriter):
    """Reads and writes X and Y as scipy's `.npz` files, the dense part of X as a `.npy` file.

    Names are in `features.txt` and `labels.txt` next to the files.
    """

    name = ".npz and .npy files"
    writes_dense = True

    def sniff(self, source: Source, *, labels: bool = True) -> bool:
        """Return whether a path names such files; with `labels=False`, those of features are enough."""
        return isinstance(source, str | os.PathLike) and MatrixFiles.of(source, labels=labels) is not None

    def writes(self, path: PathLike) -> bool:
        """Return whether a path names files of features and labels."""
        return MatrixFiles.of(path) is not None

    def files(self, path: PathLike) -> tuple[Path, ...]:
        """Return the files."""
        return _files(path).given

    def read(
        self,
        path: PathLike,
        options: ReadOptions,
        *,
        n_features: int | None = None,
        n_labels: int | None = None,
        progress: Progress = silent,
    ) -> Dataset:
        """Read both parts of the features, Y and their names."""
        files, form = _files(path), options.columns.unicode_normalization
        X: Any = None if files.sparse is None else read_matrix(files.sparse)
        assert files.labels is not None  # `sniff` requires labels
        Y = read_matrix(files.labels)
        dense = None if files.dense is None else read_dense(files.dense)
        try:
            return Dataset(
                X,
                Y,
                label_names=read_name_files(files.labels, "labels.txt", Y.shape[1], form),
                feature_names=None
                if files.sparse is None
                else read_name_files(files.sparse, "features.txt", X.shape[1], form),
                dense=dense,
            )
        except InputError as error:
            raise InputError(f"{files}: {error}") from error

    def read_features(
        self, path: PathLike, options: ReadOptions, *, progress: Progress = silent
    ) -> tuple[Features, list[str] | None]:
        """Read the features; labels are not required."""
        files = _files(path)
        if files.labels is not None:
            return super().read_features(path, options, progress=progress)
        try:
            return Features(
                None if files.sparse is None else check_X(read_matrix(files.sparse)),
                None if files.dense is None else read_dense(files.dense).astype(np.float32, copy=False),
                trusted=True,
            ), None
        except InputError as error:
            raise InputError(f"{files}: {error}") from error

    def write(self, dataset: Dataset, path: PathLike, progress: Progress = silent) -> None:
        """Write both parts of the features, Y and their names; existing files must hold the same bytes."""
        files = _files(path)
        _check_parts(dataset, files)
        assert files.labels is not None  # `writes` requires labels
        write_name_files(files.labels, "labels.txt", dataset.label_names)
        if files.sparse is not None:
            write_name_files(files.sparse, "features.txt", dataset.feature_names)
        for matrix, file in ((dataset.X, files.sparse), (dataset.Y, files.labels)):
            if file is not None:
                with write_stream(file, keep_same=True) as stream:
                    sparse.save_npz(stream, matrix)
        if files.dense is not None:
            with write_stream(files.dense, keep_same=True) as stream:
                np.save(stream, dataset.dense, allow_pickle=False)  # type: ignore[arg-type]


def _files(path: PathLike) -> MatrixFiles:
    files = MatrixFiles.of(path, labels=False)
    assert files is not None  # `sniff` or `writes` said so
    return files


def _check_parts(dataset: Dataset, files: MatrixFiles) -> None:
    """Raise InputError unless there is one file for each part of the features."""
    if (files.dense is None) != (dataset.dense is None):
        raise InputError(
            f"{files}: the data has {dataset.n_dense} dense features; write them as 'X.npz,E.npy,Y.npz'"
            if files.dense is None
            else f"{files}: the data has no dense features; leave out {files.dense}"
        )
    if files.sparse is None and dataset.X.shape[1]:
        raise InputError(f"{files}: the data has {dataset.X.shape[1]} sparse features; write 'X.npz,E.npy,Y.npz'")


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
