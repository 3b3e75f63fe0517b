"""The report of a comparison: an HTML page, tables as Markdown and LaTeX, figures as PNG and SVG."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from unmissed.archive import write_text
from unmissed.reports.compare_figures import CAPTIONS, TITLES, all_figures
from unmissed.reports.compare_tables import Results, all_tables, measured, names_at
from unmissed.reports.drawing import as_svg, save
from unmissed.reports.grids import to_latex, to_markdown
from unmissed.reports.metrics_tables import TextTable, say_conventions, say_propensity
from unmissed.reports.pages import render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "index.html"


def write_report(results: Results, out: str | os.PathLike[str]) -> list[Path]:
    """Write `index.html`, `tables/` and `figures/` into a folder; return the files, the page first."""
    folder = Path(out)
    tables, figures = all_tables(results), all_figures(results)
    files = []
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    for name, grid in tables.items():
        for suffix, text in ((".md", to_markdown(grid)), (".tex", to_latex(grid))):
            files.append(folder / "tables" / f"{name}{suffix}")
            write_text(files[-1], text)
    for name, figure in figures.items():
        files += save(figure, folder / "figures" / name)
    write_text(folder / PAGE, render_page(results, figures))
    return [folder / PAGE, *files]


def render_page(results: Results, figures: Mapping[str, Figure] | None = None) -> str:
    """Return the page as HTML; `figures` avoids drawing them again."""
    pictures = {
        name: {"svg": as_svg(figure, TITLES[name]), "title": TITLES[name], "caption": CAPTIONS[name]}
        for name, figure in (figures or all_figures(results)).items()
    }
    tables = all_tables(results)
    said = {"lead": [*_lead(results), *earlier_lines(results)], "notes": _notes(results)}
    said["settings"] = settings_lines(results)
    return render("compare.html", results=results, tables=tables, figures=pictures, **said)


def figures_table(results: Results) -> TextTable:
    """Return the table for a terminal: P and PSP at each cut-off, training time and model size."""
    names = [*names_at(results, "P"), *names_at(results, "PSP")]
    rows = []
    for one in results["methods"]:
        figures, seconds, size = one.get("figures", {}), (one.get("seconds") or {}).get("train"), one.get("disk_bytes")
        rows.append(
            [
                one["title"] if one["state"] == "finished" else f"{one['title']} ({one['state']})",
                *(_percent(figures.get(name)) for name in names),
                "-" if seconds is None else f"{seconds:,.1f}",
                "-" if size is None else f"{size / 2**20:,.1f}",
            ]
        )
    data = results["data"]
    title = f"{data['name']}: P and PSP, percent ({data['n_train']:,} training rows, {data['n_labels']:,} labels)"
    return TextTable(title, ["method", *names, "training, s", "MiB"], rows)


def settings_lines(results: Results) -> list[str]:
    """Return the propensity model and the conventions of the metrics."""
    settings = results["settings"]
    lines = [f"Propensities: {say_propensity(settings['propensity'])}."]
    if "conventions" in settings:
        lines.append(f"Conventions: {say_conventions(settings['conventions'])}.")
    return lines


def earlier_lines(results: Results) -> list[str]:
    """Return which methods come from earlier comparisons in the folder, and which of them are omitted."""
    titles = {one["key"]: one["title"] for one in results["methods"]}
    lines = []
    if results.get("kept"):
        lines.append(f"From earlier comparisons in this folder: {', '.join(titles[key] for key in results['kept'])}.")
    lines += [f"Omitted: {key} ({reason})." for key, reason in results.get("left_out", {}).items()]
    return lines


def _lead(results: Results) -> list[str]:
    """Return the main results: the best methods, and the unfinished ones."""
    titles = {one["key"]: one["title"] for one in results["methods"]}
    sentences = []
    for name in (names_at(results, "PSP")[-1], names_at(results, "P")[0]):
        best = results["best"].get(name)
        if best is None:
            continue
        figures = next(one["figures"] for one in measured(results) if one["key"] == best["key"])
        near = ", ".join(titles[key] for key in best["near"])
        behind = f"; not significantly worse: {near}" if near else "; all others are significantly worse"
        sentences.append(f"Best {name}: {titles[best['key']]}, {100 * figures[name]['value']:.1f} %{behind}.")
    stopped = [f"{one['title']} ({one['state']})" for one in results["methods"] if one["state"] != "finished"]
    if stopped:
        sentences.append(f"Not finished: {', '.join(stopped)}.")
    return sentences


def _notes(results: Results) -> list[tuple[str, str]]:
    """Return each warning once, with the methods that it concerns."""
    about: dict[str, list[str]] = {}
    for one in results["methods"]:
        for warning in one.get("warnings", ()):
            about.setdefault(warning, []).append(one["title"])
    everyone = len(results["methods"])
    return [("All methods" if len(who) == everyone > 1 else ", ".join(who), text) for text, who in about.items()]


def _percent(entry: dict[str, float | None] | None) -> str:
    return "-" if entry is None or entry["value"] is None else f"{100 * entry['value']:.2f}"
