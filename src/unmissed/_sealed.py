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

_PACKAGE = Path(__file__).absolute().parent
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


class _SealedFiles(_NumbaCacheFile):  # type: ignore[misc]
    """The cached code of one function: a file per signature, named after it, that starts with a checksum.

    Numba's index of all signatures would lose entries, or name the code of another one, if processes compile at once.
    """

    def save(self, key: Any, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._path(key)) as stream:
            stream.write(_checksum(content) + content)

    def load(self, key: Any) -> Any:
        """Return the code for a key, or None if there is none or if its checksum is wrong."""
        path = self._path(key)
        try:
            content = Path(path).read_bytes()
        except OSError:
            return None
        if _checksum(content[32:]) != content[:32]:
            with suppress(OSError):
                os.unlink(path)
            return None
        return pickle.loads(content[32:])

    def _path(self, key: Any) -> str:
        digest = hashlib.sha256(repr((self._version, self._source_stamp, key)).encode()).hexdigest()
        return str(self._data_path(f"{self._index_name.removesuffix('.nbi')}.{digest[:32]}.nbc"))


def _checksum(content: bytes) -> bytes:
    """Return the SHA-256 of Numba's version and the content: other releases cannot read the file."""
    return hashlib.sha256(numba.__version__.encode() + content).digest()


class _Locator(_NumbaLocator):  # type: ignore[misc]
    """The path of a function's cache files; the folder may be read-only."""

    def __init__(self, function: Function, source: str, folder: Path) -> None:
        self._py_file, self._lineno = source, function.__code__.co_firstlineno
        parent = Path(source).absolute().parent
        inside = parent.is_relative_to(_PACKAGE)  # then the cache is valid wherever the package is installed
        self._path = str(folder / (parent.relative_to(_PACKAGE) if inside else self.get_suitable_cache_subpath(source)))

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
    function_cache._cache_file = _SealedFiles(
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
