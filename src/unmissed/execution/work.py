"""Work: tasks over an executor, their pieces, and progress; what is finished is not done again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from unmissed.errors import InputError, UnmissedError
from unmissed.execution.pieces import InMemory, OnDisk, Piece, Pieces
from unmissed.progress import Progress, silent

_PATIENCE = 10.0  # seconds that a shared disk may take to show what another machine wrote


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
    """Runs tasks, here or elsewhere; one that says so by `elsewhere = True` has pieces written where they are made."""

    def map(self, tasks: Iterable[Task], shared: Shared) -> Iterator[Piece]:
        """Yield each task's piece once, as they are finished, in any order; tasks are taken up as they are needed."""


@dataclass(frozen=True)
class Share:
    """What is done of all tasks: every `of`-th, from the `number`-th on (from 1), begun within `seconds`.

    Any number of shares may work into one folder at the same time, in any order, even the same one twice. `seconds=0`
    begins no task: it takes up what is finished and says what is missing.
    """

    number: int = 1
    of: int = 1
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.of:
            raise InputError(f"a share is one of 1/{self.of} to {self.of}/{self.of}; got {self.number}/{self.of}")
        if self.seconds is not None and not self.seconds >= 0:
            raise InputError(f"a share's time is a number of seconds, at least 0; got {self.seconds}")

    @property
    def is_all(self) -> bool:
        """Whether no task is left to others."""
        return self.of == 1 and self.seconds != 0

    def takes(self, place: int) -> bool:
        """Tell whether the task at this place in the list of all is one of this share."""
        return place % self.of == self.number - 1


class Unfinished(UnmissedError):  # noqa: N818, it ends a share as it should
    """Pieces are missing that this share did not make.

    `own` counts those of them that the share would have made if its time had not been up; `finished` and `missing` are
    about all.
    """

    def __init__(self, finished: int, missing: Sequence[str], own: int) -> None:
        self.finished, self.missing, self.own = finished, list(missing), own
        named = ", ".join(self.missing[:3]) + (", ..." if len(self.missing) > 3 else "")
        super().__init__(f"{finished} of {finished + len(self.missing)} pieces are finished; missing: {named}")


@dataclass(frozen=True)
class Placed:
    """A task that puts its piece where it belongs and returns the key alone; one that is there is not made again."""

    task: Task
    pieces: OnDisk

    @property
    def key(self) -> str:
        """The key of the piece."""
        return self.task.key

    @property
    def size(self) -> int:
        """What the task counts for in progress."""
        return self.task.size

    def run(self, shared: Any) -> Piece:
        """Make and keep the piece."""
        if not self.pieces.has(self.key):
            self.pieces.put(self.task.run(shared))
        return Piece(self.key)


class Work:
    """Pieces, an executor and progress: what `fit` needs to go on where it stopped.

    Parameters
    ----------
    pieces : where finished pieces are kept and looked for; in memory by default
    executor : where tasks run; None leaves it to the model, which takes threads
    progress : told how much of the share is done, in units of the tasks' sizes
    share : which tasks are done here and for how long; all by default. Where others are missing in the end, `map`
        raises `Unfinished`
    """

    def __init__(
        self,
        pieces: Pieces | None = None,
        executor: Executor | None = None,
        progress: Progress = silent,
        share: Share | None = None,
    ) -> None:
        self.pieces: Pieces = InMemory() if pieces is None else pieces
        self.executor = executor
        self.progress = progress
        self.share = Share() if share is None else share
        self._begin = time.monotonic()
        self._longest = 0.0  # seconds from when a task was taken up until its piece was there
        self._done = 0
        self._total = 0
        self._planned = 0

    def plan(self, size: int) -> None:
        """Announce how much all further maps will come to, so that progress knows its end from the start."""
        self._planned = self._total + size

    def map(self, tasks: Sequence[Task], shared: Shared) -> Iterator[Piece]:
        """Yield the piece of every task: first those that are there, then new ones as they are finished and kept."""
        assert self.executor is not None  # the model has seen to it
        self._total += sum(task.size for place, task in enumerate(tasks) if self.share.takes(place))
        missing: dict[str, Task] = {}
        own: dict[str, Task] = {}
        for place, task in enumerate(tasks):
            piece = self.pieces.get(task.key)
            if piece is not None:
                self._done += task.size if self.share.takes(place) else 0
                yield piece
                continue
            missing[task.key] = task
            if self.share.takes(place):
                own[task.key] = task
        self.tell(0)
        for piece in self._made(own, shared):
            self.tell(missing.pop(piece.key).size)
            own.pop(piece.key)
            yield piece
        for key, task in list(missing.items()):  # what others have finished in the meantime
            if self.share != Share() and (found := self.pieces.get(key)) is not None:
                if own.pop(key, None) is not None:
                    self.tell(task.size)
                del missing[key]
                yield found
        if missing:
            raise Unfinished(len(tasks) - len(missing), list(missing), len(own))

    def run(self, tasks: Sequence[Task], shared: Shared) -> None:
        """Have every task's piece made and kept."""
        for _ in self.map(tasks, shared):
            pass

    def tell(self, size: int) -> None:
        """Tell that `size` more is done."""
        self._done += size
        self.progress(self._done, max(self._total, self._planned, self._done))

    def _made(self, own: dict[str, Task], shared: Shared) -> Iterator[Piece]:
        """Yield new pieces as they are finished and kept, until all are or the time is up."""
        if not own or self._left() <= 0:
            return
        assert self.executor is not None
        elsewhere = getattr(self.executor, "elsewhere", False) and isinstance(self.pieces, OnDisk)
        taken: dict[str, float] = {}
        for piece in self.executor.map(self._taken_up(list(own.values()), taken, elsewhere), shared):
            self._longest = max(self._longest, time.monotonic() - taken[piece.key])
            if elsewhere:
                yield self._arrived(piece.key)
            else:
                self.pieces.put(piece)
                yield self.pieces.get(piece.key) or piece

    def _taken_up(self, tasks: Iterable[Task], taken: dict[str, float], elsewhere: bool) -> Iterator[Task]:
        """Give tasks one by one, as long as one more would be finished in time."""
        for task in tasks:
            if self._left() <= self._longest:
                return
            taken[task.key] = time.monotonic()
            yield Placed(task, self.pieces) if elsewhere and isinstance(self.pieces, OnDisk) else task

    def _left(self) -> float:
        """Return how many seconds the share has left."""
        return float("inf") if self.share.seconds is None else self._begin + self.share.seconds - time.monotonic()

    def _arrived(self, key: str) -> Piece:
        """Open a piece that was written elsewhere; a shared disk may take a moment to show it."""
        end = time.monotonic() + _PATIENCE
        while (piece := self.pieces.get(key)) is None:
            if time.monotonic() > end:
                raise UnmissedError(f"a worker wrote the piece {key}, and it is not here; do all share one disk?")
            time.sleep(0.05)
        return piece
