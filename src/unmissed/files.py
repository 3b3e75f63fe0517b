"""Safe reading of untrusted files: only regular files are opened, and every error becomes an InputError with the path.

No code from a file is executed, and claimed sizes are not trusted: memory is allocated only after the bytes that fill
it have been counted.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError, UnmissedError, did_you_mean
from unmissed.settings import SETTINGS

Array = npt.NDArray[Any]
PathLike = str | os.PathLike[str]

LARGEST_JSON = 1 << 28  # maximum bytes of a JSON file; fits a propensity table of ten million labels
_MOST_AXES = 32
_DEFLATED = 1032  # maximum compression ratio of deflate
_CHUNK = 1 << 20
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_MAGIC = re.compile(rb"\x93NUMPY([\x01-\x03])\x00", re.DOTALL)
_DESCR = re.compile(r"'descr'\s*:\s*'([<>|=]?[biufSU][0-9]{1,4})'")
_ORDER = re.compile(r"'fortran_order'\s*:\s*(True|False)\b")
_SHAPE = re.compile(r"'shape'\s*:\s*\(([0-9L,\s]*)\)")
_HALF_PAIR = re.compile(r"\\ud[89a-f]", re.IGNORECASE)


def open_regular(path: PathLike, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading; raise InputError for pipes and devices, which could block or never end.

    With `follow=False`, symbolic links raise InputError, too.
    """
    try:
        descriptor = os.open(path, _OPEN if follow else _OPEN | _NO_LINK)
    except FileNotFoundError as error:
        raise no_such(path, "file") from error
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise InputError(f"{path}: a symbolic link, and links are not followed here") from error
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{str(path)!r}: not a path: {error}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path}: cannot be read: not a regular file")
    return os.fdopen(descriptor, "rb")


def no_such(path: PathLike, what: str = "file or folder") -> InputError:
    """Return the error for a path that does not exist; it suggests the closest name in the folder."""
    folder, name = os.path.split(path)
    try:
        near = os.listdir(folder or os.curdir)
    except (OSError, ValueError):
        near = []
    return InputError(f"{path}: no such {what}{did_you_mean(name, near)}")


