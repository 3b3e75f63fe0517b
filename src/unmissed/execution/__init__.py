"""Where tasks run, and the pieces that they leave."""

from unmissed.execution.pieces import InMemory, OnDisk, Overlay, Piece, Pieces
from unmissed.execution.processes import Processes
from unmissed.execution.threads import Threads, count_jobs
from unmissed.execution.work import Executor, Shared, Task, Work

__all__ = [
    "Executor",
    "InMemory",
    "OnDisk",
    "Overlay",
    "Piece",
    "Pieces",
    "Processes",
    "Shared",
    "Task",
    "Threads",
    "Work",
    "count_jobs",
]
