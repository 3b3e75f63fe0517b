"""Numba's cache on disk in files that carry a checksum; imported when the first kernel is called."""

import hashlib
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba.core import caching

Function = Callable[..., Any]

_NumbasFile: Any = caching.IndexDataCacheFile
_NumbasCache: Any = caching.FunctionCache
_NumbasImplementation: Any = caching.CompileResultCacheImpl
_NumbasLocator: Any = caching.UserProvidedCacheLocator


def compile_kernel(function: Function, options: dict[str, Any], folder: Path | None) -> Function:
    """Return the function compiled by Numba; machine code is kept in `folder` unless that is None."""
    compiled: Any = numba.njit(**options)(function)
    settings: Any = numba.config
    if folder is not None and not settings.DISABLE_JIT:
        compiled._cache = _sealed_cache(function, folder)
    return compiled  # type: ignore[no-any-return]


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


class _Locator(_NumbasLocator):  # type: ignore[misc]
    """A function's place in our folder, which need not be writable."""

    def __init__(self, function: Function, source: str, folder: Path) -> None:
        self._py_file, self._lineno = source, function.__code__.co_firstlineno
        self._path = str(folder / self.get_suitable_cache_subpath(source))

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> Any:
        return _digest_of_file(self._py_file)  # not its time of change: layers of images keep whole seconds only

    def ensure_cache_path(self) -> None:
        os.makedirs(self._path, exist_ok=True)


class _SealedCache(_NumbasCache):  # type: ignore[misc]
    """Numba's cache of one function in sealed files. A disk that is full, gone or read-only costs a compilation."""

    @contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _warn_once(str(error))


def _sealed_cache(function: Function, folder: Path) -> Any:
    class Place:
        """What Numba takes for a class of locators."""

        @staticmethod
        def from_function(function: Function, source: str) -> _Locator:
            return _Locator(function, source, folder)

    class Implementation(_NumbasImplementation):  # type: ignore[misc]
        _locator_classes: ClassVar[list[Any]] = [Place]

    class Cache(_SealedCache):
        _impl_class = Implementation

    kept = Cache(function)
    file = kept._cache_file
    kept._cache_file = _SealedFile(file._cache_path, file._index_name.removesuffix(".nbi"), file._source_stamp)
    return kept


@cache
def _digest_of_file(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _warn_once(why: str) -> None:
    """Say that machine code could not be kept; once, since the first reason is that of all."""
    if _warned:
        return
    _warned.append(why)
    warnings.warn(
        f"a kernel was compiled that the cache does not hold, and cannot be kept: {why}; `unmissed compile`, where the "
        "cache can be written and on the same kind of processor, fills it, and UNMISSED_CACHE_DIR names another folder",
        RuntimeWarning,
        stacklevel=2,
    )


_warned: list[str] = []
