"""`load`, `save` and `load_labels`: read a source by its format, and align it with the training set."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from unmissed.data.dataset import Dataset, Origin
from unmissed.data.dense_part import Dense, add_dense, check_dense_part, check_one_source
from unmissed.data.documents import Documents, binarize, name_of
from unmissed.data.formats import files_of, find_reader, find_writer, holds_text
from unmissed.data.label_terms import words_of_names
from unmissed.data.names import read_title_file
from unmissed.data.readers.reader import DatasetWriter, DocumentReader, PathLike, ReadOptions, Source
from unmissed.data.table_columns import Columns
from unmissed.data.text import TextFeatures
from unmissed.data.unicode import find_name, index_names
from unmissed.data.vectorizers import is_vectorizer
from unmissed.data.vocabulary import Vocabulary
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.matrices import assemble
from unmissed.progress import Progress, silent

_logger = logging.getLogger(__name__)

__all__ = ["holds_text", "load", "load_labels", "read_texts", "save"]


def load(
    path: Source,
    *,
    like: Dataset | None = None,
    keep_unknown: bool = False,
    text: TextFeatures | str | None = None,
    dense: Dense | None = None,
    labels: str | None = None,
    columns: Columns | None = None,
    header: bool = True,
    one_based: bool = False,
    vocabulary: Vocabulary | None = None,
    unseen: bool = False,
    without: Collection[str] = (),
    progress: Progress = silent,
) -> Dataset:
    """Load a data set: matrices of features and labels, or documents with labels, from any format of the registry.

    Matrices come from XMC text, a store or `.npz` and `.npy` files; documents from JSON lines, CSV, TSV, Parquet (with
    pyarrow), a folder of text and tag files, or a data frame.

    Parameters
    ----------
    path : file, folder or data frame; `X.npz,Y.npz` for a pair of scipy's files, `X.npz,E.npy,Y.npz` with a dense part
    like : training set. Its text features transform the texts, and labels are matched by name to its labels: unknown
        labels are left out and counted in `n_unknown_labels`. Sizes must agree.
    keep_unknown : with `like`, keep the labels that it does not have: their columns follow, sorted by name
    text : text features, fitted on this file unless they are fitted already; scikit-learn's TfidfVectorizer is
        accepted. A string is the name of the text column. Those with an encoder embed the texts
    dense : dense features of the rows, such as embeddings, in addition to those of `path`: an array, or the path of a
        `.npy` file, which is memory-mapped. Fitted text features with an encoder then embed nothing
    labels : name of the label column, short for `columns=Columns(labels=...)`
    columns : names of the columns of texts, labels and ids, and the label separator
    header, one_based : for XMC text: whether the first line holds the sizes, whether indices start at 1. Columns of a
        table without a header are named 1, 2, 3, ...
    vocabulary : the concepts that the labels stand for (`read_vocabulary`), as in `Dataset.with_vocabulary`
    unseen : whether concepts that no row has become labels, too; text features that are fitted here then count the
        words of their names
    without : ids of documents that are left out
    progress : progress callback
    """
    reader = find_reader(path)
    _logger.info("reading %s", path if isinstance(path, str | os.PathLike) else type(path).__name__)
    options = ReadOptions(header, one_based, _columns(columns, text, labels), tuple(sorted(set(without))))
    if is_vectorizer(text):
        text = TextFeatures.from_vectorizer(text)
    if isinstance(reader, DocumentReader):
        features = _text_features(path, like, None if isinstance(text, str) else text, options, dense)
        words = words_of_vocabulary(features, vocabulary) if unseen else set()
        dataset = _load_texts(path, like, features, options, progress, keep_unknown, words, embedded=dense is None)
    else:
        if without:
            raise InputError(f"{name_of(path)}: its rows have no ids; only documents can be left out by their ids")
        sizes = {} if like is None else {"n_features": int(like.X.shape[1]), "n_labels": like.n_labels}
        dataset = reader.read(path, options, **sizes, progress=progress)
    if dense is not None:
        dataset = add_dense(dataset, dense, name_of(path))
    if like is not None:
        check_dense_part(name_of(path), dataset.n_dense, like)
        if not isinstance(reader, DocumentReader):
            dataset = _align(path, dataset, like, keep_unknown)
    elif _is_readable_again(path, dense, dataset.text):
        assert isinstance(path, str | os.PathLike)
        words_of_load = dataclasses.asdict(options) | {"without": list(options.without)}
        more = {} if dense is None else {"dense": os.path.abspath(str(dense))}
        kept = {name: value for name, value in words_of_load.items() if name != "without" or value}
        vars(dataset)["origin"] = Origin(_absolute(path), {**kept, **more})
    return dataset if vocabulary is None else dataset.with_vocabulary(vocabulary, unseen=unseen)


def words_of_vocabulary(text: TextFeatures, vocabulary: Vocabulary | None) -> set[str]:
    """Return the words of the names of a vocabulary's concepts, without deprecated ones."""
    if vocabulary is None or hasattr(text, "terms_"):
        return set()
    concepts = np.flatnonzero(~vocabulary.deprecated).tolist()
    return words_of_names(text, (form for concept in concepts for form in vocabulary.forms(concept)))


