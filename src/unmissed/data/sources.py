"""`load`, `save` and `load_labels`: detect the format of a path, read it, and align it with the training set."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from unmissed.archive import is_archive
from unmissed.data.dataset import Dataset, Origin
from unmissed.data.documents import DocumentReader, Source, binarize, name_of
from unmissed.data.formats import JSON, format_of, holds_text
from unmissed.data.names import read_name_files, read_title_file
from unmissed.data.readers.npz import read_pair, split_pair, write_npz
from unmissed.data.readers.xmc_text import read_xmc, write_xmc
from unmissed.data.store import open_labels, open_store, write_store
from unmissed.data.streams import bare_suffix
from unmissed.data.table_columns import Columns
from unmissed.data.text import TextFeatures
from unmissed.data.unicode import find_name, index_names
from unmissed.data.vectorizers import is_vectorizer
from unmissed.errors import InputError
from unmissed.matrices import assemble
from unmissed.progress import Progress, silent

PathLike = str | os.PathLike[str]
_logger = logging.getLogger(__name__)

__all__ = ["holds_text", "load", "load_labels", "read_texts", "save", "target_format"]


def load(
    path: Source,
    *,
    like: Dataset | None = None,
    text: TextFeatures | str | None = None,
    labels: str | None = None,
    columns: Columns | None = None,
    header: bool = True,
    one_based: bool = False,
    progress: Progress = silent,
) -> Dataset:
    """Load a data set from XMC text, a store, a pair of `.npz` files, or documents with labels.

    Documents come from JSON lines, CSV, TSV, Parquet (with pyarrow), a folder of text and tag files, or a data frame.

    Parameters
    ----------
    path : file, folder or data frame; `X.npz,Y.npz` for a pair of scipy's files
    like : training set. Its text features transform the texts, and labels are matched by name to its labels: unknown
        labels are left out and counted in `n_unknown_labels`. Sizes must agree.
    text : text features, fitted on this file unless they are fitted already; scikit-learn's TfidfVectorizer is
        accepted. A string is the name of the text column
    labels : name of the label column, short for `columns=Columns(labels=...)`
    columns : names of the columns of texts, labels and ids, and the label separator
    header, one_based : for XMC text: whether the first line holds the sizes, whether indices start at 1. Columns of a
        table without a header are named 1, 2, 3, ...
    progress : progress callback
    """
    source_format = format_of(path)
    _logger.info("reading %s", path if isinstance(path, str | os.PathLike) else type(path).__name__)
    columns = _columns(columns, text, labels)
    if is_vectorizer(text):
        text = TextFeatures.from_vectorizer(text)
    if holds_text(path):
        features = None if isinstance(text, str) else text
        dataset = _load_texts(path, like, features, DocumentReader(columns, header), progress)
    elif source_format == "xmc":
        dataset = _load_xmc(path, like, header, one_based, columns.unicode_normalization, progress)
    elif source_format == "npz":
        dataset = read_pair(_pair(path), columns.unicode_normalization)
    else:
        dataset = open_store(path)
    if like is not None:
        return dataset if holds_text(path) else _align(path, dataset, like)
    if isinstance(path, str | os.PathLike):
        options = {"header": header, "one_based": one_based, "columns": dataclasses.asdict(columns)}
        vars(dataset)["origin"] = Origin(_absolute(path), options)
    return dataset


def load_again(origin: Origin, *, text: TextFeatures | None = None, progress: Progress = silent) -> Dataset:
    """Load a data set again from its origin, with the same options; `text` has the fitted text features."""
    options = dict(origin.options)
    try:
        columns = Columns(**{"unicode_normalization": "none", **options.pop("columns", {})})  # absent in older runs
        header, one_based = bool(options.pop("header", True)), bool(options.pop("one_based", False))
    except TypeError as error:
        raise InputError(f"{origin.path}: was read with unknown column options: {error}") from error
    if options:
        raise InputError(f"{origin.path}: was read with the unknown option {min(options)!r}")
    return load(origin.path, text=text, columns=columns, header=header, one_based=one_based, progress=progress)


def save(dataset: Dataset, path: PathLike, *, progress: Progress = silent) -> None:
    """Write a data set in the format of the path: `.txt` (also `.gz`, `.xz`), `X.npz,Y.npz`, or a store folder.

    Existing files are never overwritten: equal contents are kept, others raise InputError.
    """
    file_format = target_format(path)
    if file_format == "json":
        raise InputError(f"{path}: JSON lines hold texts, and a data set holds features; convert the file of the texts")
    if file_format == "npz":
        write_npz(dataset, _pair(path))
    elif file_format == "xmc":
        write_xmc(dataset, path, keep_same=True, progress=progress)
    else:
        write_store(dataset, path, keep_same=True)


def target_format(path: PathLike) -> str:
    """Return the format in which `save` would write to this path; raise InputError if it would not."""
    pair, suffix = split_pair(path), bare_suffix(path)
    if pair is None and suffix not in (".txt", "", *JSON):
        raise InputError(
            f"{path}: cannot write {suffix}; expected a folder, .txt, .jsonl, both also .gz or .xz, or 'X.npz,Y.npz'"
        )
    for position in pair or (Path(path),):
        is_store = pair is None and suffix == ""
        if (
            position.exists() and not is_archive(position) if is_store else position.is_dir()
        ):  # else its content is compared
            raise InputError(f"{position}: exists already; remove it or choose another name")
    if pair is not None:
        return "npz"
    return {".txt": "xmc", "": "store"}.get(suffix, "json")


def load_labels(
    path: Source,
    *,
    like_names: list[str] | None = None,
    n_labels: int | None = None,
    keep_unknown: bool = False,
    columns: Columns | None = None,
    header: bool = True,
    one_based: bool = False,
    progress: Progress = silent,
) -> tuple[sparse.csr_matrix, list[str] | None, int]:
    """Return Y, its label names, and the number of assignments left out because `like_names` lacks their label.

    With `keep_unknown`, these assignments are kept: their columns follow those of `like_names`, sorted by name.
    """
    source_format = format_of(path)
    columns = columns or Columns()
    if holds_text(path):
        label_lists, _ = DocumentReader(columns, header).label_lists(path, progress)
        return binarize(label_lists, like_names, keep_unknown=keep_unknown)
    n_columns = n_labels if like_names is None else len(like_names)
    n_missing = 0  # assignments left out when a store was written
    if source_format == "xmc":
        _, Y = read_xmc(path, header=header, one_based=one_based, n_labels=n_columns, progress=progress)
        names = read_name_files(path, "labels.txt", Y.shape[1], columns.unicode_normalization)
    elif source_format == "npz":
        dataset = read_pair(_pair(path), columns.unicode_normalization)
        Y, names = dataset.Y, dataset.label_names
    else:
        Y, names, n_missing = open_labels(path)
    if keep_unknown and names is not None and like_names is not None:
        known = index_names(like_names)
        present = {names[label] for label in np.unique(Y.indices)}
        like_names = [*like_names, *sorted(name for name in present if find_name(known, name) < 0)]
        n_columns = len(like_names)
    Y, n_unknown = _align_labels(path, Y, names, like_names, n_columns)
    return Y, names if like_names is None else like_names, n_missing + n_unknown


def read_texts(path: Source, progress: Progress = silent, *, columns: Columns | None = None) -> list[str]:
    """Return the texts of JSON lines or a table; labels are not required."""
    if not holds_text(path):
        raise InputError(f"{path}: holds no texts; expected JSON lines ({', '.join(JSON)}, also .gz or .xz) or a table")
    return list(DocumentReader(columns or Columns()).texts_and_ids(path, progress)[0])


def _columns(columns: Columns | None, text: Any, labels: str | None) -> Columns:
    """Return `columns` with the text and label columns that were given as separate arguments."""
    named = {"text": text} if isinstance(text, str) else {}
    if labels is not None:
        named["labels"] = labels
    return dataclasses.replace(columns or Columns(), **named)


def _pair(path: PathLike) -> tuple[Path, Path]:
    pair = split_pair(path)
    assert pair is not None
    return pair


def _absolute(path: PathLike) -> str:
    """Return a path, or a pair of paths, as absolute paths."""
    return ",".join(str(one.absolute()) for one in split_pair(path) or (Path(path),))


def _load_xmc(
    path: PathLike, like: Dataset | None, header: bool, one_based: bool, normalization: str, progress: Progress
) -> Dataset:
    X, Y = read_xmc(
        path,
        header=header,
        one_based=one_based,
        n_features=None if like is None else like.n_features,
        n_labels=None if like is None else like.n_labels,
        progress=progress,
    )
    return Dataset(
        X,
        Y,
        label_names=read_name_files(path, "labels.txt", Y.shape[1], normalization),
        feature_names=read_name_files(path, "features.txt", X.shape[1], normalization),
        trusted=True,
    )


def _load_texts(
    path: Source, like: Dataset | None, text: TextFeatures | None, reading: DocumentReader, progress: Progress
) -> Dataset:
    if like is not None:
        if like.text is None or like.label_names is None:
            raise InputError(f"{name_of(path)}: holds texts, but the training set's features were not made from text")
        text = like.text
    texts, label_lists, counts = reading.texts_and_labels(path, progress)  # an iterator: texts are not held in memory
    if text is not None and text.is_fitted:
        X = text.transform(texts)
    else:
        form = reading.columns.unicode_normalization
        text = TextFeatures(unicode_normalization=form) if text is None else dataclasses.replace(text)
        X = text.fit_transform(texts)
    Y, names, n_unknown = binarize(label_lists, None if like is None else like.label_names)
    dataset = Dataset(
        X,
        Y,
        label_names=names,
        feature_names=text.terms_,
        label_titles=(
            read_title_file(path, names, reading.columns.unicode_normalization) if like is None else like.label_titles
        ),
        text=text,
        n_unknown_labels=n_unknown,
        trusted=True,
    )
    vars(dataset)["documents"] = counts
    return dataset


def _align(path: PathLike, dataset: Dataset, like: Dataset) -> Dataset:
    """Return a data set with the columns of the training set; raise InputError if they do not match."""
    if dataset.n_features != like.n_features:
        raise InputError(f"{path}: has {dataset.n_features} features; the training set has {like.n_features}")
    if dataset.feature_names and like.feature_names and dataset.feature_names != like.feature_names:
        raise InputError(f"{path}: its features have other names than those of the training set")
    Y, n_unknown = _align_labels(path, dataset.Y, dataset.label_names, like.label_names, like.n_labels)
    return Dataset(
        dataset.X,
        Y,
        label_names=like.label_names,
        feature_names=like.feature_names,
        label_titles=like.label_titles,
        text=like.text,
        n_unknown_labels=dataset.n_unknown_labels + n_unknown,
        trusted=True,
    )


def _align_labels(
    path: PathLike,
    Y: sparse.csr_matrix,
    names: Sequence[str] | None,
    like_names: Sequence[str] | None,
    n_labels: int | None,
) -> tuple[sparse.csr_matrix, int]:
    """Return Y with the columns of `like_names`, and the number of label assignments left out."""
    if names is None or like_names is None or names == like_names:
        if n_labels is not None and Y.shape[1] != n_labels:
            raise InputError(f"{path}: has {Y.shape[1]} labels; the training set has {n_labels}")
        return Y, 0
    if len(set(like_names)) != len(like_names):
        raise InputError(f"{path}: labels cannot be matched by name: the training set's label names are not unique")
    columns_of = index_names(like_names)
    target = np.array([find_name(columns_of, name) for name in names], dtype=np.int64)[Y.indices]
    known = target >= 0
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))[known]
    order = np.lexsort((target[known], rows))
    columns = target[known][order].astype(np.int32)
    pointers = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=Y.shape[0]))))
    if ((np.diff(columns) == 0) & (np.diff(rows) == 0)).any():
        raise InputError(f"{path}: two of its labels have the same name")
    matched = assemble(np.ones(columns.size, np.float32), columns, pointers, (Y.shape[0], len(like_names)))
    return matched, int(known.size - known.sum())
