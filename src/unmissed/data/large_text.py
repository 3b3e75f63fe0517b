"""Out-of-core conversion of documents to a store, in two passes over the source.

The first pass counts terms and collects label names; the second computes the rows of X and Y and appends them to files.
Memory holds the vocabulary, the label names and a few blocks of documents. Worker processes handle the blocks, and
their results are taken in file order: the store does not depend on the number of processes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from unmissed.data.dataset import Dataset
from unmissed.data.dense_part import Dense, check_dense_part, check_number_of_rows, check_one_source, read_dense
from unmissed.data.documents import Documents
from unmissed.data.formats import find_reader
from unmissed.data.names import read_title_file
from unmissed.data.readers.reader import LineReader, PathLike, ReadOptions
from unmissed.data.store import write_store
from unmissed.data.streams import line_blocks
from unmissed.data.text import TextFeatures
from unmissed.data.unicode import index_names
from unmissed.errors import InputError, UnmissedError
from unmissed.matrices import LARGEST, assemble
from unmissed.progress import Progress, silent
from unmissed.settings import SETTINGS
from unmissed.worker_processes import spawn_pool
from unmissed.writing import naming_target, temporary_folder

Array = npt.NDArray[Any]


class LineBlock(NamedTuple):
    """Complete lines of a file, the number of the first, and how they are parsed."""

    path: str
    first: int
    content: bytes
    reader: LineReader
    options: ReadOptions

    def read(self) -> list[tuple[str, list[str]]]:
        """Parse the lines and return the text and the labels of each document."""
        numbered = enumerate(self.content.split(b"\n")[:-1], start=self.first)
        plain = ((number, line.removesuffix(b"\r")) for number, line in numbered)
        parsed = self.reader.parse(self.path, plain, self.options)
        columns = self.options.columns
        return [columns.text_and_labels(where, document) for where, document in parsed]


class DocumentBlock(NamedTuple):
    """Documents of any other format, parsed when they were read."""

    documents: list[tuple[str, list[str]]]

    def read(self) -> list[tuple[str, list[str]]]:
        """Return the text and the labels of each document."""
        return self.documents


@dataclass
class TermCounts:
    """Result of the first pass: number of documents, document frequency and occurrences per term, label names."""

    n_documents: int = 0
    frequency: Counter[str] = field(default_factory=Counter)
    occurrences: Counter[str] = field(default_factory=Counter)
    labels: set[str] = field(default_factory=set)

    def add(self, other: TermCounts) -> None:
        """Add the counts of another block."""
        self.n_documents += other.n_documents
        self.frequency.update(other.frequency)
        self.occurrences.update(other.occurrences)
        self.labels |= other.labels


@dataclass(frozen=True)
class CountTerms:
    """First pass over a block: count terms and collect labels."""

    text: TextFeatures

    def __call__(self, block: LineBlock | DocumentBlock) -> TermCounts:
        """Return the counts of a block; occurrences are counted only if `max_features` selects terms by them."""
        counts = TermCounts()
        terms_of = self.text.build_analyzer()
        for text, labels in block.read():
            terms = terms_of(text)
            counts.n_documents += 1
            counts.frequency.update(set(terms))
            counts.labels.update(labels)
            if self.text.max_features is not None:
                counts.occurrences.update(terms)
        return counts


class VectorizedBlock(NamedTuple):
    """Rows of a block: values, feature indices and row lengths of X; label indices and row lengths of Y.

    `n_unknown` is the number of assignments of unknown labels left out.
    """

    values: Array
    features: Array
    n_features: Array
    labels: Array
    n_labels: Array
    n_unknown: int


class VectorizeBlock:
    """Second pass over a block: compute its rows of X and Y."""

    def __init__(self, text: TextFeatures, names: Sequence[str]) -> None:
        self.text = text
        if len(set(names)) != len(names):
            raise InputError("label names are not unique; labels cannot be matched by name")
        self.columns = index_names(names)

    def __call__(self, block: LineBlock | DocumentBlock) -> VectorizedBlock:
        """Return TF-IDF features and label indices of the documents of a block."""
        read = block.read()
        X = self.text.transform([text for text, _ in read])
        known: list[list[int]] = []
        n_unknown = 0
        for _, labels in read:
            distinct = set(labels)
            known.append(sorted({self.columns[name] for name in distinct if name in self.columns}))
            n_unknown += sum(name not in self.columns for name in distinct)
        assignments = np.array([label for labels in known for label in labels], np.int32)
        lengths = np.array([len(labels) for labels in known], np.int64)
        return VectorizedBlock(
            X.data, X.indices.astype(np.int32), np.diff(X.indptr).astype(np.int64), assignments, lengths, n_unknown
        )


def convert_text(
    source: PathLike,
    target: PathLike,
    *,
    text: TextFeatures | None = None,
    like: Dataset | None = None,
    dense: Dense | None = None,
    options: ReadOptions | None = None,
    n_jobs: int = 1,
    progress: Progress = silent,
) -> None:
    """Convert documents to a store, byte for byte the one that `load` and `save` would write.

    Parameters
    ----------
    source : file or folder of documents
    target : path of the new store; an existing store with the same contents is kept
    text : options of the text features; they are fitted on the source
    like : training set whose features and labels are used, for a test set
    dense : dense features of the documents: an array, or a `.npy` file. Text features with an encoder compute them
        otherwise, in a third pass and in this process
    options : options of the reader, such as the names of columns
    n_jobs : number of worker processes; it does not affect the store
    progress : progress callback, called with the bytes read in each pass
    """
    blocks = _BlockSource(source, options or ReadOptions(), progress)
    dense_part = None if dense is None else read_dense(dense)
    if like is not None:
        if dense is not None or like.text is None or like.text.encoder is None:
            check_dense_part(str(source), 0 if dense_part is None else dense_part.shape[1], like)
        if like.text is None or like.label_names is None:
            raise InputError(f"{source}: holds texts, but the training set's features were not made from text")
        text, names, titles = like.text, like.label_names, like.label_titles
    else:
        form = blocks.options.columns.unicode_normalization
        features = TextFeatures(unicode_normalization=form) if text is None else clone(text)
        features.set_params(fields=blocks.options.columns.fields)
        check_one_source(features, dense, str(source))
        _ = features.identity  # loads the model: its errors come before those of texts
        text, names = _learn(blocks, features, n_jobs)
        titles = read_title_file(source, names, form)
    with temporary_folder(target) as folder, naming_target(target, folder):
        with _RowFiles(folder) as rows:
            for part in _map_blocks(VectorizeBlock(text.without_encoder(), names), blocks, n_jobs):
                rows.add(part)
        dataset = rows.dataset(source, text, names, titles)
        if dense is not None and dense_part is not None:
            check_number_of_rows(dense_part, dense, dataset.n_samples, str(source))
        elif text.encoder is not None:
            dense_part = _embed(blocks, text, dataset.n_samples, folder / "dense")
        write_store(dataset.with_dense(dense_part), target, keep_same=True)


def _embed(blocks: _BlockSource, text: TextFeatures, n_samples: int, path: Path) -> Array:
    """Run the third pass: write the embeddings of all texts to a file and return them memory-mapped."""
    texts = (document for block in replace(blocks, progress=silent) for document, _ in block.read())
    n_dense = 0
    with open(path, "wb") as stream:
        for embeddings in text.embed(texts, n_texts=n_samples, progress=blocks.progress):
            n_dense = embeddings.shape[1]
            stream.write(embeddings.data)
    return np.memmap(path, np.float32, "r", shape=(n_samples, n_dense))


def _learn(blocks: _BlockSource, text: TextFeatures, n_jobs: int) -> tuple[TextFeatures, list[str]]:
    """Run the first pass: fit the text features and return them with the sorted label names."""
    total = TermCounts()
    for counts in _map_blocks(CountTerms(text.without_encoder()), blocks, n_jobs):
        total.add(counts)
    if not total.n_documents:
        raise InputError(f"{blocks.source}: holds no documents")
    text.learn(total.frequency, total.occurrences, total.n_documents)
    return text, sorted(total.labels)


class _RowFiles:
    """Rows of X and Y, appended to raw files of a folder and memory-mapped as a data set in the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._streams: dict[str, IO[bytes]] = {}
        self._opened = ExitStack()
        self._n_unknown = 0

    def __enter__(self) -> _RowFiles:
        for name in ("values", "features", "n_features", "labels", "n_labels"):
            self._streams[name] = self._opened.enter_context(open(self._folder / name, "wb"))
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def add(self, part: VectorizedBlock) -> None:
        """Append the rows of a block."""
        for name, stream in self._streams.items():
            stream.write(getattr(part, name).data)
        self._n_unknown += part.n_unknown

    def dataset(self, source: PathLike, text: TextFeatures, names: list[str], titles: list[str] | None) -> Dataset:
        """Return all rows as a data set of memory-mapped arrays."""
        indptr = {
            name: np.concatenate([[0], np.cumsum(self._map(name, np.int64))]) for name in ("n_features", "n_labels")
        }
        n_samples = indptr["n_features"].size - 1
        if not n_samples:
            raise InputError(f"{source}: holds no documents")
        X = (self._map("values", np.float32), self._map_indices("features"), indptr["n_features"])
        assignments = self._map_indices("labels")
        Y = (np.ones(assignments.size, np.float32), assignments, indptr["n_labels"])
        return Dataset(
            assemble(*X, (n_samples, len(text.terms_))),
            assemble(*Y, (n_samples, len(names))),
            label_names=names,
            feature_names=text.terms_,
            label_titles=titles,
            text=text,
            n_unknown_labels=self._n_unknown,
            trusted=True,
        )

    def _map(self, name: str, dtype: Any) -> Array:
        path = self._folder / name
        return np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)

    def _map_indices(self, name: str) -> Array:
        """Memory-map indices; if there are too many for int32 pointers, widen them to int64 on disk."""
        narrow = self._map(name, np.int32)
        if narrow.size <= LARGEST:
            return narrow
        with open(self._folder / f"{name}-wide", "wb") as stream:
            for begin in range(0, narrow.size, SETTINGS.text_block):
                stream.write(narrow[begin : begin + SETTINGS.text_block].astype(np.int64).data)
        return self._map(f"{name}-wide", np.int64)


