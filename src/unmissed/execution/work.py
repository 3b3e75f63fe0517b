"""Work: tasks over an executor, their pieces, and progress; what is finished is not done again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from unmissed.execution.pieces import InMemory, Piece, Pieces
from unmissed.progress import Progress, silent


class Task(Protocol):
    """A piece to be made: a frozen dataclass of numbers, words and paths that can be pickled; never X, never a closure.

    `key` is the key of its piece, `size` what it counts for in progress.
    """

    @property
    def key(self) -> str:
        """The key of the piece."""

    @property
    def size(self) -> int:
        """What the task counts for in progress."""

    def run(self, shared: Any) -> Piece:
        """Make the piece of what all tasks share; it depends on nothing else."""


class Shared(Protocol):
    """Makes what tasks share, once where they run: a dataclass that can be pickled where its fields can."""

    def __call__(self) -> Any:
        """Make it."""


class Executor(Protocol):
    """Runs tasks, here or elsewhere."""

    def map(self, tasks: Iterable[Task], shared: Shared) -> Iterator[Piece]:
        """Yield each task's piece once, as they are finished, in any order."""


class Work:
    """Pieces, an executor and progress: what `fit` needs to go on where it stopped.

    Parameters
    ----------
    pieces : where finished pieces are kept and looked for; in memory by default
    executor : where tasks run; None leaves it to the model, which takes threads
    progress : told how much is done, in units of the tasks' sizes
    """

    def __init__(
        self, pieces: Pieces | None = None, executor: Executor | None = None, progress: Progress = silent
    ) -> None:
        self.pieces: Pieces = InMemory() if pieces is None else pieces
        self.executor = executor
        self.progress = progress
        self._done = 0
        self._total = 0
        self._planned = 0

    def plan(self, size: int) -> None:
        """Announce how much all further maps will come to, so that progress knows its end from the start."""
        self._planned = self._total + size

    def map(self, tasks: Sequence[Task], shared: Shared) -> Iterator[Piece]:
        """Yield the piece of every task: first those that are there, then new ones as they are finished and kept."""
        assert self.executor is not None  # the model has seen to it
        self._total += sum(task.size for task in tasks)
        missing = []
        for task in tasks:
            piece = self.pieces.get(task.key)
            if piece is None:
                missing.append(task)
            else:
                self._done += task.size
                yield piece
        self.tell(0)
        sizes = {task.key: task.size for task in missing}
        if missing:
            for piece in self.executor.map(missing, shared):
                self.pieces.put(piece)
                self.tell(sizes[piece.key])
                yield self.pieces.get(piece.key) or piece

    def run(self, tasks: Sequence[Task], shared: Shared) -> None:
        """Have every task's piece made and kept."""
        for _ in self.map(tasks, shared):
            pass

    def tell(self, size: int) -> None:
        """Tell that `size` more is done."""
        self._done += size
        self.progress(self._done, max(self._total, self._planned, self._done))
