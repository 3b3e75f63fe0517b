"""Atomic replacement of a run by another one.

If the system supports it, the two folders swap names in one step. Otherwise two renames are needed; between them the
old run has a temporary name, where `standing` finds it. `recover` repairs an interrupted replacement.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from unmissed.writing import exchange, sync_folder

_MARK = ".replaced"  # in the old run, from just before it is replaced


def next_of(run: Path) -> Path:
    """Return the folder in which the new run is trained."""
    return run.with_name(f".{run.name}.update")


def _waiting(run: Path) -> Path:
    """Return the temporary name of the old run between two renames."""
    return run.with_name(f".{run.name}.replaced.part")


def standing(path: str | os.PathLike[str]) -> Path:
    """Return the folder of a run: its path, or its temporary name if a replacement was interrupted."""
    position = Path(path)
    if not position.exists():
        resolved = position.resolve()
        if resolved.name and _waiting(resolved).is_dir():
            return _waiting(resolved)
    return position


def replace_run(run: Path, new: Path) -> None:
    """Rename the complete run `new` to `run` and remove the old run; the caller holds both locks."""
    (run / _MARK).touch()
    sync_folder(run)
    sync_folder(new)
    old = new
    if not exchange(new, run):
        old = _waiting(run)
        os.rename(run, old)
        os.rename(new, run)
    sync_folder(run.parent)
    _discard(run, old)


def recover(path: Path) -> None:
    """Repair an interrupted replacement; the caller holds the run's lock."""
    run = path.resolve()
    if not run.name:
        return
    if _waiting(run).is_dir():
        if run.exists():
            _discard(run, _waiting(run))
        else:
            os.rename(_waiting(run), run)
            sync_folder(run.parent)
    if (next_of(run) / _MARK).exists():  # the names were swapped: this is the old run
        _discard(run, next_of(run))
    shutil.rmtree(_removed(run), ignore_errors=True)
    (run / _MARK).unlink(missing_ok=True)


def _removed(run: Path) -> Path:
    """Return the temporary name of a run that is being removed."""
    return run.with_name(f".{run.name}.removed.part")


def _discard(run: Path, old: Path) -> None:
    """Remove a replaced run; it is renamed first, so that a partly removed folder is never opened."""
    shutil.rmtree(_removed(run), ignore_errors=True)
    os.rename(old, _removed(run))
    shutil.rmtree(_removed(run), ignore_errors=True)
