"""The `kernel` decorator: Numba's compilation flags and its on-disk cache, set in one place.

Numba invalidates cached code only if the file of the compiled function changes, not if a function that it calls changes
in another file. The cache folder is therefore named after a digest of all kernel sources.

Cached code is executed. A folder that belongs to another user, or that others may write to, is therefore not used. Each
file starts with a checksum, and a damaged file is compiled again.

Importing Numba and loading code takes longer than ranking one sentence. Kernels are therefore compiled or loaded on
their first call.
"""

import hashlib
import os
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from functools import cache, update_wrapper
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

Function = Callable[..., Any]

_COMPILING = threading.RLock()
_ROOT = Path(__file__).parent


def cache_home() -> Path:
    """Return the root of the kernel cache: `UNMISSED_CACHE_DIR`, or the user's cache folder."""
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


def kernel_sources() -> list[Path]:
    """Return every source file that can be compiled: modules that import this one, and the losses."""
    named = (path for path in _ROOT.rglob("*.py") if b"unmissed._jit" in path.read_bytes())
    return sorted({*named, *(_ROOT / "losses").glob("*.py"), _ROOT / "_jit.py", _ROOT / "_sealed.py"})


def source_digest() -> str:
    """Return a digest of the paths and contents of the kernel sources."""
    digest = hashlib.sha256()
    for path in kernel_sources():
        digest.update(path.relative_to(_ROOT).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Return the cache folder of this version, or None, with a warning, if no folder can be used.

    A read-only folder is used if it holds code, as one in a container image does.
    """
    try:
        folder = cache_home().absolute() / "kernels" / source_digest()
        for path in reversed((folder, *folder.parents)):
            if not path.exists():
                path.mkdir(mode=0o700, exist_ok=True)
        insecure = _writable_by_others(folder.resolve())
        if insecure is not None:
            _warn_of_no_cache(
                f"{insecure}: owned or writable by another user, and code in it would be executed",
                "Set UNMISSED_CACHE_DIR to a folder of your own, or remove write permission for others (chmod go-w).",
            )
            return None
        if not any(folder.iterdir()):
            with tempfile.TemporaryFile(dir=folder):
                pass
        return folder
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder at all
        _warn_of_no_cache(
            f"no folder for compiled kernels: {error}", "Set UNMISSED_CACHE_DIR to a folder that you can write to."
        )
        return None


def _warn_of_no_cache(reason: str, advice: str) -> None:
    warnings.warn(f"{reason}; kernels are compiled in every process. {advice}", RuntimeWarning, stacklevel=3)


def _writable_by_others(folder: Path) -> Path | None:
    """Return the first of the folder and its parents in which another user could replace files, or None."""
    if os.name != "posix":
        return None
    for depth, path in enumerate((folder, *folder.parents)):
        metadata = path.stat()
        inside = depth < 3  # the digest folder, `kernels` and the cache root: stricter than parents
        others = stat.S_IWOTH if metadata.st_gid in (os.getegid(), 0) and not inside else stat.S_IWOTH | stat.S_IWGRP
        if metadata.st_uid not in (os.geteuid(), 0) or (
            metadata.st_mode & others and (inside or not metadata.st_mode & stat.S_ISVTX)
        ):
            return path
    return None


class Deferred:
    """A function that is compiled on its first call, together with the kernels that its module refers to.

    Compiled code may call other kernels, and Numba looks them up by name in the module. All deferred kernels of the
    module are therefore replaced by compiled ones before the first call.
    """

    def __init__(self, function: Function, compile_function: Callable[[Function], Function]) -> None:
        update_wrapper(self, function)
        self._function, self._compile = function, compile_function
        self._in_progress: Function | None = None
        self._compiled: Function | None = None  # set last: other threads call it as soon as it is set

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.compiled())(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # own attributes before they are set, and those that pickle looks up
            raise AttributeError(name)
        return getattr(self.compiled(), name)

    def compiled(self) -> Function:
        """Return the compiled function."""
        with _COMPILING:
            if self._in_progress is None:
                self._in_progress = self._compile(self._function)  # before the others: its module refers to it, too
                _replace_deferred(self._function.__globals__)
                self._compiled = self._in_progress
            return self._in_progress


def _replace_deferred(names: dict[str, Any]) -> None:
    """Replace deferred kernels by compiled ones, in a module's namespace and in modules of this package it imports."""
    modules = [one for one in names.values() if isinstance(one, ModuleType) and one.__name__.startswith("unmissed.")]
    for namespace in (names, *map(vars, modules)):
        namespace |= {name: one.compiled() for name, one in namespace.items() if isinstance(one, Deferred)}


_KERNELS: list[Deferred] = []


def compilations() -> int:
    """Return the number of compilations in this process, that is, of cache misses."""
    return sum(sum(one.stats.cache_misses.values()) for one in _KERNELS if one._compiled is not None)


def intrinsic(function: Function) -> Function:
    """Return a deferred Numba intrinsic whose code `function` emits."""

    def compile_function(function: Function) -> Function:
        from numba.extending import intrinsic as numba_intrinsic

        return numba_intrinsic(function)

    return Deferred(function, compile_function)


def lazy_module(name: str) -> Any:
    """Return a proxy of a module that is imported on the first attribute access."""

    class LazyModule:
        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(name), attribute)

    return LazyModule()


def interpreted() -> bool:
    """Return whether kernels run uncompiled (`NUMBA_DISABLE_JIT=1`)."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def kernel(*, parallel: bool = False, fastmath: bool | set[str] = False) -> Callable[[Function], Function]:
    """Compile a function over arrays with Numba: nogil, NumPy's error model, cached on disk."""
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "parallel": parallel,
        "fastmath": fastmath,
    }

    def compile_kernel(function: Function) -> Function:
        from unmissed import _sealed

        return _sealed.compile_kernel(function, options, cache_folder())

    def defer(function: Function) -> Function:
        if interpreted():
            return function
        _KERNELS.append(Deferred(function, compile_kernel))
        return _KERNELS[-1]

    return defer
