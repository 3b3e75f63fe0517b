"""Figures of data sets: label frequencies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.data.statistics import PowerLaw
from unmissed.errors import InputError
from unmissed.reports.drawing import write_figure

_TAIL = 10  # rows; a label with fewer is a tail label


def draw_label_frequencies(
    counts: npt.ArrayLike, law: PowerLaw | None, path: str | os.PathLike[str], *, title: str = ""
) -> None:
    """Draw rows per label against the label's rank, both logarithmic, with the fitted power law.

    The suffix of `path` selects the image format (`.png`, `.pdf`, `.svg`).
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    falling = np.sort(np.asarray(counts))[::-1]
    falling = falling[falling > 0]
    if falling.size == 0:
        raise InputError("no label has a row; there is nothing to draw")
    rank = np.arange(1, falling.size + 1, dtype=np.float64)
    figure = Figure(figsize=(6.4, 4.2), dpi=160, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    if Path(path).suffix.lstrip(".").lower() not in canvas.get_supported_filetypes():
        raise InputError(f"{path}: unknown kind of picture; expected a name that ends in .png, .pdf or .svg")
    axes = figure.add_subplot()
    _shade_tail(axes, falling)
    axes.plot(rank, falling, color="#1f5a8c", lw=2, label="labels, most frequent first")
    if law is not None:
        ends = np.array([1.0, float(falling.size)])
        text = f"power law $n_r \\propto r^{{-{law.exponent:.2f}}}$"
        axes.plot(ends, law(ends), color="#c8502d", lw=1.4, ls=(0, (5, 3)), label=text)
    axes.set(xscale="log", yscale="log", xlabel="rank of the label", ylabel="rows with the label")
    axes.set_title(title, parse_math=False)  # a path may hold what looks like a formula
    axes.set_xlim(0.9, falling.size * 1.1 + 1)
    axes.set_ylim(bottom=0.7)
    axes.grid(True, which="major", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", frameon=False, fontsize=9)
    write_figure(figure, Path(path))


def _shade_tail(axes: Any, falling: npt.NDArray[Any]) -> None:
    """Shade the tail labels and write their fraction of all labels."""
    head = int(np.searchsorted(-falling, -_TAIL, side="right"))
    if not 0 < head < falling.size:
        return
    axes.axvspan(head + 0.5, falling.size, color="#f0e6d8", zorder=0, lw=0)
    fits_inside = np.log(falling.size / head) > 0.2 * np.log(falling.size)
    axes.text(
        falling.size * 0.94 if fits_inside else head * 0.94,
        falling[0],
        f"{(falling.size - head) / falling.size:.0%} of labels\nhave fewer\nthan {_TAIL} rows",
        ha="right",
        va="top",
        fontsize=8.5,
        color="#8a6a3a",
    )
