"""BLAS in one thread: ours share out the work, and the bits must not depend on how many threads BLAS would take."""

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
    """Hold BLAS to one thread from the first who enters until the last who leaves; threads may enter side by side."""
    global _inside, _limits
    with _lock:
        if not _inside:
            from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

            _limits = threadpool_limits(1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _limits.restore_original_limits()
