"""Executor on threads of this process; kernels release the global interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from numbers import Integral
from typing import Any, TypeVar, cast

from unmissed.errors import InputError
from unmissed.execution.pieces import Piece
from unmissed.execution.work import SharedState, Task

Item = TypeVar("Item")
Result = TypeVar("Result")
_END = object()


def count_jobs(n_jobs: Any) -> int:
    """Return the number of threads for `n_jobs`: None and -1 mean all available cores, -2 all but one."""
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
        """Yield results in order of completion; at most two items per thread are submitted ahead."""
        if self.n_jobs == 1:
            yield from map(function, items)
            return
        with ThreadPoolExecutor(self.n_jobs, thread_name_prefix="unmissed") as pool:
            waiting: set[Future[Result]] = set()
            source = iter(items)
            try:
                while True:
                    while len(waiting) < 2 * self.n_jobs and (item := next(source, _END)) is not _END:
                        waiting.add(pool.submit(function, cast(Item, item)))
                    if not waiting:
                        return
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in sorted(done, key=lambda one: one.exception() is not None):  # failures last
                        yield future.result()
            finally:
                for future in waiting:
                    future.cancel()
