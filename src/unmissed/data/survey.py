"""Survey of training and test files: label statistics, per file and pooled, and the number of features."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone

from unmissed.data.checks import check_labels
from unmissed.data.dense_part import Dense, check_number_of_rows, check_one_source, read_dense
from unmissed.data.documents import Documents, binarize
from unmissed.data.readers.reader import ReadOptions
from unmissed.data.sources import holds_text, load, load_labels
from unmissed.data.statistics import Statistics, describe_labels
from unmissed.data.table_columns import Columns
from unmissed.data.text import TextFeatures
from unmissed.data.unicode import find_name, index_names
from unmissed.errors import InputError
from unmissed.matrices import assemble
from unmissed.progress import Progress, silent

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Survey:
    """Result of `survey`: `together` pools all files, `n_new_labels` counts labels that occur only in test files.

    `warnings` are those of `check_labels` for the training set.
    """

    train: Statistics
    tests: list[Statistics]
    together: Statistics
    n_features: int | None
    n_dense: int
    n_new_labels: int
    label_counts: npt.NDArray[np.int64] = field(repr=False)
    warnings: list[str] = field(default_factory=list)


def survey(
    train: PathLike,
    tests: Sequence[PathLike] = (),
    *,
    text: TextFeatures | None = None,
    dense: Dense | None = None,
    columns: Columns | None = None,
    count_features: bool = True,
    header: bool = True,
    one_based: bool = False,
    progress: Progress = silent,
) -> Survey:
    """Return statistics of a training file and any number of test files; text features are counted, not computed.

    `text` has the options of text features, `dense` the dense features of the training rows, `columns` the names of the
    columns of texts and labels. Labels are identified by name, or by index if the files have no names.
    """
    options = ReadOptions(header, one_based, columns or Columns())
    Y, known, n_features, n_dense, warnings = _read_train(train, text, dense, options, count_features, progress)
    blocks, all_names = [Y], known
    for path in tests:
        n_labels = Y.shape[1] if known is None or not header else None  # without a header, a file states no sizes
        Z, other, _ = load_labels(
            path, n_labels=n_labels, columns=columns, header=header, one_based=one_based, progress=progress
        )
        Z, all_names = _join_columns(path, Z, other, all_names, Y.shape[1])
        blocks.append(Z)
    n_columns = blocks[-1].shape[1]
    widened = [assemble(B.data, B.indices, B.indptr, (B.shape[0], n_columns)) for B in blocks]
    together = sparse.csr_matrix(sparse.vstack(widened))
    seen_in_train = np.bincount(Y.indices, minlength=n_columns) > 0
    seen = np.bincount(together.indices, minlength=n_columns) > 0
    return Survey(
        train=describe_labels(Y),
        tests=[describe_labels(block) for block in blocks[1:]],
        together=describe_labels(together),
        n_features=n_features,
        n_dense=n_dense,
        n_new_labels=int(np.count_nonzero(seen & ~seen_in_train)),
        label_counts=np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int64),
        warnings=warnings,
    )


def _read_train(
    path: PathLike,
    text: TextFeatures | None,
    dense: Dense | None,
    options: ReadOptions,
    count_features: bool,
    progress: Progress,
) -> tuple[sparse.csr_matrix, list[str] | None, int | None, int, list[str]]:
    """Return Y, the label names, the numbers of all features, if known, and of dense ones, and warnings."""
    columns = options.columns
    if not holds_text(path):
        words: dict[str, Any] = {"columns": columns, "header": options.header, "one_based": options.one_based}
        dataset = load(path, dense=dense, progress=progress, **words)
        warnings = check_labels(str(path), dataset.Y, dataset.label_names)
        return dataset.Y, dataset.label_names, dataset.n_features, dataset.n_dense, warnings
    texts, label_lists, counts = Documents(path, options).texts_and_labels(progress)
    n_features = None
    if count_features:
        features = text or TextFeatures(unicode_normalization=columns.unicode_normalization)
        features = clone(features).set_params(fields=columns.fields)
        n_features = features.count_terms(texts)
    else:
        deque(texts, maxlen=0)  # exhausts the iterator, which fills label_lists
    Y, names, _ = binarize(label_lists)
    n_dense = 0 if text is None or text.identity is None else text.identity.n_dense
    if text is not None:
        check_one_source(text, dense, str(path))
    if dense is not None:
        part = read_dense(dense)
        check_number_of_rows(part, dense, Y.shape[0], str(path))
        n_dense = int(part.shape[1])
    n_features = None if n_features is None else n_features + n_dense
    return Y, names, n_features, n_dense, check_labels(str(path), Y, names, counts)


def _join_columns(
    path: PathLike, Z: sparse.csr_matrix, names: list[str] | None, known: list[str] | None, n_labels: int
) -> tuple[sparse.csr_matrix, list[str] | None]:
    """Return Z with its columns matched by name: those of `known` first, new labels after them."""
    if names is None or known is None or names == known:
        expected = n_labels if known is None else len(known)
        if Z.shape[1] != expected:
            raise InputError(f"{path}: has {Z.shape[1]} labels; the training set has {expected}")
        return Z, known
    index = index_names(known)
    joined = [*known, *(name for name in names if find_name(index, name) < 0)]
    index = index_names(joined)
    columns = np.array([find_name(index, name) for name in names], dtype=np.int32)[Z.indices]
    renumbered = sparse.csr_matrix((Z.data, columns, Z.indptr.copy()), shape=(Z.shape[0], len(joined)))
    renumbered.sort_indices()
    return renumbered, joined
