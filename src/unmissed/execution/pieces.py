"""Pieces: named arrays and metadata under a key, the unit of checkpointing, in memory or on disk."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from unmissed.archive import MANIFEST, SEAL, below, is_archive, open_arrays, read_manifest, remove_torn, write_archive
from unmissed.errors import InputError

KIND = "piece"
_ATTEMPTS = 5
_KEY = re.compile(r"[a-z0-9][a-z0-9.-]*(/[a-z0-9][a-z0-9.-]*)*")
Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Piece:
    """Arrays and metadata under a key: a block of labels, a tree, or one training of a study.

    Parameters
    ----------
    key : lower-case letters, digits, dots and dashes, separated by slashes, such as "labels/00000256" or "tree/2"
    arrays : fitted arrays of the model, by name
    metadata : small values that JSON can hold
    where : the folder that it was read from, for error messages
    digest : checksum of its manifest, and so of all its contents; None if it was not read from a disk
    """

    key: str
    arrays: Mapping[str, Array] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    digest: str | None = None

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise InputError(
                f"{self.key!r} is not the key of a piece; expected words separated by slashes, such as tree/2"
            )

    def expect(self, layout: Mapping[str, tuple[Any, int]]) -> Mapping[str, Array]:
        """Return the arrays; raise unless names, dtypes and numbers of dimensions are those of `layout`."""
        if self.arrays.keys() != layout.keys():
            raise self.damaged(f"it holds {sorted(self.arrays)}, expected {sorted(layout)}")
        for name, (dtype, n_dimensions) in layout.items():
            array = self.arrays[name]
            if array.dtype != np.dtype(dtype) or array.ndim != n_dimensions:
                raise self.damaged(f"{name} is {array.dtype} with {array.ndim} dimensions")
        return self.arrays

    def numbers(self, *names: str) -> dict[str, float]:
        """Return metadata by name; raise unless all of them are finite numbers."""
        for name in names:
            value = self.metadata.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise self.damaged(f"{name} is {value!r}, expected a number")
        return {name: self.metadata[name] for name in names}

    def damaged(self, why: str) -> InputError:
        """Return the error that reports this piece as damaged."""
        return InputError(f"{self.where or self.key}: damaged: {why}")


class Pieces(Protocol):
    """Storage of finished pieces."""

    def get(self, key: str) -> Piece | None:
        """Return the piece with this key, or None if it is not finished."""

    def put(self, piece: Piece) -> None:
        """Store a piece atomically; an existing piece with the same key stays."""

    def drop(self, key: str) -> None:
        """Remove a piece if it exists."""

    def listed(self) -> list[str]:
        """Return the keys of all finished pieces, sorted."""


class InMemory:
    """Pieces in the memory of this process."""

    def __init__(self) -> None:
        self._held: dict[str, Piece] = {}

    def get(self, key: str) -> Piece | None:
        """Return the piece with this key, or None."""
        return self._held.get(key)

    def put(self, piece: Piece) -> None:
        """Store a piece; an existing one with the same key stays."""
        self._held.setdefault(piece.key, piece)

    def drop(self, key: str) -> None:
        """Remove a piece if it exists."""
        self._held.pop(key, None)

    def listed(self) -> list[str]:
        """Return the keys, sorted."""
        return sorted(self._held)


class Overlay(InMemory):
    """Pieces in memory over read-only pieces below: what a model learns after it was opened."""

    def __init__(self, below: Pieces) -> None:
        super().__init__()
        self.below = below

    def get(self, key: str) -> Piece | None:
        """Return the piece with this key, from memory if it is there, else from below."""
        return super().get(key) or self.below.get(key)

    def listed(self) -> list[str]:
        """Return the keys of both layers, sorted."""
        return sorted({*super().listed(), *self.below.listed()})


@dataclass(frozen=True)
class PrefixedPieces:
    """The pieces of another storage whose keys begin with a prefix and a slash; here their keys are without it."""

    pieces: Pieces
    prefix: str

    def get(self, key: str) -> Piece | None:
        """Return the piece with this key, or None."""
        piece = self.pieces.get(f"{self.prefix}/{key}")
        return None if piece is None else replace(piece, key=key)

    def put(self, piece: Piece) -> None:
        """Store a piece; an existing one with the same key stays."""
        self.pieces.put(replace(piece, key=f"{self.prefix}/{piece.key}"))

    def drop(self, key: str) -> None:
        """Remove a piece if it exists."""
        self.pieces.drop(f"{self.prefix}/{key}")

    def listed(self) -> list[str]:
        """Return the keys that have the prefix, without it, sorted."""
        begin = f"{self.prefix}/"
        return [key.removeprefix(begin) for key in self.pieces.listed() if key.startswith(begin)]


class RecordedPieces:
    """Pieces that record which of them are read.

    Parameters
    ----------
    pieces : the storage
    """

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self._used = InMemory()

    def get(self, key: str) -> Piece | None:
        """Return the piece with this key, or None; record it."""
        piece = self.pieces.get(key)
        if piece is not None:
            self._used.put(piece)
        return piece

    def put(self, piece: Piece) -> None:
        """Store a piece; an existing one with the same key stays."""
        self.pieces.put(piece)

    def drop(self, key: str) -> None:
        """Remove a piece if it exists."""
        self.pieces.drop(key)

    def listed(self) -> list[str]:
        """Return the keys of all pieces, sorted."""
        return self.pieces.listed()

    def read_pieces(self) -> InMemory:
        """Return the pieces that were read."""
        return self._used


class OnDisk:
    """Pieces as archive folders below one folder, opened memory-mapped; writes are atomic.

    Parameters
    ----------
    path : the folder; the first `put` creates it
    verify : compare files with their checksums when a piece is opened
    layouts : the folder of what a model prepares from the pieces (`layouts.py`); None keeps nothing
    """

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = False, layouts: Path | None = None) -> None:
        self.path = Path(path)
        self.verify = verify
        self.layouts = layouts

    def get(self, key: str) -> Piece | None:
        """Open a piece; None if it is not finished."""
        if not self.has(key):
            return None
        folder = below(self.path, key)
        manifest = read_manifest(folder, KIND)
        arrays = open_arrays(folder, manifest, verify=self.verify)
        metadata = manifest.get("metadata")
        if manifest.get("key") != key or not isinstance(metadata, dict):
            raise InputError(f"{folder}: damaged: its manifest is not that of the piece {key!r}")
        return Piece(key, arrays, metadata, str(folder), manifest.get(SEAL))

    def put(self, piece: Piece) -> None:
        """Write a piece under a temporary name and rename it; an existing piece has the same bytes and stays."""
        folder = below(self.path, piece.key)
        for attempt in range(_ATTEMPTS):
            try:
                if not is_archive(folder):
                    remove_torn(folder)
                    metadata = dict(piece.metadata)
                    write_archive(folder, piece.arrays, sweep=False, kind=KIND, key=piece.key, metadata=metadata)
                return
            except (OSError, InputError) as error:
                if is_archive(folder):  # another process was faster
                    return
                cleaned = isinstance(error, FileNotFoundError)  # a `clean` elsewhere removed the temporary folder
                if not cleaned or attempt == _ATTEMPTS - 1:
                    raise

    def has(self, key: str) -> bool:
        """Return whether a piece is finished, without opening it."""
        return is_archive(below(self.path, Piece(key).key))

    def drop(self, key: str) -> None:
        """Remove a piece; if the process is killed, `clean` removes the rest."""
        folder = below(self.path, Piece(key).key)
        if folder.exists():
            aside = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}.part")
            with suppress(FileNotFoundError):  # another process was faster
                os.rename(folder, aside)
                shutil.rmtree(aside)
            with suppress(OSError):  # remove the parent folder with its last piece
                folder.parent.rmdir()

    def listed(self) -> list[str]:
        """Return the keys of all finished pieces on disk, sorted."""
        keys = []
        for folder, folders, files in os.walk(self.path):
            folders[:] = [name for name in folders if not name.startswith(".")]
            if MANIFEST in files:
                keys.append(Path(folder).relative_to(self.path).as_posix())
                folders.clear()
        return sorted(keys)

    def clean(self) -> None:
        """Remove the temporary files of killed writers; the caller must be the only writer."""
        for folder, folders, files in os.walk(self.path):  # os.walk follows no symbolic links
            for name in [name for name in (*folders, *files) if name.startswith(".") and name.endswith(".part")]:
                entry = Path(folder, name)
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)
