"""Figures of the results of `unmissed.runs.compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unmissed.models.method_registry import BASELINES, EMBEDDINGS, LINEAR, TREES
from unmissed.reports.compare_tables import Results, measured, names_at, span
from unmissed.reports.drawing import INK, dress, new_figure, styled
from unmissed.reports.reliability_figures import draw_reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CUTS = ("#2f6db3", "#e09f1f", "#c0392b", "#5a9e6f", "#8a6fb8")
FAMILIES = {LINEAR: "#2f6db3", TREES: "#3f9b62", EMBEDDINGS: "#d98a1f", BASELINES: "#8a8f98"}
OTHERS = "#a05195"


def drawn(results: Results) -> list[Mapping[str, Any]]:
    """Return the methods that figures show: the floor would stretch every axis, and is in the tables."""
    return [one for one in measured(results) if one["family"] != BASELINES] or measured(results)


@styled
def draw_scored(results: Results) -> Figure:
    """Draw PSP and PSnDCG of every method with intervals."""
    return _dots(results, ("PSP", "PSnDCG"))


@styled
def draw_vanilla(results: Results) -> Figure:
    """Draw P and nDCG of every method with intervals, as in the paper."""
    return _dots(results, ("P", "nDCG"))


def _dots(results: Results, measures: Sequence[str]) -> Figure:
    methods = drawn(results)
    figure = new_figure(len(measures) * (0.23 * len(methods) + 0.75))
    panels = np.atleast_1d(figure.subplots(len(measures), 1))
    for axes, measure in zip(panels, measures, strict=True):
        for color, name in zip(CUTS, names_at(results, measure, after_first=measure.endswith("nDCG")), strict=False):
            _with_spread(axes, [one["figures"].get(name) for one in methods], color, name)
        _methods_down(axes, methods)
        axes.set_xlabel(f"{measure}@k, percent")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5, borderaxespad=0.1, handletextpad=0.2)
        _put(axes)
    return figure


def _put(axes: Axes) -> None:
    dress(axes, "x")
    axes.tick_params(axis="y", length=0)


def _with_spread(axes: Axes, entries: Sequence[Mapping[str, Any] | None], color: str, label: str | None) -> None:
    """Draw one marker per method with its interval, first method on top."""
    for position, entry in enumerate(entries):
        if entry is None or entry["value"] is None:
            continue
        if entry.get("low") is not None:
            axes.plot([100 * entry["low"], 100 * entry["high"]], [-position, -position], color=color, lw=3, alpha=0.35)
        axes.plot(100 * entry["value"], -position, "o", color=color, ms=4.5, ls="none")
    if label is not None:
        axes.plot([], [], "o", color=color, ms=4.5, ls="none", label=label)


def _methods_down(axes: Axes, methods: Sequence[Mapping[str, Any]]) -> None:
    axes.set_yticks([-position for position in range(len(methods))], [one["title"] for one in methods])
    axes.set_ylim(0.6 - len(methods), 0.6)


@styled
def draw_gains(results: Results) -> Figure:
    """Draw every method's paired difference to the baseline in PSP and in P, with intervals."""
    methods = [one for one in drawn(results) if one["key"] != results["baseline"]]
    cuts = results["settings"]["k"]
    figure = new_figure(2 * (0.23 * max(len(methods), 1) + 0.75))
    title = next((one["title"] for one in results["methods"] if one["key"] == results["baseline"]), "")
    for axes, measure in zip(figure.subplots(2, 1), ("PSP", "P"), strict=True):
        axes.set_xscale("symlog", linthresh=5)
        for color, k in ((CUTS[0], cuts[0]), (CUTS[2], cuts[-1])):
            name = f"{measure}@{k}"
            _with_spread(axes, [one["against_baseline"].get(name) for one in methods], color, name)
        axes.axvline(0, color=INK, lw=0.9)
        _methods_down(axes, methods)
        axes.set_xlabel(f"{measure}@k minus that of {title}, points")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5, borderaxespad=0.1, handletextpad=0.2)
        axes.set_xticks(ticks := [tick for tick in _TICKS if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]])
        axes.set_xticklabels([f"{tick:+d}" if tick else "0" for tick in ticks])
        axes.minorticks_off()
        _put(axes)
    return figure


