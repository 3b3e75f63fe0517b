"""Reading of plain, gzip and xz text files in blocks of complete lines, and writing of compressed files."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from unmissed.data.encodings import UTF8, TranscodingReader, marked_encoding, other_encoding
from unmissed.errors import InputError
from unmissed.files import open_regular
from unmissed.progress import Progress, silent
from unmissed.settings import SETTINGS
from unmissed.writing import atomic_file, make_folder

COMPRESSIONS = (".gz", ".xz")
_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
_BOM = b"\xef\xbb\xbf"
_UNSUPPORTED_MAGIC = {
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstandard",
}


def bare_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix without compression: `.txt` for both `a.txt` and `a.txt.gz`."""
    path = Path(path)
    return (Path(path.stem).suffix if path.suffix.lower() in COMPRESSIONS else path.suffix).lower()


def line_blocks(
    path: str | os.PathLike[str], progress: Progress = silent, *, encoding: str = UTF8
) -> Iterator[tuple[bytearray, int, float]]:
    """Yield a file in blocks of complete lines: a buffer, the number of valid bytes, the fraction of the file read.

    Each block ends with a newline, and the buffer is reused for the next block. Gzip and xz are decompressed, other
    encodings are transcoded to UTF-8, a leading byte-order mark is removed, and a missing final newline is added. The
    buffer grows for lines longer than a block. Empty, truncated or damaged files raise InputError with the line number.
    """
    buffer = bytearray(2 * SETTINGS.read_bytes)
    filled = 0  # bytes of the incomplete last line in the buffer
    first, number = True, 1
    with _open(path) as (packed, raw, size, kind):
        stream = packed if encoding == UTF8 else TranscodingReader(packed, encoding, path)
        while True:
            if filled > SETTINGS.line_bytes:
                raise InputError(
                    f"{path}:{number}: a line of more than {SETTINGS.line_bytes} bytes; is this another format?"
                )
            if len(buffer) - filled < SETTINGS.read_bytes:
                buffer = buffer[:filled] + bytearray(len(buffer))
            try:
                with memoryview(buffer) as view, view[filled : filled + SETTINGS.read_bytes] as free:
                    n_read = stream.readinto(free)
            except EOFError as error:
                raise InputError(f"{path}:{_line_reached(path)}: the {kind} file is truncated here") from error
            except (OSError, zlib.error, lzma.LZMAError) as error:
                raise InputError(f"{path}:{_line_reached(path)}: the {kind} file is damaged here: {error}") from error
            if first:
                n_read -= _strip_byte_order_mark(path, buffer, n_read)
                first = False
            if n_read == 0:
                break
            end = buffer.rfind(b"\n", filled, filled + n_read) + 1
            filled += n_read
            if end:
                number += buffer.count(b"\n", 0, end)
                yield buffer, end, raw.tell() / max(size, 1)
                buffer[: filled - end] = buffer[end:filled]
                filled -= end
            progress(raw.tell(), size)
    if filled:
        buffer[filled : filled + 1] = b"\n"
        yield buffer, filled + 1, 1.0


def lines(
    path: str | os.PathLike[str], progress: Progress = silent, *, encoding: str = UTF8
) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the UTF-8 bytes of each line, without its line ending."""
    number = 0
    for buffer, end, _ in line_blocks(path, progress, encoding=encoding):
        for line in bytes(buffer[:end]).split(b"\n")[:-1]:
            number += 1
            yield number, line.removesuffix(b"\r")


def first_bytes(path: str | os.PathLike[str], n_bytes: int) -> bytes:
    """Return the first bytes of a file, decompressed and without a byte-order mark; none if it cannot be read."""
    try:
        with _open(path) as (stream, *_):
            return bytes(stream.read(n_bytes)).removeprefix(_BOM)
    except (InputError, EOFError, OSError, zlib.error, lzma.LZMAError):
        return b""


@contextmanager
def write_stream(path: str | os.PathLike[str], *, keep_same: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary stream for atomic writing, compressed according to the suffix of the path.

    An existing file is replaced. With `keep_same`, it is kept if it holds the same bytes, else InputError is raised.
    """
    target = Path(path)
    make_folder(target.parent)
    with atomic_file(target, keep_same=keep_same) as raw, _compressor(raw, target.suffix.lower()) as stream:
        yield stream


def _line_reached(path: str | os.PathLike[str]) -> int:
    """Return the line at which a damaged file breaks off; reads it again in small steps."""
    line = 1
    with _open(path) as (stream, *_):
        try:
            while piece := stream.read1(1024):
                line += piece.count(b"\n")
        except (EOFError, OSError, zlib.error, lzma.LZMAError):
            pass
    return line


def _strip_byte_order_mark(path: str | os.PathLike[str], buffer: bytearray, n_read: int) -> int:
    """Remove a leading byte-order mark and return its length; raise InputError if the file is not UTF-8 text."""
    if n_read == 0 or (n_read == len(_BOM) and buffer.startswith(_BOM)):
        raise InputError(f"{path}:1: the file is empty")
    if marked_encoding(buffer[: min(n_read, 4)]):
        raise other_encoding(f"{path}:1:1", buffer[: min(n_read, 4)])
    for magic, name in _UNSUPPORTED_MAGIC.items():
        if buffer.startswith(magic, 0, n_read):
            raise InputError(f"{path}:1:1: looks like {name}; expected UTF-8 text, plain, gzip or xz")
    if not buffer.startswith(_BOM, 0, n_read):
        return 0
    buffer[: n_read - len(_BOM)] = buffer[len(_BOM) : n_read]
    return len(_BOM)


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[tuple[Any, IO[bytes], int, str]]:
    """Open a file; yield the decompressed stream, the raw stream, the file size, and the compression."""
    with open_regular(path) as raw:
        size = os.fstat(raw.fileno()).st_size
        magic = raw.read(len(_XZ_MAGIC))
        raw.seek(0)
        if magic.startswith(_GZIP_MAGIC):
            with gzip.GzipFile(fileobj=raw, mode="rb") as unzipped:
                yield unzipped, raw, size, "gzip"
        elif magic == _XZ_MAGIC:
            with lzma.LZMAFile(raw, "rb") as unpacked:
                yield unpacked, raw, size, "xz"
        else:
            suffix = Path(path).suffix.lower()
            if magic and suffix in COMPRESSIONS:
                raise InputError(f"{path}:1:1: not a {suffix[1:]} file, though its name says so")
            yield raw, raw, size, "plain"


@contextmanager
def _compressor(raw: IO[bytes], suffix: str) -> Iterator[Any]:
    if suffix == ".gz":
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0, filename="") as stream:
            yield stream
    elif suffix == ".xz":
        with lzma.LZMAFile(raw, "wb", preset=3) as packed:
            yield packed
    else:
        yield raw
