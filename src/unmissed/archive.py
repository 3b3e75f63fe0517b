"""Archives: folders of `.npy` arrays and a JSON manifest, written atomically, memory-mapped when opened, no pickle."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import shutil
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.files import map_npy, no_such, open_regular, read_json, reading
from unmissed.writing import atomic_file, atomic_folder, naming_target

__all__ = [
    "MANIFEST",
    "SEAL",
    "HashedAhead",
    "atomic_file",
    "atomic_folder",
    "below",
    "checksum",
    "is_archive",
    "open_archive",
    "open_arrays",
    "read_json",
    "read_manifest",
    "remove_torn",
    "seal",
    "write_archive",
    "write_json",
    "write_manifest",
    "write_text",
]

MANIFEST = "manifest.json"
SEAL = "sha256"  # manifest key of the checksum of all other entries
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_KINDS = "biuf"
_SMALL = 1 << 20  # bytes of a file that is hashed in one piece: the buffer of `file_digest` costs more than its hash
Array = npt.NDArray[Any]


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically: to a temporary file that is flushed and renamed."""
    with atomic_file(path) as stream:
        stream.write(text.encode())


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    write_text(path, _json_text(value))


def _json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_archive(
    target: str | os.PathLike[str],
    arrays: Mapping[str, Array],
    *,
    sweep: bool = True,
    keep_same: bool = False,
    **metadata: Any,
) -> None:
    """Write arrays and metadata as a new archive folder; an existing target raises InputError.

    With `sweep=False`, stale temporary folders of killed processes are not removed. With `keep_same`, an existing
    archive with the same bytes is kept.
    """
    target = Path(target)
    if os.path.lexists(target) and not (keep_same and is_archive(target)):
        raise InputError(f"{target}: exists already; remove it or choose another name")
    with atomic_folder(target, sweep=sweep, keep_same=keep_same) as folder:
        files = {name: _write_array(_array_path(folder, name), array, target) for name, array in arrays.items()}
        (folder / MANIFEST).write_text(_manifest_text({**metadata, "arrays": files}), encoding="utf-8")


