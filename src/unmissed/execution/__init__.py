"""Tasks, the executors that run them, and the pieces that they store.

`work.py` comes first: `Task`, `Executor`, `Partition`, and `Work`, which runs tasks and skips finished ones.
`pieces.py` stores named arrays, the unit of checkpointing, in memory or on disk. Executors: `threads.py`,
`processes.py` and `dask.py` (a cluster); `executor_registry.py` finds them by address. `work_stealing.py` is a
pool for tasks that spawn tasks, `watched.py` runs a call in its own process under limits of time and memory, `once.py`
builds a value once for all threads, `layouts.py` keeps such values on disk, `blas.py` limits BLAS to one thread.
"""

from typing import TYPE_CHECKING

from unmissed._lazy import lazy

if TYPE_CHECKING:
    from unmissed.execution.dask import Dask
    from unmissed.execution.executor_registry import open_executor
    from unmissed.execution.layouts import Layouts, layouts_of
    from unmissed.execution.once import Once
    from unmissed.execution.pieces import InMemory, OnDisk, Overlay, Piece, Pieces, PrefixedPieces, RecordedPieces
    from unmissed.execution.processes import Processes
    from unmissed.execution.threads import Threads, count_jobs
    from unmissed.execution.watched import Limits, Outcome, machine_bytes, peak_bytes, watch
    from unmissed.execution.work import Executor, Partition, Placed, SharedState, Task, Unfinished, Work

_PUBLIC = {
    "Dask": "dask",
    "Executor": "work",
    "InMemory": "pieces",
    "Layouts": "layouts",
    "Limits": "watched",
    "OnDisk": "pieces",
    "Once": "once",
    "Outcome": "watched",
    "Overlay": "pieces",
    "Piece": "pieces",
    "Pieces": "pieces",
    "Placed": "work",
    "PrefixedPieces": "pieces",
    "Processes": "processes",
    "Partition": "work",
    "RecordedPieces": "pieces",
    "SharedState": "work",
    "Task": "work",
    "Threads": "threads",
    "Unfinished": "work",
    "Work": "work",
    "count_jobs": "threads",
    "layouts_of": "layouts",
    "machine_bytes": "watched",
    "open_executor": "executor_registry",
    "peak_bytes": "watched",
    "watch": "watched",
}
__all__ = [
    "Dask",
    "Executor",
    "InMemory",
    "Layouts",
    "Limits",
    "OnDisk",
    "Once",
    "Outcome",
    "Overlay",
    "Partition",
    "Piece",
    "Pieces",
    "Placed",
    "PrefixedPieces",
    "Processes",
    "RecordedPieces",
    "SharedState",
    "Task",
    "Threads",
    "Unfinished",
    "Work",
    "count_jobs",
    "layouts_of",
    "machine_bytes",
    "open_executor",
    "peak_bytes",
    "watch",
]
__getattr__, __dir__ = lazy(__name__, _PUBLIC)
