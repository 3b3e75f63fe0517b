"""Figures of the studies: loss curves, and test loss and accuracy by propensity and by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from unmissed.reports.drawing import write_figure

Row = Mapping[str, Any]

_COLORS = ("#3b6fb6", "#d1692a", "#4f9153")  # blue, orange, green of similar lightness; the markers differ too
_MARKERS = ("o", "s", "^")


class SketchCurve(NamedTuple):
    """One curve of the loss sketch."""

    panel: str
    label: str
    color: str
    style: str
    heights: npt.NDArray[np.float64]


def draw_loss_sketch(
    stem: Path, scores: npt.NDArray[np.float64], curves: Sequence[SketchCurve], *, propensity: float, kink: float | None
) -> list[Path]:
    """Draw l+ against the score, one panel per loss family, and circle the kink where convexity is lost."""
    panels = list(dict.fromkeys(curve.panel for curve in curves))
    figure = _figure(5.2 * len(panels), 5.4)
    for position, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), position + 1)
        for curve in curves:
            if curve.panel == panel:
                axes.plot(scores, curve.heights, curve.style, color=curve.color, label=curve.label, linewidth=1.6)
        if position == 0 and kink is not None:
            axes.plot(
                [-1], [kink], "o", markersize=13, markerfacecolor="none", markeredgecolor="#c62828", markeredgewidth=1.6
            )
        axes.set_xlim(-1.5, 2)
        axes.set_ylim(-2.5, 4.5)
        axes.axhline(0, color="0.85", linewidth=0.8, zorder=0)
        axes.set_title(panel)
        axes.set_xlabel("score of the label")
        if position == 0:
            axes.set_ylabel("loss $l_+$ of a positive label")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=8, frameon=False, ncols=2)
    figure.suptitle(f"Losses of a positive label at propensity {propensity:g}")
    return _save(figure, stem)


def draw_propensity_panels(stem: Path, rows: Sequence[Row], *, note: str) -> list[Path]:
    """Draw test loss (top) and accuracy (bottom) by propensity, one column per loss family, with the range of seeds."""
    titles = {"test_loss": "test loss, complete labels", "accuracy": "binary accuracy, complete labels"}
    figure, grid = _draw_families(rows, titles)
    losses = [row["test_loss_mean"] for row in rows if row["test_loss_mean"] is not None]
    grid[0, 0].set_ylim(0, max(0.25, 1.05 * max(losses, default=0)))
    grid[1, 0].set_ylim(min(0.89, min(float(row["accuracy_min"]) for row in rows) - 0.005), 1)
    figure.supxlabel(note, fontsize=8, color="0.35")
    return _save(figure, stem)


def draw_network_panels(stem: Path, rows: Sequence[Row], titles: Mapping[str, str]) -> tuple[Figure, list[Path]]:
    """Draw figures by propensity, one column per loss family; return the figure and its files.

    `titles` names the figures, from top to bottom; the first is a loss, on a logarithmic scale.
    """
    figure, grid = _draw_families(rows, titles)
    grid[0, 0].set_yscale("log")
    for axes in grid[1:, 0]:
        axes.set_ylim(bottom=0)
    return figure, _save(figure, stem)


def _draw_families(rows: Sequence[Row], titles: Mapping[str, str]) -> tuple[Figure, Any]:
    """Draw one line of panels per figure and one column per loss family, over the propensity."""
    families = list(dict.fromkeys(str(row["family"]) for row in rows))
    figure = _figure(5.2 * len(families), 3.6 * len(titles))
    grid = figure.subplots(len(titles), len(families), sharex=True, sharey="row", squeeze=False)
    for column, family in enumerate(families):
        own = [row for row in rows if row["family"] == family]
        labels = list(dict.fromkeys(str(row["label"]) for row in own))
        for label, color, marker in zip(labels, _COLORS, _MARKERS, strict=False):
            curve = sorted((row for row in own if row["label"] == label), key=lambda row: float(row["propensity"]))
            for line, name in enumerate(titles):
                _draw_band(grid[line, column], curve, name, label, color, marker)
        grid[0, column].set_title(family)
        grid[0, column].legend(frameon=False)
        grid[-1, column].set_xlabel("propensity")
    grid[-1, 0].set_xlim(0, 1.02)
    for line, title in enumerate(titles.values()):
        grid[line, 0].set_ylabel(title)
    return figure, grid


def draw_epoch_panels(stem: Path, trainings: Sequence[Row], labels: Mapping[str, Row], *, note: str) -> list[Path]:
    """Draw training loss, test loss and the largest score by epoch at one low propensity."""
    quantities = {
        "train_loss": "training loss (observed labels)",
        "test_loss": "test loss (complete labels)",
        "largest_score": "largest |score| on test rows",
    }
    families = list(dict.fromkeys(str(variant["family"]) for variant in labels.values()))
    figure = _figure(3.9 * len(quantities), 3.3 * len(families))
    grid = figure.subplots(len(families), len(quantities), squeeze=False, sharex=True)
    for line, family in enumerate(families):
        names = [name for name, variant in labels.items() if variant["family"] == family]
        for name, color, marker in zip(names, _COLORS, _MARKERS, strict=False):
            own = [training for training in trainings if training["variant"] == name]
            for column, quantity in enumerate(quantities):
                _draw_runs(grid[line, column], own, quantity, str(labels[name]["label"]), color, marker)
        grid[line, 0].set_ylabel(family)
        grid[line, 0].axhline(0, color="0.7", linewidth=0.8, zorder=0)
        grid[line, 1].set_ylim(bottom=0)
        grid[line, 2].set_yscale("log")
        grid[line, 1].legend(frameon=False, fontsize=8)
    for column, title in enumerate(quantities.values()):
        grid[0, column].set_title(title, fontsize=10)
        grid[-1, column].set_xlabel("epoch")
        grid[-1, column].xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.supxlabel(note, fontsize=8, color="0.35")
    return _save(figure, stem)


def _draw_band(axes: Axes, curve: Sequence[Row], name: str, label: str, color: str, marker: str) -> None:
    """Draw the mean over seeds and shade the range; diverged trainings are missing."""
    x = np.array([row["propensity"] for row in curve], dtype=float)
    mean, low, high = (
        np.array([row[f"{name}_{kind}"] for row in curve], dtype=float) for kind in ("mean", "min", "max")
    )
    axes.fill_between(x, low, high, color=color, alpha=0.22, linewidth=0)
    axes.plot(x, mean, f"-{marker}", color=color, label=label, markersize=4.5, linewidth=1.4)
    axes.grid(color="0.92", linewidth=0.8)


def _draw_runs(axes: Axes, runs: Sequence[Row], name: str, label: str, color: str, marker: str) -> None:
    for position, run in enumerate(runs):
        values = np.array([epoch[name] for epoch in run["epochs"]], dtype=float)
        axes.plot(
            np.arange(1, len(values) + 1),
            values,
            f"-{marker}",
            color=color,
            markersize=3,
            linewidth=1.1,
            alpha=0.8,
            label=label if position == 0 else None,
        )
    axes.grid(color="0.92", linewidth=0.8)


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, stem: Path) -> list[Path]:
    """Save a figure as PNG and SVG, reproducibly to the byte; return the paths."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with matplotlib.rc_context({"svg.hashsalt": "unmissed", "svg.fonttype": "none"}):
        write_figure(figure, paths[0], dpi=160, metadata={"Software": None})
        write_figure(figure, paths[1], metadata={"Date": None})
    return paths
