"""Ranking: the k highest-scoring labels of each row; the output of every model and the input of every metric."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.errors import InputError
from unmissed.files import read_npz
from unmissed.matrices import canonical_csr
from unmissed.settings import SETTINGS
from unmissed.writing import atomic_file

_DIGESTS = {"names_digest": "label names", "rows_digest": "row ids"}
_PROBABILITIES = ("probabilities", "true_probabilities")


@dataclass(frozen=True)
class Ranking:
    """The k highest-scoring labels of each row, best first.

    Scores descend within a row; ties are ordered by ascending label. A row with fewer than k labels is padded at its
    end with label -1 and score -inf.

    Parameters
    ----------
    labels : int32 array of shape (n_samples, k)
    scores : float32 array of shape (n_samples, k)
    names_digest : `digest_names` of the label names, or None if it was not recorded
    rows_digest : `digest_names` of the row ids, or None if it was not recorded
    no_known_words : bool array: rows that were texts without a known word and therefore have no labels; None if the
        rows were not texts, or if it was not recorded (it is not saved)
    probabilities : float32 array of shape (n_samples, k): the probability that each label is observed, 0 for padding;
        None unless the model is calibrated
    true_probabilities : the probability that each label is true, observed or not; None if it was not computed
    """

    labels: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]
    names_digest: str | None = None
    rows_digest: str | None = None
    no_known_words: npt.NDArray[np.bool_] | None = None
    probabilities: npt.NDArray[np.float32] | None = None
    true_probabilities: npt.NDArray[np.float32] | None = None

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
        for name in _PROBABILITIES:
            object.__setattr__(self, name, _check_probabilities(name, getattr(self, name), labels))

    @property
    def n_samples(self) -> int:
        """The number of rows."""
        return int(self.labels.shape[0])

    @property
    def k(self) -> int:
        """The number of positions per row."""
        return int(self.labels.shape[1])

    @classmethod
    def sort(cls, labels: npt.ArrayLike, scores: npt.ArrayLike) -> Ranking:
        """Return the ranking of labels by descending score, ties by ascending label, padding (-1) last.

        The order is that of the given scores. If rounding to float32 makes two scores equal and would reverse their
        order, the lower one becomes the next smaller float32.
        """
        labels = _as_labels(np.asarray(labels))
        exact = np.asarray(scores)
        exact = exact if exact.dtype in (np.float32, np.float64) else exact.astype(np.float64)
        exact = np.where(labels < 0, -np.inf, exact)
        order = np.lexsort((labels, -exact, labels < 0), axis=-1)
        labels = np.take_along_axis(labels, order, -1)
        with np.errstate(over="ignore"):  # overflow to infinity is separated like any other tie
            rounded = np.take_along_axis(exact, order, -1).astype(np.float32)
        return cls(labels, _separate_ties(labels, rounded) if exact.dtype == np.float64 else rounded)

    @classmethod
    def from_scores(cls, scores: Any, k: int) -> Ranking:
        """Return the k highest-scoring labels of each row of a score matrix (n_samples, n_labels), sparse or dense.

        The candidates are the stored entries of a sparse matrix, or all labels of a dense one. A score of -inf excludes
        a label. A dense matrix may be an array, a data frame or a PyTorch tensor of any dtype, on any device.
        """
        if k < 1:
            raise InputError(f"k is {k}; a ranking has at least 1 position")
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
        """Return the ranking of labels that are ordered already, with scores that were rounded after ranking.

        If rounding made two scores equal against the order of ties, the lower one becomes the next smaller float32.
        """
        listed, rounded = _as_labels(np.asarray(labels)), np.asarray(scores, dtype=np.float32)
        if listed.ndim == 2 and listed.shape == rounded.shape:
            descends = (rounded[:, :-1] >= rounded[:, 1:]).all(axis=1, keepdims=True)
            rounded = np.where(descends, _separate_ties(listed, rounded), rounded)  # other rows raise InputError below
        return cls(listed, rounded)

    @classmethod
    def join(cls, parts: Sequence[Ranking], k: int) -> Ranking:
        """Return rankings of k positions per row concatenated along rows."""
        labels = np.concatenate([np.empty((0, k), np.int32), *(part.labels for part in parts)])
        scores = np.concatenate([np.empty((0, k), np.float32), *(part.scores for part in parts)])
        flags = [part.no_known_words for part in parts if part.no_known_words is not None]
        more = {name: [getattr(part, name) for part in parts] for name in _PROBABILITIES}
        joined: dict[str, Any] = {
            name: np.concatenate(p) for name, p in more.items() if p and all(one is not None for one in p)
        }
        return cls(labels, scores, no_known_words=np.concatenate(flags) if flags else None, **joined)

    @property
    def n_no_known_words(self) -> int:
        """The number of rows that were texts without a known word."""
        return 0 if self.no_known_words is None else int(self.no_known_words.sum())

    @property
    def clipped_fraction(self) -> float:
        """The fraction of labels whose probability of being true is 1, because a ratio above 1 was clipped."""
        if self.true_probabilities is None:
            return 0.0
        listed = self.labels >= 0
        return float((self.true_probabilities[listed] == 1).mean()) if listed.any() else 0.0

    def without_known_words(self, rows: npt.NDArray[np.bool_]) -> Ranking:
        """Return the ranking with no labels in the rows of texts without a known word."""
        found = self.keep(~rows[:, None]) if rows.any() else copy(self)  # `replace` would check it all again
        object.__setattr__(found, "no_known_words", rows)
        return found

    def keep(self, kept: npt.NDArray[np.bool_]) -> Ranking:
        """Return the ranking with the labels where `kept` is true, a mask of (n_samples, k) or (n_samples, 1)."""
        kept = kept & (self.labels >= 0)
        order = np.argsort(~kept, axis=1, kind="stable")
        return self._at(order, np.take_along_axis(kept, order, 1))

    def by_probability(self) -> Ranking:
        """Return the labels in falling order of probability, which is the new score; ties by ascending label."""
        if self.probabilities is None:
            raise InputError("the ranking has no probabilities; calibrate the model first")
        order = np.lexsort((self.labels, -self.probabilities, self.labels < 0), axis=-1)
        probabilities = np.take_along_axis(self.probabilities, order, 1)
        labels = np.take_along_axis(self.labels, order, 1)
        scores = np.where(labels < 0, np.float32(-np.inf), probabilities)
        true = None if self.true_probabilities is None else np.take_along_axis(self.true_probabilities, order, 1)
        return replace(self, labels=labels, scores=scores, probabilities=probabilities, true_probabilities=true)

    def top(self, k: int) -> Ranking:
        """Return the first `k` positions, or all if there are fewer."""
        if k < 1:
            raise InputError(f"k is {k}; a ranking has at least 1 position")
        return self._mapped(lambda values, _: values[:, :k])

    def rows(self, chosen: slice) -> Ranking:
        """Return the ranking of some rows, without the digest of row ids."""
        flags = None if self.no_known_words is None else self.no_known_words[chosen]
        return replace(self._mapped(lambda values, _: values[chosen]), rows_digest=None, no_known_words=flags)

    def padded(self, k: int) -> Ranking:
        """Return the ranking padded with label -1 to at least k positions."""
        pads = ((0, 0), (0, k - self.k))
        return self if k <= self.k else self._mapped(lambda values, pad: np.pad(values, pads, constant_values=pad))

    def _at(self, order: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]) -> Ranking:
        """Return the positions in `order` of each row; those that are not kept become padding."""
        return self._mapped(lambda values, pad: np.where(kept, np.take_along_axis(values, order, 1), pad))

    def _mapped(self, change: Callable[[npt.NDArray[Any], Any], npt.NDArray[Any]]) -> Ranking:
        """Return the ranking with `change(values, pad)` of labels, scores and probabilities."""
        pads = {"labels": np.int32(-1), "scores": np.float32(-np.inf), **dict.fromkeys(_PROBABILITIES, np.float32(0))}
        present = ((name, getattr(self, name), pad) for name, pad in pads.items())
        changed: dict[str, Any] = {name: change(values, pad) for name, values, pad in present if values is not None}
        return replace(self, **changed)

    def of_names(self, names: Sequence[str] | None) -> Ranking:
        """Return the ranking with a digest of its label names, which `check_names` compares."""
        return self if names is None else replace(self, names_digest=digest_names(names))

    def check_names(self, names: Sequence[str] | None, source: str) -> None:
        """Raise InputError if the ranked labels have other names; additional labels at the end are allowed."""
        if self.names_digest is None or names is None:
            return
        n_labels = int(self.names_digest.partition(":")[0])
        if len(names) < n_labels or digest_names(names[:n_labels]) != self.names_digest:
            raise InputError(
                f"the ranking is one of {n_labels} labels that are not those of {source}: other names, or another order"
            )

    def of_rows(self, ids: Sequence[str] | None) -> Ranking:
        """Return the ranking with a digest of its row ids, which `check_rows` compares."""
        return self if ids is None else replace(self, rows_digest=digest_names(ids))

    def check_rows(self, ids: Sequence[str] | None, source: str) -> None:
        """Raise InputError if the ranked rows have other ids; rows without ids are not compared."""
        if self.rows_digest is not None and ids is not None and digest_names(ids) != self.rows_digest:
            raise InputError(f"the ranking is one of rows that are not those of {source}: other ids, or another order")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the ranking to a `.npz` file, atomically."""
        target = Path(path)
        with atomic_file(target) as stream:
            arrays: dict[str, Any] = {"labels": self.labels, "scores": self.scores}
            arrays |= {name: getattr(self, name) for name in _PROBABILITIES if getattr(self, name) is not None}
            for name in _DIGESTS:
                if getattr(self, name) is not None:
                    arrays[name] = np.array(getattr(self, name).encode())
            np.savez(stream, **arrays)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ranking:
        """Read a ranking written by `save`."""
        what = "a ranking file (.npz with labels and scores)"
        optional = {*_DIGESTS, *_PROBABILITIES}
        stored = read_npz(path, ("labels", "scores", *optional), what)
        if stored.keys() | optional != {"labels", "scores", *optional}:
            raise InputError(f"{path}: not {what}: it has {', '.join(stored) or 'neither'}")
        try:
            digests: dict[str, Any] = {name: _as_digest(name, stored[name]) for name in _DIGESTS if name in stored}
            more: dict[str, Any] = {name: stored[name] for name in _PROBABILITIES if name in stored}
            return cls(stored["labels"], stored["scores"], **digests, **more)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def digest_names(names: Sequence[str]) -> str:
    """Return `n:sha256`: the number of names and the SHA-256 of the ordered names."""
    state = hashlib.sha256()
    for name in names:
        try:
            encoded = name.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"the name or id {name[:40]!r} has half of a surrogate pair; remove it") from error
        state.update(len(encoded).to_bytes(8, "little") + encoded)
    return f"{len(names)}:{state.hexdigest()}"


