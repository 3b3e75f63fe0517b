"""Pieces: the unit of checkpoint and of file, found by key, in memory or in a folder."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from unmissed.archive import MANIFEST, below, is_archive, open_archive, remove_torn, write_archive
from unmissed.errors import InputError

KIND = "piece"
_ATTEMPTS = 5
_KEY = re.compile(r"[a-z0-9][a-z0-9.-]*(/[a-z0-9][a-z0-9.-]*)*")
Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Piece:
    """Arrays and small facts under a key: a block of labels, a tree, a training of a study.

    Parameters
    ----------
    key : words of small letters, digits, dots and dashes with slashes between, such as "labels/00000256" or "tree/2"
    arrays : what a model needs to answer, by name
    facts : small values that JSON can hold
    where : the folder it was read from, for messages
    """

    key: str
    arrays: Mapping[str, Array] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise InputError(f"{self.key!r} is no key of a piece; expected words with slashes between, such as tree/2")

    def expect(self, layout: Mapping[str, tuple[Any, int]]) -> Mapping[str, Array]:
        """Return the arrays if their names, types and dimensions are those of `layout`, else refuse the piece."""
        if self.arrays.keys() != layout.keys():
            raise self.damaged(f"it holds {sorted(self.arrays)}, expected {sorted(layout)}")
        for name, (dtype, n_dimensions) in layout.items():
            array = self.arrays[name]
            if array.dtype != np.dtype(dtype) or array.ndim != n_dimensions:
                raise self.damaged(f"{name} is {array.dtype} with {array.ndim} dimensions")
        return self.arrays

    def numbers(self, *names: str) -> dict[str, float]:
        """Return some facts if all of them are there and are finite numbers, else refuse the piece."""
        for name in names:
            value = self.facts.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise self.damaged(f"{name} is {value!r}, expected a number")
        return {name: self.facts[name] for name in names}

    def damaged(self, why: str) -> InputError:
        """Return the error that says that this piece is not what the model wrote."""
        return InputError(f"{self.where or self.key}: damaged: {why}")


class Pieces(Protocol):
    """Where finished pieces go and come from."""

    def get(self, key: str) -> Piece | None:
        """Return the piece under a key, or None where it is not finished."""

    def put(self, piece: Piece) -> None:
        """Keep a piece, all of it or nothing; a key that is there already keeps what it has."""

    def drop(self, key: str) -> None:
        """Forget a piece that is no longer needed; nothing happens where there is none."""

    def listed(self) -> list[str]:
        """Return the keys of all finished pieces, sorted."""


class InMemory:
    """Pieces kept in this process."""

    def __init__(self) -> None:
        self._held: dict[str, Piece] = {}

    def get(self, key: str) -> Piece | None:
        """Return the piece under a key, or None."""
        return self._held.get(key)

    def put(self, piece: Piece) -> None:
        """Keep a piece."""
        self._held.setdefault(piece.key, piece)

    def drop(self, key: str) -> None:
        """Forget a piece."""
        self._held.pop(key, None)

    def listed(self) -> list[str]:
        """Return the keys, sorted."""
        return sorted(self._held)


class Overlay(InMemory):
    """Pieces in memory in front of others that stay as they are: what a model learns after it was opened."""

    def __init__(self, below: Pieces) -> None:
        super().__init__()
        self.below = below

    def get(self, key: str) -> Piece | None:
        """Return the piece under a key, the newer one first."""
        return super().get(key) or self.below.get(key)

    def listed(self) -> list[str]:
        """Return the keys of both, sorted."""
        return sorted({*super().listed(), *self.below.listed()})


class OnDisk:
    """Pieces as archive folders below one folder, opened memory-mapped; a killed writer leaves none half written.

    Parameters
    ----------
    path : the folder; it is made when the first piece is put
    verify : compare files with their checksums when a piece is opened
    """

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = False) -> None:
        self.path = Path(path)
        self.verify = verify

    def get(self, key: str, names: Collection[str] | None = None) -> Piece | None:
        """Open a piece, all of it or the arrays of some names, or return None where it is not finished."""
        if not self.has(key):
            return None
        folder = below(self.path, key)
        manifest, arrays = open_archive(folder, KIND, verify=self.verify, names=names)
        facts = manifest.get("facts")
        if manifest.get("key") != key or not isinstance(facts, dict):
            raise InputError(f"{folder}: damaged: its manifest is not that of the piece {key!r}")
        return Piece(key, arrays, facts, str(folder))

    def put(self, piece: Piece) -> None:
        """Write a piece aside and give it its name; one that is there already stays, its bytes are the same."""
        folder = below(self.path, piece.key)
        for attempt in range(_ATTEMPTS):
            try:
                if not is_archive(folder):
                    remove_torn(folder)
                    facts = dict(piece.facts)
                    write_archive(folder, piece.arrays, sweep=False, kind=KIND, key=piece.key, facts=facts)
                return
            except (OSError, InputError) as error:
                if is_archive(folder):  # another process was faster
                    return
                swept = isinstance(error, FileNotFoundError)  # by a `clean` that took us for dead
                if not swept or attempt == _ATTEMPTS - 1:
                    raise

    def has(self, key: str) -> bool:
        """Tell whether a piece is finished, without opening it."""
        return is_archive(below(self.path, Piece(key).key))

    def drop(self, key: str) -> None:
        """Remove a piece; killed in the middle, `clean` removes the rest."""
        folder = below(self.path, Piece(key).key)
        if folder.exists():
            aside = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}.part")
            with suppress(FileNotFoundError):  # another process was faster
                os.rename(folder, aside)
                shutil.rmtree(aside)
            with suppress(OSError):  # the folder above goes with its last piece
                folder.parent.rmdir()

    def listed(self) -> list[str]:
        """Return the keys of the folders that hold a piece, sorted."""
        found = []
        for folder, folders, files in os.walk(self.path):
            folders[:] = [name for name in folders if not name.startswith(".")]
            if MANIFEST in files:
                found.append(Path(folder).relative_to(self.path).as_posix())
                folders.clear()
        return sorted(found)

    def clean(self) -> None:
        """Remove what a killed writer left behind; only while nobody else writes here."""
        for folder, folders, files in os.walk(self.path):  # which follows no links
            for name in [name for name in (*folders, *files) if name.startswith(".") and name.endswith(".part")]:
                entry = Path(folder, name)
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)
