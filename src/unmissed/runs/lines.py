"""Texts, one per line, from standard input or a file, in batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from unmissed.data.encodings import UTF8, TranscodingReader, check_encoding, marked_encoding, not_utf8, other_encoding
from unmissed.data.streams import first_bytes, line_blocks
from unmissed.errors import InputError
from unmissed.progress import Progress, silent
from unmissed.settings import SETTINGS

STANDARD_INPUT = "-"
_BOM = b"\xef\xbb\xbf"
_LONG_LINE = 400  # mean characters per line above which lines are probably paragraphs of one document
_SAMPLE = 1 << 16


class TextLines:
    """Iterable over batches of texts from a file or standard input; blank lines are skipped.

    Standard input is not buffered: each batch holds the lines that have arrived.

    Parameters
    ----------
    path : the file, or `-`
    most : largest number of texts in a batch
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

    def as_document(self) -> str:
        """Return all lines as one text."""
        held: list[str] = []
        size = 0
        for texts in self:
            held += texts
            size += sum(map(len, texts))
            if size > SETTINGS.line_bytes:
                raise InputError(f"{self.path}: a text of more than {SETTINGS.line_bytes} characters")
        if not held:
            raise InputError(f"{self.path}: the text is empty")
        return "\n".join(held)

    def advice(self) -> str | None:
        """Return advice if the lines of a file are probably paragraphs of one document: long, and without tabs."""
        if str(self.path) == STANDARD_INPUT:
            return None
        sample = first_bytes(self.path, _SAMPLE)
        lines = [line for line in sample.split(b"\n") if line.strip()]
        length = len(sample) // max(len(lines), 1)
        if b"\t" in sample or length <= _LONG_LINE:
            return None
        return (
            f"{self.path}: lines of {length:,} bytes on average, ranked as one text per line; --one-document ranks "
            "the file as one text"
        )

    def _text(self, number: int, line: bytes) -> str:
        try:
            return line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            name = "standard input" if str(self.path) == STANDARD_INPUT else self.path
            raise not_utf8(f"{name}:{number}:{error.start + 1}", line, error) from None

    def _blocks(self) -> Iterator[bytes]:
        """Yield blocks of complete lines in UTF-8, without the last line break."""
        if str(self.path) == STANDARD_INPUT:
            yield from _arriving(self._encoding)
            return
        for buffer, end, _ in line_blocks(self.path, self._progress, encoding=self._encoding):
            yield bytes(buffer[: end - 1])


def _chunks(stream: Any, encoding: str) -> Iterator[bytes]:
    """Give standard input in UTF-8 as it comes."""
    recoded = None if encoding == UTF8 else TranscodingReader(stream, encoding, "standard input")
    first = True
    while chunk := stream.read1(SETTINGS.input_bytes):
        if recoded is not None:
            yield recoded.transcode(chunk)
            continue
        if first and marked_encoding(chunk):
            raise other_encoding("standard input", chunk)
        yield chunk
        first = False
    if recoded is not None:
        yield recoded.transcode(b"")


def _arriving(encoding: str) -> Iterator[bytes]:
    """Yield blocks of complete lines of standard input as they arrive, without the last line break."""
    kept = bytearray()  # the incomplete last line; each byte is scanned once, even if they arrive one by one
    bom = _BOM
    for chunk in _chunks(sys.stdin.buffer, encoding):
        complete, newline, rest = chunk.rpartition(b"\n")
        if newline:
            kept += complete
            yield bytes(kept).removeprefix(bom)
            kept, bom = bytearray(), b""
        kept += rest
        if len(kept) > SETTINGS.line_bytes:
            raise InputError(f"standard input: a line of more than {SETTINGS.line_bytes} bytes; is this text?")
    if kept:
        yield bytes(kept).removeprefix(bom)
