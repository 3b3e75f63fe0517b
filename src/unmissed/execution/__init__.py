"""Where tasks run, and the pieces that they leave."""

from typing import TYPE_CHECKING

from unmissed._lazy import lazy

if TYPE_CHECKING:
    from unmissed.execution.dask import Dask
    from unmissed.execution.pieces import InMemory, OnDisk, Overlay, Piece, Pieces
    from unmissed.execution.processes import Processes
    from unmissed.execution.threads import Threads, count_jobs
    from unmissed.execution.watched import Limits, Outcome, peak_bytes, watch
    from unmissed.execution.work import Executor, Placed, Share, Shared, Task, Unfinished, Work

_PUBLIC = {
    "Dask": "dask",
    "Executor": "work",
    "InMemory": "pieces",
    "Limits": "watched",
    "OnDisk": "pieces",
    "Outcome": "watched",
    "Overlay": "pieces",
    "Piece": "pieces",
    "Pieces": "pieces",
    "Placed": "work",
    "Processes": "processes",
    "Share": "work",
    "Shared": "work",
    "Task": "work",
    "Threads": "threads",
    "Unfinished": "work",
    "Work": "work",
    "count_jobs": "threads",
    "peak_bytes": "watched",
    "watch": "watched",
}
__all__ = [
    "Dask",
    "Executor",
    "InMemory",
    "Limits",
    "OnDisk",
    "Outcome",
    "Overlay",
    "Piece",
    "Pieces",
    "Placed",
    "Processes",
    "Share",
    "Shared",
    "Task",
    "Threads",
    "Unfinished",
    "Work",
    "count_jobs",
    "peak_bytes",
    "watch",
]
__getattr__, __dir__ = lazy(__name__, _PUBLIC)
