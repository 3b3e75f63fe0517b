"""Thread-local workspaces: large arrays that are reused from block to block and from node to node."""

from __future__ import annotations

import math
import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt

_MAX_BYTES = 2**26  # Larger arrays are not kept: allocating them costs little compared with the work on them.
MAX_IDLE_BYTES = 2**22  # Bytes that an idle thread of the shared pool may keep.
_CACHE_LINE = 64  # Bytes per cache line.


class _ThreadBuffers(threading.local):
    """The arrays that a thread has allocated, by name."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}


_buffers = _ThreadBuffers()


def aligned(size: int, dtype: Any) -> npt.NDArray[Any]:
    """Return an uninitialized flat array aligned to a cache line.

    NumPy aligns to 16 bytes only, and a vector load would then touch two cache lines.
    """
    n_bytes = size * np.dtype(dtype).itemsize
    raw = np.empty(n_bytes + _CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % _CACHE_LINE
    return raw[first : first + n_bytes].view(dtype)


def _on_demand(size: int, dtype: Any) -> npt.NDArray[Any]:
    """Return a flat array in small pages: memory that is not written to is not used.

    NumPy requests huge pages. A table whose lines are filled in part would then be in memory as a whole.
    """
    n_bytes = max(size * np.dtype(dtype).itemsize, 1)
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return aligned(size, dtype)
    pages = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.uint8)[: size * np.dtype(dtype).itemsize].view(dtype)


def workspace(
    name: str, shape: tuple[int, ...], dtype: Any = np.float32, *, on_demand: bool = False
) -> npt.NDArray[Any]:
    """Return an uninitialized array of this thread; the next call with the same name reuses its memory.

    With `on_demand`, only those parts take memory that are written to.
    """
    size, allocate = math.prod(shape), _on_demand if on_demand else aligned
    if size * np.dtype(dtype).itemsize > _MAX_BYTES:
        return allocate(size, dtype).reshape(shape)
    buffer = _buffers.arrays.get(name)
    if buffer is None or buffer.size < size or buffer.dtype != dtype:
        buffer = _buffers.arrays[name] = allocate(size + size // 4, dtype)
    return buffer[:size].reshape(shape)


def zeroed_workspace(name: str, size: int, dtype: Any) -> npt.NDArray[Any]:
    """Return a flat array of zeros of this thread; the kernel that uses it must leave it all zeros."""
    buffer = _buffers.arrays.get(name)
    if buffer is None or buffer.size < size or buffer.dtype != dtype:
        buffer = np.zeros(size, dtype)
        if buffer.nbytes <= _MAX_BYTES:
            _buffers.arrays[name] = buffer
    return buffer[:size]


@contextmanager
def borrowed_zeros(name: str, size: int, dtype: Any) -> Iterator[npt.NDArray[Any]]:
    """Yield the array of `zeroed_workspace` for several steps that leave it all zeros; discard it on an exception."""
    zeros = zeroed_workspace(name, size, dtype)
    buffer = _buffers.arrays.pop(name, None)
    yield zeros
    if buffer is not None:
        _buffers.arrays[name] = buffer


def free_workspaces(most: int) -> None:
    """Free all arrays of this thread if they take more than `most` bytes in total."""
    if sum(array.nbytes for array in _buffers.arrays.values()) > most:
        _buffers.arrays.clear()
