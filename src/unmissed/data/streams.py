"""Bytes of plain, gzip and xz files in blocks of whole lines, whatever way the lines end."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from unmissed.data.encodings import UTF8, Recoded, marked_encoding, other_encoding
from unmissed.errors import InputError
from unmissed.files import open_regular
from unmissed.progress import Progress, silent
from unmissed.writing import file_aside, make_folder

CHUNK = 1 << 19  # bytes read at a time; what is made of them stays in the processor's cache
LONGEST = 1 << 28  # bytes of a line; a small compressed file could hold one without end
COMPRESSIONS = (".gz", ".xz")
_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
_BOM = b"\xef\xbb\xbf"
_FOREIGN_MARKS = {
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstandard",
}


def bare_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix that names the format: `.txt` for both `a.txt` and `a.txt.gz`."""
    path = Path(path)
    return (Path(path.stem).suffix if path.suffix.lower() in COMPRESSIONS else path.suffix).lower()


def line_blocks(
    path: str | os.PathLike[str], progress: Progress = silent, *, encoding: str = UTF8
) -> Iterator[tuple[bytearray, int, float]]:
    """Give a file in blocks of whole lines: a buffer, how many of its bytes are the block, the share of the file read.

    Each block ends with a newline; the buffer is used again for the next one. Gzip and xz are unpacked, a byte-order
    mark at the beginning is left out, a missing last newline put in. Lines longer than a block make the buffer grow.
    Text in another encoding is given as UTF-8.
    An empty file, a truncated or damaged one and one in another encoding are refused with the line reached.
    """
    buffer = bytearray(2 * CHUNK)
    filled = 0  # bytes in the buffer, all of one unfinished line
    first, number = True, 1
    with _open(path) as (packed, raw, size, kind):
        stream = packed if encoding == UTF8 else Recoded(packed, encoding, path)
        while True:
            if filled > LONGEST:
                raise InputError(f"{path}:{number}: a line of more than {LONGEST} bytes; is this another format?")
            if len(buffer) - filled < CHUNK:
                buffer = buffer[:filled] + bytearray(len(buffer))
            try:
                with memoryview(buffer) as view, view[filled : filled + CHUNK] as room:
                    n_read = stream.readinto(room)
            except EOFError as error:
                raise InputError(f"{path}:{_line_reached(path)}: the {kind} file is truncated here") from error
            except (OSError, zlib.error, lzma.LZMAError) as error:
                raise InputError(f"{path}:{_line_reached(path)}: the {kind} file is damaged here: {error}") from error
            if first:
                n_read -= _strip_mark(path, buffer, n_read)
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
    """Give a file's lines as UTF-8 without their ends, each with its number from 1."""
    number = 0
    for buffer, end, _ in line_blocks(path, progress, encoding=encoding):
        for line in bytes(buffer[:end]).split(b"\n")[:-1]:
            number += 1
            yield number, line.removesuffix(b"\r")


@contextmanager
def write_stream(path: str | os.PathLike[str], *, keep_same: bool = False) -> Iterator[IO[bytes]]:
    """Give a stream that is compressed as the path's suffix says; the file appears whole or not at all.

    An existing file is replaced; with `keep_same`, it stays if it holds the same bytes, and is refused if not.
    """
    target = Path(path)
    make_folder(target.parent)
    with file_aside(target, keep_same=keep_same) as raw, _compressor(raw, target.suffix.lower()) as stream:
        yield stream


def _line_reached(path: str | os.PathLike[str]) -> int:
    """Return the line in which a damaged file breaks off, reading it once more in small steps."""
    line = 1
    with _open(path) as (stream, *_):
        try:
            while piece := stream.read1(1024):
                line += piece.count(b"\n")
        except (EOFError, OSError, zlib.error, lzma.LZMAError):
            pass
    return line


def _strip_mark(path: str | os.PathLike[str], buffer: bytearray, n_read: int) -> int:
    """Remove a byte-order mark from the beginning, and say how many bytes it had; refuse what is not UTF-8 text."""
    if n_read == 0 or (n_read == len(_BOM) and buffer.startswith(_BOM)):
        raise InputError(f"{path}:1: the file is empty")
    if marked_encoding(buffer[: min(n_read, 4)]):
        raise other_encoding(f"{path}:1:1", buffer[: min(n_read, 4)])
    for mark, name in _FOREIGN_MARKS.items():
        if buffer.startswith(mark, 0, n_read):
            raise InputError(f"{path}:1:1: looks like {name}; expected UTF-8 text, plain, gzip or xz")
    if not buffer.startswith(_BOM, 0, n_read):
        return 0
    buffer[: n_read - len(_BOM)] = buffer[len(_BOM) : n_read]
    return len(_BOM)


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[tuple[Any, IO[bytes], int, str]]:
    """Open a file for reading: the decompressed stream, the raw one, its size, and what kind of file it is."""
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
