"""Ranking: the k best labels of each row and their scores, what every model answers and every metric reads."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.errors import InputError
from unmissed.files import read_npz
from unmissed.matrices import canonical_csr
from unmissed.writing import file_aside

_AT_ONCE = 1 << 22  # scores of a dense matrix that are sorted at a time


_DIGESTS = {"names_digest": "label names", "rows_digest": "row ids"}


@dataclass(frozen=True)
class Ranking:
    """The k best labels of each row, best first.

    Scores fall along a row; equal scores stand in rising order of label; a row with fewer than k labels is padded at
    its end with label -1 and score -inf.

    Parameters
    ----------
    labels : int32 array of shape (n_samples, k)
    scores : float32 array of shape (n_samples, k)
    names_digest : what `digest_names` makes of the names of the labels that the numbers mean, or None where nobody said
    rows_digest : the same of the rows' ids
    no_known_words : bool array: the rows that were texts without a known word, and so have no labels; None if the rows
        were not texts, or if it was not recorded (a file does not keep it)
    """

    labels: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]
    names_digest: str | None = None
    rows_digest: str | None = None
    no_known_words: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        labels, scores = np.asarray(self.labels), np.asarray(self.scores)
        if scores.dtype.kind not in "biuf":
            raise InputError(f"scores of a ranking are numbers, not {scores.dtype}")
        with np.errstate(over="ignore"):
            scores = scores.astype(np.float32, copy=False)
        if labels.ndim != 2 or labels.shape != scores.shape:
            raise InputError(
                f"a ranking needs labels and scores of one shape (rows, k); got {labels.shape} and {scores.shape}"
            )
        labels = _as_labels(labels)
        _check_order(labels, scores)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "scores", scores)

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return int(self.labels.shape[0])

    @property
    def k(self) -> int:
        """The number of places a row has."""
        return int(self.labels.shape[1])

    @classmethod
    def sort(cls, labels: npt.ArrayLike, scores: npt.ArrayLike) -> Ranking:
        """Put each row's labels into ranking order: score falling, ties by label rising, padding (-1) last.

        The order is that of the scores as they are given. Where float32, in which they are kept, would make a tie of
        two of them and turn these over, the later one is kept as the next smaller float32.
        """
        labels = _as_labels(np.asarray(labels))
        given = np.asarray(scores)
        given = given if given.dtype in (np.float32, np.float64) else given.astype(np.float64)
        given = np.where(labels < 0, -np.inf, given)
        order = np.lexsort((labels, -given, labels < 0), axis=-1)
        labels = np.take_along_axis(labels, order, -1)
        with np.errstate(over="ignore"):  # beyond float32 is infinite, and then told apart like any other tie
            kept = np.take_along_axis(given, order, -1).astype(np.float32)
        return cls(labels, _apart(labels, kept) if given.dtype == np.float64 else kept)

    @classmethod
    def from_scores(cls, scores: Any, k: int) -> Ranking:
        """Keep the k best labels of each row of a score matrix (n_samples, n_labels), sparse or dense.

        Of a sparse matrix the stored entries are candidates, whatever their score, and nothing else is; of a dense one
        every label. A score of -inf says that a label is none. A dense matrix may be an array, a data frame or a
        PyTorch tensor, also one of bfloat16 or on an accelerator.
        """
        if k < 1:
            raise InputError(f"a ranking keeps at least 1 place, not {k}")
        if sparse.issparse(scores):
            return cls.sort(*_best_stored(canonical_csr(scores, "the score matrix"), k))
        dense = _as_array(scores)
        if dense.ndim != 2 or dense.dtype.kind not in "biuf":
            raise InputError(
                f"scores are a matrix of numbers, rows by labels, not {dense.dtype} of shape {dense.shape}"
            )
        return cls.sort(*_best_dense(dense, k))

    @classmethod
    def as_listed(cls, labels: npt.ArrayLike, scores: npt.ArrayLike) -> Ranking:
        """Take labels that are in order already, best first, with scores that were rounded after they had been ranked.

        Where rounding made a tie of two labels that stand against the order of ties, the later score is kept as the
        next smaller float32.
        """
        listed, given = _as_labels(np.asarray(labels)), np.asarray(scores, dtype=np.float32)
        if listed.ndim == 2 and listed.shape == given.shape:
            falls = (given[:, :-1] >= given[:, 1:]).all(axis=1, keepdims=True)
            given = np.where(falls, _apart(listed, given), given)  # a row whose scores rise is refused as it is
        return cls(listed, given)

    @classmethod
    def join(cls, parts: Sequence[Ranking], k: int) -> Ranking:
        """Return rankings of k places per row as one, row below row."""
        labels = np.concatenate([np.empty((0, k), np.int32), *(part.labels for part in parts)])
        scores = np.concatenate([np.empty((0, k), np.float32), *(part.scores for part in parts)])
        flags = [part.no_known_words for part in parts if part.no_known_words is not None]
        return cls(labels, scores, no_known_words=np.concatenate(flags) if flags else None)

    @property
    def n_no_known_words(self) -> int:
        """The number of rows that were texts without a known word."""
        return 0 if self.no_known_words is None else int(self.no_known_words.sum())

    def without_known_words(self, rows: npt.NDArray[np.bool_]) -> Ranking:
        """Return the ranking with no labels in the rows of texts without a known word."""
        labels = np.where(rows[:, None], np.int32(-1), self.labels)
        scores = np.where(rows[:, None], np.float32(-np.inf), self.scores)
        return replace(self, labels=labels, scores=scores, no_known_words=rows)

    def top(self, k: int) -> Ranking:
        """Keep the first `k` places, or all where there are fewer."""
        if k < 1:
            raise InputError(f"a ranking keeps at least 1 place, not {k}")
        return replace(self, labels=self.labels[:, :k], scores=self.scores[:, :k])

    def padded(self, k: int) -> Ranking:
        """Return the ranking with at least k places; -1 pads."""
        missing = k - self.k
        if missing <= 0:
            return self
        pads = ((0, 0), (0, missing))
        labels = np.pad(self.labels, pads, constant_values=-1)
        return replace(self, labels=labels, scores=np.pad(self.scores, pads, constant_values=-np.inf))

    def of_names(self, names: Sequence[str] | None) -> Ranking:
        """Return the ranking with a digest of its labels' names, so that no other labels are taken for them."""
        return self if names is None else replace(self, names_digest=digest_names(names))

    def check_names(self, names: Sequence[str] | None, source: str) -> None:
        """Refuse labels that are not those that were ranked; further labels behind them do not matter."""
        if self.names_digest is None or names is None:
            return
        n_labels = int(self.names_digest.partition(":")[0])
        if len(names) < n_labels or digest_names(names[:n_labels]) != self.names_digest:
            raise InputError(
                f"the ranking is one of {n_labels} labels that are not those of {source}: other names, or another order"
            )

    def of_rows(self, ids: Sequence[str] | None) -> Ranking:
        """Return the ranking with a digest of its rows' ids, so that no other rows are taken for them."""
        return self if ids is None else replace(self, rows_digest=digest_names(ids))

    def check_rows(self, ids: Sequence[str] | None, source: str) -> None:
        """Refuse rows that are not those that were ranked, where both have ids."""
        if self.rows_digest is not None and ids is not None and digest_names(ids) != self.rows_digest:
            raise InputError(f"the ranking is one of rows that are not those of {source}: other ids, or another order")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the ranking to a `.npz` file, aside first and then renamed into place."""
        target = Path(path)
        with file_aside(target) as aside:
            known: dict[str, Any] = {"labels": self.labels, "scores": self.scores}
            for name in _DIGESTS:
                if getattr(self, name) is not None:
                    known[name] = np.array(getattr(self, name).encode())
            np.savez(aside, **known)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ranking:
        """Read what `save` wrote."""
        what = "a ranking file (.npz with labels and scores)"
        stored = read_npz(path, ("labels", "scores", *_DIGESTS), what)
        if stored.keys() | set(_DIGESTS) != {"labels", "scores", *_DIGESTS}:
            raise InputError(f"{path}: not {what}: it has {', '.join(stored) or 'neither'}")
        try:
            digests: dict[str, Any] = {name: _as_digest(name, stored[name]) for name in _DIGESTS if name in stored}
            return cls(stored["labels"], stored["scores"], **digests)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def digest_names(names: Sequence[str]) -> str:
    """Return the number of names and a SHA-256 of them in their order, as text with a colon between."""
    state = hashlib.sha256()
    for name in names:
        try:
            encoded = name.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"the name or id {name[:40]!r} has half of a surrogate pair; remove it") from error
        state.update(len(encoded).to_bytes(8, "little") + encoded)
    return f"{len(names)}:{state.hexdigest()}"


def _as_digest(name: str, stored: npt.NDArray[Any]) -> str:
    """Return the digest that a file holds as bytes."""
    text = stored.item().decode("ascii", errors="replace") if stored.dtype.kind == "S" and stored.ndim == 0 else ""
    if not re.fullmatch(r"[0-9]{1,10}:[0-9a-f]{64}", text):
        raise InputError(f"its digest of {_DIGESTS[name]} is damaged")
    return text


def _as_labels(labels: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return labels as int32, refusing what would be cut or wrapped on the way."""
    if labels.size and not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels of a ranking are integers, not {labels.dtype}")
    if labels.size and (labels.min() < -1 or labels.max() > np.iinfo(np.int32).max):
        raise InputError("labels of a ranking are at least 0 and below 2^31, or -1 where a place is empty")
    return labels.astype(np.int32, copy=False)


