"""The figure of a search on held-out rows, and the files that `tune --out` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmissed.models.selection.choice import say_params
from unmissed.reports.choice_tables import choice_csv, choice_sentence, choice_table, metrics_of
from unmissed.reports.drawing import INK, dress, new_figure, styled, write_figure
from unmissed.reports.grids import Grid, GridCell, to_markdown
from unmissed.writing import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLORS = ("#2f6db3", "#e09f1f", "#c0392b", "#5a9e6f", "#8a6fb8", "#8a8f98")
_STYLE: dict[str, Any] = {"marker": "o", "ms": 3.5, "elinewidth": 0.7, "capsize": 1.5}


@styled
def draw_choice(choice: Mapping[str, Any]) -> Figure:
    """Draw the gain of each candidate over the baseline, one panel per metric, with intervals.

    The parameter with the most numeric values is on the x axis, and each combination of the others is a line. Without
    a numeric parameter each candidate has its own tick.
    """
    axis, names = _numeric_axis(choice["candidates"]), metrics_of(choice)
    figure = new_figure(1.9 * len(names) + 0.6)
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for panel, name in zip(panels, names, strict=True):
        for number, (label, line) in enumerate(_lines(choice["candidates"], axis).items()):
            _draw_line(panel, line, name, axis, _COLORS[number % len(_COLORS)], label)
        _mark(panel, choice, name, axis)
        panel.axhline(0, color=INK, lw=0.8)
        panel.set_ylabel(f"gain in {name}, points")
        dress(panel, "y")
    ticks = dict(_positions(choice["candidates"], axis))
    if axis is not None and min(ticks) > 0:
        panels[-1].set_xscale("log")
    panels[-1].set_xticks(sorted(ticks), [ticks[at] for at in sorted(ticks)], rotation=0 if axis is not None else 30)
    panels[-1].minorticks_off()
    panels[-1].set_xlabel(axis or "")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def write_choice(choice: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write results.json, table.md, table.csv and figure.svg into a folder; return their paths."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    table = choice_table(choice)
    cells = [[GridCell(cell, best=not at and "chosen" in row[-1]) for at, cell in enumerate(row)] for row in table.rows]
    texts = {
        "results.json": json.dumps(choice, indent=2, ensure_ascii=False) + "\n",
        "table.md": to_markdown(Grid("choice", table.title, table.columns, cells, [choice_sentence(choice)])),
        "table.csv": choice_csv(choice),
    }
    for name, text in texts.items():
        with atomic_file(folder / name) as stream:
            stream.write(text.encode())
    if not choice["candidates"]:
        return [folder / name for name in texts]
    with matplotlib.rc_context({"svg.hashsalt": "unmissed", "svg.fonttype": "path"}):
        write_figure(draw_choice(choice), folder / "figure.svg", metadata={"Date": None})
    return [*(folder / name for name in texts), folder / "figure.svg"]


def _lines(candidates: Sequence[Mapping[str, Any]], axis: str | None) -> dict[str, list[Mapping[str, Any]]]:
    """Return the candidates by the parameters that are not on the x axis; one line without a numeric parameter."""
    if axis is None:
        return {"candidates": list(candidates)}
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for one in sorted(candidates, key=lambda one: one["params"][axis]):
        others = {name: value for name, value in one["params"].items() if name != axis}
        lines.setdefault(say_params(others) or axis, []).append(one)
    return lines


def _positions(candidates: Sequence[Mapping[str, Any]], axis: str | None) -> list[tuple[float, str]]:
    """Return the position of each candidate on the x axis, and the text of its tick."""
    if axis is None:
        return [(at, say_params(one["params"])) for at, one in enumerate(candidates)]
    return [(one["params"][axis], f"{one['params'][axis]:g}") for one in candidates]


def _draw_line(
    panel: Axes, line: Sequence[Mapping[str, Any]], name: str, axis: str | None, color: str, label: str
) -> None:
    values = [_points(one, name) for one in line]
    spread = [[value - low for value, low, _ in values], [high - value for value, _, high in values]]
    at = [position for position, _ in _positions(line, axis)]
    width = 0 if axis is None else 1.1
    panel.errorbar(at, [value for value, _, _ in values], spread, color=color, label=label, lw=width, **_STYLE)


def _mark(panel: Axes, choice: Mapping[str, Any], name: str, axis: str | None) -> None:
    """Draw a circle around the selected candidate."""
    for (at, _), one in zip(_positions(choice["candidates"], axis), choice["candidates"], strict=True):
        if one["params"] == choice["params"]:
            panel.plot(at, _points(one, name)[0], "o", ms=10, mfc="none", mec=INK, ls="none", label="selected")


def _numeric_axis(candidates: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the parameter with the most numeric values; None if no parameter has several."""
    best, most = None, 1
    for name in candidates[0]["params"] if candidates else ():
        values = {one["params"][name] for one in candidates}
        numeric = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
        if numeric and len(values) > most:
            best, most = name, len(values)
    return best


def _points(candidate: Mapping[str, Any], name: str) -> tuple[float, float, float]:
    """Return a gain and its interval in points; 0 for the baseline."""
    gain = candidate["gains"].get(name, {})
    value, low, high = (100 * (gain.get(part) or 0.0) for part in ("value", "low", "high"))
    return value, min(low, value), max(high, value)
