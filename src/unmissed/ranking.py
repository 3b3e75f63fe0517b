"""Ranking: the k best labels of each row and their scores, what every model answers and every metric reads."""

from __future__ import annotations

import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.archive import file_aside
from unmissed.errors import InputError


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
        labels = np.asarray(self.labels)
        scores = np.asarray(self.scores, dtype=np.float32)
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
        """Put each row's labels into ranking order: score falling, ties by label rising, padding (-1) last."""
        labels = _as_labels(np.asarray(labels))
        scores = np.where(labels < 0, -np.inf, np.asarray(scores, dtype=np.float32)).astype(np.float32)
        order = np.lexsort((labels, -scores, labels < 0), axis=-1)
        return cls(np.take_along_axis(labels, order, -1), np.take_along_axis(scores, order, -1))

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
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
                labels, scores = stored["labels"], stored["scores"]
        except FileNotFoundError as error:
            raise InputError(f"{path}: no such file") from error
        except (OSError, KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{path}: not a ranking file (.npz with labels and scores): {error}") from error
        try:
            return cls(labels, scores)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def _as_labels(labels: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return labels as int32, refusing what would be cut or wrapped on the way."""
    if labels.size and not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels of a ranking are integers, not {labels.dtype}")
    if labels.size and (labels.min() < -1 or labels.max() > np.iinfo(np.int32).max):
        raise InputError("labels of a ranking are at least 0 and below 2^31, or -1 where a place is empty")
    return labels.astype(np.int32, copy=False)


def _check_order(labels: npt.NDArray[np.int32], scores: npt.NDArray[np.float32]) -> None:
    """Refuse NaN scores, scored empty places, labels listed twice, and rows out of the one order that rankings have."""
    if np.isnan(scores).any():
        raise InputError("a ranking cannot hold a score that is not a number")
    left, right = scores[:, :-1], scores[:, 1:]
    real = labels[:, 1:] >= 0
    bad = real & ((labels[:, :-1] < 0) | (left < right) | ((left == right) & (labels[:, :-1] >= labels[:, 1:])))
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