def _as_array(scores: Any) -> npt.NDArray[Any]:
    """Return dense scores as an array; numpy has no bfloat16, so tensors of 16 bits become float32, which is exact."""
    if hasattr(scores, "detach") and hasattr(scores, "element_size"):  # a PyTorch tensor
        scores = scores.detach().cpu()
        if scores.is_floating_point() and scores.element_size() < 4:
            scores = scores.float()
    try:
        return np.asarray(scores)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"scores are a matrix of numbers, rows by labels; {error}") from error


def _best_stored(matrix: sparse.csr_matrix, k: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Return the labels and scores of each row's k largest stored entries."""
    values = matrix.data.astype(np.float64)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    _refuse_nan(values, rows)
    order = np.lexsort((matrix.indices, -values, rows))
    place = np.arange(values.size) - np.repeat(matrix.indptr[:-1], np.diff(matrix.indptr))
    kept = place < k
    labels = np.full((matrix.shape[0], k), -1, dtype=np.int32)
    scores = np.full(labels.shape, -np.inf)
    labels[rows[kept], place[kept]] = matrix.indices[order][kept]
    scores[rows[kept], place[kept]] = values[order][kept]
    return np.where(scores == -np.inf, -1, labels).astype(np.int32), scores


def _best_dense(matrix: npt.NDArray[Any], k: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Return the labels and scores of each row's k largest entries, some rows at a time."""
    n_samples, n_labels = matrix.shape
    labels = np.full((n_samples, k), -1, dtype=np.int32)
    scores = np.full(labels.shape, -np.inf)
    height = max(1, _AT_ONCE // max(n_labels, 1))
    for begin in range(0, n_samples, height):
        part = matrix[begin : begin + height].astype(np.float64)
        _refuse_nan(part.ravel(), np.repeat(np.arange(begin, begin + len(part)), n_labels))
        best = np.argsort(-part, axis=1, kind="stable")[:, :k]  # stable: among equals the smaller label leads
        labels[begin : begin + height, : best.shape[1]] = best
        scores[begin : begin + height, : best.shape[1]] = np.take_along_axis(part, best, 1)
    return np.where(scores == -np.inf, -1, labels).astype(np.int32), scores


def _refuse_nan(values: npt.NDArray[np.float64], rows: npt.NDArray[np.int64]) -> None:
    wrong = np.isnan(values)
    if wrong.any():
        raise InputError(f"row {rows[int(np.argmax(wrong))]} has a score that is not a number")


def _apart(labels: npt.NDArray[np.int32], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return scores that fall wherever labels, put in order by finer scores, do not rise among equals."""
    if labels.ndim != 2 or not _turned(labels, scores).any():
        return scores
    scores = scores.copy()
    for place in range(1, labels.shape[1]):
        before, here = scores[:, place - 1], scores[:, place]
        real = labels[:, place] >= 0
        tied = real & (here >= before) & (labels[:, place - 1] >= labels[:, place])
        lowered = np.where(tied, np.nextafter(before, np.float32(-np.inf)), before)
        scores[:, place] = np.where(real & ((here > before) | tied), lowered, here)
    return scores


def _turned(labels: npt.NDArray[np.int32], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Tell where a label stands behind one that has to follow it: a smaller score, a tie and a larger label, or -1."""
    left, right = scores[:, :-1], scores[:, 1:]
    behind = (labels[:, :-1] < 0) | (left < right) | ((left == right) & (labels[:, :-1] >= labels[:, 1:]))
    return np.asarray((labels[:, 1:] >= 0) & behind)


def _check_order(labels: npt.NDArray[np.int32], scores: npt.NDArray[np.float32]) -> None:
    """Refuse NaN scores, scored empty places, labels listed twice, and rows out of the one order that rankings have."""
    if np.isnan(scores).any():
        raise InputError("a ranking cannot hold a score that is not a number")
    bad = _turned(labels, scores)
    if bad.any():
        row = int(np.argwhere(bad)[0, 0])
        raise InputError(
            f"row {row} of the ranking is not in order (score falling, ties by label rising, -1 last); "
            "Ranking.sort(labels, scores) puts rows in order"
        )
    empty = labels < 0
    if (empty & (scores != -np.inf)).any():
        raise InputError("an empty place of a ranking (label -1) has the score -inf")
    risen = np.sort(labels, axis=1)
    twice = (risen[:, 1:] == risen[:, :-1]) & (risen[:, 1:] >= 0)
    if twice.any():
        row, place = np.argwhere(twice)[0].tolist()
        raise InputError(f"row {row} of the ranking lists label {risen[row, place]} twice")
