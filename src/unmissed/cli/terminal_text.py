"""Escape control characters and invisible characters, so that text from files cannot control a terminal."""

import re

_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb"
_INVISIBLE = "\u061c\u200b-\u200f\u2060-\u2064\ufeff"  # zero-width and directional formatting characters

HIDDEN = re.compile(f"[{_CONTROL}{_INVISIBLE}]")
"""Control and invisible characters, except tabs and line ends."""
UNSAFE = re.compile(f"[{_CONTROL}]")
"""Characters that are escaped in every output. Many scripts need joiners: files and pipes keep invisible characters."""


def escape_control(text: object, *, terminal: bool = True) -> str:
    """Return text with control characters escaped, and for a terminal also invisible characters."""
    return (HIDDEN if terminal else UNSAFE).sub(lambda match: _escape(match.group()), str(text))


def _escape(character: str) -> str:
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"
