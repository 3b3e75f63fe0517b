"""What looks wrong with training data before anything is trained: warnings, and the refusal of the absurd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from unmissed.errors import InputError

_ENOUGH = 20  # rows from which shares say something
_MOSTLY_ONCE = 0.8  # share of labels that occur once; in real data with a long tail about 0.4
_HALF = 0.5
_SWAPPED = 0.9  # share of labels that occur once if whole texts are taken for labels
_ONE_EACH = 1.05  # labels per labeled row, at most, if cells were not split
_MANY_EMPTY = 0.1  # share of rows without labels
_LONG = 500  # characters of a label
_COLUMNS = "(--text-column, --labels-column)"


@dataclass
class DocumentFigures:
    """What reading documents counts: documents, characters of texts, and rows with an id that came before."""

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
    where: str, Y: sparse.csr_matrix, names: Sequence[str] | None, documents: DocumentFigures | None = None
) -> list[str]:
    """Return a line for everything that looks wrong with training labels; refuse labels that cannot be right.

    Parameters
    ----------
    where : what messages call the data
    Y : the labels of training rows
    names : the names of the labels, or None
    documents : what was counted while texts were read, or None if there were no texts
    """
    if not Y.nnz:
        advice = "; is --labels-column right?" if documents is not None else ""
        raise InputError(f"{where}: none of its {Y.shape[0]:,} rows has a label{advice}")
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    once = float(np.count_nonzero(counts == 1) / np.count_nonzero(counts))
    found = []
    if Y.shape[0] >= _ENOUGH:
        if documents is not None and names is not None:
            _refuse_swapped(where, names, once, documents)
        found += [_unsplit(Y, counts, names, once) or _mostly_once(counts, once), _unlabeled(Y, documents)]
    found += [_long_name(names), _repeated_ids(documents)]
    return [f"{where}: {one}" for one in found if one]


def check_dataset(dataset: Any) -> list[str]:
    """Return what looks wrong with a training set, a line each; refuse labels that cannot be right."""
    where = "the data" if dataset.origin is None else dataset.origin.path
    return check_labels(where, dataset.Y, dataset.label_names, dataset.documents)


def _refuse_swapped(where: str, names: Sequence[str], once: float, documents: DocumentFigures) -> None:
    """Refuse labels that are longer than texts and nearly all different."""
    label = sum(map(len, names)) / max(len(names), 1)
    text = documents.n_characters / max(documents.n_documents, 1)
    if once >= _SWAPPED and label > text:
        raise InputError(
            f"{where}: labels have {label:.0f} characters on average and texts {text:.0f}, and {once:.0%} of the "
            f"labels occur once: are the columns swapped? {_COLUMNS}"
        )


def _unsplit(Y: sparse.csr_matrix, counts: Any, names: Sequence[str] | None, once: float) -> str | None:
    """Tell of labels that seem to be lists of labels with blanks between them."""
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


def _unlabeled(Y: sparse.csr_matrix, documents: DocumentFigures | None) -> str | None:
    n_empty, n_rows = int(np.count_nonzero(np.diff(Y.indptr) == 0)), Y.shape[0]
    if n_empty < _MANY_EMPTY * n_rows:
        return None
    column = "is --labels-column right? " if documents is not None else ""
    return (
        f"{n_empty:,} of {n_rows:,} rows ({n_empty / n_rows:.0%}) have no label and count as negatives of every label: "
        f"{column}Leave rows out that nobody has labeled"
    )


def _long_name(names: Sequence[str] | None) -> str | None:
    longest = max(names or [""], key=len)
    if len(longest) <= _LONG:
        return None
    return (
        f"the longest label has {len(longest):,} characters ({longest[:40]!r}...): are --labels-column and --separator "
        "right?"
    )


def _repeated_ids(documents: DocumentFigures | None) -> str | None:
    if documents is None or not documents.n_repeated_ids:
        return None
    n_rows = documents.n_repeated_ids
    rows = "1 row has the id of a row before it" if n_rows == 1 else f"{n_rows:,} rows have the id of a row before them"
    return f"{rows}, such as {str(documents.repeated_id)[:40]!r}: are rows repeated? (--id-column names the ids)"
