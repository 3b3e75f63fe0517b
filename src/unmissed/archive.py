"""A folder of `.npy` arrays and a JSON manifest: written aside and renamed, opened memory-mapped, no pickle."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.files import map_npy, no_such, open_regular, read_json, reading

__all__ = [
    "MANIFEST",
    "below",
    "checksum",
    "file_aside",
    "open_archive",
    "open_arrays",
    "read_json",
    "read_manifest",
    "seal",
    "write_archive",
    "write_json",
    "write_manifest",
    "write_text",
    "written_aside",
]

MANIFEST = "manifest.json"
_SEAL = "sha256"  # the manifest's entry for the checksum of all its others
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_KINDS = "biuf"
Array = npt.NDArray[Any]


@contextmanager
def written_aside(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a fresh folder beside `target`; on success it takes the target's name, on failure it is removed.

    A folder under the target's name appears whole or not at all, so a killed writer leaves nothing that opens.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = _beside(target)
    aside.mkdir()  # with the permissions of any new folder, as the system's umask has it
    try:
        yield aside
        os.rename(aside, target)
        _sync(target.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


@contextmanager
def file_aside(target: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a stream to a fresh file beside `target`; on success it is flushed and renamed, on failure removed."""
    target = Path(target)
    aside = _beside(target)
    opened = aside.open("xb")  # with the permissions of any new file, as the system's umask has it
    try:
        with opened as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file aside, flush it to the disk and rename it into place."""
    with file_aside(path) as stream:
        stream.write(text.encode())


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value as readable JSON, aside and renamed."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_archive(target: str | os.PathLike[str], arrays: Mapping[str, Array], **facts: Any) -> None:
    """Write arrays and facts as a new archive folder; an existing target is refused."""
    target = Path(target)
    if os.path.lexists(target):
        raise InputError(f"{target}: exists already; remove it or choose another name")
    with written_aside(target) as aside:
        files = {name: _write_array(_array_path(aside, name), array) for name, array in arrays.items()}
        write_manifest(aside, {**facts, "arrays": files})


def open_archive(
    folder: str | os.PathLike[str], kind: str, *, verify: bool = False, names: Collection[str] | None = None
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Open an archive: the facts it was written with, and its arrays, or some of them, read-only and memory-mapped.

    Sizes of files and the manifest's own checksum are always compared, those of the arrays with `verify`. What the
    arrays hold is for the caller to check before it is used as an index.
    """
    manifest = read_manifest(folder, kind)
    arrays = open_arrays(folder, manifest, verify=verify, names=names)
    return {name: value for name, value in manifest.items() if name not in ("arrays", _SEAL)}, arrays


def write_manifest(folder: str | os.PathLike[str], manifest: Mapping[str, Any]) -> None:
    """Write a folder's manifest with a checksum over all of it."""
    content = {name: value for name, value in manifest.items() if name != _SEAL}
    write_json(Path(folder) / MANIFEST, {**content, _SEAL: seal(content)})


def seal(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest's content, whatever the order of its keys and the blanks between them."""
    return _digest_json(json.loads(json.dumps(dict(manifest))))


def _digest_json(manifest: Mapping[str, Any]) -> str:
    """Return the same of a manifest that was read from JSON."""
    content = {name: value for name, value in manifest.items() if name != _SEAL}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read an archive's manifest and refuse a folder that is not an archive of this `kind`, or is damaged."""
    folder = Path(folder)
    if not os.path.lexists(folder):
        raise no_such(folder, f"{kind} folder")
    if not os.path.lexists(folder / MANIFEST):
        raise InputError(f"{folder}: not a {kind} folder (it has no {MANIFEST})")
    manifest = read_json(folder / MANIFEST, follow=False)
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        found = manifest.get("kind") if isinstance(manifest, dict) else None
        raise InputError(f"{folder}: not a {kind} folder (its manifest says {_short(found)})")
    if _SEAL in manifest and manifest[_SEAL] != _digest_json(manifest):
        raise InputError(f"{folder / MANIFEST}: does not match its own checksum; the file is damaged or was changed")
    return manifest


def open_arrays(
    folder: str | os.PathLike[str],
    manifest: Mapping[str, Any],
    *,
    verify: bool = False,
    names: Collection[str] | None = None,
) -> dict[str, Array]:
    """Open an archive's arrays, or those of some names, read-only and memory-mapped.

    Their sizes are always checked, checksums on request.
    """
    root = Path(folder)
    if verify and _SEAL not in manifest:
        raise InputError(f"{root / MANIFEST}: has no checksum of its own, so nobody can tell whether it is damaged")
    listed = manifest.get("arrays")
    if not isinstance(listed, dict):
        raise InputError(f"{root / MANIFEST}: damaged; it does not list the arrays of this folder")
    wanted = listed if names is None else {name: entry for name, entry in listed.items() if name in names}
    return {name: _open_array(_array_path(root, name), entry, verify) for name, entry in wanted.items()}


def below(root: str | os.PathLike[str], relative: str | os.PathLike[str]) -> Path:
    """Return the path of something inside a folder, refusing one that leads out of it: `..` or a symbolic link."""
    place = Path(root)
    for part in Path(relative).parts:
        if part == ".." or Path(part).is_absolute():
            raise InputError(f"{relative}: leads out of {root}")
        place /= part
        if place.is_symlink():
            raise InputError(f"{place}: a symbolic link, and links are not followed here")
    return place


def checksum(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes."""
    with open(path, "rb") as stream:
        return _digest(stream)


def _array_path(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise InputError(f"{folder}: damaged; {_short(name)} is no name of an array")
    return folder / f"{name}.npy"


def _write_array(path: Path, array: Array) -> dict[str, Any]:
    if np.asarray(array).dtype.kind not in _KINDS:
        raise InputError(f"{path.name}: an archive holds plain numbers, not {np.asarray(array).dtype}")
    with open(path, "wb") as stream:
        np.save(stream, np.asarray(array, order="C"), allow_pickle=False)
        stream.flush()
        os.fsync(stream.fileno())
    return {"bytes": path.stat().st_size, "sha256": checksum(path)}


def _open_array(path: Path, entry: Any, verify: bool) -> Array:
    if not isinstance(entry, dict) or type(entry.get("bytes")) is not int or not isinstance(entry.get("sha256"), str):
        raise InputError(f"{path.parent / MANIFEST}: damaged; it does not say what {path.name} should be")
    if not os.path.lexists(path):
        raise InputError(f"{path}: missing")
    with open_regular(path, follow=False) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size != entry["bytes"]:
            raise InputError(f"{path}: has {size} bytes, its manifest says {entry['bytes']}; the file is damaged")
        if verify and _digest(stream) != entry["sha256"]:
            raise InputError(f"{path}: does not match its checksum; the file is damaged")
        stream.seek(0)
        with reading(path, "a readable array; the file is damaged"):
            array = map_npy(stream)
    if array.dtype.kind not in _KINDS:
        raise InputError(f"{path}: not a readable array; the file is damaged: it holds {array.dtype}")
    return array


def _digest(stream: Any) -> str:
    return hashlib.file_digest(stream, "sha256").hexdigest()


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _beside(target: Path) -> Path:
    """Return a name beside `target` that no other writer has."""
    return target.with_name(f".{target.name}.{secrets.token_urlsafe(6)}.part")


def _sync(folder: Path) -> None:
    """Flush a folder's entries to the disk where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
