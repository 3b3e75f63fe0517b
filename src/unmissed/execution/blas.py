"""BLAS limited to one thread: tasks run in parallel already, and results must not depend on BLAS threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_lock = Lock()
_inside = 0
_limits: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while at least one thread is inside this context."""
    global _inside, _limits
    with _lock:
        if not _inside:
            from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

            _take_control()
            _limits = threadpool_limits(1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _take_control()
                _limits.restore_original_limits()
                _take_control()


def _take_control() -> None:
    """Let this thread set the limit of OpenBLAS.

    OpenBLAS has one limit for all threads of a process. From version 3.8 on, threadpoolctl lets only the first thread
    that set the limit change it. It ignores other threads silently, even when the first thread has ended.
    """
    import threadpoolctl

    controller: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(controller, "clear_controlling_thread"):
        controller.clear_controlling_thread(force=True)
