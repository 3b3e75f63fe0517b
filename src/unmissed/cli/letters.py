"""Text that a terminal only shows."""

import re

_OBEYED = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb"
_INVISIBLE = "\u061c\u200b-\u200f\u2060-\u2064\ufeff"  # direction marks and characters without width

HIDDEN = re.compile(f"[{_OBEYED}{_INVISIBLE}]")
"""What a terminal would obey or hide; tabs and line ends are left."""
UNSAFE = re.compile(f"[{_OBEYED}]")
"""What no output keeps. Joiners and direction marks belong to names in many scripts: files and pipes keep them."""


def plain(text: object, *, terminal: bool = True) -> str:
    """Return text with codes in place of characters that a terminal would obey or, if it is for one, hide."""
    return (HIDDEN if terminal else UNSAFE).sub(lambda found: _code(found.group()), str(text))


def _code(letter: str) -> str:
    return f"\\x{ord(letter):02x}" if ord(letter) < 256 else f"\\u{ord(letter):04x}"
