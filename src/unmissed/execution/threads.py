"""Executor on threads of this process; kernels release the global interpreter lock.

All calls share one pool of threads. A thread that is idle takes the next call; a new one is started if none is idle, so
a call inside a call never waits for a thread. Each call uses at most `n_jobs` of them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Integral
from threading import Condition, Lock
from typing import Any, Generic, TypeVar, cast

from unmissed.errors import InputError
from unmissed.execution.pieces import Piece
from unmissed.execution.work import SharedState, Task
from unmissed.numerics.workspace import MAX_IDLE_BYTES, free_workspaces

Item = TypeVar("Item")
Result = TypeVar("Result")
_END = object()
_MAX_THREADS = 2**15  # a pool that never makes a call wait for a thread


def count_jobs(n_jobs: Any) -> int:
    """Return the number of threads for `n_jobs`: None and -1 mean all available cores, -2 all but one."""
    if type(n_jobs) is int and n_jobs > 0:
        return n_jobs
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if n_jobs is None:
        return cores
    is_integer = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if not is_integer or n_jobs == 0 or n_jobs < -cores:
        raise InputError(f"n_jobs is a number of threads, or negative to count back from all {cores}; got {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else cores + 1 + int(n_jobs)


def count_in(address: str) -> int:
    """Return the number of jobs in an address such as `threads:4`; without a number, all available cores."""
    name, _, number = address.partition(":")
    if number and not (number.isdecimal() and int(number)):
        raise InputError(f"{name}:N has a number of {name}, at least 1; got {address!r}")
    return count_jobs(int(number) if number else None)


def open_threads(address: str) -> Threads:
    """Return the executor of an address `threads:N`."""
    return Threads(count_in(address))


class Threads:
    """An executor on `n_jobs` threads of this process."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = count_jobs(n_jobs)

    def map(self, tasks: Iterable[Task], shared: SharedState) -> Iterator[Piece]:
        """Yield pieces in order of completion; the shared state is built once for all threads."""
        common = shared()
        return self.each(lambda task: task.run(common), tasks)

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield results in order of completion; at most two items per thread are taken ahead.

        When the iterator ends or is closed, no item is running any more.
        """
        if self.n_jobs == 1:
            yield from map(function, items)
            return
        call = _Call(function, self.n_jobs)
        source = iter(items)
        try:
            while True:
                while call.n_open < 2 * self.n_jobs and (item := next(source, _END)) is not _END:
                    call.add(cast(Item, item))
                if not call.n_open:
                    return
                for future in call.completed():
                    yield future.result()
        finally:
            call.stop()


class _Call(Generic[Item, Result]):
    """The items of one call of `each`; at most `limit` threads of the pool work on them."""

    def __init__(self, function: Callable[[Item], Result], limit: int) -> None:
        self._function, self._limit = function, limit
        self._todo: deque[Item] = deque()
        self._done: list[Future[Result]] = []
        self._n_threads = 0
        self._changed = Condition()
        self.n_open = 0  # items whose results were not returned; used by the calling thread only

    def add(self, item: Item) -> None:
        """Queue an item, and take a further thread of the pool if fewer than `limit` are at work."""
        with self._changed:
            if self._n_threads < self._limit:
                _pool.start(self._work)
                self._n_threads += 1
            self._todo.append(item)
        self.n_open += 1

    def completed(self) -> list[Future[Result]]:
        """Wait for results; return all that are there, failures last."""
        with self._changed:
            self._changed.wait_for(lambda: self._done)
            done, self._done = self._done, []
        self.n_open -= len(done)
        return sorted(done, key=lambda future: future.exception() is not None)

    def stop(self) -> None:
        """Drop the items that were not begun and wait for the others."""
        with self._changed:
            self._todo.clear()
            self._changed.wait_for(lambda: not self._n_threads)

    def _work(self) -> None:
        """Process queued items until there are none; the body of a thread."""
        most = MAX_IDLE_BYTES
        while True:
            with self._changed:
                if not self._todo:
                    free_workspaces(most)
                    _pool.end()
                    self._n_threads -= 1
                    self._changed.notify_all()
                    return
                item = self._todo.popleft()
            future: Future[Result] = Future()
            try:
                future.set_result(self._function(item))
            except BaseException as error:  # the calling thread raises it
                future.set_exception(error)
                most = 0  # workspaces that should be zero may be not
            with self._changed:
                self._done.append(future)
                self._changed.notify_all()


class _Pool:
    """The threads of this process, started when they are needed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin without threads: those of a parent process do not exist in a forked child."""
        self._lock = Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._n_running = 0

    def start(self, work: Callable[[], None]) -> None:
        """Run a function, which calls `end` at its end, in an idle thread or in a new one."""
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="unmissed")
            self._executor.submit(work)
            self._n_running += 1

    def end(self) -> None:
        """Count a function as ended."""
        with self._lock:
            self._n_running -= 1

    def end_idle(self) -> None:
        """End the threads if none is working: a process that forks should have no other threads."""
        with self._lock:
            if self._executor is not None and not self._n_running:
                self._executor.shutdown()
                self._executor = None


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pool.end_idle, after_in_child=_pool.forget)
