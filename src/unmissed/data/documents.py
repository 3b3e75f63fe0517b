"""Documents with texts and labels, from any format that a `DocumentReader` reads."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unmissed.data.checks import DocumentCounts
from unmissed.data.formats import find_reader
from unmissed.data.readers.reader import Document, DocumentReader, DocumentWriter, PathLike, ReadOptions, Source
from unmissed.data.text_fields import plain
from unmissed.data.unicode import index_names
from unmissed.errors import InputError
from unmissed.matrices import assemble
from unmissed.progress import Progress, silent


class Documents(NamedTuple):
    """The documents of a source, and the options with which they are read; each method reads the source again."""

    source: Source
    options: ReadOptions = ReadOptions()

    def read(self, needed: Collection[str], progress: Progress = silent) -> Iterator[Document]:
        """Yield the position of each document (for messages) and its `needed` columns."""
        reader = find_reader(self.source, labels=self.options.columns.labels in needed)
        if not isinstance(reader, DocumentReader):
            raise InputError(f"{name_of(self.source)}: holds no texts; {reader.name} has features")
        columns, without = self.options.columns, frozenset(self.options.without)
        documents = reader.documents(self.source, self.options, columns.needed_names(needed), progress)
        return (one for one in documents if columns.id_of(*one) not in without) if without else documents

    def texts_and_ids(self, progress: Progress = silent) -> tuple[Iterator[str], list[str]]:
        """Return an iterator over texts, and a list that it fills with row ids; labels are not required.

        The list is complete once the iterator is exhausted. It is empty unless every row has an id.
        """
        ids: list[str] = []
        return self._named_texts(ids, progress), ids

    def _named_texts(self, ids: list[str], progress: Progress) -> Iterator[str]:
        columns, n_texts = self.options.columns, 0
        for where, document in self.read([columns.text], progress):
            n_texts += 1
            name = columns.id_of(where, document)
            if name is not None:
                ids.append(name)
            yield columns.text_of(where, document)
        if len(ids) != n_texts:
            ids.clear()

    def label_lists(self, progress: Progress = silent) -> tuple[list[list[str]], list[str] | None]:
        """Return the labels of each row, and the row ids (None unless every row has one); texts are not required."""
        columns = self.options.columns
        label_lists, ids = [], []
        for where, document in self.read([columns.labels], progress):
            label_lists.append(columns.labels_of(where, document))
            name = columns.id_of(where, document)
            if name is not None:
                ids.append(name)
        return label_lists, ids if len(ids) == len(label_lists) else None

    def pairs(self, progress: Progress = silent) -> Iterator[tuple[str, list[str]]]:
        """Yield the text and the labels of each document."""
        columns = self.options.columns
        for where, document in self.read([columns.text, columns.labels], progress):
            yield columns.text_and_labels(where, document)

    def texts_and_labels(self, progress: Progress = silent) -> tuple[Iterator[str], list[list[str]], DocumentCounts]:
        """Return an iterator over texts, and the label lists and document counts that it fills."""
        label_lists: list[list[str]] = []
        counts = DocumentCounts()
        return self._labeled_texts(label_lists, counts, progress), label_lists, counts

    def _labeled_texts(self, label_lists: list[list[str]], counts: DocumentCounts, progress: Progress) -> Iterator[str]:
        columns = self.options.columns
        names: dict[str, str] = {}  # interned: one string object per label
        for where, document in self.read([columns.text, columns.labels], progress):
            text, labels = columns.text_and_labels(where, document)
            label_lists.append([names.setdefault(name, name) for name in labels])
            counts.add(text, columns.id_of(where, document))
            yield text
        if not label_lists:
            raise InputError(f"{name_of(self.source)}: holds no documents")

    def write(self, writer: DocumentWriter, target: PathLike, progress: Progress = silent) -> tuple[int, int]:
        """Write `text`, `labels` and, if present, `id` of each document; return the numbers of rows and of labels."""
        columns = self.options.columns
        n_documents, names = 0, set()

        def objects() -> Iterator[dict[str, Any]]:
            nonlocal n_documents
            for where, document in self.read([columns.text, columns.labels], progress):
                text, labels = plain(columns.text_of(where, document)), columns.labels_of(where, document)
                name = columns.id_of(where, document)
                n_documents += 1
                names.update(labels)
                yield {**({} if name is None else {"id": name}), "text": text, "labels": labels}
            if not n_documents:
                raise InputError(f"{name_of(self.source)}: holds no documents")

        writer.write_documents(objects(), target)
        return n_documents, len(names)


def name_of(source: Source) -> str:
    """Return the name of a source in messages."""
    return str(source) if isinstance(source, str | os.PathLike) else "the data frame"


def binarize(
    label_lists: Sequence[Sequence[str]], names: Sequence[str] | None = None, *, keep_unknown: bool = False
) -> tuple[sparse.csr_matrix, list[str], int]:
    """Return Y, its label names (sorted unless given) and the number of assignments of unknown labels left out.

    With `keep_unknown`, unknown labels are kept: their columns follow those of `names`, in sorted order.
    """
    if names is None or keep_unknown:
        known_names = index_names(names or ())
        unknown = {name for labels in label_lists for name in labels if name not in known_names}
        names = [*(names or ()), *sorted(unknown)]
    if len(set(names)) != len(names):
        raise InputError("label names are not unique; labels cannot be matched by name")
    column = index_names(names)
    pointers = np.zeros(len(label_lists) + 1, np.int64)
    indices: list[int] = []
    n_unknown = 0
    for row, labels in enumerate(label_lists):
        distinct = set(labels)
        known = {column[name] for name in distinct if name in column}
        n_unknown += sum(name not in column for name in distinct)
        indices.extend(sorted(known))
        pointers[row + 1] = len(indices)
    assignments = np.array(indices, dtype=np.int32)
    Y = assemble(np.ones(assignments.size, np.float32), assignments, pointers, (len(label_lists), len(names)))
    return Y, list(names), n_unknown
