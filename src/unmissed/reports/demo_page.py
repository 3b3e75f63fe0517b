"""The page of the demo: a table and three figures in one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.reports.drawing import INK, as_svg, dress, new_figure, styled
from unmissed.reports.grids import Grid, GridCell
from unmissed.reports.pages import render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#8a8f98", "#2f6db3", "#e09f1f", "#c0392b")  # popularity, DiSMEC, surrogate, tail
TAIL_RECALL = "recall@5 of tail labels"


class DemoCell(NamedTuple):
    """A figure as a fraction, with its confidence interval if it has one."""

    value: float
    low: float | None = None
    high: float | None = None


class Line(NamedTuple):
    """One metric of every method; `source` is the labels that it was computed on: observed or truth."""

    measure: str
    source: str
    cells: list[DemoCell]


class DecileLine(NamedTuple):
    """The recall of every method on a decile of the labels by training count."""

    decile: int
    fewest: int
    most: int
    n_labels: int
    true: int
    recalls: list[float]


class MissingLine(NamedTuple):
    """A training row and a label that it probably lacks, and whether the label was in fact dropped from it."""

    row: int
    label: str
    probability: float
    words: list[str]
    was_dropped: bool


class FoundMissing(NamedTuple):
    """The cells whose label is most probably missing: how many, how many were dropped, and the best of some labels."""

    method: str
    n_cells: int
    n_dropped: int
    lines: list[MissingLine]

    @property
    def verdict(self) -> str:
        """A sentence on how many of the cells lack a true label."""
        return (
            f"These labels are probably missing: of the {self.n_cells:,} most probable ones that {self.method} finds "
            f"in the training rows, {self.n_dropped:,} had been dropped."
        )


@dataclass(frozen=True)
class DemoResults:
    """The results of the demo; the first method is the baseline, the second the reference of the gains."""

    sizes: dict[str, Any]
    methods: list[str]
    lines: list[Line]
    deciles: list[DecileLine]
    corrected: list[Line]
    true_counts: npt.NDArray[np.int64]
    observed_counts: npt.NDArray[np.int64]
    verdicts: list[str]
    seconds: dict[str, float]
    missing: FoundMissing

    @property
    def finding(self) -> str:
        """The main result in one sentence: recall of tail labels by the first linear method and by the best one."""
        recalls = next(line.cells for line in self.lines if line.measure == TAIL_RECALL)
        plain, best = 1, max(range(len(recalls)), key=lambda at: recalls[at].value)
        return (
            f"Trained on {100 * self.sizes['kept']:.0f} % of the true labels, {self.methods[best]} finds "
            f"{100 * recalls[best].value:.0f} % of the true rare labels and "
            f"{self.methods[plain]} {100 * recalls[plain].value:.0f} %. Its observed positives cost more, "
            "the likelier their label is missing."
        )


def percent(cell: DemoCell, *, interval: bool = True) -> str:
    """Return a cell in percent, as `41.3 ±0.9`."""
    if cell.value != cell.value:
        return "-"
    if not interval or cell.low is None or cell.high is None:
        return f"{100 * cell.value:.1f}"
    return f"{100 * cell.value:.1f} ±{50 * (cell.high - cell.low):.1f}"


def render_page(results: DemoResults) -> str:
    """Return the page as HTML, figures included."""
    return render(
        "demo.html",
        results=results,
        colors=COLORS,
        table=measures_grid(results),
        frequency=as_svg(draw_frequencies(results), "True and observed label frequencies"),
        gain=as_svg(draw_gains(results), "Gain by label frequency"),
        corrected=as_svg(draw_corrected(results), "Precision, corrected for missing labels"),
    )


def measures_grid(results: DemoResults) -> Grid:
    """Return the page's table: one metric per row, on observed or complete labels; one method per column."""
    sources = {"observed": "observed labels", "truth": "complete labels"}
    rows = [
        [GridCell(line.measure, small=sources[line.source]), *(_cell(cell) for cell in line.cells)]
        for line in results.lines
    ]
    return Grid("measures", "Metrics on observed and on complete labels", ["percent", *results.methods], rows)


def _cell(cell: DemoCell) -> GridCell:
    small = "" if cell.low is None or cell.high is None else f"{100 * cell.low:.1f}–{100 * cell.high:.1f}"
    return GridCell(percent(cell, interval=False), cell.value, small=small)


