"""Cores lent to work that falls into smaller work: who has nothing left of his own helps the others."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import count
from threading import Condition, Thread
from typing import Any

Step = Callable[[Any], Iterable[tuple[int, Any]]]
"""Does one item; returns the items that come of it, each with its size."""


class Crew:
    """A number of cores for several jobs at a time: a job has one core, and idle cores take items of any job.

    What is done by which thread, and in which order, is left open; a step's result must not depend on it.
    """

    def __init__(self, n_cores: int) -> None:
        self._n_helpers = n_cores - 1
        self._free = n_cores
        self._jobs: list[_Job] = []
        self._helping = 0
        self._changed = Condition()

    def run(self, step: Step, item: Any) -> None:
        """Do an item and all that comes of it, in this thread and on idle cores; the first error is raised."""
        job = _Job(step)
        job.add([(0, item)])
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0)
            self._free -= 1
            self._jobs.append(job)
            while self._helping < self._n_helpers:
                self._helping += 1
                Thread(target=self._help, name="unmissed-helper", daemon=True).start()
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
        """Do a job's items until none is left and none is under way."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(job.todo) or not job.running)
                if not job.todo:
                    return
                item = job.take()
            self._do(job, item)

    def _help(self) -> None:
        """Do the largest item that waits, of any job, whenever a core is free; end when there are no jobs."""
        while True:
            with self._changed:
                self._changed.wait_for(self._may_help)
                if not self._jobs:
                    self._helping -= 1
                    return
                waiting = [job for job in self._jobs if job.todo]
                job = min(waiting, key=lambda job: job.todo[0][0])  # by size alone: items have no order
                item = job.take()
                self._free -= 1
            self._do(job, item)
            with self._changed:
                self._free += 1
                self._changed.notify_all()

    def _may_help(self) -> bool:
        return not self._jobs or (self._free > 0 and any(job.todo for job in self._jobs))

    def _do(self, job: _Job, item: Any) -> None:
        more: Iterable[tuple[int, Any]] = ()
        error: BaseException | None = None
        try:
            more = job.step(item)
        except BaseException as raised:  # whoever does it, the job's own thread raises it
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
    """Items that wait, the largest first, and how many are under way."""

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
