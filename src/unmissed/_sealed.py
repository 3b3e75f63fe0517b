"""Numba's on-disk cache with a checksum in each file; imported when the first kernel is called."""

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

_NumbaCacheFile: Any = caching.IndexDataCacheFile
_NumbaCache: Any = caching.FunctionCache
_NumbaCacheImpl: Any = caching.CompileResultCacheImpl
_NumbaLocator: Any = caching.UserProvidedCacheLocator


def compile_kernel(function: Function, options: dict[str, Any], folder: Path | None) -> Function:
    """Return the function compiled by Numba; cache its machine code in `folder`, unless that is None."""
    compiled: Any = numba.njit(**options)(function)
    settings: Any = numba.config
    if folder is not None and not settings.DISABLE_JIT:
        compiled._cache = _sealed_cache(function, folder)
    return compiled  # type: ignore[no-any-return]


class _SealedFile(_NumbaCacheFile):  # type: ignore[misc]
    """Numba's index and code files of one function; a file with a wrong checksum counts as a cache miss."""

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
    """Return the SHA-256 of Numba's version and the content: other releases cannot read the file."""
    return hashlib.sha256(numba.__version__.encode() + content).digest()


class _Locator(_NumbaLocator):  # type: ignore[misc]
    """The path of a function's cache files; the folder may be read-only."""

    def __init__(self, function: Function, source: str, folder: Path) -> None:
        self._py_file, self._lineno = source, function.__code__.co_firstlineno
        self._path = str(folder / self.get_suitable_cache_subpath(source))

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> Any:
        return _digest_of_file(self._py_file)  # not its mtime, which layers of container images truncate to seconds

    def ensure_cache_path(self) -> None:
        os.makedirs(self._path, exist_ok=True)


class _SealedCache(_NumbaCache):  # type: ignore[misc]
    """Numba's cache of one function in sealed files; a full, missing or read-only disk causes a compilation."""

    @contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _warn_once(str(error))


def _sealed_cache(function: Function, folder: Path) -> Any:
    class LocatorFactory:
        """The interface that Numba expects of a locator class."""

        @staticmethod
        def from_function(function: Function, source: str) -> _Locator:
            return _Locator(function, source, folder)

    class Implementation(_NumbaCacheImpl):  # type: ignore[misc]
        _locator_classes: ClassVar[list[Any]] = [LocatorFactory]

    class Cache(_SealedCache):
        _impl_class = Implementation

    function_cache = Cache(function)
    file = function_cache._cache_file
    function_cache._cache_file = _SealedFile(
        file._cache_path, file._index_name.removesuffix(".nbi"), file._source_stamp
    )
    return function_cache


@cache
def _digest_of_file(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _warn_once(reason: str) -> None:
    """Warn that compiled code could not be cached; only once per process."""
    if _warned:
        return
    _warned.append(reason)
    warnings.warn(
        f"a compiled kernel cannot be kept in the cache: {reason}; run `unmissed compile` where the cache is writable, "
        "on the same type of processor, or set UNMISSED_CACHE_DIR to another folder",
        RuntimeWarning,
        stacklevel=2,
    )


_warned: list[str] = []