_work: Any = None  # the pass that a worker process applies to blocks


def _set_work(work: Any) -> None:
    global _work
    _work = work


def _run_work(block: LineBlock | DocumentBlock) -> Any:
    return _work(block)


def _map_blocks(work: Callable[[Any], Any], blocks: _BlockSource, n_jobs: int) -> Iterator[Any]:
    """Yield the result of a pass for each block, in file order; at most 2 * n_jobs blocks are in flight."""
    if n_jobs == 1:
        yield from map(work, blocks)
        return
    with _processes(n_jobs, work) as pool:
        pending: deque[Future[Any]] = deque()
        for block in blocks:
            pending.append(pool.submit(_run_work, block))
            if len(pending) > 2 * n_jobs:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


@contextmanager
def _processes(n_jobs: int, work: Any) -> Iterator[ProcessPoolExecutor]:
    pool = spawn_pool(n_jobs, _set_work, work)
    try:
        yield pool
    except BrokenExecutor as error:
        raise UnmissedError("a worker process was killed, probably out of memory; use fewer --jobs") from error
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class _BlockSource:
    """A source as blocks; each iteration reads it again."""

    source: PathLike
    options: ReadOptions
    progress: Progress

    def __iter__(self) -> Iterator[Any]:
        reader = find_reader(self.source)
        return self._lines(reader) if isinstance(reader, LineReader) else self._documents()

    def _lines(self, reader: LineReader) -> Iterator[LineBlock]:
        """Yield a file with a document per line in blocks of complete lines."""
        first, kept = 1, bytearray()
        for buffer, end, _ in line_blocks(self.source, self.progress, encoding=self.options.columns.encoding):
            kept += buffer[:end]
            if len(kept) >= SETTINGS.text_block:
                yield LineBlock(str(self.source), first, bytes(kept), reader, self.options)
                first += kept.count(b"\n")
                kept.clear()
        if kept:
            yield LineBlock(str(self.source), first, bytes(kept), reader, self.options)

    def _documents(self) -> Iterator[DocumentBlock]:
        """Yield documents of other formats in blocks of about `SETTINGS.text_block` characters."""
        held: list[tuple[str, list[str]]] = []
        size = 0
        for text, labels in Documents(self.source, self.options).pairs(self.progress):
            held.append((text, labels))
            size += len(text) + 64 * (1 + len(labels))
            if size >= SETTINGS.text_block:
                yield DocumentBlock(held)
                held, size = [], 0
        if held:
            yield DocumentBlock(held)
