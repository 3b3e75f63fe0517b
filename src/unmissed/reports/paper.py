"""The contents page of the whole paper: each of its tables and figures, and where ours is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unmissed.archive import write_text
from unmissed.reports.compare_tables import Results, data_table, main_table
from unmissed.reports.grids import Cell, Grid, number, to_latex, to_markdown
from unmissed.reports.pages import render


class Link(NamedTuple):
    """A place below the page: what it is called and its path."""

    text: str
    path: str


class Entry(NamedTuple):
    """A table or figure of the paper, what it shows, and where ours are."""

    name: str
    shows: str
    links: list[Link]


def write_contents(results: Mapping[str, Results], made: Mapping[str, Sequence[Path]], out: Path) -> Path:
    """Write `index.html` and the tables that join all data sets; return the page."""
    tables = {grid.name: grid for grid in (summary(results), joined_data(results), joined_main(results)) if grid.rows}
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for name, grid in tables.items():
        write_text(out / "tables" / f"{name}.md", to_markdown(grid))
        write_text(out / "tables" / f"{name}.tex", to_latex(grid))
    page = render("paper.html", entries=entries_of(results, made, out), tables=tables, names=list(results))
    write_text(out / "index.html", page)
    return out / "index.html"


def entries_of(results: Mapping[str, Results], made: Mapping[str, Sequence[Path]], out: Path) -> list[Entry]:
    """Return the paper's tables and figures in its order."""

    def each(anchor: str) -> list[Link]:
        return [Link(name, f"{name}/index.html#{anchor}") for name in results]

    def files(part: str) -> list[Link]:
        shown = [path for path in made.get(part, ()) if path.suffix in (".png", ".csv")]
        return [Link(path.name, path.relative_to(out).as_posix()) for path in shown]

    return [
        Entry("Figure 1", "label frequencies follow a power law", each("figure-frequencies")),
        Entry("Figure 2", "losses of a present label: plain, unbiased and convex", files("losses")),
        Entry("Figure 3", "training digits with missing labels under six losses", files("mnist")),
        Entry("Table 1", "the data sets", [Link("all data sets", "#data"), *each("data")] if results else []),
        Entry(
            "Table 2",
            "PSP@k and PSnDCG@k by method",
            [Link("all data sets", "#main"), *each("main")] if results else [],
        ),
        Entry("Figure 4", "P@k and nDCG@k by method", each("figure-vanilla")),
    ]


def summary(results: Mapping[str, Results]) -> Grid:
    """Return two figures per data set, the first P and the last PSP, by method; numbers among its settings left out."""
    figures: dict[str, dict[str, Cell]] = {}
    columns: list[str] = []
    for name, each in results.items():
        cutoffs = each["settings"]["k"]
        for metric in (f"P@{cutoffs[0]}", f"PSP@{cutoffs[-1]}"):
            columns.append(f"{name} {metric}")
            found: dict[str, float] = {}
            for one in each["methods"]:
                value = one.get("figures", {}).get(metric, {}).get("value")
                if value is not None:
                    found.setdefault(_short_title(one), 100 * value)
            for title, value in found.items():
                cell = number(value, best=value == max(found.values()))
                figures.setdefault(title, {})[columns[-1]] = cell
    rows = [[Cell(title), *(own.get(column, Cell("–")) for column in columns)] for title, own in figures.items()]
    return Grid("summary", "In short: precision, and propensity-scored precision, percent", ["method", *columns], rows)


def _short_title(one: Mapping[str, Any]) -> str:
    """Return a method's name and, where it has one, its weighting."""
    weighting = re.search(r"weighting=([^,]+)", one["key"])
    return ", ".join([one["title"].split(",")[0], *(weighting.groups() if weighting else ())])


def joined_data(results: Mapping[str, Results]) -> Grid:
    """Return the data-set table with all data sets."""
    grids = [data_table(one) for one in results.values()]
    return Grid(
        "data", "Table 1: the data sets", grids[0].columns if grids else [], [row for one in grids for row in one.rows]
    )


def joined_main(results: Mapping[str, Results]) -> Grid:
    """Return the main table as the paper has it: a row per data set and metric, a column per method."""
    titles = list(dict.fromkeys(one["title"] for each in results.values() for one in each["methods"]))
    rows: list[list[Cell]] = []
    for name, each in results.items():
        own = main_table(each)
        by_title = {row[0].text: row for row in own.rows}
        for place, metric in enumerate(own.columns[1:], start=1):
            cells = [by_title[title][place] if title in by_title else Cell("–") for title in titles]
            rows.append([Cell(f"{name}, {metric}"), *(cell._replace(small="") for cell in cells)])
    return Grid("main", "Table 2: PSP@k and PSnDCG@k, percent", ["data set", *titles], rows)
