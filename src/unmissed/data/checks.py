"""Sanity checks of training data: warnings for suspicious labels, errors for impossible ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from unmissed.errors import InputError

_MIN_ROWS = 20  # fewer rows are too few to judge by proportions
_MOSTLY_ONCE = 0.8  # fraction of labels with one positive; about 0.4 in real long-tailed data
_HALF = 0.5
_SWAPPED = 0.9  # fraction of labels with one positive if the label column holds texts
_ONE_EACH = 1.05  # maximum of labels per labeled row if cells were not split
_MANY_EMPTY = 0.1  # fraction of rows without labels
_MAX_LABEL_LENGTH = 500  # characters
_COLUMNS = "(--text-column, --labels-column)"


@dataclass
class DocumentCounts:
    """Counts collected while documents are read: documents, characters of text, and duplicate ids."""

    n_documents: int = 0
    n_characters: int = 0
    n_repeated_ids: int = 0
    repeated_id: str | None = None
    _seen: set[int] = field(default_factory=set, repr=False)

    def add(self, text: str, name: str | None) -> None:
        """Count a document with its text and its id."""
        self.n_documents += 1
        self.n_characters += len(text)
        if name is None:
            return
        code = hash(name)
        if code in self._seen:
            self.n_repeated_ids += 1
            self.repeated_id = self.repeated_id or name
        self._seen.add(code)


def check_labels(
    where: str, Y: sparse.csr_matrix, names: Sequence[str] | None, documents: DocumentCounts | None = None
) -> list[str]:
    """Return one warning per suspicious property of the training labels; raise InputError for impossible labels.

    Parameters
    ----------
    where : name of the data in messages
    Y : training labels
    names : label names, or None
    documents : counts of the documents read, or None if the data held no texts
    """
    if not Y.nnz:
        advice = "; is --labels-column right?" if documents is not None else ""
        raise InputError(f"{where}: none of its {Y.shape[0]:,} rows has a label{advice}")
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    once = float(np.count_nonzero(counts == 1) / np.count_nonzero(counts))
    warnings = []
    if Y.shape[0] >= _MIN_ROWS:
        if documents is not None and names is not None:
            _refuse_swapped(where, names, once, documents)
        warnings += [_unsplit(Y, counts, names, once) or _mostly_once(counts, once), _unlabeled(Y, documents)]
    warnings += [_long_name(names), _repeated_ids(documents)]
    return [f"{where}: {warning}" for warning in warnings if warning]


def check_dataset(dataset: Any) -> list[str]:
    """Return the warnings of `check_labels` for a training set."""
    where = "the data" if dataset.origin is None else dataset.origin.path
    return check_labels(where, dataset.Y, dataset.label_names, dataset.documents)


def check_vocabulary(dataset: Any) -> list[str]:
    """Return a warning about labels that are not in the data set's vocabulary, and one about deprecated ones."""
    vocabulary, names = dataset.vocabulary, dataset.label_names
    if vocabulary is None:
        return []
    concepts = np.array([vocabulary.find(name) for name in names])
    counts, warnings = dataset.label_counts, []
    for mask, what in (
        (concepts < 0, "not in the vocabulary"),
        ((concepts >= 0) & np.append(vocabulary.deprecated, False)[concepts], "deprecated in the vocabulary"),
    ):
        found = np.flatnonzero(mask & (counts > 0))
        if found.size:
            listed = ", ".join(repr(names[label]) for label in found[:3].tolist()) + (", ..." if found.size > 3 else "")
            rows = f"{counts[found].sum():,} assignments"
            warnings.append(f"{found.size:,} labels ({rows}) are {what}: {listed}")
    return warnings


def _refuse_swapped(where: str, names: Sequence[str], once: float, documents: DocumentCounts) -> None:
    """Raise InputError if labels are longer than texts and nearly all different."""
    label = sum(map(len, names)) / max(len(names), 1)
    text = documents.n_characters / max(documents.n_documents, 1)
    if once >= _SWAPPED and label > text:
        raise InputError(
            f"{where}: labels have {label:.0f} characters on average and texts {text:.0f}, and {once:.0%} of the "
            f"labels occur once: are the columns swapped? {_COLUMNS}"
        )


def _unsplit(Y: sparse.csr_matrix, counts: Any, names: Sequence[str] | None, once: float) -> str | None:
    """Return a warning if labels look like unsplit lists of labels separated by spaces."""
    n_labeled = np.count_nonzero(np.diff(Y.indptr))
    if names is None or once < _HALF or Y.nnz > _ONE_EACH * n_labeled:
        return None
    spaced = np.array([len(name.split()) > 1 for name in names])
    if counts[spaced].sum() < _HALF * Y.nnz:
        return None
    return (
        f"{once:.0%} of {len(names):,} labels occur once, rows have one label each, and most labels contain spaces ("
        f"{names[int(np.flatnonzero(spaced)[0])][:40]!r}): is --separator right? (--separator ' ' splits at spaces)"
    )


def _mostly_once(counts: Any, once: float) -> str | None:
    if once < _MOSTLY_ONCE:
        return None
    n_labels = np.count_nonzero(counts)
    return (
        f"{once:.0%} of {n_labels:,} labels occur once and can hardly be learned: are --labels-column and "
        "--separator right?"
    )


def _unlabeled(Y: sparse.csr_matrix, documents: DocumentCounts | None) -> str | None:
    n_empty, n_rows = int(np.count_nonzero(np.diff(Y.indptr) == 0)), Y.shape[0]
    if n_empty < _MANY_EMPTY * n_rows:
        return None
    column = "is --labels-column right? " if documents is not None else ""
    return (
        f"{n_empty:,} of {n_rows:,} rows ({n_empty / n_rows:.0%}) have no label and count as negatives of every label: "
        f"{column}Leave out rows that have not been labeled"
    )


def _long_name(names: Sequence[str] | None) -> str | None:
    longest = max(names or [""], key=len)
    if len(longest) <= _MAX_LABEL_LENGTH:
        return None
    return (
        f"the longest label has {len(longest):,} characters ({longest[:40]!r}...): are --labels-column and --separator "
        "right?"
    )


def _repeated_ids(documents: DocumentCounts | None) -> str | None:
    if documents is None or not documents.n_repeated_ids:
        return None
    n_rows = documents.n_repeated_ids
    rows = "1 row has the id of a row before it" if n_rows == 1 else f"{n_rows:,} rows have the id of a row before them"
    return f"{rows}, such as {str(documents.repeated_id)[:40]!r}: are rows repeated? (--id-column names the ids)"
