"""Escaping of table cells: line breaks, tabs and spreadsheet formulas."""

from __future__ import annotations

import re

_BREAKS = dict.fromkeys(
    map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"), " "
)  # characters that end a field or a line
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z"
_FORMULA = re.compile(rf"(?=('*)[=+\-@\t\r\n＝＋－＠])(?!'*{_NUMBER})")


def one_line(text: str) -> str:
    """Return a text with tabs and line breaks replaced by blanks."""
    return text.replace("\r\n", "\n").translate(_BREAKS)  # line readers treat both as one break


def guard(cell: str) -> str:
    """Return a cell that no spreadsheet runs as a formula: an apostrophe precedes = + - @, a tab or a line break.

    Numbers do not change. A cell that starts with apostrophes and such a character gets another apostrophe, so that
    `unguard` is the exact inverse.
    """
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unguard(cell: str) -> str:
    """Return the cell that `guard` was given."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
