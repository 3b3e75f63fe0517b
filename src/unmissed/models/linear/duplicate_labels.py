"""DuplicateLabels: a cache of solutions, so that labels with the same positives and costs are solved once."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unmissed.models.linear.design import Floats, LabelBlock, RowIndices
from unmissed.settings import SETTINGS


@dataclass(frozen=True)
class Solution:
    """The solution of one label: weights of sparse features after pruning, of dense ones, bias, and certificate.

    `positions` are columns of the sparse features, counted from the first sparse one. `dual` has the rows of X whose
    dual variables are above 0, and these variables, signed as in `DualVariables`; None if they are not kept.
    `full_objective` is that on all rows if the problem had some of them only.
    """

    positions: RowIndices
    weights: Floats
    dense: Floats
    bias: np.float32
    pruned: float
    objective: float
    gap: float
    epochs: int
    dual: tuple[RowIndices, Floats] | None = None
    full_objective: float | None = None

    @property
    def size(self) -> int:
        """The size in bytes."""
        arrays = self.positions, self.weights, self.dense, *(self.dual or ())
        return sum(array.nbytes for array in arrays)


def seed_of(positives: RowIndices) -> int:
    """Return a random seed that depends on a label's positives only, so that duplicate labels get the same one."""
    return zlib.crc32(np.ascontiguousarray(positives, np.int64).tobytes())


class Solutions(Protocol):
    """The solutions of a block's labels, by position in the block."""

    def put(self, at: int, solution: Solution) -> None:
        """Set the solution of label `at`."""

    def get(self, at: int) -> Solution | None:
        """Return the solution of label `at`, or None if it is not set."""


class DuplicateLabels:
    """A thread-safe cache of the solutions of labels that `LabelBlock.may_have_duplicate` lists.

    A solution depends on the label's positives, its costs and the dual variables that it starts from, not on its
    number. The result is therefore the same whichever of two duplicate labels is solved, and whether or not a solution
    was evicted.
    """

    def __init__(self) -> None:
        self._solutions: OrderedDict[bytes, Solution] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def begin(self, block: LabelBlock, builder: Solutions) -> list[int]:
        """Put cached solutions into `builder`; return the labels to solve, the first of each set of duplicates."""
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
        """Copy solutions to the duplicate labels of the block and cache them for other blocks."""
        solved: dict[bytes, Solution] = {}
        for at in range(block.n_labels):
            key = _key(block, at)
            if key is None:
                continue
            solution = builder.get(at)
            if solution is None:
                builder.put(at, solved[key])
            else:
                solved[key] = solution
                self._keep(key, solution)

    def _find(self, key: bytes) -> Solution | None:
        with self._lock:
            return self._solutions.get(key)

    def _keep(self, key: bytes, solution: Solution) -> None:
        with self._lock:
            if key not in self._solutions:
                self._solutions[key] = solution
                self._size += len(key) + solution.size
            while self._size > SETTINGS.duplicate_bytes:
                old_key, old = self._solutions.popitem(last=False)
                self._size -= len(old_key) + old.size


def _key(block: LabelBlock, at: int) -> bytes | None:
    """Return the cache key of label `at`, all that its solution depends on, or None if it has no duplicate."""
    if block.may_have_duplicate is None or not block.may_have_duplicate[at]:
        return None
    counter = 0.0 if block.counter is None else block.counter[at]
    positive = block.positive_costs(at) if block.per_cell else block.positive[at : at + 1]
    costs = np.append(positive, [counter, block.negative[at]])
    initial = None if block.initial is None else block.initial.of_labels(at, at + 1)
    known = b"" if initial is None else initial.rows.tobytes() + initial.values.tobytes()
    return costs.tobytes() + block.positives(at).tobytes() + known
