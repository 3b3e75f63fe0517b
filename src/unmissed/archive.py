"""A folder of `.npy` arrays and a JSON manifest: written aside and renamed, opened memory-mapped, no pickle."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError

MANIFEST = "manifest.json"
Array = npt.NDArray[Any]


@contextmanager
def written_aside(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a fresh folder beside `target`; on success it takes the target's name, on failure it is removed.

    A folder under the target's name appears whole or not at all, so a killed writer leaves nothing that opens.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        yield aside
        aside.chmod(0o777 & ~_umask())
        os.rename(aside, target)
        _sync(target.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


@contextmanager
def file_aside(target: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a stream to a fresh file beside `target`; on success it is flushed and renamed, on failure removed."""
    target = Path(target)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o666 & ~_umask())  # as any new file; temporary ones are private
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file aside, flush it to the disk and rename it into place."""
    with file_aside(path) as stream:
        stream.write(text.encode())


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value as readable JSON, aside and renamed."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file, or say which file is not one."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: not a readable JSON file: {error}") from error


def write_archive(target: str | os.PathLike[str], arrays: Mapping[str, Array], **facts: Any) -> None:
    """Write arrays and facts as a new archive folder; an existing target is refused."""
    target = Path(target)
    if target.exists():
        raise InputError(f"{target}: exists already; remove it or choose another name")
    with written_aside(target) as aside:
        files = {name: _write_array(aside / f"{name}.npy", array) for name, array in arrays.items()}
        write_json(aside / MANIFEST, {**facts, "arrays": files})


def read_manifest(folder: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read an archive's manifest and refuse a folder that is not an archive of this `kind`."""
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{folder}: not a {kind} folder (it has no {MANIFEST})")
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        found = manifest.get("kind") if isinstance(manifest, dict) else None
        raise InputError(f"{folder}: not a {kind} folder (its manifest says {found!r})")
    return manifest


def open_arrays(
    folder: str | os.PathLike[str], manifest: Mapping[str, Any], *, verify: bool = False
) -> dict[str, Array]:
    """Open an archive's arrays read-only and memory-mapped; sizes are always checked, checksums on request."""
    try:
        return {
            name: _open_array(Path(folder) / f"{name}.npy", entry, verify) for name, entry in manifest["arrays"].items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{Path(folder) / MANIFEST}: damaged; it does not list the arrays of this folder") from error


def checksum(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_array(path: Path, array: Array) -> dict[str, Any]:
    with open(path, "wb") as stream:
        np.save(stream, np.asarray(array, order="C"), allow_pickle=False)
        stream.flush()
        os.fsync(stream.fileno())
    return {"bytes": path.stat().st_size, "sha256": checksum(path)}


def _open_array(path: Path, entry: Mapping[str, Any], verify: bool) -> Array:
    try:
        stream = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise InputError(f"{path}: missing") from error
    with stream:
        size = os.fstat(stream.fileno()).st_size
        if size != entry["bytes"]:
            raise InputError(f"{path}: has {size} bytes, its manifest says {entry['bytes']}; the file is damaged")
        if verify and checksum(path) != entry["sha256"]:
            raise InputError(f"{path}: does not match its checksum; the file is damaged")
        try:
            return _load(stream)
        except (ValueError, EOFError) as error:
            raise InputError(f"{path}: not a readable array; the file is damaged: {error}") from error


def _load(stream: IO[bytes]) -> Array:
    """Map an array into memory; numpy's own way opens the file three times, and a run has many files."""
    if np.lib.format.read_magic(stream) == (1, 0):
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream)
        if 0 not in shape and not dtype.hasobject:
            order: Literal["C", "F"] = "F" if by_column else "C"
            return np.memmap(stream, dtype=dtype, mode="r", offset=stream.tell(), shape=shape, order=order)
    stream.seek(0)
    array: Array = np.load(stream, allow_pickle=False)  # an empty array cannot be mapped
    array.setflags(write=False)
    return array


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
