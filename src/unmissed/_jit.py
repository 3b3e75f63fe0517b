"""The `kernel` decorator: Numba's flags and its cache on disk, decided once.

Numba's cache looks only at the file of the function it compiles, so a changed helper in a sibling file would leave old
machine code in use. The cache folder is therefore named after a digest of all sources that kernels are made of.

What is in the cache is run. A folder that is not the user's own, or that others may write to, is therefore not used,
and each file begins with a checksum of the rest: one that is damaged, as after a power cut, is made again.

Importing Numba and loading code takes longer than ranking a sentence. Kernels are therefore made when they are first
called.
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

_MAKING = threading.RLock()
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
    for path in sorted(
        [*(_ROOT / "kernels").rglob("*.py"), *(_ROOT / "losses").glob("*.py"), _ROOT / "_jit.py", _ROOT / "_sealed.py"]
    ):
        digest.update(path.relative_to(_ROOT).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Return the folder of this version's machine code, or None, with a warning, if there is none that can be used.

    A folder that holds code is used although it cannot be written, as one that came with an image.
    """
    try:
        folder = cache_home().absolute() / "kernels" / source_digest()
        for place in reversed((folder, *folder.parents)):
            if not place.exists():
                place.mkdir(mode=0o700, exist_ok=True)
        stranger = _stranger(folder.resolve())
        if stranger is not None:
            _warn_of_no_cache(
                f"{stranger}: not yours alone, and code in it would be run",
                "Set UNMISSED_CACHE_DIR to a folder of your own, or take from others the right to write (chmod go-w).",
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


def _warn_of_no_cache(why: str, what_to_do: str) -> None:
    warnings.warn(f"{why}; kernels are compiled each time. {what_to_do}", RuntimeWarning, stacklevel=3)


def _stranger(folder: Path) -> Path | None:
    """Return the first folder on the way to `folder` in which somebody else could put other files, or None."""
    if os.name != "posix":
        return None
    for depth, place in enumerate((folder, *folder.parents)):
        facts = place.stat()
        inside = depth < 3  # the digest's folder, `kernels` and the folder that holds them: nobody else's
        others = stat.S_IWOTH if facts.st_gid in (os.getegid(), 0) and not inside else stat.S_IWOTH | stat.S_IWGRP
        if facts.st_uid not in (os.geteuid(), 0) or (
            facts.st_mode & others and (inside or not facts.st_mode & stat.S_ISVTX)
        ):
            return place
    return None


class Deferred:
    """A compiled function that is made when it is first called, together with those that its module names.

    Compiled code may call other kernels, and Numba must then find these themselves under their names: whatever is
    deferred in a kernel's module is put there before the kernel is first called.
    """

    def __init__(self, function: Function, make: Callable[[Function], Function]) -> None:
        update_wrapper(self, function)
        self._function, self._make = function, make
        self._begun: Function | None = None
        self._made: Function | None = None  # set last: other threads call it as soon as it is there

    def __call__(self, *arguments: Any) -> Any:
        return (self._made or self.made())(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # our own before they are set, and what pickle asks for
            raise AttributeError(name)
        return getattr(self.made(), name)

    def made(self) -> Function:
        """Return the function itself."""
        with _MAKING:
            if self._begun is None:
                self._begun = self._make(self._function)  # before the others, for its module names it too
                _replace_deferred(self._function.__globals__)
                self._made = self._begun
            return self._begun


def _replace_deferred(names: dict[str, Any]) -> None:
    """Put kernels in the place of deferred ones, in a module and in our modules that it names."""
    modules = [one for one in names.values() if isinstance(one, ModuleType) and one.__name__.startswith("unmissed.")]
    for held in (names, *map(vars, modules)):
        held |= {name: one.made() for name, one in held.items() if isinstance(one, Deferred)}


_KERNELS: list[Deferred] = []


def compilations() -> int:
    """Return how many times kernels were compiled in this process because the cache did not hold them."""
    return sum(sum(one.stats.cache_misses.values()) for one in _KERNELS if one._made is not None)


def intrinsic(function: Function) -> Function:
    """Return the function that stands for the code which `function` writes, made when it is needed."""

    def make(function: Function) -> Function:
        from numba.extending import intrinsic as numbas

        return numbas(function)

    return Deferred(function, make)


def later(name: str) -> Any:
    """Return a stand-in for a module that is imported when something in it is first asked for."""

    class Later:
        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(name), attribute)

    return Later()


def interpreted() -> bool:
    """Tell whether kernels run uncompiled, as `NUMBA_DISABLE_JIT=1` asks for."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def kernel(*, parallel: bool = False, fastmath: bool | set[str] = False) -> Callable[[Function], Function]:
    """Compile a loop over plain arrays with Numba: no interpreter lock, numpy's error model, cached on disk."""
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
