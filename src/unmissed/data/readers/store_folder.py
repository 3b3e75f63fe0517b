"""The store as a format: a folder of arrays with a manifest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from scipy import sparse

from unmissed.archive import MANIFEST, is_archive
from unmissed.data.dataset import Dataset
from unmissed.data.readers.reader import DatasetWriter, MatrixReader, PathLike, ReadOptions, Source
from unmissed.data.store import open_labels, open_store, write_store
from unmissed.data.streams import bare_suffix
from unmissed.errors import InputError
from unmissed.progress import Progress, silent


class Store(MatrixReader, DatasetWriter):
    """Reads and writes stores; a path without a suffix is written as a store."""

    name = "a store"
    out_of_core: ClassVar[bool] = True
    writes_dense: ClassVar[bool] = True

    def sniff(self, source: Source, *, labels: bool = True) -> bool:
        """Return whether a source is a folder with a manifest."""
        return isinstance(source, str | os.PathLike) and os.path.isfile(Path(source) / MANIFEST)

    def writes(self, path: PathLike) -> bool:
        """Return whether a path has no suffix."""
        return bare_suffix(path) == ""

    def check_target(self, path: PathLike) -> None:
        """Raise InputError if something other than an archive exists there."""
        if Path(path).exists() and not is_archive(path):
            raise InputError(f"{path}: exists already; remove it or choose another name")

    def read(
        self,
        path: PathLike,
        options: ReadOptions,
        *,
        n_features: int | None = None,
        n_labels: int | None = None,
        progress: Progress = silent,
    ) -> Dataset:
        """Open a store."""
        return open_store(path)

    def read_labels(
        self, path: PathLike, options: ReadOptions, *, n_labels: int | None = None, progress: Progress = silent
    ) -> tuple[sparse.csr_matrix, list[str] | None, int]:
        """Open the labels of a store, without its features."""
        return open_labels(path)

    def write(self, dataset: Dataset, path: PathLike, progress: Progress = silent) -> None:
        """Write a store."""
        write_store(dataset, path, keep_same=True)
