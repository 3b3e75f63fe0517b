"""The six data sets of the paper's table, and Amazon-3M: their statistics, and A and B of their propensity model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from unmissed.errors import InputError


@dataclass(frozen=True)
class Entry:
    """A data set, as a row of the paper's table or of the XMC repository's.

    `points_per_label` (APpL) and `labels_per_point` (ALpP) are as printed there; `a` and `b` are the constants of the
    propensity model p = 1 / (1 + (ln N - 1) (b + 1)^a (n_l + b)^-a).
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
    Entry("EURLex-4K", 15_539, 3_809, 3_993, 5_000, 25.7, 5.3, 0.55, 1.5),
    Entry("AmazonCat-13K", 1_186_239, 306_782, 13_330, 203_882, 448.5, 5.04, 0.55, 1.5),
    Entry("Wikipedia-31K", 14_146, 6_616, 30_938, 101_938, 8.5, 18.6, 0.55, 1.5),
    Entry("WikiLSHTC-325K", 1_778_351, 587_084, 325_056, 1_617_899, 17.4, 3.2, 0.5, 0.4),
    Entry("Wikipedia-500K", 1_813_391, 783_743, 501_070, 2_381_304, 24.7, 4.7, 0.5, 0.4),
    Entry("Amazon-670K", 490_499, 153_025, 670_091, 135_909, 3.9, 5.4, 0.6, 2.6),
)
_FURTHER = (Entry("Amazon-3M", 1_717_899, 742_507, 2_812_281, 337_067, 31.64, 36.17, 0.6, 2.6),)  # not in the table


def known() -> tuple[Entry, ...]:
    """Return the data sets of the paper, in its table's order."""
    return _ENTRIES


def find(name: str) -> Entry:
    """Return the entry of a data set by its name, whatever the case of its letters."""
    entries = _ENTRIES + _FURTHER
    for entry in entries:
        if entry.name.casefold() == name.casefold():
            return entry
    raise InputError(f"unknown data set {name!r}; the catalogue knows {', '.join(entry.name for entry in entries)}")


class Recognised(NamedTuple):
    """An entry, and what it was recognised by: `name` or `statistics`."""

    entry: Entry
    by: str


_OTHER_NAMES = {"wiki1031k": "Wikipedia-31K", "eurlex4k": "EURLex-4K"}  # as the XMC repository's files are called
_ALIKE = 3  # of the four sizes; editions of one data set differ by a few rows


def recognise(names: Sequence[str], sizes: tuple[int, int, int, int]) -> Recognised | None:
    """Find the data set of the paper that something is: by a name that it has, else by its statistics.

    Parameters
    ----------
    names : what the data set may be called, such as the parts of its path; case and punctuation do not matter
    sizes : rows to train on, rows to test on, labels, features; three equal ones are enough
    """
    spelled = {_bare(entry.name): entry for entry in _ENTRIES}
    spelled |= {other: find(name) for other, name in _OTHER_NAMES.items()}
    for name in map(_bare, names):
        for spelling, entry in spelled.items():
            if name.startswith(spelling):
                return Recognised(entry, "name")
    for entry in _ENTRIES:
        own = (entry.n_train, entry.n_test, entry.n_labels, entry.n_features)
        if sum(one == two for one, two in zip(own, sizes, strict=True)) >= _ALIKE:
            return Recognised(entry, "statistics")
    return None


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())
