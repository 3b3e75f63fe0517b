"""Once: a value that is built by the first thread that needs it, and shared by all."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

_logger = logging.getLogger(__name__)
_NOT_BUILT: Any = object()
T = TypeVar("T")


class Once(Generic[T]):
    """A value that is built at most once, under a lock; other threads wait for it.

    The value must not change after it was built. A pickled or deep copy holds no value and builds its own.

    Parameters
    ----------
    name : what the value is, for the log
    build : returns the value; a function of a module or a `functools.partial` of one, so that it can be pickled
    """

    def __init__(self, name: str, build: Callable[..., T]) -> None:
        self.name, self._build = name, build
        self._value: T = _NOT_BUILT
        self._lock = threading.Lock()
        _every.add(self)

    def get(self, *arguments: Any) -> T:
        """Return the value; the first call builds it, with arguments that do not change it (a number of threads)."""
        if self._value is _NOT_BUILT:
            with self._lock:
                if self._value is _NOT_BUILT:
                    begin = time.perf_counter()
                    value = self._build(*arguments)
                    self._log(value, time.perf_counter() - begin)
                    self._value = value
        return self._value

    def peek(self) -> T | None:
        """Return the value if it has been built, else None, without waiting."""
        return None if self._value is _NOT_BUILT else self._value

    def __reduce__(self) -> tuple[Any, ...]:
        return Once, (self.name, self._build)

    def _log(self, value: T, seconds: float) -> None:
        if value is None:
            _logger.info("%s: not worth its memory, not built", self.name)
            return
        size = getattr(value, "n_bytes", None)
        _logger.info("prepared %s%s in %.2f s", self.name, "" if size is None else f", {size / 1e6:,.1f} MB,", seconds)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()


_every: weakref.WeakSet[Once[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    """Renew all locks: a thread that held one does not exist in the child."""
    for once in list(_every):
        once._renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
