"""The training rows of a run: read again from the sources in its manifest, and joined with new rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.data import Dataset, TextFeatures
from unmissed.data.dataset import Origin
from unmissed.data.documents import Documents
from unmissed.data.encodings import UTF8
from unmissed.data.formats import files_of, find_reader
from unmissed.data.readers.reader import DocumentReader, ReadOptions
from unmissed.data.sources import load_again, origin_options
from unmissed.data.unicode import find_name, index_names
from unmissed.errors import InputError
from unmissed.matrices import check_Y
from unmissed.progress import Progress, silent
from unmissed.runs.run import Run
from unmissed.runs.run_folder import Source

DatasetOrPath = Dataset | str | os.PathLike[str]
_USE_OLD_ROWS = "pass its path (--old-rows)"


class JoinedRows(NamedTuple):
    """Old and new rows as one data set, and the number of rows replaced by later ones with the same features."""

    dataset: Dataset
    n_replaced: int


def sources_of(run: Run) -> list[Source]:
    """Return the distinct sources of a run, in the order in which they were added."""
    by_digest: dict[str, Source] = {}
    for part in run.parts:
        for source in part.sources:
            by_digest.setdefault(source.digest, source)
    return list(by_digest.values())


def reading_of(run: Run) -> ReadOptions:
    """Return the columns of the texts that a run was trained on, and whether they had a header.

    `predict`, `evaluate` and others read new files with the same. An encoding is not remembered: a text that is read
    with a wrong one may look valid. Runs that were not trained on texts have the defaults.
    """
    if run.recipe.text is None:
        return ReadOptions()
    source = next((one for one in sources_of(run) if one.path is not None), None)
    known = ReadOptions() if source is None else origin_options(Origin(str(source.path), source.options))
    fields = run.recipe.text.get("fields", known.columns.text)  # known also if the training data was a store
    return ReadOptions(known.header, columns=replace(known.columns, encoding=UTF8, text=fields))


def read_old_rows(
    run: Run,
    old_rows: Sequence[DatasetOrPath] = (),
    *,
    text: Callable[[], TextFeatures | None] | None = None,
    progress: Progress = silent,
) -> list[Dataset]:
    """Return the data sets that a run was trained on: those in `old_rows`, the others read from their sources.

    Digests must be those of training. A path is read with the options of training. If the run has no sources,
    `old_rows` must have the digests of its parts. `text` returns the text features for the next file, by default the
    run's own.
    """
    make_text = (lambda: run.text) if text is None else text
    sources = sources_of(run) or [Source(None, str(part.digest), part.n_samples) for part in run.parts]
    matched = (_match_source(run, one, sources, make_text, progress) for one in old_rows)
    here = {source.digest: rows for source, rows in matched}
    return [here.get(source.digest) or _read(run, source, make_text, progress) for source in sources]


def training_documents(run: Run, old_rows: Sequence[DatasetOrPath] = ()) -> Documents | None:
    """Return the documents that a run was trained on, if it was trained on one file of documents, else None.

    `old_rows` has the new path of the file if it was moved.
    """
    sources = sources_of(run)
    if len(sources) != 1 or sources[0].path is None:
        return None
    paths = [os.fspath(one) for one in old_rows if not isinstance(one, Dataset)]
    path = paths[0] if paths else sources[0].path
    _check_exists(run, files_of(path))
    if not isinstance(find_reader(path), DocumentReader):
        return None
    return Documents(path, origin_options(Origin(path, sources[0].options)))


def join(
    run: Run,
    old: Sequence[Dataset],
    new: Dataset | None = None,
    dropped: Collection[str] = (),
    text: TextFeatures | None = None,
    kept: Sequence[npt.NDArray[np.int64]] | None = None,
) -> JoinedRows:
    """Stack old and new rows; columns are the run's labels, then the labels that only the new rows have.

    A later row replaces an earlier one with the same features: it is the same document with new labels.

    Parameters
    ----------
    run : the run that was trained on the old rows
    old, new : its rows, and further ones
    dropped : names of labels that are left out
    text : the text features of the rows, by default the run's own
    kept : the rows of each data set that are kept; by default those that no later one replaces
    """
    text = run.text if text is None else text
    names = _all_names(run, new, dropped)
    n_labels = max(run.n_labels, 0 if new is None else new.n_labels) if names is None else len(names)
    position = {} if names is None else index_names(names)
    every = [*old, *([] if new is None else [new])]
    for dataset in every if text is run.text else ():
        _check_features(run, dataset)
    kept = latest([list(row_digests(dataset)) for dataset in every]) if kept is None else kept
    dataset = Dataset(
        sp.vstack([one.X[rows] for one, rows in zip(every, kept, strict=True)], format="csr"),
        check_Y(sp.vstack([_columns(one, position, n_labels)[rows] for one, rows in zip(every, kept, strict=True)])),
        label_names=names,
        label_titles=_all_titles(run, new, names),
        feature_names=run.feature_names if text is None else text.terms_,
        text=text,
        trusted=True,
        dense=_joined_dense(every, kept) if run.n_dense else None,
        vocabulary=run.vocabulary,
    )
    return JoinedRows(dataset, sum(one.n_samples - len(rows) for one, rows in zip(every, kept, strict=True)))


def _match_source(
    run: Run,
    old_rows: DatasetOrPath,
    sources: Sequence[Source],
    make_text: Callable[[], TextFeatures | None],
    progress: Progress,
) -> tuple[Source, Dataset]:
    """Return the source of the run that has the digest of `old_rows`, and its rows; raise if there is none."""
    for source in sources:
        if isinstance(old_rows, Dataset):
            dataset = old_rows
        else:
            dataset = load_again(Origin(os.fspath(old_rows), source.options), text=make_text(), progress=progress)
        if dataset.source_digest == source.digest:
            return source, dataset
    named = f"digest {old_rows.digest[:12]}" if isinstance(old_rows, Dataset) else os.fspath(old_rows)
    raise InputError(f"{run.folder}: was not trained on these old rows ({named})")


def _read(run: Run, source: Source, make_text: Callable[[], TextFeatures | None], progress: Progress) -> Dataset:
    """Read a source again; raise if it is missing or has changed."""
    if source.path is None:
        known = f"its digest is {source.digest[:12]}"
        raise InputError(f"{run.folder}: does not know where its training data is ({known}); {_USE_OLD_ROWS}")
    _check_exists(run, [*files_of(source.path), *filter(None, [source.options.get("dense")])])
    dataset = load_again(Origin(source.path, source.options), text=make_text(), progress=progress)
    if dataset.digest != source.digest:
        embedded = run.text is not None and run.text.encoder is not None and dataset.store is None
        advice = ", or its embeddings were computed on another machine: train on a store" if embedded else ""
        raise InputError(
            f"{source.path}: is not what {run.folder} was trained on: digest {dataset.digest[:12]}, expected "
            f"{source.digest[:12]}; {_USE_OLD_ROWS}{advice}"
        )
    return dataset


def _check_exists(run: Run, files: Sequence[Any]) -> None:
    """Raise InputError unless the files of training data exist."""
    if not all(map(os.path.exists, files)):
        where = ",".join(map(str, files))
        raise InputError(f"{run.folder}: its training data is not where it was, {where}; {_USE_OLD_ROWS}")


def check_parts(run: Run, dataset: Dataset) -> None:
    """Raise InputError unless a data set has as many sparse and dense features as a run."""
    if dataset.n_dense != run.n_dense:
        advice = "; give them (--dense)" if not dataset.n_dense else ""
        raise InputError(f"the data has {dataset.n_dense} dense features; the run has {run.n_dense}{advice}")
    if dataset.n_features != run.n_features:
        raise InputError(f"the data has {dataset.n_features} features; the run has {run.n_features}")


def _check_features(run: Run, dataset: Dataset) -> None:
    check_parts(run, dataset)
    if dataset.feature_names and run.feature_names and dataset.feature_names != run.feature_names:
        raise InputError(f"the features of the data have other names than those of {run.folder}")


def _all_names(run: Run, new: Dataset | None, dropped: Collection[str]) -> list[str] | None:
    if new is None:
        return None if run.label_names is None else [name for name in run.label_names if name not in dropped]
    if (run.label_names is None) != (new.label_names is None):
        who = "the run" if run.label_names is None else "the data"
        raise InputError(f"{who} has no label names, so old and new labels cannot be matched")
    if run.label_names is None or new.label_names is None:
        return None
    known = index_names(run.label_names)
    every = [*run.label_names, *(name for name in new.label_names if find_name(known, name) < 0)]
    return [name for name in every if name not in dropped]


def _all_titles(run: Run, new: Dataset | None, names: list[str] | None) -> list[str] | None:
    """Return the titles of all labels, by default their names; None if no label has a title."""
    more = None if new is None else new.label_titles
    if names is None or (run.label_titles is None and more is None):
        return None
    title = {} if new is None else dict(zip(new.label_names or [], more or [], strict=False))
    if run.vocabulary is not None:
        title |= {name: run.vocabulary.titles[one] for name in names if (one := run.vocabulary.find(name)) >= 0}
    title |= dict(zip(run.label_names or [], run.label_titles or [], strict=False))
    return [title.get(name, name) for name in names]


def _columns(dataset: Dataset, position: dict[str, int], n_labels: int) -> sp.csr_matrix:
    """Return Y of a data set with the columns of the joined one."""
    columns, ends, values = dataset.Y.indices, dataset.Y.indptr, dataset.Y.data
    if dataset.label_names is not None:
        columns = np.array([find_name(position, name) for name in dataset.label_names], dtype=np.int64)[columns]
        kept = columns >= 0  # labels that were dropped from the run have no column
        columns, values, ends = columns[kept], values[kept], np.append(0, np.cumsum(kept))[ends]
    return sp.csr_matrix((values, columns, ends), shape=(dataset.n_samples, n_labels))


def latest(digests: Sequence[Sequence[bytes]]) -> list[npt.NDArray[np.int64]]:
    """Return for each data set the rows that no later one replaces, by their digests; empty rows (b"") are kept."""
    later: set[bytes] = set()
    kept = []
    for rows in reversed(digests):
        kept.append(np.array([at for at, row in enumerate(rows) if not row or row not in later], dtype=np.int64))
        later.update(rows)
    return kept[::-1]


def _joined_dense(every: Sequence[Dataset], kept: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[Any]:
    """Return the dense parts of the rows that are kept."""
    parts = [one.dense[rows] for one, rows in zip(every, kept, strict=True) if one.dense is not None]
    return np.concatenate(parts)


def row_digests(dataset: Dataset) -> Iterator[bytes]:
    """Yield a digest of the features of each row; b"" for an empty row without a dense part."""
    X, dense = dataset.X, dataset.dense
    indices, values = X.indices.astype("<i4", copy=False), X.data.astype("<f4", copy=False)
    pointers = X.indptr.tolist()
    for number, (begin, end) in enumerate(pairwise(pointers)):
        row = indices[begin:end].tobytes() + values[begin:end].tobytes()
        if dense is not None:
            row += dense[number].astype("<f4").tobytes()
        yield blake2b(row, digest_size=16).digest() if row else b""
