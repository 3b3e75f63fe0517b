"""The `kernel` decorator: Numba's flags and its cache on disk, decided once.

Numba's cache looks only at the file of the function it compiles, so a changed helper in a sibling file would leave old
machine code in use. The cache folder is therefore named after a digest of all sources that kernels are made of.

What is in the cache is run. A folder that is not the user's own, or that others may write to, is therefore not used,
and each file begins with a checksum of the rest: one that is damaged, as after a power cut, is made anew.
"""

import hashlib
import os
import pickle
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

Function = Callable[..., Any]

_NumbasFile: Any = caching.IndexDataCacheFile
_ROOT = Path(__file__).parent


def cache_home() -> Path:
    """Return the folder under which compiled kernels are kept: `UNMISSED_CACHE_DIR`, or the user's cache folder."""
    chosen = os.environ.get("UNMISSED_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "unmissed"


def source_digest() -> str:
    """Return a digest of every source file whose text can end up in machine code."""
    digest = hashlib.sha256()
    for path in sorted([*(_ROOT / "kernels").rglob("*.py"), *(_ROOT / "losses").glob("*.py"), _ROOT / "_jit.py"]):
        digest.update(path.relative_to(_ROOT).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Return the folder for this version's machine code, or None where nothing can be written or nobody be trusted."""
    try:
        folder = cache_home().absolute() / "kernels" / source_digest()
        for place in reversed((folder, *folder.parents)):
            if not place.exists():
                place.mkdir(mode=0o700, exist_ok=True)
        stranger = _stranger(folder.resolve())
        if stranger is not None:
            warnings.warn(
                f"{stranger}: not yours alone, and code in it would be run; kernels are compiled anew each time. "
                "Set UNMISSED_CACHE_DIR to a folder of your own, or take from others the right to write (chmod go-w).",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: no home folder at all
        return None


def _stranger(folder: Path) -> Path | None:
    """Return the first folder on the way to `folder` in which somebody else could put other files, or None."""
    if os.name != "posix":
        return None
    for depth, place in enumerate((folder, *folder.parents)):
        facts = place.stat()
        inside = depth < 3  # the digest's folder, `kernels` and the folder that holds them: nobody else's
        owners = (os.geteuid(),) if inside else (os.geteuid(), 0)
        others = stat.S_IWOTH if facts.st_gid in (os.getegid(), 0) and not inside else stat.S_IWOTH | stat.S_IWGRP
        if facts.st_uid not in owners or (facts.st_mode & others and (inside or not facts.st_mode & stat.S_ISVTX)):
            return place
    return None


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


def kernel(*, parallel: bool = False, fastmath: bool | set[str] = False) -> Callable[[Function], Function]:
    """Compile a loop over plain arrays with Numba: no interpreter lock, numpy's error model, cached on disk."""
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "parallel": parallel,
        "fastmath": fastmath,
    }

    def compile_kernel(function: Function) -> Function:
        folder = cache_folder()
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

    return compile_kernel
