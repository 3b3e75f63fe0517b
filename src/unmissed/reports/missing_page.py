"""The report of the study of missing labels: an HTML page, tables and three figures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmissed.archive import write_text
from unmissed.reports.drawing import INK, as_svg, dress, new_figure, save, styled
from unmissed.reports.grids import Grid, GridCell, number, to_latex, to_markdown
from unmissed.reports.pages import render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Study = Mapping[str, Any]
COLORS = ("#8a8f98", "#e09f1f", "#c0392b", "#2f6db3", "#3f9b62")
_NAMES = {"none": "without weighting"}


def write_missing_report(study: Study, out: str | os.PathLike[str]) -> list[Path]:
    """Write `index.html`, tables and figures into a folder; return the files, the page first."""
    folder = Path(out)
    tables = {grid.name: grid for grid in (training_table(study), estimate_table(study), tracking_table(study))}
    figures = {
        "training": draw_training(study),
        "estimates": draw_estimates(study),
        "sensitivity": draw_sensitivity(study),
    }
    files: list[Path] = []
    for name, figure in figures.items():
        files += save(figure, folder / "figures" / name)
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    for name, grid in tables.items():
        for suffix, text in ((".md", to_markdown(grid)), (".tex", to_latex(grid))):
            files.append(folder / "tables" / f"{name}{suffix}")
            write_text(files[-1], text)
    pictures = {name: as_svg(figure, name) for name, figure in figures.items()}
    winners = sorted({row["winner"] for row in study["sensitivity"]})
    names = [_NAMES.get(name, name) for name in winners]
    write_text(
        folder / "index.html", render("missing.html", study=study, tables=tables, figures=pictures, winners=names)
    )
    return [folder / "index.html", *files]


def training_table(study: Study) -> Grid:
    """Return the gain of each weighting with each assumed propensity model, on the complete labels."""
    measures = list(study["training"][0]["gain"])
    rows = [
        [GridCell(f"{row['weighting']}, {row['belief']}"), *(_signed(row["gain"][name]) for name in measures)]
        for row in study["training"]
    ]
    return Grid(
        "training",
        "Gain over training without weighting on the complete labels, percentage points",
        ["weighting, assumed propensities", *measures],
        rows,
    )


def estimate_table(study: Study) -> Grid:
    """Return the bias, spread and error of estimates of the true precision."""
    rows = [
        [
            GridCell(f"{_NAMES.get(row['model'], row['model'])}, {row['belief']}"),
            number(100 * row["truth"]),
            number(100 * row["estimate"], small=f"{100 * row['low']:.1f}–{100 * row['high']:.1f}"),
            number(100 * row["bias"], "{:+.2f}"),
            number(100 * row["spread"]),
            number(100 * row["error"]),
            number(None if row["right_winner"] is None else 100 * row["right_winner"], "{:.0f} %"),
        ]
        for row in study["estimates"]
    ]
    columns = ["model, correction", "true P@5", "estimate", "bias", "spread", "error", "right winner"]
    notes = [
        "Right winner: how often the model and the unweighted model are in their true order when test labels are "
        "dropped."
    ]
    return Grid("estimates", "Estimates of the true P@5 from the observed labels, percent", columns, rows, notes)


def tracking_table(study: Study) -> Grid:
    """Return the rank correlation of metrics on observed labels with the true precision of all models."""
    rows = [
        [GridCell(name), number(found["value"], small=f"{found['low']:.2f} to {found['high']:.2f}")]
        for name, found in study["tracking"].items()
    ]
    title = "Rank correlation of metrics on the observed labels with the true P@5, over all models"
    return Grid("tracking", title, ["ordered by", "Kendall's tau"], rows, ["1 is the true order, -1 its reverse."])


def _signed(entry: Mapping[str, float]) -> GridCell:
    small = f"{100 * entry['low']:+.2f} to {100 * entry['high']:+.2f}"
    return number(100 * entry["value"], "{:+.2f}", small=small)


@styled
def draw_training(study: Study) -> Figure:
    """Draw the gain over the unweighted model on the complete labels, by assumed propensities, with intervals."""
    beliefs = list(dict.fromkeys(row["belief"] for row in study["training"]))
    weightings = list(dict.fromkeys(row["weighting"] for row in study["training"]))
    measures = list(study["training"][0]["gain"])
    figure = new_figure(len(measures) * (0.3 * len(beliefs) + 0.8))
    for axes, measure in zip(figure.subplots(len(measures), 1), measures, strict=True):
        for turn, (weighting, color) in enumerate(zip(weightings, COLORS[1:], strict=False)):
            own = {row["belief"]: row["gain"][measure] for row in study["training"] if row["weighting"] == weighting}
            for position, belief in enumerate(beliefs):
                at = -position + 0.13 * (len(weightings) - 1 - 2 * turn)
                axes.plot(
                    [100 * own[belief]["low"], 100 * own[belief]["high"]], [at, at], color=color, lw=3, alpha=0.35
                )
                axes.plot(100 * own[belief]["value"], at, "o", color=color, ms=4.5)
            axes.plot([], [], "o", color=color, ms=4.5, label=weighting)
        axes.axvline(0, color=INK, lw=0.9)
        axes.set_yticks([-position for position in range(len(beliefs))], beliefs)
        axes.set_xlabel(f"gain in {measure}, percentage points")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.1, handletextpad=0.2)
        dress(axes, "x")
    return figure


@styled
def draw_estimates(study: Study) -> Figure:
    """Draw estimates of the true precision by correction, with their spread over samples, and the true value."""
    models = list(dict.fromkeys(row["model"] for row in study["estimates"]))
    beliefs = list(dict.fromkeys(row["belief"] for row in study["estimates"]))
    figure = new_figure(0.36 * len(beliefs) + 1.0)
    axes = figure.add_subplot()
    for turn, (model, color) in enumerate(zip(models, COLORS, strict=False)):
        own = {row["belief"]: row for row in study["estimates"] if row["model"] == model}
        for position, belief in enumerate(beliefs):
            at = -position + 0.1 * (len(models) - 1 - 2 * turn)
            row = own[belief]
            axes.plot([100 * row["low"], 100 * row["high"]], [at, at], color=color, lw=3, alpha=0.35)
            axes.plot(100 * row["estimate"], at, "o", color=color, ms=4)
        axes.axvline(100 * own[beliefs[0]]["truth"], color=color, lw=1.1, ls=(0, (4, 2)))
        axes.plot([], [], "o", color=color, ms=4, label=_NAMES.get(model, model))
    axes.set_yticks([-position for position in range(len(beliefs))], beliefs)
    axes.set_xlabel("estimated P@5, percent (dashed: true)")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.1, handletextpad=0.2)
    dress(axes, "x")
    return figure


@styled
def draw_sensitivity(study: Study) -> Figure:
    """Draw PSP against A, one panel per B: does the order of models depend on the propensity parameters?"""
    rows = study["sensitivity"]
    offsets = list(dict.fromkeys(row["b"] for row in rows))
    figure = new_figure(1.7 * len(offsets) + 0.5)
    panels = figure.subplots(len(offsets), 1, sharex=True, sharey=True)
    for axes, b in zip(panels, offsets, strict=True):
        own = [row for row in rows if row["b"] == b]
        for name, color in zip(own[0]["figures"], COLORS, strict=False):
            values = [100 * row["figures"][name] for row in own]
            axes.plot(
                [row["a"] for row in own], values, "o-", color=color, ms=3.5, lw=1.4, label=_NAMES.get(name, name)
            )
        axes.axvline(study["settings"]["a"], color=INK, lw=0.8, ls=(0, (2, 2)))
        axes.set_ylabel(f"PSP@5, B = {b:g}")
        dress(axes, "both")
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.1)
    panels[-1].set_xlabel("A")
    return figure
