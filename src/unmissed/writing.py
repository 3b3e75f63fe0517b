"""Atomic writing: files and folders appear complete or not at all, even after a kill, power failure or full disk.

A new file or folder is written under a temporary name in the folder of its target, `.NAME.TOKEN.part`, flushed to disk
and then renamed. The writing process holds a lock on the temporary entry; an entry without a lock is stale and is
removed by the next writer of the same target.
"""

from __future__ import annotations

import errno
import filecmp
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from unmissed.errors import InputError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PathLike = str | os.PathLike[str]
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # errors of a full disk or quota
_TOKEN = 12  # hexadecimal digits in a temporary name
_ATTEMPTS = 100
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_RENAME_EXCHANGE = 2  # linux/fs.h
_AT_FDCWD = -100
_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EBADF, errno.EISDIR)


@contextmanager
def atomic_folder(target: PathLike, *, sweep: bool = True, keep_same: bool = False) -> Iterator[Path]:
    """Yield a new temporary folder that is renamed to `target` on success and removed on failure.

    All its files, the folder and its parent are flushed to disk before the context ends. With `sweep=False`, stale
    folders of killed processes are not removed. With `keep_same`, an existing target with the same bytes is kept; other
    contents raise InputError.
    """
    target = Path(target)
    with temporary_folder(target, sweep=sweep) as temporary, naming_target(target, temporary):
        yield temporary
        if keep_same and os.path.lexists(target):
            _check_same(temporary, target)
            return
        sync_tree(temporary)
        os.rename(temporary, target)
        sync_folder(target.parent)


@contextmanager
def temporary_folder(target: PathLike, *, sweep: bool = True) -> Iterator[Path]:
    """Yield a new folder in the folder of `target`; it is removed in the end unless it was renamed."""
    target = Path(target)
    make_folder(target.parent)
    if sweep:
        remove_stale(target)
    with naming_target(target, target.parent):
        temporary, descriptor = _new_folder(target)
    try:
        yield temporary
    finally:
        if descriptor is not None:
            os.close(descriptor)
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def atomic_file(target: PathLike, *, keep_same: bool = False) -> Iterator[IO[bytes]]:
    """Yield a stream to a temporary file that is flushed and renamed to `target` on success and removed on failure.

    An existing target is replaced. With `keep_same`, it is kept if it holds the same bytes, else InputError is raised.
    """
    target = Path(target)
    remove_stale(target)
    with naming_target(target, target.parent):
        temporary, descriptor = _new_file(target)
    try:
        with naming_target(target, temporary):
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                if keep_same and os.path.lexists(target):
                    _check_same(temporary, target)
                    temporary.unlink()
                    return
                os.fsync(stream.fileno())
                os.replace(temporary, target)  # before the lock ends with the stream
            sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def naming_target(target: PathLike, temporary: PathLike) -> Iterator[None]:
    """Set the file name of an OSError to the target if it names no file or the temporary one."""
    try:
        yield
    except OSError as error:
        named = error.filename
        if error.errno is not None and (named is None or Path(os.fsdecode(named)).is_relative_to(temporary)):
            error.filename, error.filename2 = os.fspath(target), None
        raise


def _check_same(new: Path, target: Path) -> None:
    """Raise InputError unless the target holds the bytes of a new file or folder."""
    if _files_of(new) != _files_of(target) or not all(
        filecmp.cmp(new / name, target / name, shallow=False) for name in _files_of(new)
    ):
        raise InputError(f"{target}: exists already and holds something else; remove it or choose another name")


def _files_of(path: Path) -> list[Path]:
    """Return the relative paths of the files of a folder; for a file, the empty path."""
    entries = path.rglob("*") if path.is_dir() else [path]
    return sorted(entry.relative_to(path) for entry in entries if not entry.is_dir())


def remove_stale(target: PathLike) -> None:
    """Remove temporary files and folders left by killed writers of `target`; locked ones are kept."""
    target = Path(target)
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{{_TOKEN}}}\.part")
    with suppress(OSError):
        for name in [name for name in os.listdir(target.parent) if pattern.fullmatch(name)]:
            _remove_if_stale(target.parent / name)


def _remove_if_stale(entry: Path) -> None:
    descriptor = None if entry.is_symlink() else open_entry(entry)
    if descriptor is None:
        return
    try:
        if try_lock(descriptor):
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _new_folder(target: Path) -> tuple[Path, int | None]:
    """Create and lock a temporary folder; return it and the lock's descriptor, None without folder locks."""
    for _ in range(_ATTEMPTS):
        temporary = _temporary(target)
        os.mkdir(temporary)
        descriptor = open_entry(temporary)
        if descriptor is None:
            if temporary.exists():
                return temporary, None
        elif try_lock(descriptor) is not False and is_at(descriptor, temporary):
            return temporary, descriptor
        else:
            os.close(descriptor)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _new_file(target: Path) -> tuple[Path, int]:
    """Create and lock a temporary file."""
    for _ in range(_ATTEMPTS):
        temporary = _temporary(target)
        descriptor = os.open(temporary, _NEW, 0o666)
        if sys.platform == "win32" or (try_lock(descriptor) is not False and is_at(descriptor, temporary)):
            return temporary, descriptor
        os.close(descriptor)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _temporary(target: Path) -> Path:
    return target.parent / f".{target.name}.{os.urandom(_TOKEN // 2).hex()}.part"


def open_entry(path: Path) -> int | None:
    """Return a descriptor of a file or folder, or None if it cannot be opened."""
    if sys.platform == "win32":
        return None
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None


def is_at(descriptor: int, path: PathLike) -> bool:
    """Return whether a path still refers to this open file or folder."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def try_lock(descriptor: int, *, shared: bool = False) -> bool | None:
    """Try to lock an open file, exclusively or shared; return None if the file system has no locks."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK if shared else msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        if error.errno not in _NO_LOCKS:
            raise
        return None
    return True


def make_folder(path: PathLike) -> None:
    """Create a folder and its parents, and flush each new entry to disk."""
    path = Path(path)
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_tree(folder: PathLike) -> None:
    """Flush a folder and everything in it to disk."""
    for root, _, names in os.walk(folder, topdown=False):
        for name in names:
            _sync(os.path.join(root, name))
        sync_folder(root)


def sync_folder(folder: PathLike) -> None:
    """Flush the entries of a folder to disk, if the system supports it."""
    with suppress(PermissionError, IsADirectoryError):
        _sync(folder)


def _sync(path: PathLike) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES):  # flushing unsupported
            error.filename = os.fspath(path)
            raise
    finally:
        os.close(descriptor)


def exchange(one: PathLike, other: PathLike) -> bool:
    """Swap the names of two files or folders atomically; return False, with no effect, if the system cannot."""
    import ctypes  # rarely needed

    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if swap is None:
        return False
    if swap(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), os.fspath(one), None, os.fspath(other))
