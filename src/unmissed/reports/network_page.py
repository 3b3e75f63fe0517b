"""The report of the study of networks and missing labels: an HTML page with a figure and tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unmissed.archive import write_text
from unmissed.reports.drawing import as_svg
from unmissed.reports.grids import Grid, GridCell, number, to_markdown
from unmissed.reports.pages import render
from unmissed.reports.study_figures import draw_network_panels

Study = Mapping[str, Any]
_TITLES = {"test_loss": "test loss, complete labels", "P@1": "P@1, complete labels", "P@5": "P@5, complete labels"}


def write_network_report(study: Study, out: Path) -> list[Path]:
    """Write `index.html`, the figure and the table into a folder; return the files, the page first."""
    (out / "figures").mkdir(parents=True, exist_ok=True)
    (out / "tables").mkdir(parents=True, exist_ok=True)
    figure, files = draw_network_panels(out / "figures" / "network", study["summary"], _TITLES)
    table = network_table(study)
    write_text(out / "tables" / "network.md", to_markdown(table))
    page = render("network.html", study=study, table=table, figure=as_svg(figure, "test loss and precision"))
    write_text(out / "index.html", page)
    return [out / "index.html", *files, out / "tables" / "network.md"]


def network_table(study: Study) -> Grid:
    """Return test loss, accuracy and precision of each loss and propensity."""
    rows = [
        [
            GridCell(f"{row['family']}, {row['label']}, {row['propensity']:g}"),
            number(row["test_loss_mean"], "{:.5f}"),
            number(100 * row["accuracy_mean"], "{:.3f}"),
            number(100 * row["P@1_mean"]),
            number(100 * row["P@5_mean"]),
        ]
        for row in study["summary"]
    ]
    columns = ["loss, propensity", "test loss", "accuracy", "P@1", "P@5"]
    notes = ["Means over seeds. Accuracy: of all decisions score >= 0; nearly all labels of a row are absent."]
    return Grid("network", "Figures on complete labels; accuracy and precision in percent", columns, rows, notes)
