"""Buffers: large scratch arrays that belong to a thread and are used again, block after block and node after node."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

_MOST = 2**26  # bytes; a larger array costs little beside the work on it, and would be held for nothing afterwards
_LINE = 64  # bytes that the processor loads at a time


class _Store(threading.local):
    """What one thread has allocated so far, by name."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}


_store = _Store()


def aligned(size: int, dtype: Any) -> npt.NDArray[Any]:
    """Return a flat array, not filled, that begins where a cache line does.

    Numpy's own begin 16 bytes later, so that the numbers that lanes read together lie across one line more.
    """
    n_bytes = size * np.dtype(dtype).itemsize
    raw = np.empty(n_bytes + _LINE, np.uint8)
    first = -raw.ctypes.data % _LINE
    return raw[first : first + n_bytes].view(dtype)


def scratch(name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> npt.NDArray[Any]:
    """Return this thread's array of that name, shape and dtype with whatever it holds; the next call takes it over."""
    size = math.prod(shape)
    if size * np.dtype(dtype).itemsize > _MOST:
        return aligned(size, dtype).reshape(shape)
    kept = _store.arrays.get(name)
    if kept is None or kept.size < size or kept.dtype != dtype:
        kept = _store.arrays[name] = aligned(size + size // 4, dtype)
    return kept[:size].reshape(shape)


def clean_scratch(name: str, size: int, dtype: Any) -> npt.NDArray[Any]:
    """Return a flat array of zeros of this thread, for one kernel that leaves it as it was, all zeros."""
    kept = _store.arrays.get(name)
    if kept is None or kept.size < size or kept.dtype != dtype:
        kept = np.zeros(size, dtype)
        if kept.nbytes <= _MOST:
            _store.arrays[name] = kept
    return kept[:size]


@contextmanager
def lent_zeros(name: str, size: int, dtype: Any) -> Iterator[npt.NDArray[Any]]:
    """Lend what `clean_scratch` has for several steps that leave it all zeros; once interrupted, it is not kept."""
    zeros = clean_scratch(name, size, dtype)
    kept = _store.arrays.pop(name, None)
    yield zeros
    if kept is not None:
        _store.arrays[name] = kept
