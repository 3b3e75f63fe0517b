"""The style of all figures, and their output as PNG and SVG files or inline SVG."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from unmissed.writing import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    P = ParamSpec("P")

INK, SOFT, GRID = "#2b2f36", "#9aa0a8", "#e3e6ea"
WIDTH = 5.0  # inches: text stays readable where a phone shows the figure 350 pixels wide
_ON_PAGES = {INK: "var(--ink)", SOFT: "var(--soft)", GRID: "var(--line)"}  # so that dark pages get light ink
_STYLE: dict[Any, Any] = {
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "xtick.color": INK,
    "ytick.color": INK,
    "font.size": 9,
    "figure.constrained_layout.w_pad": 0.08,  # inches: text at another resolution is a little wider
    "legend.frameon": False,
    "svg.hashsalt": "unmissed",
}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorate a drawing function: apply the style of the pages and fix the layout."""

    @wraps(draw)
    def call(*args: P.args, **kwargs: P.kwargs) -> Figure:
        import matplotlib

        with matplotlib.rc_context(_STYLE):
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # compute the layout once, not for each output format
            return figure

    return call


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """Return an empty figure; sizes are in inches."""
    from matplotlib.figure import Figure as NewFigure

    return NewFigure(figsize=(width, height), layout="constrained")


def dress(axes: Axes, grid: Any) -> None:
    """Leave two spines, small ticks, and a grid along `grid`: x, y or both."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
    axes.tick_params(colors=INK, labelsize=9, length=3)
    axes.grid(True, axis=grid, color=GRID, lw=0.8)
    axes.set_axisbelow(True)


def as_svg(figure: Figure, label: str = "") -> str:
    """Return a figure as an inline SVG element in the colors of the page; `label` is its text alternative."""
    import matplotlib
    from markupsafe import Markup, escape

    stream = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "unmissed", "svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    for color, variable in _ON_PAGES.items():
        text = text.replace(color, variable)
    return Markup(text.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1))


def save(figure: Figure, stem: Path) -> list[Path]:
    """Save a figure as PNG and SVG, reproducibly to the byte; return the paths."""
    import matplotlib

    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    stem.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "unmissed", "svg.fonttype": "path"}):
        write_figure(figure, paths[0], dpi=160, metadata={"Software": None})
        write_figure(figure, paths[1], metadata={"Date": None})
    return paths


def write_figure(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure in the format that the path's suffix names; the file appears whole or not at all."""
    with atomic_file(path) as stream:
        figure.savefig(stream, format=path.suffix[1:] or None, **options)