def _as_digest(name: str, stored: npt.NDArray[Any]) -> str:
    """Return a digest that is stored as bytes."""
    text = stored.item().decode("ascii", errors="replace") if stored.dtype.kind == "S" and stored.ndim == 0 else ""
    if not re.fullmatch(r"[0-9]{1,10}:[0-9a-f]{64}", text):
        raise InputError(f"its digest of {_DIGESTS[name]} is damaged")
    return text


def _as_labels(labels: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return labels as int32; raise InputError if they are not integers or would overflow."""
    if labels.size and not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels of a ranking are integers, not {labels.dtype}")
    if labels.size and (labels.min() < -1 or (labels.dtype != np.int32 and labels.max() > np.iinfo(np.int32).max)):
        raise InputError("labels of a ranking are at least 0 and below 2^31, or -1 for an empty position")
    return labels.astype(np.int32, copy=False)


def _check_probabilities(
    name: str, values: npt.NDArray[Any] | None, labels: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32] | None:
    """Return probabilities as float32; raise InputError unless they have the shape of labels and are 0 to 1."""
    if values is None:
        return None
    p = np.asarray(values)
    if p.shape != labels.shape or p.dtype.kind != "f":
        raise InputError(f"{name} of a ranking are float numbers of shape {labels.shape}; got {p.dtype} of {p.shape}")
    p = p.astype(np.float32, copy=False)
    wrong = ~((p >= 0) & (p <= 1)) | ((labels < 0) & (p != 0))
    if wrong.any():
        row, position = np.argwhere(wrong)[0].tolist()
        raise InputError(
            f"row {row}, position {position + 1} of the ranking has the probability {p[row, position]}; expected 0 to "
            "1, and 0 for an empty position"
        )
    return p


def _as_array(scores: Any) -> npt.NDArray[Any]:
    """Return dense scores as an array; 16-bit tensors become float32, as numpy has no bfloat16."""
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
    position = np.arange(values.size) - np.repeat(matrix.indptr[:-1], np.diff(matrix.indptr))
    kept = position < k
    labels = np.full((matrix.shape[0], k), -1, dtype=np.int32)
    scores = np.full(labels.shape, -np.inf)
    labels[rows[kept], position[kept]] = matrix.indices[order][kept]
    scores[rows[kept], position[kept]] = values[order][kept]
    return np.where(scores == -np.inf, -1, labels).astype(np.int32), scores


def _best_dense(matrix: npt.NDArray[Any], k: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Return the labels and scores of each row's k largest entries, in blocks of rows."""
    n_samples, n_labels = matrix.shape
    labels = np.full((n_samples, k), -1, dtype=np.int32)
    scores = np.full(labels.shape, -np.inf)
    height = max(1, SETTINGS.sorted_scores // max(n_labels, 1))
    for begin in range(0, n_samples, height):
        part = matrix[begin : begin + height].astype(np.float64)
        _refuse_nan(part.ravel(), np.repeat(np.arange(begin, begin + len(part)), n_labels))
        best = np.argsort(-part, axis=1, kind="stable")[:, :k]  # stable: ties are ordered by label
        labels[begin : begin + height, : best.shape[1]] = best
        scores[begin : begin + height, : best.shape[1]] = np.take_along_axis(part, best, 1)
    return np.where(scores == -np.inf, -1, labels).astype(np.int32), scores


def _refuse_nan(values: npt.NDArray[np.float64], rows: npt.NDArray[np.int64]) -> None:
    wrong = np.isnan(values)
    if wrong.any():
        raise InputError(f"row {rows[int(np.argmax(wrong))]} has a score that is not a number")


def _separate_ties(labels: npt.NDArray[np.int32], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return scores lowered by one float32 step where equal scores contradict the given order of labels."""
    if labels.ndim != 2 or not _out_of_order(labels, scores).any():
        return scores
    scores = scores.copy()
    for position in range(1, labels.shape[1]):
        before, here = scores[:, position - 1], scores[:, position]
        real = labels[:, position] >= 0
        tied = real & (here >= before) & (labels[:, position - 1] >= labels[:, position])
        lowered = np.where(tied, np.nextafter(before, np.float32(-np.inf)), before)
        scores[:, position] = np.where(real & ((here > before) | tied), lowered, here)
    return scores


def _out_of_order(labels: npt.NDArray[np.int32], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return where a label follows one that must come after it: a lower score, a tie with a larger label, or -1."""
    left, right = scores[:, :-1], scores[:, 1:]
    behind = (labels[:, :-1] < 0) | (left < right) | ((left == right) & (labels[:, :-1] >= labels[:, 1:]))
    return np.asarray((labels[:, 1:] >= 0) & behind)


def _check_order(labels: npt.NDArray[np.int32], scores: npt.NDArray[np.float32]) -> None:
    """Raise InputError for NaN scores, scored padding, duplicate labels, and rows out of ranking order."""
    if np.isnan(scores).any():
        raise InputError("a ranking cannot hold a score that is not a number")
    bad = _out_of_order(labels, scores)
    if bad.any():
        row = int(np.argwhere(bad)[0, 0])
        raise InputError(
            f"row {row} of the ranking is not in order (score falling, ties by label rising, -1 last); "
            "Ranking.sort(labels, scores) puts rows in order"
        )
    empty = labels < 0
    if (empty & (scores != -np.inf)).any():
        raise InputError("an empty position of a ranking (label -1) must have the score -inf")
    ascending = np.sort(labels, axis=1)
    twice = (ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] >= 0)
    if twice.any():
        row, position = np.argwhere(twice)[0].tolist()
        raise InputError(f"row {row} of the ranking lists label {ascending[row, position]} twice")
