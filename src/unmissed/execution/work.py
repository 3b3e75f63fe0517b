"""Work: runs tasks on an executor, stores their pieces and reports progress; finished tasks are skipped."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from unmissed.errors import InputError, UnmissedError
from unmissed.execution.pieces import InMemory, OnDisk, Piece, Pieces, PrefixedPieces
from unmissed.progress import AllProgress, Progress, silent
from unmissed.settings import SETTINGS

_logger = logging.getLogger(__name__)


class Task(Protocol):
    """A unit of work that makes one piece.

    A task is a frozen dataclass of numbers, strings and paths, so that it can be pickled. It holds neither X nor a
    closure: data comes from the shared state.
    """

    @property
    def key(self) -> str:
        """The key of the piece that the task makes."""

    @property
    def size(self) -> int:
        """The weight of the task in progress reports, such as its number of labels."""

    def run(self, shared: Any) -> Piece:
        """Return the piece; it depends on the task and the shared state only."""


class SharedState(Protocol):
    """Builds the state that all tasks share, once per process that runs tasks.

    Implementations are dataclasses; one can be pickled if its fields can.
    """

    def __call__(self) -> Any:
        """Return the shared state."""


class Executor(Protocol):
    """Runs tasks in this process, in other processes or on a cluster.

    An executor with the attribute `elsewhere = True` runs tasks on other machines; its workers write the pieces.
    """

    def map(self, tasks: Iterable[Task], shared: SharedState) -> Iterator[Piece]:
        """Yield the piece of each task once, in order of completion; `tasks` is consumed lazily."""


@dataclass(frozen=True)
class Partition:
    """A partition of the list of tasks, and a time limit.

    Partition `number` (counted from 1) of `of` holds the tasks at positions number - 1, number - 1 + of, and so on.
    Processes may work on any partitions of one folder at the same time, in any order, even twice on the same one.

    Parameters
    ----------
    number, of : the partition and the number of partitions
    seconds : no task is started that would probably end later than this; None for no limit. With 0 no task is
        started: finished pieces are collected and the missing ones reported
    """

    number: int = 1
    of: int = 1
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.of:
            raise InputError(f"a partition is one of 1/{self.of} to {self.of}/{self.of}; got {self.number}/{self.of}")
        if self.seconds is not None and not self.seconds >= 0:
            raise InputError(f"the time limit of a partition is at least 0 seconds; got {self.seconds}")

    @property
    def is_all(self) -> bool:
        """Whether the partition holds all tasks."""
        return self.of == 1 and self.seconds != 0

    def takes(self, position: int) -> bool:
        """Return whether the task at this position of the full list belongs to this partition."""
        return position % self.of == self.number - 1


class Unfinished(UnmissedError):  # noqa: N818, the normal end of a partition
    """Raised when a partition ends and pieces are still missing.

    Parameters
    ----------
    finished : number of finished pieces, of all partitions
    missing : keys of the missing pieces, of all partitions
    own : number of missing pieces that belong to this partition: its time limit came first
    """

    def __init__(self, finished: int, missing: Sequence[str], own: int) -> None:
        self.finished, self.missing, self.own = finished, list(missing), own
        named = ", ".join(self.missing[:3]) + (", ..." if len(self.missing) > 3 else "")
        super().__init__(f"{finished} of {finished + len(self.missing)} pieces are finished; missing: {named}")


@dataclass(frozen=True)
class Placed:
    """A task whose worker writes the piece to disk and returns only its key.

    A piece that is on disk already is not made again.
    """

    task: Task
    pieces: OnDisk

    @property
    def key(self) -> str:
        """The key of the piece that the task makes."""
        return self.task.key

    @property
    def size(self) -> int:
        """The weight of the task in progress reports."""
        return self.task.size

    def run(self, shared: Any) -> Piece:
        """Write the piece unless it is there; return its key without arrays."""
        if not self.pieces.has(self.key):
            self.pieces.put(self.task.run(shared))
        return Piece(self.key)


class Work:
    """Runs tasks and stores their pieces, so that an interrupted `fit` resumes.

    Parameters
    ----------
    pieces : storage of finished pieces; in memory by default
    executor : runs the tasks; with None the model sets one, usually threads
    progress : progress callback; it gets the finished and the total size of this partition's tasks
    partition : the tasks to run and the time limit; all tasks by default. `map` raises `Unfinished` if pieces of other
        partitions are missing at the end
    """

    def __init__(
        self,
        pieces: Pieces | None = None,
        executor: Executor | None = None,
        progress: Progress = silent,
        partition: Partition | None = None,
    ) -> None:
        self.pieces: Pieces = InMemory() if pieces is None else pieces
        self.executor = executor
        self.progress = progress
        self.partition = Partition() if partition is None else partition
        self._begin = time.monotonic()
        self._longest = 0.0  # seconds that the slowest task took, from its start to its piece
        self._done = 0
        self._total = 0
        self._planned = 0

    def below(self, prefix: str, progress: Progress = silent) -> Work:
        """Return work whose pieces are stored under a prefix, with this executor, partition and remaining time."""
        partition = self.partition
        if partition.seconds is not None:
            partition = replace(partition, seconds=max(self._seconds_left(), 0.0))
        return Work(PrefixedPieces(self.pieces, prefix), self.executor, progress, partition)

    def plan(self, size: int) -> None:
        """Announce the total size of all further `map` calls, so that progress shows the right total from the start."""
        self._planned = self._total + size

    def map(self, tasks: Sequence[Task], shared: SharedState) -> Iterator[Piece]:
        """Yield the piece of every task: first the stored pieces, then new ones in order of completion."""
        assert self.executor is not None  # `Model` sets one before it calls `map`
        self._total += sum(task.size for position, task in enumerate(tasks) if self.partition.takes(position))
        missing: dict[str, Task] = {}
        own: dict[str, Task] = {}
        for position, task in enumerate(tasks):
            piece = self.pieces.get(task.key)
            if piece is not None:
                self._done += task.size if self.partition.takes(position) else 0
                yield piece
                continue
            missing[task.key] = task
            if self.partition.takes(position):
                own[task.key] = task
        if tasks:
            n_stored = len(tasks) - len(missing)
            _logger.info("%d of %d pieces are there, %d are made here", n_stored, len(tasks), len(own))
        self.tell(0)
        for piece in self._run_own(own, shared):
            self.tell(missing.pop(piece.key).size)
            own.pop(piece.key)
            yield piece
        for key, task in list(missing.items()):  # other partitions may have finished these in the meantime
            if self.partition != Partition() and (piece_of_other := self.pieces.get(key)) is not None:
                if own.pop(key, None) is not None:
                    self.tell(task.size)
                del missing[key]
                yield piece_of_other
        if missing:
            raise Unfinished(len(tasks) - len(missing), list(missing), len(own))

    def run(self, tasks: Sequence[Task], shared: SharedState) -> None:
        """Make and store the piece of every task."""
        for _ in self.map(tasks, shared):
            pass

    @contextmanager
    def reporting(self, *callbacks: Progress) -> Iterator[None]:
        """Call further progress callbacks, after that of the constructor, while this context is open."""
        before = self.progress
        self.progress = AllProgress(before, *callbacks) if callbacks else before
        try:
            yield
        finally:
            self.progress = before

    def tell(self, size: int) -> None:
        """Report tasks of total size `size` as finished to the progress callback."""
        self._done += size
        self.progress(self._done, max(self._total, self._planned, self._done))

    def _run_own(self, own: dict[str, Task], shared: SharedState) -> Iterator[Piece]:
        """Yield new pieces once they are stored, until all are finished or the time limit is reached."""
        if not own or self._seconds_left() <= 0:
            return
        assert self.executor is not None
        elsewhere = getattr(self.executor, "elsewhere", False) and isinstance(self.pieces, OnDisk)
        started: dict[str, float] = {}
        for piece in self.executor.map(self._start(list(own.values()), started, elsewhere), shared):
            seconds = time.monotonic() - started[piece.key]
            self._longest = max(self._longest, seconds)
            _logger.debug("piece %s made, %.2f s after its task was taken", piece.key, seconds)
            if elsewhere:
                yield self._open_written(piece.key)
            else:
                self.pieces.put(piece)
                yield self.pieces.get(piece.key) or piece

    def _start(self, tasks: Iterable[Task], started: dict[str, float], elsewhere: bool) -> Iterator[Task]:
        """Yield tasks while the slowest one so far would still end within the time limit."""
        for task in tasks:
            if self._seconds_left() <= self._longest:
                return
            started[task.key] = time.monotonic()
            yield Placed(task, self.pieces) if elsewhere and isinstance(self.pieces, OnDisk) else task

    def _seconds_left(self) -> float:
        """Return the seconds until the time limit of the partition."""
        return (
            float("inf") if self.partition.seconds is None else self._begin + self.partition.seconds - time.monotonic()
        )

    def _open_written(self, key: str) -> Piece:
        """Open a piece that a worker wrote; a shared disk may show it with a delay."""
        end = time.monotonic() + SETTINGS.piece_seconds
        while (piece := self.pieces.get(key)) is None:
            if time.monotonic() > end:
                raise UnmissedError(
                    f"a worker wrote the piece {key}, but it is not visible here; do all machines share one disk?"
                )
            time.sleep(0.05)
        return piece
