"""Texts one per line, from standard input or a file: taken in batches as they come, and let go once they are ranked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from unmissed.data.encodings import UTF8, Recoded, check_encoding, marked_encoding, not_utf8, other_encoding
from unmissed.data.streams import LONGEST, line_blocks
from unmissed.errors import InputError
from unmissed.progress import Progress, silent

STANDARD_INPUT = "-"
_CHUNK = 1 << 19  # bytes of standard input that are taken at a time, if so many are there
_BOM = b"\xef\xbb\xbf"


class TextLines:
    """The texts of a file or of standard input in batches; blank lines are left out.

    Standard input is taken as it comes: what was written to it is ranked, although more may follow.

    Parameters
    ----------
    path : the file, or `-`
    most : texts of a batch at most
    encoding : the encoding of the lines
    """

    def __init__(
        self, path: str | os.PathLike[str], *, most: int = 4096, encoding: str = UTF8, progress: Progress = silent
    ) -> None:
        self.path = path
        self._most, self._encoding, self._progress = most, check_encoding(encoding), progress

    def __iter__(self) -> Iterator[list[str]]:
        number = 0
        for block in self._blocks():
            texts: list[str] = []
            for line in block.split(b"\n"):
                number += 1
                text = self._text(number, line)
                if text.strip():
                    texts.append(text)
            for begin in range(0, len(texts), self._most):
                yield texts[begin : begin + self._most]

    def _text(self, number: int, line: bytes) -> str:
        try:
            return line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            name = "standard input" if str(self.path) == STANDARD_INPUT else self.path
            raise not_utf8(f"{name}:{number}:{error.start + 1}", line, error) from None

    def _blocks(self) -> Iterator[bytes]:
        """Give whole lines in UTF-8, without the last line's end."""
        if str(self.path) == STANDARD_INPUT:
            yield from _arriving(self._encoding)
            return
        for buffer, end, _ in line_blocks(self.path, self._progress, encoding=self._encoding):
            yield bytes(buffer[: end - 1])


def _chunks(stream: Any, encoding: str) -> Iterator[bytes]:
    """Give standard input in UTF-8 as it comes."""
    recoded = None if encoding == UTF8 else Recoded(stream, encoding, "standard input")
    first = True
    while chunk := stream.read1(_CHUNK):
        if recoded is not None:
            yield recoded.recode(chunk)
            continue
        if first and marked_encoding(chunk):
            raise other_encoding("standard input", chunk)
        yield chunk
        first = False
    if recoded is not None:
        yield recoded.recode(b"")


def _arriving(encoding: str) -> Iterator[bytes]:
    """Give whole lines of standard input as soon as they are there, without the last line's end."""
    kept = bytearray()  # of one unfinished line; each byte is looked at once, however few come at a time
    mark = _BOM
    for chunk in _chunks(sys.stdin.buffer, encoding):
        whole, newline, rest = chunk.rpartition(b"\n")
        if newline:
            kept += whole
            yield bytes(kept).removeprefix(mark)
            kept, mark = bytearray(), b""
        kept += rest
        if len(kept) > LONGEST:
            raise InputError(f"standard input: a line of more than {LONGEST} bytes; is this text?")
    if kept:
        yield bytes(kept).removeprefix(mark)
