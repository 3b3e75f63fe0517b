"""Pools of spawned worker processes, which end when their parent ends, even if it was killed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import Any


def spawn_pool(n_workers: int, initializer: Callable[..., None], *arguments: Any) -> ProcessPoolExecutor:
    """Return a pool of processes; each calls `initializer(*arguments)` first."""
    context = get_context("spawn")
    return ProcessPoolExecutor(n_workers, context, initializer=_begin, initargs=(initializer, arguments))


def end_with_parent() -> None:
    """End this process when its parent ends; an orphan would keep memory, and locks that the next process needs."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _begin(initializer: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    end_with_parent()
    initializer(*arguments)


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
