"""Writing: files and folders that appear whole or not at all, after a kill, a power cut or on a full disk.

A new file or folder is written under a temporary name beside its target, `.NAME.TOKEN.part`, flushed to the disk and
then renamed. While its process lives, it holds a lock on the temporary entry; an entry without a lock is stale and is
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
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # errors of a disk that takes no more bytes
_TOKEN = 12  # hexadecimal digits in a temporary name
_ATTEMPTS = 100
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_RENAME_EXCHANGE = 2  # linux/fs.h
_AT_FDCWD = -100
_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EBADF, errno.EISDIR)


@contextmanager
def written_aside(target: PathLike, *, sweep: bool = True, keep_same: bool = False) -> Iterator[Path]:
    """Give a fresh folder beside `target`; on success it takes the target's name, on failure it is removed.

    All files in it, the folder and its parent are flushed to the disk, so that the target is whole after a power cut
    too. With `sweep=False`, stale folders of killed processes are not looked for. With `keep_same`, a target that holds
    the same bytes already stays, and one that holds others is refused.
    """
    target = Path(target)
    with scratch_folder(target, sweep=sweep) as aside, naming(target, aside):
        yield aside
        if keep_same and os.path.lexists(target):
            _check_same(aside, target)
            return
        sync_tree(aside)
        os.rename(aside, target)
        sync_folder(target.parent)


@contextmanager
def scratch_folder(target: PathLike, *, sweep: bool = True) -> Iterator[Path]:
    """Give a fresh folder beside `target` that is removed in the end, unless it was renamed."""
    target = Path(target)
    make_folder(target.parent)
    if sweep:
        remove_stale(target)
    with naming(target, target.parent):
        aside, descriptor = _new_folder(target)
    try:
        yield aside
    finally:
        if descriptor is not None:
            os.close(descriptor)
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def file_aside(target: PathLike, *, keep_same: bool = False) -> Iterator[IO[bytes]]:
    """Give a stream to a fresh file beside `target`; on success it is flushed and renamed, on failure removed.

    An existing target is replaced; with `keep_same`, it stays if it holds the same bytes, and is refused if not.
    """
    target = Path(target)
    remove_stale(target)
    with naming(target, target.parent):
        aside, descriptor = _new_file(target)
    try:
        with naming(target, aside):
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                if keep_same and os.path.lexists(target):
                    _check_same(aside, target)
                    aside.unlink()
                    return
                os.fsync(stream.fileno())
                os.replace(aside, target)  # before the lock ends with the stream
            sync_folder(target.parent)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


@contextmanager
def naming(target: PathLike, aside: PathLike) -> Iterator[None]:
    """Have errors of the system name the target: a failed write names no file, others the temporary one."""
    try:
        yield
    except OSError as error:
        named = error.filename
        if error.errno is not None and (named is None or Path(os.fsdecode(named)).is_relative_to(aside)):
            error.filename, error.filename2 = os.fspath(target), None
        raise


def _check_same(new: Path, target: Path) -> None:
    """Refuse a target that does not hold the bytes of a new file or folder."""
    if _files_of(new) != _files_of(target) or not all(
        filecmp.cmp(new / name, target / name, shallow=False) for name in _files_of(new)
    ):
        raise InputError(f"{target}: exists already and holds something else; remove it or choose another name")


def _files_of(path: Path) -> list[Path]:
    """Return the files of a folder, relative to it; of a file the empty path."""
    entries = path.rglob("*") if path.is_dir() else [path]
    return sorted(entry.relative_to(path) for entry in entries if not entry.is_dir())


def remove_stale(target: PathLike) -> None:
    """Remove the temporary files and folders that killed writers of `target` left; those of living ones stay."""
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
    """Make a folder beside `target` and lock it; the lock is the descriptor, None where folders have no locks."""
    for _ in range(_ATTEMPTS):
        aside = _temporary(target)
        os.mkdir(aside)
        descriptor = open_entry(aside)
        if descriptor is None:
            if aside.exists():
                return aside, None
        elif try_lock(descriptor) is not False and is_at(descriptor, aside):
            return aside, descriptor
        else:
            os.close(descriptor)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _new_file(target: Path) -> tuple[Path, int]:
    """Make a file beside `target` and lock it."""
    for _ in range(_ATTEMPTS):
        aside = _temporary(target)
        descriptor = os.open(aside, _NEW, 0o666)
        if sys.platform == "win32" or (try_lock(descriptor) is not False and is_at(descriptor, aside)):
            return aside, descriptor
        os.close(descriptor)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _temporary(target: Path) -> Path:
    return target.parent / f".{target.name}.{os.urandom(_TOKEN // 2).hex()}.part"


def open_entry(path: Path) -> int | None:
    """Open a file or folder, for its lock or to keep it; None where it is gone or the system cannot."""
    if sys.platform == "win32":
        return None
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None


def is_at(descriptor: int, path: PathLike) -> bool:
    """Tell whether an open file or folder is still the one that has this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def try_lock(descriptor: int, *, shared: bool = False) -> bool | None:
    """Take the lock of an open file, or change it to a shared one; None where the file system has no locks."""
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
    """Make a folder and those above it, and flush the entry of each new one to the disk."""
    path = Path(path)
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_tree(folder: PathLike) -> None:
    """Flush all files and folders below a folder, and the folder, to the disk."""
    for root, _, names in os.walk(folder, topdown=False):
        for name in names:
            _sync(os.path.join(root, name))
        sync_folder(root)


def sync_folder(folder: PathLike) -> None:
    """Flush a folder's entries to the disk where the system can."""
    with suppress(PermissionError, IsADirectoryError):
        _sync(folder)


def _sync(path: PathLike) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES):  # cannot be flushed here
            error.filename = os.fspath(path)
            raise
    finally:
        os.close(descriptor)


def exchange(one: PathLike, other: PathLike) -> bool:
    """Let two files or folders swap names in one step; False, and nothing is done, where the system cannot."""
    import ctypes  # what few processes need

    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if swap is None:
        return False
    if swap(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), os.fspath(one), None, os.fspath(other))
