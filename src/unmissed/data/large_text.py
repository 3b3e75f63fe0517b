"""Documents in any number into a store in bounded memory: a pass for terms and labels, a pass for rows.

What is held is the vocabulary, the labels' names, and a few blocks of lines; rows go to files as they are made. Blocks
are worked on by processes, in the order of the file, so that the store is the same for any number of them.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.data.dataset import Dataset
from unmissed.data.documents import Reading
from unmissed.data.forms import form_of
from unmissed.data.json_lines import documents
from unmissed.data.names import titles_beside
from unmissed.data.store import write_store
from unmissed.data.streams import line_blocks
from unmissed.data.text import TextFeatures
from unmissed.data.unicode import index_names
from unmissed.errors import InputError, UnmissedError
from unmissed.matrices import LARGEST, assemble
from unmissed.progress import Progress, silent
from unmissed.writing import naming, scratch_folder

_BLOCK = 1 << 22  # bytes of lines that a process takes at a time

PathLike = str | os.PathLike[str]
Array = npt.NDArray[Any]


class Block(NamedTuple):
    """Whole lines of a file, and the number of the first."""

    path: str
    first: int
    content: bytes
    reading: Reading

    def read(self) -> list[tuple[str, list[str]]]:
        """Return the text and the labels of each line."""
        numbered = enumerate(self.content.split(b"\n")[:-1], start=self.first)
        found = documents(self.path, ((number, line.removesuffix(b"\r")) for number, line in numbered))
        columns = self.reading.columns
        return [columns.text_and_labels(where, one) for where, one in found]


class Pairs(NamedTuple):
    """Documents of another form than lines: they were taken apart when they were read."""

    held: list[tuple[str, list[str]]]

    def read(self) -> list[tuple[str, list[str]]]:
        """Return the text and the labels of each document."""
        return self.held


@dataclass
class Found:
    """What the first pass finds: how many documents there are and have each term, its occurrences, and the labels."""

    n_documents: int = 0
    frequency: Counter[str] = field(default_factory=Counter)
    occurrences: Counter[str] = field(default_factory=Counter)
    labels: set[str] = field(default_factory=set)

    def add(self, other: Found) -> None:
        """Take in what was found in another block."""
        self.n_documents += other.n_documents
        self.frequency.update(other.frequency)
        self.occurrences.update(other.occurrences)
        self.labels |= other.labels


@dataclass(frozen=True)
class FindTerms:
    """The first pass over a block."""

    text: TextFeatures

    def __call__(self, block: Block | Pairs) -> Found:
        """Count the documents of each term, and collect labels; occurrences only where terms are chosen by them."""
        found = Found()
        for text, labels in block.read():
            terms = self.text.terms_in(text)
            found.n_documents += 1
            found.frequency.update(set(terms))
            found.labels.update(labels)
            if self.text.max_features is not None:
                found.occurrences.update(terms)
        return found


class Part(NamedTuple):
    """Rows of a block: values, features and lengths of X, labels and lengths of Y, and marks that were left out."""

    values: Array
    features: Array
    n_features: Array
    labels: Array
    n_labels: Array
    n_unknown: int


class MakeRows:
    """The second pass over a block."""

    def __init__(self, text: TextFeatures, names: Sequence[str]) -> None:
        self.text = text
        if len(set(names)) != len(names):
            raise InputError("label names are not unique; labels cannot be matched by name")
        self.columns = index_names(names)

    def __call__(self, block: Block | Pairs) -> Part:
        """Weigh the terms of each document, and number its labels."""
        read = block.read()
        X = self.text.transform([text for text, _ in read])
        known: list[list[int]] = []
        n_unknown = 0
        for _, labels in read:
            distinct = set(labels)
            known.append(sorted({self.columns[name] for name in distinct if name in self.columns}))
            n_unknown += sum(name not in self.columns for name in distinct)
        marks = np.array([label for labels in known for label in labels], np.int32)
        lengths = np.array([len(labels) for labels in known], np.int64)
        return Part(X.data, X.indices.astype(np.int32), np.diff(X.indptr).astype(np.int64), marks, lengths, n_unknown)


def convert_text(
    source: PathLike,
    target: PathLike,
    *,
    text: TextFeatures | None = None,
    like: Dataset | None = None,
    reading: Reading | None = None,
    n_jobs: int = 1,
    progress: Progress = silent,
) -> None:
    """Write JSON lines, a table or another form of texts as a store, the one that `load` and `save` would have made.

    Parameters
    ----------
    source : the file or folder
    target : the new folder; one that holds the same data already stays
    text : how text becomes features; learned from the file
    like : the training set, whose features and labels a test set gets
    reading : where the source keeps texts and labels
    n_jobs : processes; no effect on the store
    progress : told how much of the file is read, in each pass
    """
    blocks = _Blocks(source, reading or Reading(), progress)
    if like is not None:
        if like.text is None or like.label_names is None:
            raise InputError(f"{source}: holds texts, but the training set's features were not made from text")
        text, names, titles = like.text, like.label_names, like.label_titles
    else:
        form = blocks.reading.columns.unicode_normalization
        features = TextFeatures(unicode_normalization=form) if text is None else replace(text)
        text, names = _learn(blocks, features, n_jobs)
        titles = titles_beside(source, names, form)
    with scratch_folder(target) as aside, naming(target, aside):
        with _Written(aside) as written:
            for part in _each(MakeRows(text, names), blocks, n_jobs):
                written.add(part)
        write_store(written.dataset(source, text, names, titles), target, keep_same=True)


def _learn(blocks: _Blocks, text: TextFeatures, n_jobs: int) -> tuple[TextFeatures, list[str]]:
    """Do the first pass: learn the terms and their weights, and the names of the labels."""
    found = Found()
    for one in _each(FindTerms(text), blocks, n_jobs):
        found.add(one)
    if not found.n_documents:
        raise InputError(f"{blocks.source}: holds no documents")
    text.learn(found.frequency, found.occurrences, found.n_documents)
    return text, sorted(found.labels)


class _Written:
    """Rows as they come, in raw files of a folder, and the data set that they make in the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._streams: dict[str, IO[bytes]] = {}
        self._opened = ExitStack()
        self._n_unknown = 0

    def __enter__(self) -> _Written:
        for name in ("values", "features", "n_features", "labels", "n_labels"):
            self._streams[name] = self._opened.enter_context(open(self._folder / name, "wb"))
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def add(self, part: Part) -> None:
        """Append the rows of a block."""
        for name, stream in self._streams.items():
            stream.write(getattr(part, name).data)
        self._n_unknown += part.n_unknown

    def dataset(self, source: PathLike, text: TextFeatures, names: list[str], titles: list[str] | None) -> Dataset:
        """Return all rows, mapped from the files."""
        indptr = {
            name: np.concatenate([[0], np.cumsum(self._map(name, np.int64))]) for name in ("n_features", "n_labels")
        }
        n_samples = indptr["n_features"].size - 1
        if not n_samples:
            raise InputError(f"{source}: holds no documents")
        assert text.terms_ is not None
        X = (self._map("values", np.float32), self._wide("features"), indptr["n_features"])
        marks = self._wide("labels")
        Y = (np.ones(marks.size, np.float32), marks, indptr["n_labels"])
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

    def _wide(self, name: str) -> Array:
        """Map indices; more than 32 bits can count are copied to a wider file, not to memory."""
        narrow = self._map(name, np.int32)
        if narrow.size <= LARGEST:
            return narrow
        with open(self._folder / f"{name}-wide", "wb") as stream:
            for begin in range(0, narrow.size, _BLOCK):
                stream.write(narrow[begin : begin + _BLOCK].astype(np.int64).data)
        return self._map(f"{name}-wide", np.int64)


