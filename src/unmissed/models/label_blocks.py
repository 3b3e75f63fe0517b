"""Pieces that hold blocks of consecutive labels: their keys, and iteration in label order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from unmissed.errors import InputError
from unmissed.execution import Piece

T = TypeVar("T")


def label_key(first: int) -> str:
    """Return the key of the piece whose first label is `first`."""
    return f"labels/{first:08d}"


def walk_labels(
    n_labels: int, get: Callable[[str], Piece | None], read: Callable[[Piece, int], T], count: Callable[[T], int]
) -> Iterator[T]:
    """Yield `read(piece, first_label)` for the pieces of all labels, in label order; raise if one is missing."""
    first = 0
    while first < n_labels:
        piece = get(label_key(first))
        if piece is None:
            raise InputError(f"the piece {label_key(first)} is missing; the run is damaged")
        yield (found := read(piece, first))
        first += count(found)
    if first != n_labels:
        raise InputError(f"pieces hold {first} labels, expected {n_labels}; the run is damaged")


MOST_LABELS = 2**16  # shards store label offsets in 16 bits
