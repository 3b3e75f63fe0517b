"""Cells of tables: what would end a field is replaced, and what a spreadsheet would run as a formula is guarded."""

from __future__ import annotations

import re

_BREAKS = dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"), " ")  # what would end a field or a line
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z"
_FORMULA = re.compile(rf"(?=('*)[=+\-@\t\r\n＝＋－＠])(?!'*{_NUMBER})")


def one_line(text: str) -> str:
    """Return a text with a blank for each tab and line break, so that it stays in its field."""
    return text.replace("\r\n", "\n").translate(_BREAKS)  # readers of lines do not keep the two apart


def guard(cell: str) -> str:
    """Return a cell that no spreadsheet runs as a formula: an apostrophe goes before = + - @, a tab or a line break.

    Numbers stay as they are. A cell that begins with apostrophes and then such a sign gets one more, so that `unguard`
    is the exact inverse.
    """
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unguard(cell: str) -> str:
    """Return the cell that `guard` was given."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
