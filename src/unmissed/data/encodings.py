"""Encodings of text files: bytes in another encoding become UTF-8, and bytes that are not UTF-8 are explained."""

from __future__ import annotations

import codecs
import os
from typing import Any

from unmissed.errors import InputError

UTF8 = "utf-8"
_READ = 1 << 17  # bytes decoded at a time; UTF-8 needs at most three times as many
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_WESTERN = "cp1252"  # Latin-1 with the quotes and dashes of Windows; it decodes Latin-1 texts too
_MANY = 0.4  # share of bytes above 127 that no language written in Latin letters reaches


def check_encoding(encoding: Any) -> str:
    """Return the canonical name of an encoding of text, or refuse it."""
    try:
        found = codecs.lookup(encoding)
        "".encode(found.name)  # refuses codecs that are not encodings of text, such as zip
    except (LookupError, TypeError, ValueError):
        raise InputError(
            f"unknown encoding {str(encoding)[:40]!r}; expected a name such as utf-8, utf-16, cp1252 or latin-1"
        ) from None
    return UTF8 if found.name == "utf-8-sig" else found.name


def marked_encoding(content: bytes | bytearray) -> str | None:
    """Return the encoding that a byte-order mark at the beginning names, other than UTF-8; None without a mark."""
    return next((name for mark, name in _MARKS.items() if content.startswith(mark)), None)


def not_utf8(where: str, content: bytes, error: UnicodeDecodeError) -> InputError:
    """Return the error for bytes that are not UTF-8, with the encoding that probably fits."""
    found = f"{where}: expected UTF-8 text, found byte 0x{content[error.start]:02X}"
    guess = _guess(content)
    if guess is None:
        return InputError(f"{found}; name the file's encoding (--encoding), or save it as UTF-8")
    return InputError(f"{found}; the file is probably in {guess}: add --encoding {guess}, or save it as UTF-8")


def decode(where: str, content: bytes, encoding: str = UTF8) -> str:
    """Decode a whole text; a byte-order mark is left out."""
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
    """Return the error for a byte-order mark of another encoding than UTF-8."""
    name = marked_encoding(content)
    return InputError(f"{where}: is {str(name).upper()} text (its byte-order mark says so); add --encoding {name}")


def not_in(where: str, encoding: str, error: UnicodeError) -> InputError:
    """Return the error for bytes that are not in the encoding that was named."""
    reason = getattr(error, "reason", None) or str(error)
    return InputError(f"{where}: not {encoding} text ({reason}); is --encoding right?")


class Recoded:
    """A stream of bytes in some encoding, read as UTF-8.

    Parameters
    ----------
    stream : what is read
    encoding : the encoding of its bytes
    path : the file, for messages
    """

    def __init__(self, stream: Any, encoding: str, path: str | os.PathLike[str]) -> None:
        self._stream, self._encoding, self._path = stream, encoding, path
        self._decoder: Any = codecs.getincrementaldecoder(encoding)()
        self._ready = b""
        self._line, self._first, self._ended = 1, True, False

    def readinto(self, target: Any) -> int:
        """Fill a buffer with UTF-8; returns how many bytes were written, 0 at the end."""
        while not self._ready and not self._ended:
            self._ready = self.recode(self._stream.read(_READ))
        n_bytes = min(len(target), len(self._ready))
        target[:n_bytes] = self._ready[:n_bytes]
        self._ready = self._ready[n_bytes:]
        return n_bytes

    def recode(self, chunk: bytes) -> bytes:
        """Return the next bytes as UTF-8; no bytes mean the end."""
        self._ended = not chunk
        try:
            text = self._decoder.decode(chunk, self._ended)
            if text and self._first:
                text, self._first = text.removeprefix("\ufeff"), False
            found: bytes = text.encode()
        except UnicodeError as error:
            inside = getattr(error, "object", b"")[: getattr(error, "start", 0)]
            line = self._line + (inside.count(b"\n") if isinstance(inside, bytes) else inside.count("\n"))
            raise not_in(f"{self._path}:{line}", self._encoding, error) from None
        self._line += found.count(b"\n")
        return found


def _guess(content: bytes) -> str | None:
    """Return the encoding that text which is not UTF-8 is probably in; None if nothing speaks for one."""
    zeros = content.count(0)
    if zeros > len(content) // 4:
        return "utf-16-le" if content[1::2].count(0) >= content[::2].count(0) else "utf-16-be"
    high = sum(byte > 127 for byte in content[:100_000])
    letters = sum(byte > 127 or chr(byte).isalpha() for byte in content[:100_000])
    try:
        text = content.decode(_WESTERN)
    except UnicodeDecodeError:
        return None
    if high > _MANY * letters and letters > 4:
        return None
    odd = sum(
        not (one.isalpha() or one in "\u2018\u2019\u201c\u201d\u201e\u2013\u2014\u2026\u20ac\xa0\xab\xbb\xb0\xa7")
        for one in text[:100_000]
        if ord(one) > 127
    )
    return _WESTERN if 2 * odd <= high else None