def is_archive(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder has a manifest; an archive left incomplete by a power failure has none."""
    return os.path.lexists(Path(folder) / MANIFEST)


def remove_torn(folder: str | os.PathLike[str]) -> None:
    """Remove an archive left incomplete by a power failure: a folder of files without a manifest."""
    folder = Path(folder)
    if not folder.is_dir() or folder.is_symlink() or not _is_torn(folder):
        return
    renamed = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}.part")
    with suppress(FileNotFoundError):  # another process was faster
        os.rename(folder, renamed)
        if _is_torn(renamed):
            shutil.rmtree(renamed)
        else:  # another process has written a complete archive in the meantime
            os.rename(renamed, folder)


def _is_torn(folder: Path) -> bool:
    return not is_archive(folder) and all(entry.is_file() for entry in folder.iterdir())


def open_archive(
    folder: str | os.PathLike[str], kind: str, *, verify: bool = False, names: Collection[str] | None = None
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the metadata of an archive and its arrays (all, or those in `names`), read-only and memory-mapped.

    File sizes and the checksum of the manifest are always verified, checksums of arrays with `verify`. Callers must
    validate values before they use them as indices.
    """
    manifest = read_manifest(folder, kind)
    arrays = open_arrays(folder, manifest, verify=verify, names=names)
    return {name: value for name, value in manifest.items() if name not in ("arrays", SEAL)}, arrays


def write_manifest(folder: str | os.PathLike[str], manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a folder, with its own checksum."""
    write_text(Path(folder) / MANIFEST, _manifest_text(manifest))


def _manifest_text(manifest: Mapping[str, Any]) -> str:
    content = {name: value for name, value in manifest.items() if name != SEAL}
    return _json_text({**content, SEAL: seal(content)})


def seal(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest, independent of key order and whitespace."""
    return _digest_json(json.loads(json.dumps(dict(manifest))))


def _digest_json(manifest: Mapping[str, Any]) -> str:
    """Return the same checksum for a manifest that was parsed from JSON."""
    content = {name: value for name, value in manifest.items() if name != SEAL}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Return the manifest of an archive; raise InputError if it is damaged or not of this `kind`."""
    folder = Path(folder)
    if not os.path.lexists(folder):
        raise no_such(folder, f"{kind} folder")
    if not os.path.lexists(folder / MANIFEST):
        raise InputError(f"{folder}: not a {kind} folder (it has no {MANIFEST})")
    manifest = read_json(folder / MANIFEST, follow=False)
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        found = manifest.get("kind") if isinstance(manifest, dict) else None
        raise InputError(f"{folder}: not a {kind} folder (its manifest says {_short(found)})")
    if SEAL in manifest and manifest[SEAL] != _digest_json(manifest):
        raise InputError(f"{folder / MANIFEST}: does not match its own checksum; the file is damaged or was changed")
    return manifest


def open_arrays(
    folder: str | os.PathLike[str],
    manifest: Mapping[str, Any],
    *,
    verify: bool = False,
    names: Collection[str] | None = None,
) -> dict[str, Array]:
    """Return the arrays of an archive (all, or those in `names`), read-only and memory-mapped.

    File sizes are always verified, checksums with `verify`.
    """
    root = Path(folder)
    if verify and SEAL not in manifest:
        raise InputError(f"{root / MANIFEST}: has no checksum of its own, so damage cannot be detected")
    listed = manifest.get("arrays")
    if not isinstance(listed, dict):
        raise InputError(f"{root / MANIFEST}: damaged; it does not list the arrays of this folder")
    wanted = listed if names is None else {name: entry for name, entry in listed.items() if name in names}
    return {name: _open_array(_array_path(root, name), entry, verify) for name, entry in wanted.items()}


def below(root: str | os.PathLike[str], relative: str | os.PathLike[str]) -> Path:
    """Return a path inside a folder; raise InputError if it leaves the folder by `..` or a symbolic link."""
    position = Path(root)
    for part in Path(relative).parts:
        if part == ".." or Path(part).is_absolute():
            raise InputError(f"{relative}: leads out of {root}")
        position /= part
        if position.is_symlink():
            raise InputError(f"{position}: a symbolic link, and links are not followed here")
    return position


def checksum(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes."""
    with open(path, "rb") as stream:
        return _digest(stream)


def _array_path(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise InputError(f"{folder}: damaged; {_short(name)} is no name of an array")
    return folder / f"{name}.npy"


def _write_array(path: Path, array: Array, target: Path) -> dict[str, Any]:
    if np.asarray(array).dtype.kind not in _KINDS:
        raise InputError(f"{path.name}: an archive holds plain numbers, not {np.asarray(array).dtype}")
    array = np.asarray(array, order="C")
    with naming_target(target / path.name, path), open(path, "wb") as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
        stream.write(array.reshape(-1).view(np.uint8).data)  # np.save does not report a full disk
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
        if verify and (_ahead.pop(_identity(stream), None) or _digest(stream)) != entry["sha256"]:
            raise InputError(f"{path}: does not match its checksum; the file is damaged")
        stream.seek(0)
        with reading(path, "a readable array; the file is damaged"):
            array = map_npy(stream)
    if array.dtype.kind not in _KINDS:
        raise InputError(f"{path}: not a readable array; the file is damaged: it holds {array.dtype}")
    return array


def _digest(stream: Any) -> str:
    if os.fstat(stream.fileno()).st_size <= _SMALL:
        return hashlib.sha256(stream.read()).hexdigest()
    return hashlib.file_digest(stream, "sha256").hexdigest()


_ahead: dict[tuple[int, ...], str] = {}  # digests of `HashedAhead`, each of which is used once


def _identity(stream: Any) -> tuple[int, ...]:
    """Return what changes if a file is replaced or written to."""
    state = os.fstat(stream.fileno())
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


class HashedAhead:
    """The checksums of all arrays below some archives, computed by a thread while this one does other work.

    Opening an archive with `verify` uses each of them once, if the file has not changed since then. Those that are left
    are forgotten at the end of the context.

    Parameters
    ----------
    folders : folders with a manifest; others, and what cannot be read, are left to those who open it
    smallest : size of the smallest file, in bytes; a file takes the interpreter's lock once, and may wait for it
    """

    def __init__(self, folders: Iterable[str | os.PathLike[str]], smallest: int = 1 << 20) -> None:
        self._smallest = smallest
        self._folders, self._ends = [Path(folder) for folder in folders], False
        self._thread = threading.Thread(target=self._hash, daemon=True)
        self._thread.start()

    def __enter__(self) -> HashedAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def wait(self) -> None:
        """Wait until all are computed."""
        self._thread.join()

    def clear(self) -> None:
        """Forget the checksums that were not used."""
        self._ends = True
        self.wait()
        _ahead.clear()

    def _hash(self) -> None:
        archives = filter(is_archive, self._folders)
        for path in (path for folder in archives for path in sorted(folder.rglob("*.npy"))):
            if self._ends:
                return
            with suppress(OSError, InputError), open_regular(path, follow=False) as stream:
                identity = _identity(stream)
                if identity[2] >= self._smallest:
                    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                        _ahead[identity] = hashlib.sha256(content).hexdigest()


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
