"""Which file holds what: `load` and `load_labels` look at a path, read it, and match it to the training set."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from unmissed.archive import is_archive
from unmissed.data.columns import Columns
from unmissed.data.dataset import Dataset, Origin
from unmissed.data.documents import Reading, Source, binarize, name_of
from unmissed.data.forms import JSON, form_of, holds_text
from unmissed.data.names import names_beside, titles_beside
from unmissed.data.npz import read_pair, split_pair, write_npz
from unmissed.data.store import open_labels, open_store, write_store
from unmissed.data.streams import bare_suffix
from unmissed.data.text import TextFeatures
from unmissed.data.unicode import find_name, index_names
from unmissed.data.vectorizers import is_vectorizer
from unmissed.data.xmc_text import read_xmc, write_xmc
from unmissed.errors import InputError
from unmissed.matrices import assemble
from unmissed.progress import Progress, silent

PathLike = str | os.PathLike[str]

__all__ = ["holds_text", "load", "load_labels", "read_texts", "save", "target_form"]


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
    """Read a data set: XMC text, a store folder, a pair of `.npz` files, or texts with labels.

    Texts come from JSON lines, CSV, TSV, Parquet (with pyarrow), a folder of texts with files of tags, or a data frame.

    Parameters
    ----------
    path : the file or folder, or a data frame; for a pair of scipy's files `X.npz,Y.npz`
    like : the training set. Text goes through its text features, labels are matched to its label names (unknown ones
        are left out and counted in `n_unknown_labels`), and sizes must agree.
    text : how texts become features; fitted on this file, unless it is fitted already; scikit-learn's TfidfVectorizer
        is taken, too. Or the column of the texts
    labels : the column of the labels, short for `columns=Columns(labels=...)`
    columns : where a table, or JSON lines, keep texts, labels and ids, and what stands between labels
    header, one_based : for XMC text: whether the first line holds the sizes, whether indices begin with 1. A table
        without a header has columns 1, 2, 3 and so on
    """
    form = form_of(path)
    columns = _columns(columns, text, labels)
    if is_vectorizer(text):
        text = TextFeatures.from_vectorizer(text)
    if holds_text(path):
        features = None if isinstance(text, str) else text
        dataset = _load_texts(path, like, features, Reading(columns, header), progress)
    elif form == "xmc":
        dataset = _load_xmc(path, like, header, one_based, columns.unicode_normalization, progress)
    elif form == "npz":
        dataset = read_pair(_pair(path), columns.unicode_normalization)
    else:
        dataset = open_store(path)
    if like is not None:
        return dataset if holds_text(path) else _match(path, dataset, like)
    if isinstance(path, str | os.PathLike):
        options = {"header": header, "one_based": one_based, "columns": dataclasses.asdict(columns)}
        vars(dataset)["origin"] = Origin(_absolute(path), options)
    return dataset


def load_again(origin: Origin, *, text: TextFeatures | None = None, progress: Progress = silent) -> Dataset:
    """Read a data set from where it was read before, in the same way; texts through features that are fitted."""
    options = dict(origin.options)
    try:
        columns = Columns(**{"unicode_normalization": "none", **options.pop("columns", {})})  # older runs do not say
        header, one_based = bool(options.pop("header", True)), bool(options.pop("one_based", False))
    except TypeError as error:
        raise InputError(f"{origin.path}: was read with columns that are not known: {error}") from error
    if options:
        raise InputError(f"{origin.path}: was read with an option that is not known, {min(options)!r}")
    return load(origin.path, text=text, columns=columns, header=header, one_based=one_based, progress=progress)


def save(dataset: Dataset, path: PathLike, *, progress: Progress = silent) -> None:
    """Write a data set in the form that the path names: `.txt` (also `.gz`, `.xz`), `X.npz,Y.npz`, or a store folder.

    Nothing that exists is overwritten: it stays if it holds the same, and is refused if not.
    """
    form = target_form(path)
    if form == "json":
        raise InputError(f"{path}: JSON lines hold texts, and a data set holds features; convert the file of the texts")
    if form == "npz":
        write_npz(dataset, _pair(path))
    elif form == "xmc":
        write_xmc(dataset, path, keep_same=True, progress=progress)
    else:
        write_store(dataset, path, keep_same=True)


def target_form(path: PathLike) -> str:
    """Return the form in which `save` would write to this path, or say why it would not."""
    pair, suffix = split_pair(path), bare_suffix(path)
    if pair is None and suffix not in (".txt", "", *JSON):
        raise InputError(
            f"{path}: cannot write {suffix}; expected a folder, .txt, .jsonl, both also .gz or .xz, or 'X.npz,Y.npz'"
        )
    for place in pair or (Path(path),):
        is_store = pair is None and suffix == ""
        if place.exists() and not is_archive(place) if is_store else place.is_dir():  # else its content is compared
            raise InputError(f"{place}: exists already; remove it or choose another name")
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
    """Read Y alone, its label names, and how many label marks were left out because `like_names` does not know them.

    With `keep_unknown` these marks stay: their labels get columns behind those of `like_names`, sorted by name.
    """
    form = form_of(path)
    columns = columns or Columns()
    if holds_text(path):
        label_lists, _ = Reading(columns, header).label_lists(path, progress)
        return binarize(label_lists, like_names, keep_unknown=keep_unknown)
    wanted = n_labels if like_names is None else len(like_names)
    n_missing = 0  # what was left out when a store was made
    if form == "xmc":
        _, Y = read_xmc(path, header=header, one_based=one_based, n_labels=wanted, progress=progress)
        names = names_beside(path, "labels.txt", Y.shape[1], columns.unicode_normalization)
    elif form == "npz":
        dataset = read_pair(_pair(path), columns.unicode_normalization)
        Y, names = dataset.Y, dataset.label_names
    else:
        Y, names, n_missing = open_labels(path)
    if keep_unknown and names is not None and like_names is not None:
        known = index_names(like_names)
        found = {names[label] for label in np.unique(Y.indices)}
        like_names = [*like_names, *sorted(name for name in found if find_name(known, name) < 0)]
        wanted = len(like_names)
    Y, n_unknown = _match_labels(path, Y, names, like_names, wanted)
    return Y, names if like_names is None else like_names, n_missing + n_unknown


def read_texts(path: Source, progress: Progress = silent, *, columns: Columns | None = None) -> list[str]:
    """Read the texts of JSON lines or a table; their labels need not be there."""
    if not holds_text(path):
        raise InputError(f"{path}: holds no texts; expected JSON lines ({', '.join(JSON)}, also .gz or .xz) or a table")
    return list(Reading(columns or Columns()).texts_and_ids(path, progress)[0])


def _columns(columns: Columns | None, text: Any, labels: str | None) -> Columns:
    """Return the columns with those that were named apart."""
    named = {"text": text} if isinstance(text, str) else {}
    if labels is not None:
        named["labels"] = labels
    return dataclasses.replace(columns or Columns(), **named)


def _pair(path: PathLike) -> tuple[Path, Path]:
    pair = split_pair(path)
    assert pair is not None
    return pair


def _absolute(path: PathLike) -> str:
    """Return a path, or a pair of paths, that means the same in any working directory."""
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
        label_names=names_beside(path, "labels.txt", Y.shape[1], normalization),
        feature_names=names_beside(path, "features.txt", X.shape[1], normalization),
        trusted=True,
    )


def _load_texts(
    path: Source, like: Dataset | None, text: TextFeatures | None, reading: Reading, progress: Progress
) -> Dataset:
    if like is not None:
        if like.text is None or like.label_names is None:
            raise InputError(f"{name_of(path)}: holds texts, but the training set's features were not made from text")
        text = like.text
    texts, label_lists, figures = reading.texts_and_labels(
        path, progress
    )  # each text is let go once its terms are counted
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
            titles_beside(path, names, reading.columns.unicode_normalization) if like is None else like.label_titles
        ),
        text=text,
        n_unknown_labels=n_unknown,
        trusted=True,
    )
    vars(dataset)["documents"] = figures
    return dataset


def _match(path: PathLike, dataset: Dataset, like: Dataset) -> Dataset:
    """Give a data set the training set's columns, or say why it cannot have them."""
    if dataset.n_features != like.n_features:
        raise InputError(f"{path}: has {dataset.n_features} features; the training set has {like.n_features}")
    if dataset.feature_names and like.feature_names and dataset.feature_names != like.feature_names:
        raise InputError(f"{path}: its features have other names than those of the training set")
    Y, n_unknown = _match_labels(path, dataset.Y, dataset.label_names, like.label_names, like.n_labels)
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


def _match_labels(
    path: PathLike,
    Y: sparse.csr_matrix,
    names: Sequence[str] | None,
    like_names: Sequence[str] | None,
    n_labels: int | None,
) -> tuple[sparse.csr_matrix, int]:
    """Put Y's columns into the order of `like_names`; returns it and the number of marks left out."""
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
