"""Statistics and propensity-model constants (A, B) of the paper's six data sets and of Amazon-3M."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from unmissed.errors import InputError


@dataclass(frozen=True)
class CatalogEntry:
    """Statistics of one data set, as in the table of the paper or of the XMC repository.

    `points_per_label` (APpL) and `labels_per_point` (ALpP) are the published values; `a` and `b` are the constants of
    the propensity model p = 1 / (1 + (ln N - 1) (b + 1)^a (n_l + b)^-a).
    """

    name: str
    n_train: int
    n_test: int
    n_labels: int
    n_features: int
    points_per_label: float
    labels_per_point: float
    a: float
    b: float


_ENTRIES = (
    CatalogEntry("EURLex-4K", 15_539, 3_809, 3_993, 5_000, 25.7, 5.3, 0.55, 1.5),
    CatalogEntry("AmazonCat-13K", 1_186_239, 306_782, 13_330, 203_882, 448.5, 5.04, 0.55, 1.5),
    CatalogEntry("Wikipedia-31K", 14_146, 6_616, 30_938, 101_938, 8.5, 18.6, 0.55, 1.5),
    CatalogEntry("WikiLSHTC-325K", 1_778_351, 587_084, 325_056, 1_617_899, 17.4, 3.2, 0.5, 0.4),
    CatalogEntry("Wikipedia-500K", 1_813_391, 783_743, 501_070, 2_381_304, 24.7, 4.7, 0.5, 0.4),
    CatalogEntry("Amazon-670K", 490_499, 153_025, 670_091, 135_909, 3.9, 5.4, 0.6, 2.6),
)
_FURTHER = (
    CatalogEntry("Amazon-3M", 1_717_899, 742_507, 2_812_281, 337_067, 31.64, 36.17, 0.6, 2.6),
)  # not in the paper's table


def known() -> tuple[CatalogEntry, ...]:
    """Return the data sets of the paper, in its table's order."""
    return _ENTRIES


def find(name: str) -> CatalogEntry:
    """Return the catalog entry with this name, ignoring case."""
    entries = _ENTRIES + _FURTHER
    for entry in entries:
        if entry.name.casefold() == name.casefold():
            return entry
    raise InputError(f"unknown data set {name!r}; the catalog knows {', '.join(entry.name for entry in entries)}")


class Recognized(NamedTuple):
    """A catalog entry, and the evidence that it was recognized by: `name` or `statistics`."""

    entry: CatalogEntry
    by: str


_OTHER_NAMES = {"wiki1031k": "Wikipedia-31K", "eurlex4k": "EURLex-4K"}  # file names of the XMC repository
_MIN_EQUAL_SIZES = 3  # of 4; releases of one data set differ by a few rows


def recognize(names: Sequence[str], sizes: tuple[int, int, int, int]) -> Recognized | None:
    """Return the catalog entry that matches a name, else the one that matches the statistics, else None.

    Parameters
    ----------
    names : candidate names, such as the components of a path; case and punctuation are ignored
    sizes : n_train, n_test, n_labels, n_features; three equal values are sufficient
    """
    by_spelling = {_alphanumeric(entry.name): entry for entry in _ENTRIES}
    by_spelling |= {other: find(name) for other, name in _OTHER_NAMES.items()}
    for name in map(_alphanumeric, names):
        for spelling, entry in by_spelling.items():
            if name.startswith(spelling):
                return Recognized(entry, "name")
    for entry in _ENTRIES:
        published = (entry.n_train, entry.n_test, entry.n_labels, entry.n_features)
        if sum(expected == size for expected, size in zip(published, sizes, strict=True)) >= _MIN_EQUAL_SIZES:
            return Recognized(entry, "statistics")
    return None


def _alphanumeric(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())
