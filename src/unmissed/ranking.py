"""Ranking: the k best labels of each row and their scores, what every model answers and every metric reads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.archive import file_aside
from unmissed.errors import InputError
from unmissed.files import read_npz


@dataclass(frozen=True)
class Ranking:
    """The k best labels of each row, best first.

    Scores fall along a row; equal scores stand in rising order of label; a row with fewer than k labels is padded at
    its end with label -1 and score -inf.

    Parameters
    ----------
    labels : int32 array of shape (n_samples, k)
    scores : float32 array of shape (n_samples, k)
    """

    labels: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]

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
    def from_scores(cls, scores: npt.ArrayLike, k: int) -> Ranking:
        """Rank the columns of a dense (n_samples, n_labels) array of scores and keep the k best."""
        scores = np.asarray(scores, dtype=np.float32)
        n_labels = scores.shape[1]
        best = cls.sort(np.broadcast_to(np.arange(n_labels, dtype=np.int32), scores.shape), scores).top(k)
        empty = ((0, 0), (0, max(k - n_labels, 0)))
        return cls(np.pad(best.labels, empty, constant_values=-1), np.pad(best.scores, empty, constant_values=-np.inf))

    def top(self, k: int) -> Ranking:
        """Keep the first `k` places, or all where there are fewer."""
        if k < 1:
            raise InputError(f"a ranking keeps at least 1 place, not {k}")
        return Ranking(self.labels[:, :k], self.scores[:, :k])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the ranking to a `.npz` file, aside first and then renamed into place."""
        target = Path(path)
        with file_aside(target) as aside:
            np.savez(aside, labels=self.labels, scores=self.scores)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ranking:
        """Read what `save` wrote."""
        what = "a ranking file (.npz with labels and scores)"
        stored = read_npz(path, ("labels", "scores"), what)
        if stored.keys() != {"labels", "scores"}:
            raise InputError(f"{path}: not {what}: it has {', '.join(stored) or 'neither'}")
        try:
            return cls(stored["labels"], stored["scores"])
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def _as_labels(labels: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return labels as int32, refusing what would be cut or wrapped on the way."""
    if labels.size and not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels of a ranking are integers, not {labels.dtype}")
    if labels.size and (labels.min() < -1 or labels.max() > np.iinfo(np.int32).max):
        raise InputError("labels of a ranking are at least 0 and below 2^31, or -1 where a place is empty")
    return labels.astype(np.int32, copy=False)


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
