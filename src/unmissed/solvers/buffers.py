"""Buffers: large scratch arrays that belong to a thread and are used again, block after block and node after node."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

_MOST = 2**26  # bytes; a larger array costs little beside the work on it, and would be held for nothing afterwards


class _Store(threading.local):
    """What one thread has allocated so far, by name."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}


_store = _Store()


def scratch(name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> npt.NDArray[Any]:
    """Return this thread's array of that name, shape and dtype with whatever it holds; the next call takes it over."""
    size = math.prod(shape)
    if size * np.dtype(dtype).itemsize > _MOST:
        return np.empty(shape, dtype)
    kept = _store.arrays.get(name)
    if kept is None or kept.size < size or kept.dtype != dtype:
        kept = _store.arrays[name] = np.empty(size + size // 4, dtype)
    return kept[:size].reshape(shape)


def clean_scratch(name: str, size: int, dtype: Any) -> npt.NDArray[Any]:
    """Return a flat array of zeros of this thread; whoever takes it leaves it as it was, all zeros."""
    kept = _store.arrays.get(name)
    if kept is None or kept.size < size or kept.dtype != dtype:
        kept = np.zeros(size, dtype)
        if kept.nbytes <= _MOST:
            _store.arrays[name] = kept
    return kept[:size]
