"""The index page of the reproduced paper: its tables and figures with links to ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unmissed.archive import write_text
from unmissed.reports.compare_tables import HOLDS, Results, data_table, main_table
from unmissed.reports.grids import Grid, GridCell, number, to_latex, to_markdown
from unmissed.reports.pages import render


class Link(NamedTuple):
    """A link of the page: its text and relative path."""

    text: str
    path: str


class ContentsEntry(NamedTuple):
    """A table or figure of the paper, what it shows, and links to ours."""

    name: str
    shows: str
    links: list[Link]


def write_contents(results: Mapping[str, Results], made: Mapping[str, Sequence[Path]], out: Path) -> Path:
    """Write `index.html` and the tables over all data sets; return the page."""
    grids = (summary(results), joined_claims(results), joined_data(results), joined_main(results))
    tables = {grid.name: grid for grid in grids if grid.rows}
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for name, grid in tables.items():
        write_text(out / "tables" / f"{name}.md", to_markdown(grid))
        write_text(out / "tables" / f"{name}.tex", to_latex(grid))
    page = render("paper.html", entries=entries_of(results, made, out), tables=tables, names=list(results))
    write_text(out / "index.html", page)
    return out / "index.html"


def entries_of(results: Mapping[str, Results], made: Mapping[str, Sequence[Path]], out: Path) -> list[ContentsEntry]:
    """Return the paper's tables and figures in their order."""

    def each(anchor: str) -> list[Link]:
        return [Link(name, f"{name}/index.html#{anchor}") for name in results]

    def files(part: str) -> list[Link]:
        shown = [path for path in made.get(part, ()) if path.suffix in (".png", ".csv")]
        return [Link(path.name, path.relative_to(out).as_posix()) for path in shown]

    return [
        ContentsEntry("Figure 1", "label frequencies follow a power law", each("figure-frequencies")),
        ContentsEntry("Figure 2", "losses of a positive label: standard, unbiased and convex", files("losses")),
        ContentsEntry("Figure 3", "MNIST with missing labels under six losses", files("mnist")),
        ContentsEntry("Table 1", "the data sets", [Link("all data sets", "#data"), *each("data")] if results else []),
        ContentsEntry(
            "Table 2",
            "PSP@k and PSnDCG@k by method",
            [Link("all data sets", "#main"), *each("main")] if results else [],
        ),
        ContentsEntry("Figure 4", "P@k and nDCG@k by method", each("figure-vanilla")),
    ]


def summary(results: Mapping[str, Results]) -> Grid:
    """Return P at the first and PSP at the last cut-off by method and data set; method names omit most parameters.

    The cell of a method that did not finish says why.
    """
    figures: dict[str, dict[str, GridCell]] = {}
    columns: list[str] = []
    for name, each in results.items():
        cutoffs = each["settings"]["k"]
        for metric in (f"P@{cutoffs[0]}", f"PSP@{cutoffs[-1]}"):
            columns.append(f"{name} {metric}")
            found: dict[str, GridCell] = {}
            for one in each["methods"]:
                value = one.get("figures", {}).get(metric, {}).get("value")
                cell = GridCell(one["state"]) if value is None else number(100 * value)
                found.setdefault(short_title(one), cell)
            best = max((cell.value for cell in found.values() if cell.value is not None), default=None)
            for title, cell in found.items():
                is_best = cell.value is not None and cell.value == best
                figures.setdefault(title, {})[columns[-1]] = cell._replace(best=is_best)
    rows = [
        [GridCell(title), *(own.get(column, GridCell("–")) for column in columns)] for title, own in figures.items()
    ]
    return Grid("summary", "Summary: precision and propensity-scored precision, percent", ["method", *columns], rows)


def short_title(one: Mapping[str, Any]) -> str:
    """Return a method's name and its weighting, if it has one."""
    weighting = re.search(r"weighting=([^,]+)", one["key"])
    return ", ".join([one["title"].split(",")[0], *(weighting.groups() if weighting else ())])


def joined_claims(results: Mapping[str, Results]) -> Grid:
    """Return whether each of the paper's claims holds, by data set."""
    texts = dict.fromkeys(one["claim"] for each in results.values() for one in each["claims"])
    found = {name: {one["claim"]: one["holds"] for one in each["claims"]} for name, each in results.items()}
    rows = [
        [GridCell(text), *(GridCell(HOLDS[own[text]] if text in own else "–") for own in found.values())]
        for text in texts
    ]
    notes = ["Open: the intervals allow both. The pages of the data sets show the differences with their intervals."]
    return Grid("claims", "The paper's claims by data set", ["claim", *results], rows, notes)


def joined_data(results: Mapping[str, Results]) -> Grid:
    """Return the statistics of all data sets."""
    grids = [data_table(one) for one in results.values()]
    return Grid(
        "data", "Table 1: the data sets", grids[0].columns if grids else [], [row for one in grids for row in one.rows]
    )


def joined_main(results: Mapping[str, Results]) -> Grid:
    """Return the main table in the paper's layout: one row per data set and metric, one column per method."""
    titles = list(dict.fromkeys(one["title"] for each in results.values() for one in each["methods"]))
    rows: list[list[GridCell]] = []
    for name, each in results.items():
        own = main_table(each)
        by_title = {row[0].text: row for row in own.rows}
        for position, metric in enumerate(own.columns[1:], start=1):
            cells = [by_title[title][position] if title in by_title else GridCell("–") for title in titles]
            rows.append([GridCell(f"{name}, {metric}"), *(cell._replace(small="") for cell in cells)])
    return Grid("main", "Table 2: PSP@k and PSnDCG@k, percent", ["data set", *titles], rows)