@contextmanager
def reading(path: PathLike, what: str) -> Iterator[None]:
    """Convert any exception of a reader to an InputError that says that the file is not `what`."""
    try:
        yield
    except UnmissedError:
        raise
    except MemoryError as error:
        raise InputError(f"{path}: not {what} that fits into memory") from error
    except Exception as error:  # parsers of untrusted bytes raise exceptions of any type
        raise InputError(f"{path}: not {what}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return the message of an error as one line of bounded length."""
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= 300 else f"{message[:300]}..."


def read_text(path: PathLike, what: str = "UTF-8 text") -> str:
    """Read a UTF-8 file and strip its byte-order mark."""
    with open_regular(path) as stream, reading(path, what):
        return stream.read().decode("utf-8-sig")


def read_json(path: PathLike, *, follow: bool = True) -> Any:
    """Read a JSON file; raise InputError if it is invalid or too large."""
    with open_regular(path, follow=follow) as stream, reading(path, "a readable JSON file"):
        if os.fstat(stream.fileno()).st_size > LARGEST_JSON:
            raise InputError(f"{path}: not a readable JSON file: more than {LARGEST_JSON} bytes")
        return parse_json(stream.read().decode("utf-8"))


def parse_json(text: str, *, any_string: bool = False) -> Any:
    """Parse JSON strictly: duplicate keys and excessive nesting raise ValueError.

    Lone surrogates in strings raise ValueError, too, unless `any_string`.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
    if not any_string and _HALF_PAIR.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a string holds half of a surrogate pair and is no text") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        seen: set[str] = set()
        duplicate = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {duplicate[:40]!r} stands twice in an object")
    return parsed


class NpyHeader(NamedTuple):
    """Header of a `.npy` file: dtype, shape, memory order, and the byte offset of the data."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    offset: int

    @property
    def n_bytes(self) -> int:
        """The size of the complete file, in bytes."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def read_header(read: Callable[[int], bytes]) -> NpyHeader:
    """Read the header of a `.npy` file of numbers or short strings; raise ValueError for any other."""
    magic = _MAGIC.fullmatch(read(8))
    if magic is None:
        raise ValueError("it does not start with the magic bytes of a .npy file")
    width = 2 if magic.group(1) == b"\x01" else 4
    length = int.from_bytes(read(width), "little")
    if length > 10_000:
        raise ValueError(f"its header claims {length} bytes")
    text = read(length).decode("latin-1")
    descr, order, shape = _DESCR.search(text), _ORDER.search(text), _SHAPE.search(text)
    if len(text) != length or descr is None or order is None or shape is None:
        raise ValueError("its header does not name a type of numbers, an order and a shape")
    sizes = tuple(int(word) for word in re.findall(r"[0-9]+", shape.group(1)))
    if len(sizes) > _MOST_AXES or any(size > np.iinfo(np.int64).max for size in sizes):
        raise ValueError("its header claims a shape that is too large for an array")
    try:
        dtype = np.dtype(descr.group(1))
    except TypeError as error:
        raise ValueError(f"its header claims numbers of type {descr.group(1)!r}") from error
    return NpyHeader(dtype, sizes, "F" if order.group(1) == "True" else "C", 8 + width + length)


def map_npy(stream: BinaryIO) -> Array:
    """Memory-map a `.npy` file, read-only; raise ValueError if it is invalid or its size contradicts its header.

    Small files are read instead: a map keeps a file open, and a run of a million labels has tens of thousands of files.
    """
    header = read_header(stream.read)
    size = os.fstat(stream.fileno()).st_size
    if header.n_bytes != size:
        raise ValueError(f"its header claims {header.n_bytes} bytes, it has {size}")
    if size == header.offset:  # an empty array cannot be mapped
        array: Array = np.empty(header.shape, header.dtype, header.order)
        array.setflags(write=False)
        return array
    if size - header.offset <= SETTINGS.mapped_bytes:
        content = stream.read(size - header.offset)
        if len(content) != size - header.offset:
            raise ValueError("it was cut short while it was read")
        return np.ndarray(header.shape, header.dtype, content, order=header.order)
    return np.memmap(stream, dtype=header.dtype, mode="r", offset=header.offset, shape=header.shape, order=header.order)


def read_npy(path: PathLike, what: str) -> Array:
    """Read a `.npy` file into memory."""
    return np.array(open_npy(path, what))


def open_npy(path: PathLike, what: str) -> Array:
    """Memory-map a `.npy` file, read-only; files with pickled objects are refused."""
    with open_regular(path) as stream, reading(path, what):
        return map_npy(stream)


def read_npz(path: PathLike, names: Collection[str], what: str) -> dict[str, Array]:
    """Return the arrays of a `.npz` file whose names are in `names`; raise InputError if the file is not `what`."""
    with open_regular(path) as stream, reading(path, what), zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if len({member.filename for member in members}) != len(members):
            raise ValueError("two of its arrays have the same name")
        size = os.fstat(stream.fileno()).st_size
        return {
            member.filename.removesuffix(".npy"): _read_member(archive, member, size)
            for member in members
            if member.filename.endswith(".npy") and member.filename.removesuffix(".npy") in names
        }


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> Array:
    """Read one array of a `.npz` file."""
    if member.flag_bits & 1:
        raise ValueError("it is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("it uses a compression that numpy does not write")
    if member.compress_size > size or member.file_size > _DEFLATED * (member.compress_size + 1):
        raise ValueError(f"{member.filename} claims more bytes than it can hold")
    with archive.open(member) as stream:
        header = read_header(stream.read)
        if header.n_bytes != member.file_size:
            raise ValueError(f"{member.filename} claims {header.n_bytes} bytes and has {member.file_size}")
        content = bytearray(header.n_bytes - header.offset)
        position = 0
        while chunk := stream.read(_CHUNK):  # up to the end, where zipfile verifies the checksum
            content[position : position + len(chunk)] = chunk
            position += len(chunk)
        if position != header.n_bytes - header.offset:
            raise ValueError(f"{member.filename} is cut short")
    return np.ndarray(header.shape, header.dtype, content, order=header.order)
