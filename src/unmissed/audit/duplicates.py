"""Propensities by capture-recapture: how often a label of one row is on another row with the same text."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.audit.curves import shrunk_curve
from unmissed.data import load
from unmissed.data.documents import Documents
from unmissed.data.formats import holds_text
from unmissed.data.readers.reader import ReadOptions
from unmissed.errors import InputError
from unmissed.progress import Progress, silent
from unmissed.propensity import FrequencyCurve

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
LEAST_LABELS = 100
"""Label assignments of duplicate rows that a frequency band needs."""
_MOST_BANDS = 6
_RESAMPLES = 2000


class DuplicateBand(NamedTuple):
    """How often a label of a row is on its duplicate, for labels of similar frequency.

    Parameters
    ----------
    fewest, most, center : range and geometric mean of the number of distinct texts with the label
    n_assignments : label assignments of rows whose duplicate has other labels
    p, low, high : the share of them that the duplicate has, and its 95 % interval over groups of duplicates
    p_all : the same share with the duplicates that have exactly the same labels
    """

    fewest: int
    most: int
    center: float
    n_assignments: int
    p: float
    low: float
    high: float
    p_all: float


@dataclass(frozen=True, eq=False)
class DuplicateEstimate:
    """Propensities from rows with the same text.

    Parameters
    ----------
    bands : rarest labels first
    n_groups : texts that several rows have
    n_equal : those of them whose rows all have the same labels; many are copies, which say nothing about p
    n_texts : number of distinct texts
    """

    bands: list[DuplicateBand]
    n_groups: int
    n_equal: int
    n_texts: int

    @property
    def warning(self) -> str:
        """What a reader must know before the estimate is used."""
        return (
            f"{self.n_equal:,} of {self.n_groups:,} texts with several rows have the same labels on all of them, as "
            "copied records have; they are left out. If the other rows were not labeled independently, propensities "
            "are lower than estimated"
        )

    def curve(self) -> FrequencyCurve:
        """Return the propensities by frequency."""
        table = np.array([(one.center, one.p, one.low, one.high) for one in self.bands]).T.tolist()
        return shrunk_curve(table[0], table[1], table[2], table[3], self.n_texts)


def propensity_of_duplicates(source: str) -> FrequencyCurve:
    """Return the propensities that `duplicates:DATA` specifies; warn about copied records."""
    found = _cached(source, _state(source))
    warnings.warn(found.warning, stacklevel=2)
    return found.curve()


def _state(source: str) -> tuple[int, int]:
    """Return what changes when a file does."""
    try:
        entry = os.stat(source)
    except OSError:
        return (0, 0)  # several files in one string; the reader says what is wrong
    return entry.st_mtime_ns, entry.st_size


@lru_cache(maxsize=4)
def _cached(source: str, state: tuple[int, int]) -> DuplicateEstimate:
    return estimate_duplicates(source)


def estimate_duplicates(
    source: str, options: ReadOptions | None = None, *, seed: int = 0, progress: Progress = silent
) -> DuplicateEstimate:
    """Return P(a label is on row B | it is on row A) for rows A and B with the same text, by label frequency.

    This is p if the two rows were labeled independently and each true label of A is true for B. Groups whose rows have
    the same labels are left out, since copied records would raise p; this lowers p where labels are few. The frequency
    of a label is the number of distinct texts that have it. Whether B has the label does not change it.

    Parameters
    ----------
    source : a data set with labels; without texts, rows with the same features are duplicates
    options : columns of the texts
    seed : of the bootstrap over groups
    """
    groups = _read_groups(source, options, progress)
    names: dict[Any, int] = {}
    sets = [[{names.setdefault(label, len(names)) for label in row} for row in group] for group in groups]
    counts = np.zeros(len(names), dtype=np.int64)
    for group in sets:
        for label in set().union(*group):
            counts[label] += 1
    several = [group for group in sets if len(group) > 1 and any(group)]
    equal = np.array([all(row == group[0] for row in group) for group in several], dtype=np.bool_)
    pairs = list(_recaptures(several))
    if not pairs or not (~equal).any():
        raise too_few(source, len(several), 0)
    table = np.concatenate(pairs)
    used = ~equal[table[:, 0].astype(np.int64)]
    if used.sum() < LEAST_LABELS:
        raise too_few(source, int((~equal).sum()), int(used.sum()))
    bands = _bands(table, counts, used, seed)
    return DuplicateEstimate(bands, len(several), int(equal.sum()), len(groups))


def too_few(source: str, n_groups: int, n_assignments: int) -> InputError:
    """Return the error that says how many duplicates are needed."""
    per_group = n_assignments / n_groups if n_assignments else 4.0
    return InputError(
        f"{source}: has {n_groups:,} texts that several rows have with different labels, with {n_assignments:,} label "
        f"assignments; an estimate needs {LEAST_LABELS}, that is about {ceil(LEAST_LABELS / per_group):,} such texts; "
        "have a sample checked (unmissed audit plan)"
    )


def _read_groups(source: str, options: ReadOptions | None, progress: Progress) -> list[list[list[Any]]]:
    """Return the labels of each row, grouped by text."""
    groups: dict[bytes, list[list[Any]]] = {}
    for text, labels in _rows(source, options or ReadOptions(), progress):
        if text:
            groups.setdefault(hashlib.blake2b(text, digest_size=16).digest(), []).append(labels)
    return list(groups.values())


def _rows(source: str, options: ReadOptions, progress: Progress) -> Iterator[tuple[bytes, list[Any]]]:
    """Yield the text of each row, or its features, as bytes, and its labels."""
    if holds_text(source):
        for text, labels in Documents(source, options).pairs(progress):
            yield " ".join(text.split()).encode(), labels
        return
    dataset = load(source, progress=progress)
    X, Y = dataset.X, dataset.Y
    for row in range(dataset.n_samples):
        inside = slice(X.indptr[row], X.indptr[row + 1])
        features = X.indices[inside].tobytes() + X.data[inside].tobytes()
        if dataset.dense is not None:
            features += np.asarray(dataset.dense[row]).tobytes()
        yield features, Y.indices[Y.indptr[row] : Y.indptr[row + 1]].tolist()


def _recaptures(groups: Iterable[list[set[int]]]) -> Iterator[Floats]:
    """Yield group, label and the share of the other rows of the group that have the label, of each label assignment."""
    for number, group in enumerate(groups):
        held = [(label, (sum(label in row for row in group) - 1) / (len(group) - 1)) for row in group for label in row]
        if held:
            yield np.array([(number, *one) for one in held], dtype=np.float64)


def _bands(table: Floats, counts: Integers, used: npt.NDArray[np.bool_], seed: int) -> list[DuplicateBand]:
    """Return the bands, each with about the same number of label assignments of rows that differ."""
    n = counts[table[:, 1].astype(np.int64)]
    n_bands = int(min(_MOST_BANDS, used.sum() // LEAST_LABELS))
    edges = np.unique(np.quantile(n[used], np.arange(1, n_bands) / n_bands, method="higher"))
    band = np.searchsorted(edges, n, side="left")
    rng = np.random.default_rng(seed)
    found = []
    for at in np.unique(band[used]):
        inside = used & (band == at)
        share, all_of_band = table[inside, 2], band == at
        low, high = _interval(table[inside, 0].astype(np.int64), share, rng)
        p = float(np.clip((share.sum() + 0.5) / (len(share) + 1), low, high))
        center = float(np.exp(np.log(n[inside]).mean()))
        every = float(table[all_of_band, 2].mean())
        found.append(DuplicateBand(int(n[inside].min()), int(n[inside].max()), center, len(share), p, low, high, every))
    return found


def _interval(groups: Integers, share: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean share, resampling groups."""
    which = np.unique(groups, return_inverse=True)[1]
    sums, sizes = np.bincount(which, weights=share), np.bincount(which)
    drawn = rng.integers(0, len(sums), (_RESAMPLES, len(sums)))
    low, high = np.quantile((sums[drawn].sum(1) + 0.5) / (sizes[drawn].sum(1) + 1), [0.025, 0.975])
    return float(low), float(high)
