"""Twins: labels with the same positives and costs are the same problem, and are solved once."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unmissed.solvers.design import Floats, LabelBlock, Rows

_MOST = 2**28  # bytes of solutions that are remembered; the oldest are forgotten first


@dataclass(frozen=True)
class Solution:
    """A label as it goes into a shard: its places of features and weights, its bias, and what is known of it."""

    places: Rows
    weights: Floats
    bias: np.float32
    pruned: float
    objective: float
    gap: float
    epochs: int

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return self.places.nbytes + self.weights.nbytes


def seed_of(positives: Rows) -> int:
    """Return a number made of the places of a label's positives: labels that have the same get the same."""
    return zlib.crc32(np.ascontiguousarray(positives, np.int64).tobytes())


class Solutions(Protocol):
    """Where the solutions of a block's labels are put, by place."""

    def put(self, at: int, solution: Solution) -> None:
        """Take a label's solution."""

    def get(self, at: int) -> Solution | None:
        """Return a label's solution, if it is there."""


class Twins:
    """Solutions of labels whose positives a block says occur again; threads may share it.

    What a label's solution is depends on its positives and costs, not on its number. So it does not matter which of two
    twins is solved, nor whether the first was forgotten.
    """

    def __init__(self) -> None:
        self._solutions: OrderedDict[bytes, Solution] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def begin(self, block: LabelBlock, builder: Solutions) -> list[int]:
        """Hand over what is known of a block's labels; return those to be solved, of twins in the block the first."""
        todo, seen = [], set()
        for at in range(block.n_labels):
            key = _key(block, at)
            known = None if key is None else self._find(key)
            if known is not None:
                builder.put(at, known)
            elif key is None or key not in seen:
                todo.append(at)
                seen.add(key)
        return todo

    def end(self, block: LabelBlock, builder: Solutions) -> None:
        """Hand the solutions of a block's labels on to their twins in it, and remember them for other blocks."""
        found: dict[bytes, Solution] = {}
        for at in range(block.n_labels):
            key = _key(block, at)
            if key is None:
                continue
            solution = builder.get(at)
            if solution is None:
                builder.put(at, found[key])
            else:
                found[key] = solution
                self._keep(key, solution)

    def _find(self, key: bytes) -> Solution | None:
        with self._lock:
            return self._solutions.get(key)

    def _keep(self, key: bytes, solution: Solution) -> None:
        with self._lock:
            if key not in self._solutions:
                self._solutions[key] = solution
                self._size += len(key) + solution.size
            while self._size > _MOST:
                forgotten, old = self._solutions.popitem(last=False)
                self._size -= len(forgotten) + old.size


def _key(block: LabelBlock, at: int) -> bytes | None:
    """Return what makes label `at` of a block the problem it is, or None if no other label is the same."""
    if block.again is None or not block.again[at]:
        return None
    costs = np.array([block.positive[at], block.negative[at]], np.float64)
    return costs.tobytes() + block.positives(at).tobytes()