_work: Any = None  # what a worker process does with blocks


def _begin(work: Any) -> None:
    global _work
    _work = work


def _do(block: Block | Pairs) -> Any:
    return _work(block)


def _each(work: Callable[[Any], Any], blocks: _Blocks, n_jobs: int) -> Iterator[Any]:
    """Yield what a pass makes of each block, in the order of the file; few blocks are held at a time."""
    if n_jobs == 1:
        yield from map(work, blocks)
        return
    with _processes(n_jobs, work) as pool:
        waiting: deque[Future[Any]] = deque()
        for block in blocks:
            waiting.append(pool.submit(_do, block))
            if len(waiting) > 2 * n_jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def _processes(n_jobs: int, work: Any) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(n_jobs, get_context("spawn"), initializer=_begin, initargs=(work,))
    try:
        yield pool
    except BrokenExecutor as error:
        raise UnmissedError("a process was killed (out of memory?); fewer --jobs need less") from error
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class _Blocks:
    """A source in blocks, as often as it is gone over."""

    source: PathLike
    reading: Reading
    progress: Progress

    def __iter__(self) -> Iterator[Any]:
        return self._lines() if form_of(self.source) == "json" else self._pairs()

    def _lines(self) -> Iterator[Block]:
        """Give a file in blocks of whole lines."""
        first, kept = 1, bytearray()
        for buffer, end, _ in line_blocks(self.source, self.progress, encoding=self.reading.columns.encoding):
            kept += buffer[:end]
            if len(kept) >= _BLOCK:
                yield Block(str(self.source), first, bytes(kept), self.reading)
                first += kept.count(b"\n")
                kept.clear()
        if kept:
            yield Block(str(self.source), first, bytes(kept), self.reading)

    def _pairs(self) -> Iterator[Pairs]:
        """Give documents, some millions of characters at a time."""
        held: list[tuple[str, list[str]]] = []
        size = 0
        for text, labels in self.reading.pairs(self.source, self.progress):
            held.append((text, labels))
            size += len(text) + 64 * (1 + len(labels))
            if size >= _BLOCK:
                yield Pairs(held)
                held, size = [], 0
        if held:
            yield Pairs(held)
