"""Executor on processes of this machine, for tasks that hold the global interpreter lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, as_completed
from typing import Any

from unmissed.errors import UnmissedError
from unmissed.execution.blas import one_blas_thread
from unmissed.execution.pieces import Piece
from unmissed.execution.threads import count_in, count_jobs
from unmissed.execution.work import SharedState, Task
from unmissed.worker_processes import spawn_pool

_common: dict[str, Any] = {}  # the shared state of the tasks of this worker process


class Processes:
    """An executor on `n_jobs` spawned processes, each with one BLAS thread; n_jobs=1 runs in this process."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = count_jobs(n_jobs)

    def map(self, tasks: Iterable[Task], shared: SharedState) -> Iterator[Piece]:
        """Yield pieces in order of completion; the shared state is built once per process."""
        tasks = list(tasks)
        if self.n_jobs == 1 or len(tasks) < 2:
            yield from self._here(tasks, shared)
            return
        pool = spawn_pool(min(self.n_jobs, len(tasks)), _begin, shared)
        with pool:
            waiting = [pool.submit(_run, task) for task in tasks]
            try:
                for future in as_completed(waiting):
                    yield future.result()
            except BrokenExecutor as error:
                raise UnmissedError("a process was killed (out of memory?); call again to resume") from error
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    @staticmethod
    def _here(tasks: list[Task], shared: SharedState) -> Iterator[Piece]:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        with one_blas_thread(), threadpool_limits(1, user_api="openmp"):
            common = shared()
            for task in tasks:
                yield task.run(common)


def open_processes(address: str) -> Processes:
    """Return the executor of an address `processes:N`."""
    return Processes(count_in(address))


def _begin(shared: SharedState) -> None:
    """Build the shared state in a worker process and limit its BLAS to one thread."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    _common["shared"] = shared()


def _run(task: Task) -> Piece:
    return task.run(_common["shared"])
