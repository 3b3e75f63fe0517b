"""Text encodings: transcoding to UTF-8, and error messages that suggest the encoding of a file."""

from __future__ import annotations

import codecs
import os
from typing import Any

from unmissed.errors import InputError

UTF8 = "utf-8"
_READ = 1 << 17  # bytes decoded per read; the UTF-8 result is at most three times as long
_BOM_ENCODINGS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_WESTERN = "cp1252"  # Latin-1 with the quotes and dashes of Windows; it decodes Latin-1 texts too
_MAX_NON_ASCII = 0.4  # fraction of letters above 127; no language in Latin script reaches it


def check_encoding(encoding: Any) -> str:
    """Return the canonical name of a text encoding; raise InputError if it is unknown."""
    try:
        codec = codecs.lookup(encoding)
        "".encode(codec.name)  # raises for codecs that are not text encodings, such as zip
    except (LookupError, TypeError, ValueError):
        raise InputError(
            f"unknown encoding {str(encoding)[:40]!r}; expected a name such as utf-8, utf-16, cp1252 or latin-1"
        ) from None
    return UTF8 if codec.name == "utf-8-sig" else codec.name


def marked_encoding(content: bytes | bytearray) -> str | None:
    """Return the encoding indicated by a leading byte-order mark (UTF-16 or UTF-32), or None."""
    return next((name for mark, name in _BOM_ENCODINGS.items() if content.startswith(mark)), None)


def not_utf8(where: str, content: bytes, error: UnicodeDecodeError) -> InputError:
    """Return the error for bytes that are not UTF-8; it suggests the likely encoding."""
    message = f"{where}: expected UTF-8 text, found byte 0x{content[error.start]:02X}"
    guess = _guess(content)
    if guess is None:
        return InputError(f"{message}; name the file's encoding (--encoding), or save it as UTF-8")
    return InputError(f"{message}; the file is probably in {guess}: add --encoding {guess}, or save it as UTF-8")


def decode(where: str, content: bytes, encoding: str = UTF8) -> str:
    """Decode a complete text and strip its byte-order mark."""
    if encoding == UTF8:
        if marked_encoding(content):
            raise other_encoding(where, content)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise not_utf8(where, content, error) from None
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
        text.encode()
    except UnicodeError as error:
        raise not_in(where, encoding, error) from None
    return text


def other_encoding(where: str, content: bytes | bytearray) -> InputError:
    """Return the error for text that starts with a UTF-16 or UTF-32 byte-order mark."""
    name = marked_encoding(content)
    return InputError(f"{where}: is {str(name).upper()} text (its byte-order mark says so); add --encoding {name}")


def not_in(where: str, encoding: str, error: UnicodeError) -> InputError:
    """Return the error for bytes that are invalid in the given encoding."""
    reason = getattr(error, "reason", None) or str(error)
    return InputError(f"{where}: not {encoding} text ({reason}); is --encoding right?")


class TranscodingReader:
    """Binary reader that transcodes a stream to UTF-8.

    Parameters
    ----------
    stream : binary stream to read
    encoding : encoding of the stream
    path : name of the file in messages
    """

    def __init__(self, stream: Any, encoding: str, path: str | os.PathLike[str]) -> None:
        self._stream, self._encoding, self._path = stream, encoding, path
        self._decoder: Any = codecs.getincrementaldecoder(encoding)()
        self._ready = b""
        self._line, self._first, self._ended = 1, True, False

    def readinto(self, target: Any) -> int:
        """Fill a buffer with UTF-8 and return the number of bytes written, 0 at the end of the stream."""
        while not self._ready and not self._ended:
            self._ready = self.transcode(self._stream.read(_READ))
        n_bytes = min(len(target), len(self._ready))
        target[:n_bytes] = self._ready[:n_bytes]
        self._ready = self._ready[n_bytes:]
        return n_bytes

    def transcode(self, chunk: bytes) -> bytes:
        """Return a chunk as UTF-8; an empty chunk ends the stream."""
        self._ended = not chunk
        try:
            text = self._decoder.decode(chunk, self._ended)
            if text and self._first:
                text, self._first = text.removeprefix("\ufeff"), False
            encoded: bytes = text.encode()
        except UnicodeError as error:
            inside = getattr(error, "object", b"")[: getattr(error, "start", 0)]
            line = self._line + (inside.count(b"\n") if isinstance(inside, bytes) else inside.count("\n"))
            raise not_in(f"{self._path}:{line}", self._encoding, error) from None
        self._line += encoded.count(b"\n")
        return encoded


def _guess(content: bytes) -> str | None:
    """Return the likely encoding of text that is not UTF-8, or None if it cannot be guessed."""
    zeros = content.count(0)
    if zeros > len(content) // 4:
        return "utf-16-le" if content[1::2].count(0) >= content[::2].count(0) else "utf-16-be"
    high = sum(byte > 127 for byte in content[:100_000])
    letters = sum(byte > 127 or chr(byte).isalpha() for byte in content[:100_000])
    try:
        text = content.decode(_WESTERN)
    except UnicodeDecodeError:
        return None
    if high > _MAX_NON_ASCII * letters and letters > 4:
        return None
    odd = sum(
        not (one.isalpha() or one in "\u2018\u2019\u201c\u201d\u201e\u2013\u2014\u2026\u20ac\xa0\xab\xbb\xb0\xa7")
        for one in text[:100_000]
        if ord(one) > 127
    )
    return _WESTERN if 2 * odd <= high else None