def load_again(origin: Origin, *, text: TextFeatures | None = None, progress: Progress = silent) -> Dataset:
    """Load a data set again from its origin, with the same options; `text` has the fitted text features.

    A dense part that was read from a file of its own is not read if the data at the path has one.
    """
    options, dense = origin_options(origin), origin.options.get("dense")
    words: dict[str, Any] = {"columns": options.columns, "header": options.header, "one_based": options.one_based}
    dataset = load(origin.path, text=text, progress=progress, without=options.without, **words)
    return dataset if dense is None or dataset.dense is not None else _add_again(dataset, dense)


def origin_options(origin: Origin) -> ReadOptions:
    """Return the options with which a data set was read from its origin."""
    options = {name: value for name, value in origin.options.items() if name != "dense"}
    try:
        columns = Columns(**{"unicode_normalization": "none", **options.pop("columns", {})})  # absent in older runs
        header, one_based = bool(options.pop("header", True)), bool(options.pop("one_based", False))
        without = tuple(map(str, options.pop("without", ())))
    except TypeError as error:
        raise InputError(f"{origin.path}: was read with unknown column options: {error}") from error
    if options:
        raise InputError(f"{origin.path}: was read with the unknown option {min(options)!r}")
    return ReadOptions(header, one_based, columns, without)


def save(dataset: Dataset, path: PathLike, *, progress: Progress = silent) -> None:
    """Write a data set in the format of the path: `.txt` (also `.gz`, `.xz`), `X.npz,Y.npz`, or a store folder.

    A data set with a dense part is written as `X.npz,E.npy,Y.npz` or as a store.

    Existing files are never overwritten: equal contents are kept, others raise InputError.
    """
    writer = find_writer(path)
    if not isinstance(writer, DatasetWriter):
        raise InputError(
            f"{path}: {writer.name} hold texts, and a data set holds features; convert the file of the texts"
        )
    check_writes_dense(path, writer, has_dense=dataset.dense is not None)
    writer.write(dataset, path, progress)


def check_writes_dense(path: PathLike, writer: DatasetWriter, *, has_dense: bool) -> None:
    """Raise InputError if a data set has a dense part and the format of the path cannot hold it."""
    if has_dense and not writer.writes_dense:
        raise InputError(
            f"{path}: {writer.name} holds no dense features; write a store (a name without a suffix) or "
            "X.npz,E.npy,Y.npz"
        )


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
    reader = find_reader(path)
    options = ReadOptions(header, one_based, columns or Columns())
    if isinstance(reader, DocumentReader):
        label_lists, _ = Documents(path, options).label_lists(progress)
        return binarize(label_lists, like_names, keep_unknown=keep_unknown)
    n_columns = n_labels if like_names is None else len(like_names)
    Y, names, n_missing = reader.read_labels(path, options, n_labels=n_columns, progress=progress)
    if keep_unknown and names is not None and like_names is not None:
        like_names = _with_unknown(Y, names, like_names)
        n_columns = len(like_names)
    Y, n_unknown = _align_labels(path, Y, names, like_names, n_columns)
    return Y, names if like_names is None else like_names, n_missing + n_unknown


def read_texts(path: Source, progress: Progress = silent, *, columns: Columns | None = None) -> list[str]:
    """Return the texts of documents; labels are not required."""
    return list(Documents(path, ReadOptions(columns=columns or Columns())).texts_and_ids(progress)[0])


def _columns(columns: Columns | None, text: Any, labels: str | None) -> Columns:
    """Return `columns` with the text and label columns that were given as separate arguments."""
    named = {"text": text} if isinstance(text, str) else {}
    if labels is not None:
        named["labels"] = labels
    return dataclasses.replace(columns or Columns(), **named)


