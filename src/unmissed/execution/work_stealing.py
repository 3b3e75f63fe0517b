"""A work-stealing thread pool for jobs whose items create further items, such as the nodes of a tree."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import count
from threading import Condition, Thread
from typing import Any

Step = Callable[[Any], Iterable[tuple[int, Any]]]
"""Processes one item; returns the new items that it creates, each with its size."""


class WorkStealingPool:
    """A pool of cores for several jobs: each job has one core, and idle cores take items of any job.

    Threads and order of execution are not deterministic; the results of a step must not depend on them.
    """

    def __init__(self, n_cores: int) -> None:
        self._n_workers = n_cores - 1
        self._free = n_cores
        self._jobs: list[_Job] = []
        self._working = 0
        self._changed = Condition()

    def run(self, step: Step, item: Any) -> None:
        """Process an item and all items that it creates, in this thread and on idle cores; raise the first error."""
        job = _Job(step)
        job.add([(0, item)])
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0)
            self._free -= 1
            self._jobs.append(job)
            while self._working < self._n_workers:
                self._working += 1
                Thread(target=self._work, name="unmissed-worker", daemon=True).start()
        try:
            self._finish(job)
        finally:
            with self._changed:
                self._free += 1
                self._jobs.remove(job)
                job.todo.clear()
                self._changed.notify_all()
        if job.error is not None:
            raise job.error

    def _finish(self, job: _Job) -> None:
        """Process items of a job until none is queued and none is running."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(job.todo) or not job.running)
                if not job.todo:
                    return
                item = job.take()
            self._do(job, item)

    def _work(self) -> None:
        """Process the largest queued item of any job whenever a core is free; end when there are no jobs."""
        while True:
            with self._changed:
                self._changed.wait_for(self._may_work)
                if not self._jobs:
                    self._working -= 1
                    return
                waiting = [job for job in self._jobs if job.todo]
                job = min(waiting, key=lambda job: job.todo[0][0])  # compare sizes only: items have no order
                item = job.take()
                self._free -= 1
            self._do(job, item)
            with self._changed:
                self._free += 1
                self._changed.notify_all()

    def _may_work(self) -> bool:
        return not self._jobs or (self._free > 0 and any(job.todo for job in self._jobs))

    def _do(self, job: _Job, item: Any) -> None:
        more: Iterable[tuple[int, Any]] = ()
        error: BaseException | None = None
        try:
            more = job.step(item)
        except BaseException as raised:  # the thread that called `run` raises it
            error = raised
        with self._changed:
            job.running -= 1
            job.error = job.error or error
            if job.error is None:
                job.add(more)
            else:
                job.todo.clear()
            self._changed.notify_all()


class _Job:
    """A queue of items, largest first, and the number of items that are running."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.todo: list[tuple[int, int, Any]] = []
        self.running = 0
        self.error: BaseException | None = None
        self._number = count()

    def add(self, items: Iterable[tuple[int, Any]]) -> None:
        for size, item in items:
            heapq.heappush(self.todo, (-size, next(self._number), item))

    def take(self) -> Any:
        self.running += 1
        return heapq.heappop(self.todo)[2]
