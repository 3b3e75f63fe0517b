"""Where tasks run, and the pieces that they leave."""

from unmissed.execution.dask import Dask
from unmissed.execution.pieces import InMemory, OnDisk, Overlay, Piece, Pieces
from unmissed.execution.processes import Processes
from unmissed.execution.threads import Threads, count_jobs
from unmissed.execution.watched import Limits, Outcome, peak_bytes, watch
from unmissed.execution.work import Executor, Placed, Share, Shared, Task, Unfinished, Work

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
