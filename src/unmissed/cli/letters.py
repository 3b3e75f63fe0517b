"""Text that a terminal only shows."""

import re

HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb]"
)  # what a terminal would obey or hide; tabs and line ends are left


def plain(text: object) -> str:
    """Return text that a terminal only shows: control characters, which it would obey, are written as codes."""
    return HIDDEN.sub(lambda found: _code(found.group()), str(text))


def _code(letter: str) -> str:
    return f"\\x{ord(letter):02x}" if ord(letter) < 256 else f"\\u{ord(letter):04x}"
