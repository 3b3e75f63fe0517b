"""Replacing a run by another: under its name there is always a whole run, or its old one is found beside it.

Where the system can, the two folders swap names in one step. Elsewhere the old run waits under another name for the
moment between two renames, and `standing` finds it there. A kill at any moment is put right by `recover`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from unmissed.writing import exchange, sync_folder

_MARK = ".replaced"  # in the old run, from just before it is replaced


def next_of(run: Path) -> Path:
    """Return where the run grows that will replace another."""
    return run.with_name(f".{run.name}.update")


def _waiting(run: Path) -> Path:
    """Return where the old run is between two renames."""
    return run.with_name(f".{run.name}.replaced.part")


def standing(path: str | os.PathLike[str]) -> Path:
    """Return where a run is: under its name, or, if a replacement was interrupted between two renames, beside it."""
    place = Path(path)
    if not place.exists():
        resolved = place.resolve()
        if resolved.name and _waiting(resolved).is_dir():
            return _waiting(resolved)
    return place


def replace_run(run: Path, new: Path) -> None:
    """Let the complete run `new` take the name of `run`, which is removed; only under the locks of both."""
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
    """Put right what a killed replacement left; only under the run's lock."""
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
    """Return the name of a folder that is being removed."""
    return run.with_name(f".{run.name}.removed.part")


def _discard(run: Path, old: Path) -> None:
    """Remove a replaced run; killed in the middle, what is left is not taken for a run."""
    shutil.rmtree(_removed(run), ignore_errors=True)
    os.rename(old, _removed(run))
    shutil.rmtree(_removed(run), ignore_errors=True)