@styled
def draw_frequencies(results: DemoResults) -> Figure:
    """Draw the true and the observed number of training rows of each label."""
    figure = new_figure(3.4)
    axes = figure.add_subplot()
    order = np.argsort(-results.true_counts, kind="stable")
    rank = np.arange(1, order.size + 1)
    observed = results.observed_counts[order].astype(np.float64)
    axes.scatter(rank, np.where(observed > 0, observed, 0.5), s=7, color=COLORS[3], alpha=0.55, lw=0, label="observed")
    axes.plot(rank, np.maximum(results.true_counts[order], 0.5), color=COLORS[1], lw=2.2, label="true")
    axes.set(xscale="log", yscale="log", xlabel="rank of the label by its true count", ylabel="training rows")
    ticks = [0.5, *(10**power for power in range(int(np.log10(max(results.true_counts.max(), 10))) + 1))]
    axes.set_yticks(ticks, ["none", *(f"{tick:,}" for tick in ticks[1:])])
    axes.minorticks_off()
    axes.set_xlim(0.9, order.size * 1.1)
    dress(axes, grid="both")
    axes.legend(frameon=False, loc="lower left", markerscale=2)
    return figure


@styled
def draw_gains(results: DemoResults) -> Figure:
    """Draw the gain in recall over DiSMEC on complete labels by decile, and below it the recall."""
    figure = new_figure(5.4)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.15, 1])
    position = np.arange(len(results.deciles))
    recalls = np.array([line.recalls for line in results.deciles]) * 100
    weighted = range(2, len(results.methods))
    width = 0.8 / max(len(weighted), 1)
    for turn, method in enumerate(weighted):
        offset = (turn - (len(weighted) - 1) / 2) * width
        gain = recalls[:, method] - recalls[:, 1]
        top.bar(position + offset, gain, width * 0.92, color=COLORS[method], label=results.methods[method])
    top.axhline(0, color=INK, lw=0.9)
    top.set_ylabel(f"gain over {results.methods[1]}\n(points of recall@5)")
    dress(top, grid="y")
    top.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, borderaxespad=0.2)
    for method, name in enumerate(results.methods):
        bottom.plot(position, recalls[:, method], "o-", color=COLORS[method], ms=4, lw=1.6, label=name)
    bottom.set_ylabel("recall@5, percent")
    spans = [*map(_span, results.deciles[:-1]), *(f"{line.fewest}+" for line in results.deciles[-1:])]
    bottom.set_xticks(position, spans)
    bottom.set_xlabel("observed training rows of the label")
    bottom.set_ylim(bottom=0)
    dress(bottom, grid="y")
    bottom.legend(frameon=False, loc="upper left", ncols=2)
    return figure


@styled
def draw_corrected(results: DemoResults) -> Figure:
    """Draw precision on observed labels, its correction by 1/p, and precision on complete labels."""
    figure = new_figure(0.62 * len(results.methods) + 1.5)
    axes = figure.add_subplot()
    looks = (("o", "white", "observed labels"), ("D", None, "corrected by 1/p"), ("|", None, "complete"))
    position = np.arange(len(results.methods))[::-1]
    for line, (marker, face, text) in zip(results.corrected, looks, strict=True):
        values = np.array([cell.value for cell in line.cells]) * 100
        spread = np.array([[cell.low, cell.high] for cell in line.cells], dtype=np.float64) * 100
        for method, at in enumerate(position):
            color = COLORS[method]
            if marker == "D":
                axes.plot(spread[method], [at, at], color=color, lw=3, alpha=0.35, solid_capstyle="round")
            axes.plot(
                values[method],
                at,
                marker,
                color=INK if marker == "|" else color,
                markerfacecolor=face or (INK if marker == "|" else color),
                ms=17 if marker == "|" else 7,
                mew=2,
                ls="none",
                zorder=1 if marker == "|" else 3,
            )
        axes.plot([], [], marker, color=INK, markerfacecolor=face or INK, mew=1.6, ls="none", label=text)
    axes.set_yticks(position, results.methods)
    axes.set_ylim(-0.6, len(results.methods) - 0.4)
    axes.set_xlim(left=0)
    axes.set_xlabel("P@5, percent")
    dress(axes, grid="x")
    axes.legend(loc="lower left", bbox_to_anchor=(-0.3, 1), ncols=3, columnspacing=1.2)
    return figure


def _span(line: DecileLine) -> str:
    if line.decile == 0:
        return "none"
    return f"{line.fewest}" if line.fewest == line.most else f"{line.fewest}–{line.most}"


def missing_rows(results: DemoResults) -> list[Sequence[str]]:
    """Return the labels that are most probably missing as rows of a table."""
    return [
        [str(one.row), one.label, f"{one.probability:.2f}", ", ".join(one.words), "yes" if one.was_dropped else "no"]
        for one in results.missing.lines
    ]


def table_rows(results: DemoResults) -> list[Sequence[str]]:
    """Return the rows of the table for a terminal: one metric per row, one method per column."""
    return [[f"{line.measure} ({line.source})", *(percent(cell) for cell in line.cells)] for line in results.lines]
