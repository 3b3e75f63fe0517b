"""The `kernel` decorator: Numba's flags and its cache on disk, decided once.

Numba's cache looks only at the file of the function it compiles, so a changed helper in a sibling file would leave old
machine code in use. The cache folder is therefore named after a digest of all sources that kernels are made of.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

Function = Callable[..., Any]

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
    """Return the folder for this version's machine code, or None where nothing can be written."""
    try:
        folder = cache_home() / "kernels" / source_digest()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: no home folder at all
        return None


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
            return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
        finally:
            settings.CACHE_DIR = before

    return compile_kernel
