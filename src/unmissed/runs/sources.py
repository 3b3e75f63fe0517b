"""The rows that a run was trained on: found again where its manifest says, and joined with new ones."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.data import Dataset
from unmissed.data.dataset import Origin
from unmissed.data.npz import split_pair
from unmissed.data.sources import load_again
from unmissed.data.unicode import find_name, index_names
from unmissed.errors import InputError
from unmissed.progress import Progress, silent
from unmissed.runs.folder import Source
from unmissed.runs.run import Run

Given = Dataset | str | os.PathLike[str]
_SAY = "say where it is (--old-rows)"


class Joined(NamedTuple):
    """Old and new rows as one data set, and how many old rows gave way to a new one with the same features."""

    dataset: Dataset
    n_replaced: int


def sources_of(run: Run) -> list[Source]:
    """Return every source of a run once, in the order in which they came."""
    found: dict[str, Source] = {}
    for part in run.parts:
        for source in part.sources:
            found.setdefault(source.digest, source)
    return list(found.values())


def read_old_rows(run: Run, given: Sequence[Given] = (), *, progress: Progress = silent) -> list[Dataset]:
    """Return the data sets that a run was trained on: those that are given, the others read where they were.

    Each must be what training saw: its digest is compared. What is given as a path is read as it was for training. For
    a run that does not know where its data is, what is given must have the digests of its parts.
    """
    sources = sources_of(run) or [Source(None, str(part.digest), part.n_samples) for part in run.parts]
    here = {source.digest: found for one in given for source, found in [_recognise(run, one, sources, progress)]}
    return [here.get(source.digest) or _read(run, source, progress) for source in sources]


def join(run: Run, old: Sequence[Dataset], new: Dataset) -> Joined:
    """Put rows one below the other under the run's labels and, behind them, those that only the new rows know.

    A row that comes again with the same features replaces the one before it: the same document with new labels.
    """
    names = _all_names(run, new)
    n_labels = max(run.n_labels, new.n_labels) if names is None else len(names)
    place = {} if names is None else index_names(names)
    every = [*old, new]
    for dataset in every:
        _check_features(run, dataset)
    kept = _latest(every)
    dataset = Dataset(
        sp.vstack([one.X[rows] for one, rows in zip(every, kept, strict=True)], format="csr"),
        sp.vstack([_columns(one, place, n_labels)[rows] for one, rows in zip(every, kept, strict=True)], format="csr"),
        label_names=names,
        label_titles=_all_titles(run, new, names),
        feature_names=run.feature_names,
        text=run.text,
    )
    return Joined(dataset, sum(one.n_samples - len(rows) for one, rows in zip(every, kept, strict=True)))


def _recognise(run: Run, given: Given, sources: Sequence[Source], progress: Progress) -> tuple[Source, Dataset]:
    """Return which of a run's sources is given, and its rows."""
    for source in sources:
        if isinstance(given, Dataset):
            dataset = given
        else:
            dataset = load_again(Origin(os.fspath(given), source.options), text=run.text, progress=progress)
        if dataset.digest == source.digest:
            return source, dataset
    named = f"digest {given.digest[:12]}" if isinstance(given, Dataset) else os.fspath(given)
    raise InputError(f"{run.folder}: was not trained on the old rows that are given ({named})")


def _read(run: Run, source: Source, progress: Progress) -> Dataset:
    """Read a source again, or say why it cannot be had."""
    if source.path is None:
        known = f"its digest is {source.digest[:12]}"
        raise InputError(f"{run.folder}: does not know where its training data is ({known}); {_SAY}")
    if not all(place.exists() for place in split_pair(source.path) or (Path(source.path),)):
        raise InputError(f"{run.folder}: its training data is not where it was, {source.path}; {_SAY}")
    dataset = load_again(Origin(source.path, source.options), text=run.text, progress=progress)
    if dataset.digest != source.digest:
        raise InputError(
            f"{source.path}: is not what {run.folder} was trained on: digest {dataset.digest[:12]}, expected "
            f"{source.digest[:12]}; {_SAY}"
        )
    return dataset


def _check_features(run: Run, dataset: Dataset) -> None:
    if dataset.n_features != run.n_features:
        raise InputError(f"the data has {dataset.n_features} features; the run has {run.n_features}")
    if dataset.feature_names and run.feature_names and dataset.feature_names != run.feature_names:
        raise InputError(f"the features of the data have other names than those of {run.folder}")


def _all_names(run: Run, new: Dataset) -> list[str] | None:
    if (run.label_names is None) != (new.label_names is None):
        who = "the run" if run.label_names is None else "the data"
        raise InputError(f"{who} has no label names, so old and new labels cannot be told apart")
    if run.label_names is None or new.label_names is None:
        return None
    known = index_names(run.label_names)
    return [*run.label_names, *(name for name in new.label_names if find_name(known, name) < 0)]


def _all_titles(run: Run, new: Dataset, names: list[str] | None) -> list[str] | None:
    """Return readable names of all labels, where old or new ones have any."""
    if names is None or (run.label_titles is None and new.label_titles is None):
        return None
    title = dict(zip(new.label_names or [], new.label_titles or [], strict=False))
    title |= dict(zip(run.label_names or [], run.label_titles or [], strict=False))
    return [title.get(name, name) for name in names]


def _columns(dataset: Dataset, place: dict[str, int], n_labels: int) -> sp.csr_matrix:
    """Return the labels of a data set under their numbers in the joined one."""
    columns = dataset.Y.indices
    if dataset.label_names is not None:
        columns = np.array([find_name(place, name) for name in dataset.label_names], dtype=np.int64)[columns]
    return sp.csr_matrix((dataset.Y.data, columns, dataset.Y.indptr), shape=(dataset.n_samples, n_labels))


def _latest(datasets: Sequence[Dataset]) -> list[npt.NDArray[np.int64]]:
    """Return which rows of each data set do not come again, with the same features, in a later one."""
    later: set[bytes] = set()
    kept = []
    for dataset in reversed(datasets):
        rows = list(_rows(dataset))
        kept.append(np.array([at for at, row in enumerate(rows) if not row or row not in later], dtype=np.int64))
        later.update(rows)
    return kept[::-1]


def _rows(dataset: Dataset) -> Iterator[bytes]:
    """Give what tells rows apart by their features; nothing for an empty row, which is like no other."""
    X = dataset.X
    indices, values = X.indices.astype("<i4", copy=False), X.data.astype("<f4", copy=False)
    pointers = X.indptr.tolist()
    for begin, end in pairwise(pointers):
        row = indices[begin:end].tobytes() + values[begin:end].tobytes()
        yield hashlib.blake2b(row, digest_size=16).digest() if row else b""