_TICKS = (-100, -50, -20, -10, -5, -2, 0, 2, 5, 10, 20, 50, 100)


@styled
def draw_deciles(results: Results) -> Figure:
    """Draw a heat map of recall: one row per method, one column per label-frequency group."""
    methods = measured(results)
    depth = results["settings"]["k"][-1]
    groups = [[group for group in one["deciles"] if group["k"] == depth and group["true"]] for one in methods]
    shares = np.array([[np.nan if g["recall"] is None else 100 * g["recall"] for g in row] for row in groups])
    figure = new_figure(0.23 * len(methods) + 1.1)
    axes = figure.add_subplot()
    axes.pcolormesh(shares[::-1], cmap="YlGnBu", vmin=0, vmax=100, edgecolors="none")
    for (row, column), share in np.ndenumerate(shares[::-1]):
        if np.isfinite(share):
            color = "#ffffff" if share > 55 else "#1d2126"
            axes.text(column + 0.5, row + 0.5, f"{share:.0f}", ha="center", va="center", color=color, fontsize=7.5)
    axes.set_yticks(np.arange(len(methods)) + 0.5, [one["title"] for one in methods[::-1]])
    axes.set_xticks(np.arange(shares.shape[1]) + 0.5, list(map(span, groups[0])), rotation=40, ha="right")
    axes.set_xlabel(f"training rows of the label; recall@{depth}, percent")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=8.5)
    return figure


@styled
def draw_frequencies(results: Results) -> Figure:
    """Draw rows per label against the label's rank, with the fitted power law: the axes of the paper's figure 1."""
    curve, law = results["data"]["frequencies"], results["data"]["power_law"]
    figure = new_figure(3.2)
    axes = figure.add_subplot()
    rank = np.asarray(curve["rank"], dtype=np.float64)
    axes.plot(rank, curve["count"], color=CUTS[0], lw=2, label="labels, most frequent first")
    if law is not None:
        line = np.exp(law["intercept"] - law["exponent"] * np.log(rank))
        axes.plot(rank, line, color=CUTS[2], lw=1.3, ls=(0, (5, 3)), label=f"power law, exponent {law['exponent']:.2f}")
    axes.set(yscale="log", xlabel="rank of the label", ylabel="training rows")
    axes.set_xlim(0, float(rank[-1]))
    axes.set_ylim(bottom=0.8)
    dress(axes, "both")
    axes.legend(loc="upper right")
    return figure


@styled
def draw_against_time(results: Results) -> Figure:
    """Draw PSP at the largest cut-off against the training time."""
    return _against(results, lambda one: (one.get("seconds") or {}).get("train"), "training, seconds")


@styled
def draw_against_size(results: Results) -> Figure:
    """Draw PSP at the largest cut-off against the size of the model on disk."""
    return _against(results, lambda one: _mebibytes(one.get("disk_bytes")), "model on disk, MiB")


def _mebibytes(size: int | None) -> float | None:
    return None if size is None else size / 2**20


def _against(results: Results, cost: Any, label: str) -> Figure:
    name = f"PSP@{results['settings']['k'][-1]}"
    figure = new_figure(4.2)
    axes = figure.add_subplot()
    points = []
    for one in drawn(results):
        entry, spent = one["figures"].get(name), cost(one)
        if entry is None or entry["value"] is None or not spent:
            continue
        color = FAMILIES.get(one["family"], OTHERS)
        if entry.get("low") is not None:
            axes.plot([spent, spent], [100 * entry["low"], 100 * entry["high"]], color=color, lw=3, alpha=0.3)
        axes.plot(spent, 100 * entry["value"], "o", color=color, ms=5)
        points.append((spent, 100 * entry["value"], one["title"], color))
    axes.set(xscale="log", xlabel=label, ylabel=f"{name}, percent")
    _plain_ticks(axes, [spent for spent, *_ in points])
    dress(axes, "both")
    _name_points(axes, points)
    families = list(dict.fromkeys(one["family"] for one in drawn(results)))
    for family in families:
        axes.plot([], [], "o", color=FAMILIES.get(family, OTHERS), ms=5, label=family or "other")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.1, handletextpad=0.2)
    return figure


