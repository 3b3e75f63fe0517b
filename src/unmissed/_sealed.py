"""Numba's cache on disk in files that carry a checksum; imported when the first kernel is called."""

import hashlib
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

Function = Callable[..., Any]

_NumbasFile: Any = caching.IndexDataCacheFile


def compile_kernel(function: Function, options: dict[str, Any], folder: Path | None) -> Function:
    """Return what Numba makes of a function; code is kept in a folder where there is one."""
    if folder is None:
        return numba.njit(**options)(function)  # type: ignore[no-any-return]
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(folder)  # read when the dispatcher is made, not later
    try:
        compiled = numba.njit(cache=True, **options)(function)
        return compiled if settings.DISABLE_JIT else _guard(compiled)  # type: ignore[no-any-return]
    finally:
        settings.CACHE_DIR = before


class _SealedFile(_NumbasFile):  # type: ignore[misc]
    """Numba's index and code of one function; what does not match its checksum counts as not there."""

    def _load_index(self) -> dict[Any, Any]:
        version, stamp, overloads = self._unsealed(self._index_path) or (None, None, {})
        return dict(overloads) if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, Any]) -> None:
        self._seal(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return self._unsealed(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._seal(self._data_path(name), data)

    def _seal(self, path: str, value: Any) -> None:
        content = self._dump(value)
        with self._open_for_write(path) as stream:
            stream.write(_checksum(content) + content)

    def _unsealed(self, path: str) -> Any:
        try:
            content = Path(path).read_bytes()
        except OSError:
            return None
        if _checksum(content[32:]) != content[:32]:
            with suppress(OSError):
                os.unlink(path)
            return None
        return pickle.loads(content[32:])


def _checksum(content: bytes) -> bytes:
    """Return a checksum that other releases of Numba do not share: they could not read the rest."""
    return hashlib.sha256(numba.__version__.encode() + content).digest()


@contextmanager
def _without_disk_errors() -> Iterator[None]:
    """Let a disk that is full or gone cost a compilation and nothing else."""
    with suppress(OSError):
        yield


def _guard(dispatcher: Any) -> Any:
    """Let a compiled function keep its code in sealed files."""
    kept = dispatcher._cache
    before = kept._cache_file
    kept._cache_file = _SealedFile(before._cache_path, before._index_name.removesuffix(".nbi"), before._source_stamp)
    kept._guard_against_spurious_io_errors = _without_disk_errors
    return dispatcher
