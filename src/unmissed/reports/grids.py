"""Grids: tables with numeric values and emphasis, rendered as Markdown, LaTeX and HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

NEAR = "≈"
_TEX = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}"}
_TEX |= {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    NEAR: r"$\approx$",
    "–": "--",
    "−": "$-$",
}


class GridCell(NamedTuple):
    """A table cell: its text, its sort value, and whether it is the best of its column or not significantly worse.

    `small` is shown below the text in HTML only.
    """

    text: str
    value: float | None = None
    best: bool = False
    near: bool = False
    small: str = ""


@dataclass(frozen=True)
class Grid:
    """A table: title, columns, rows of cells whose first is the row's name, and notes."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[GridCell]]
    notes: list[str] = field(default_factory=list)


def number(value: float | None, form: str = "{:.2f}", **emphasis: Any) -> GridCell:
    """Return the cell of a number, or a dash for None."""
    return GridCell("–") if value is None else GridCell(form.format(value), value, **emphasis)


def to_markdown(grid: Grid) -> str:
    """Return the grid as a Markdown pipe table; the best is bold, and HTML is escaped."""
    columns = map(escape_markdown, grid.columns)
    lines = [f"**{escape_markdown(grid.title)}**", "", _piped(columns), "|---|" + "---:|" * (len(grid.columns) - 1)]
    for row in grid.rows:
        shown = [escape_markdown(one.text) + (f" {NEAR}" if one.near else "") for one in row]
        lines.append(_piped([f"**{text}**" if one.best else text for text, one in zip(shown, row, strict=True)]))
    return "\n".join([*lines, "", *map(escape_markdown, grid.notes), ""])


def to_latex(grid: Grid) -> str:
    """Return the grid as a LaTeX `table` with booktabs rules; the best is bold."""
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(grid.columns) - 1)}}}", r"\toprule"]
    lines += [" & ".join(map(escape_latex, grid.columns)) + r" \\", r"\midrule"]
    for row in grid.rows:
        shown = [escape_latex(one.text) + (r"$^{\approx}$" if one.near else "") for one in row]
        bold = [rf"\textbf{{{text}}}" if one.best else text for text, one in zip(shown, row, strict=True)]
        lines.append(" & ".join(bold) + r" \\")
    caption = escape_latex(" ".join([f"{grid.title}.", *grid.notes]))
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{caption}}}",
        rf"\label{{tbl:{grid.name}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escape_markdown(text: str) -> str:
    """Return text escaped for a cell of a Markdown table."""
    return " ".join(escape(text, quote=False).replace("|", r"\|").splitlines())


def escape_latex(text: str) -> str:
    """Return text escaped for LaTeX."""
    return re.sub(r"[&%#_${}~\\^±≈–−]", lambda found: _TEX[found.group()], text)


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