def _plain_ticks(axes: Axes, costs: Sequence[float]) -> None:
    """Label a logarithmic axis at 10, 20 and 50; over a wide range only at powers of 10."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    wide = len(costs) > 0 and max(costs) > 200 * min(costs)
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _name_points(axes: Axes, points: Sequence[tuple[float, float, str, str]]) -> None:
    """Write the names in a column right of the axes, highest point first, each with a line to its point."""
    from matplotlib.transforms import ScaledTranslation
    from sklearn.isotonic import isotonic_regression

    points = sorted(points, key=lambda one: one[1])
    low, high = axes.get_ylim()
    offsets = min(0.06, 1 / max(len(points) - 1, 1)) * np.arange(len(points))  # height of the names below
    wanted = (np.array([y for _, y, *_ in points]) - low) / (high - low)
    positions = wanted
    if points:
        positions = offsets + np.clip(isotonic_regression(wanted - offsets), 0, max(1 - offsets[-1], 0))
    margin = axes.transAxes + ScaledTranslation(10 / 72, 0, axes.figure.dpi_scale_trans)
    line = {"arrowstyle": "-", "lw": 0.6, "alpha": 0.6, "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)}
    for position, (x, y, name, color) in zip(positions, points, strict=True):
        axes.annotate(
            name,
            (x, y),
            xytext=(1, position),
            textcoords=margin,
            va="center",
            fontsize=7.5,
            annotation_clip=False,
            arrowprops={**line, "color": color},
        )


def reliability_curves(results: Results) -> dict[str, Any]:
    """Return the reliability curve at the largest cut-off of each method that has probabilities, by its title."""
    depth = results["settings"]["k"][-1]
    return {
        one["title"]: error["curve"]
        for one in measured(results)
        for error in one.get("probabilities") or ()
        if error["k"] == depth and error["decile"] is None
    }


CAPTIONS = {
    "scored": "PSP and PSnDCG with confidence intervals. Each hit is weighted by 1/p, where p is the propensity: the "
    "probability that a true label is observed. Hits on rare labels therefore have larger weights.",
    "vanilla": "P@k is the fraction of correct labels in the top k; nDCG@k gives higher ranks more weight.",
    "gains": "Paired differences on the same test rows. A difference is significant if its interval excludes 0. "
    "Beyond 5 points the axis is logarithmic.",
    "deciles": "Recall by label frequency, from rare labels (left) to frequent labels (right).",
    "reliability": "Observed fraction of suggested labels by their probability, with 95 % intervals; probabilities are "
    "right where the curve follows the diagonal.",
    "frequencies": "Training rows per label, most frequent label first: the long tail.",
    "time": "PSP by training time; the upper left is best.",
    "size": "PSP by model size; the upper left is best.",
}
TITLES = {
    "scored": "Propensity-scored metrics",
    "vanilla": "Precision and nDCG",
    "gains": "Gain over the baseline",
    "deciles": "Recall by label frequency",
    "reliability": "Reliability of the probabilities",
    "frequencies": "Label frequencies",
    "time": "PSP and training time",
    "size": "PSP and model size",
}


def all_figures(results: Results) -> dict[str, Figure]:
    """Return every figure by its name."""
    found = {"frequencies": draw_frequencies(results)}
    if not measured(results):
        return found
    others = any(one["key"] != results["baseline"] for one in drawn(results))
    return {
        "scored": draw_scored(results),
        "vanilla": draw_vanilla(results),
        **({"gains": draw_gains(results)} if others else {}),
        **({"deciles": draw_deciles(results)} if _has_groups(results) else {}),
        **({"reliability": draw_reliability(curves)} if (curves := reliability_curves(results)) else {}),
        **found,
        "time": draw_against_time(results),
        "size": draw_against_size(results),
    }


def _has_groups(results: Results) -> bool:
    """Return whether any label-frequency group has true labels."""
    depth = results["settings"]["k"][-1]
    return any(group["k"] == depth and group["true"] for group in measured(results)[0]["deciles"])
