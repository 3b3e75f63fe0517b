"""The base classes of file formats: a reader yields documents or matrices, a writer takes them.

A format is one class in one module of this package, and one line in `format_registry.py`. It derives from
`DocumentReader`, `LineReader` or `MatrixReader`, and from `DocumentWriter` or `DatasetWriter` if it can be written.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from scipy import sparse

from unmissed.data.dataset import Dataset
from unmissed.data.streams import bare_suffix, lines
from unmissed.data.table_columns import Columns
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.progress import Progress, silent

PathLike = str | os.PathLike[str]
Source = str | os.PathLike[str] | Any
"""A path, or an object in memory such as a data frame."""
Document = tuple[str, dict[str, Any]]
"""The position of a document, for messages, and its cells by column name."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of all readers; a reader ignores those that it has no use for.

    Parameters
    ----------
    header : whether the file starts with a line of sizes or of column names
    one_based : whether indices start at 1
    columns : names of the columns, separator, encoding and Unicode normal form
    without : ids of documents that are left out
    """

    header: bool = True
    one_based: bool = False
    columns: Columns = field(default_factory=Columns)
    without: tuple[str, ...] = ()


class Format(ABC):
    """A file format: its name in messages, and the suffixes of its files (without `.gz` or `.xz`)."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()

    def sniff(self, source: Source, *, labels: bool = True) -> bool:
        """Return whether a source has this format; by default, whether it is a file with one of the suffixes.

        With `labels=False`, rows without labels are accepted, too.
        """
        return suffix_of_file(source) in self.suffixes

    def files(self, path: PathLike) -> tuple[Path, ...]:
        """Return the files or folders that a path names."""
        return (Path(path),)


class DocumentReader(Format):
    """A format of documents with texts and labels."""

    @abstractmethod
    def documents(
        self, source: Source, options: ReadOptions, needed: Collection[str], progress: Progress = silent
    ) -> Iterator[Document]:
        """Yield the position of each document and its cells; at least the `needed` columns that it has.

        The cell of labels is a list of strings or integers.
        """


class LineReader(DocumentReader):
    """A format with one document per line, so that worker processes can parse blocks of lines."""

    @abstractmethod
    def parse(self, path: str, numbered: Iterable[tuple[int, bytes]], options: ReadOptions) -> Iterator[Document]:
        """Yield the documents of numbered lines of UTF-8 text; blank lines are skipped."""

    def documents(
        self, source: Source, options: ReadOptions, needed: Collection[str], progress: Progress = silent
    ) -> Iterator[Document]:
        """Yield the document of each line."""
        return self.parse(str(source), lines(source, progress, encoding=options.columns.encoding), options)


class MatrixReader(Format):
    """A format of feature and label matrices."""

    @abstractmethod
    def read(
        self,
        path: PathLike,
        options: ReadOptions,
        *,
        n_features: int | None = None,
        n_labels: int | None = None,
        progress: Progress = silent,
    ) -> Dataset:
        """Return the data set; the sizes are those of the training set, for files that do not state their own."""

    def read_labels(
        self, path: PathLike, options: ReadOptions, *, n_labels: int | None = None, progress: Progress = silent
    ) -> tuple[sparse.csr_matrix, list[str] | None, int]:
        """Return Y, its label names, and the number of assignments that were left out when the file was written."""
        dataset = self.read(path, options, n_labels=n_labels, progress=progress)
        return dataset.Y, dataset.label_names, dataset.n_unknown_labels

    def read_features(
        self, path: PathLike, options: ReadOptions, *, progress: Progress = silent
    ) -> tuple[Features, list[str] | None]:
        """Return the features and the names of the sparse ones; labels are not required."""
        dataset = self.read(path, options, progress=progress)
        return dataset.features, dataset.feature_names


class Writer(Format):
    """A format that can be written."""

    def writes(self, path: PathLike) -> bool:
        """Return whether a path names this format as a target; by default, by its suffix."""
        return bare_suffix(path) in self.suffixes

    def check_target(self, path: PathLike) -> None:
        """Raise InputError if a path cannot be written; the contents of existing files are compared later."""
        for file in self.files(path):
            if file.is_dir():
                raise InputError(f"{file}: exists already; remove it or choose another name")


class DocumentWriter(Writer):
    """A format to which documents are written as they are."""

    @abstractmethod
    def write_documents(self, documents: Iterable[dict[str, Any]], path: PathLike) -> None:
        """Write documents with `text`, `labels` and possibly `id`; an existing file must hold the same bytes."""


class DatasetWriter(Writer):
    """A format to which data sets are written.

    `out_of_core` says that `convert_text` writes it in blocks, `writes_dense` that it can hold a dense part.
    """

    out_of_core: ClassVar[bool] = False
    writes_dense: ClassVar[bool] = False

    @abstractmethod
    def write(self, dataset: Dataset, path: PathLike, progress: Progress = silent) -> None:
        """Write a data set; existing files must hold the same contents."""


def suffix_of_file(source: Source) -> str:
    """Return the suffix, without compression, of an existing file; an empty string for everything else."""
    if not isinstance(source, str | os.PathLike):
        return ""
    path = Path(source)
    try:
        return "" if path.is_dir() or not path.exists() else bare_suffix(path)
    except (OSError, ValueError):  # too long, or not a valid path
        return ""