def _absolute(path: PathLike) -> str:
    """Return a path, or a pair of paths, as absolute paths."""
    return ",".join(str(one.absolute()) for one in files_of(path))


def _is_readable_again(path: Source, dense: Dense | None, text: TextFeatures | None) -> bool:
    """Return whether the files at a path suffice to load the same data set again: no array and no function."""
    files = isinstance(path, str | os.PathLike) and (dense is None or isinstance(dense, str | os.PathLike))
    return files and (text is None or text.encoder is None or text.identity is not None)


def _text_features(
    path: Source, like: Dataset | None, text: TextFeatures | None, options: ReadOptions, dense: Dense | None
) -> TextFeatures:
    """Return the text features of a data set: those of the training set, those given, or the default ones."""
    if like is not None:
        if like.text is None or like.label_names is None:
            raise InputError(f"{name_of(path)}: holds texts, but the training set's features were not made from text")
        return like.text
    columns = options.columns
    if text is None:
        return TextFeatures(unicode_normalization=columns.unicode_normalization, fields=columns.fields)
    if hasattr(text, "terms_"):
        return text
    check_one_source(text, dense, name_of(path))
    unfitted: TextFeatures = clone(text).set_params(fields=columns.fields)
    return unfitted


def _load_texts(
    path: Source,
    like: Dataset | None,
    text: TextFeatures,
    options: ReadOptions,
    progress: Progress,
    keep_unknown: bool,
    words: Collection[str],
    embedded: bool,
) -> Dataset:
    form = options.columns.unicode_normalization
    texts, label_lists, counts = Documents(path, options).texts_and_labels(progress)  # an encoder holds the texts
    if not hasattr(text, "terms_"):
        X = text.fit_transform(texts, words=words, progress=progress if text.encoder is not None else silent)
    elif embedded and text.encoder is not None:
        X = text.transform(texts, progress=progress)
    else:
        X = text.without_encoder().transform(texts)
    Y, names, n_unknown = binarize(
        label_lists, None if like is None else like.label_names, keep_unknown=keep_unknown and like is not None
    )
    rows = Features(X, trusted=True) if sparse.issparse(X) else X
    dataset = Dataset(
        rows.sparse,
        Y,
        dense=rows.dense,
        label_names=names,
        feature_names=text.terms_,
        label_titles=read_title_file(path, names, form) if like is None else _titles(like, names),
        text=text,
        n_unknown_labels=n_unknown,
        trusted=True,
    )
    vars(dataset)["documents"] = counts
    return dataset


def _with_unknown(Y: sparse.csr_matrix, names: Sequence[str], like_names: Sequence[str]) -> list[str]:
    """Return `like_names`, then the other names of labels that occur in Y, sorted."""
    known = index_names(like_names)
    present = {names[label] for label in np.unique(Y.indices)}
    return [*like_names, *sorted(name for name in present if find_name(known, name) < 0)]


def _titles(like: Dataset, names: Sequence[str] | None) -> list[str] | None:
    """Return the titles of the training set's labels, then the names of labels that it does not have."""
    return None if like.label_titles is None else [*like.label_titles, *(names or [])[like.n_labels :]]


def _add_again(dataset: Dataset, dense: Any) -> Dataset:
    """Return a data set that was loaded again with the dense part of its origin."""
    if not isinstance(dense, str) or dataset.origin is None:
        raise InputError(f"{dense!r}: not the path of dense features")
    path, options = dataset.origin
    added = add_dense(dataset, dense, path)
    vars(added)["origin"] = Origin(path, {**options, "dense": dense})
    return added


def _align(path: PathLike, dataset: Dataset, like: Dataset, keep_unknown: bool) -> Dataset:
    """Return a data set with the columns of the training set; raise InputError if they do not match."""
    if dataset.n_features != like.n_features:
        raise InputError(f"{path}: has {dataset.n_features} features; the training set has {like.n_features}")
    if dataset.feature_names and like.feature_names and dataset.feature_names != like.feature_names:
        raise InputError(f"{path}: its features have other names than those of the training set")
    names, n_labels = like.label_names, like.n_labels
    if keep_unknown and dataset.label_names is not None and names is not None:
        names = _with_unknown(dataset.Y, dataset.label_names, names)
        n_labels = len(names)
    Y, n_unknown = _align_labels(path, dataset.Y, dataset.label_names, names, n_labels)
    return Dataset(
        dataset.X,
        Y,
        dense=dataset.dense,
        label_names=names,
        feature_names=like.feature_names,
        label_titles=_titles(like, names),
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
