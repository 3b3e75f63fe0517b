"""`unmissed missing`: the labels that are probably missing in the training data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmissed.cli import show
from unmissed.cli.inspect import label_names
from unmissed.cli.options import PROPENSITIES
from unmissed.cli.train import OldRows, RunPath
from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.audit import MissingLabels
    from unmissed.runs import Run

SHOWN = 20


def missing(
    run: RunPath,
    top: Annotated[int, typer.Option(min=1, help="Number of cells, a row and a label each.")] = 100_000,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The output file: .csv, .jsonl, .parquet or .html. Without it, 20 cells are printed."
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The format of the file: csv, jsonl, parquet, html (a page to answer by keyboard), label-studio, "
            "prodigy or argilla. Default: by the suffix.",
            autocompletion=lambda: ["csv", "jsonl", "parquet", "html", "label-studio", "prodigy", "argilla"],
        ),
    ] = None,
    apply: Annotated[
        Path | None,
        typer.Option(
            metavar="ANSWERS",
            help="Write the training data with confirmed labels added to --out, and a log in the same folder. ANSWERS "
            "is a file or a folder of answers: CSV, Label Studio, Prodigy or Argilla. Filters have no effect.",
        ),
    ] = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            help=f"The propensities: {PROPENSITIES}. Default: those given in training; otherwise flattened-jain, about "
            "0.6 and slightly lower for rare labels."
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="Look for this label only (name or number); repeatable.", autocompletion=label_names),
    ] = None,
    min_count: Annotated[int, typer.Option(min=0, help="Leave out labels with fewer training rows.")] = 0,
    max_count: Annotated[int | None, typer.Option(min=0, help="Leave out labels with more training rows.")] = None,
    per_row: Annotated[int | None, typer.Option(min=1, help="Largest number of cells of a row.")] = None,
    per_label: Annotated[int | None, typer.Option(min=1, help="Largest number of cells of a label.")] = None,
    least_probability: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out cells with a lower probability.")
    ] = 0.0,
    words: Annotated[int, typer.Option(min=0, help="Number of words per cell that contribute to the score.")] = 5,
    old_rows: OldRows = None,
    json: show.JsonOption = False,
) -> None:
    """List the labels that are probably missing in the training rows, most probable first.

    A cell is a row and a label that the row does not have. Its `missing_probability` is that of the label being true
    all the same, given that it is not observed. It follows from the probability that the label is observed, by models
    that were not trained on the row, and from the label's propensity. The run needs probabilities: `unmissed calibrate`
    makes them.

    Words are those of the row with the largest weight times value for the label (linear models).

    Example: unmissed missing laws

    Files for annotators have one yes-or-no question per cell.

    Example: unmissed missing laws --top 1000 --per-row 3 --out missing.csv

    Example: unmissed missing laws --top 200 --out questions.html

    Example: unmissed missing laws --top 200 --out tasks.json --format label-studio

    Example: unmissed missing laws --apply answers.csv --out fixed.jsonl
    """
    from unmissed.audit import find_missing
    from unmissed.audit.exports import PAGE, WITH_TEXTS, find_format, write_missing
    from unmissed.propensity import parse
    from unmissed.runs import open_run

    opened = open_run(run)
    if apply is not None:
        _apply(opened, apply, out, old_rows or [], json)
        return
    if format is not None and out is None:
        raise InputError("--format needs a file (--out)")
    name = None if out is None else find_format(out, format)
    with show.progress_bar("reading training data") as progress:
        found = find_missing(
            opened,
            top=top if out is not None else min(top, SHOWN),
            propensity=None if propensity is None else parse(propensity),
            labels=label,
            min_count=min_count,
            max_count=max_count,
            per_row=per_row,
            per_label=per_label,
            least_probability=least_probability,
            words=words,
            texts=name in WITH_TEXTS,
            old_rows=old_rows or [],
            progress=progress,
        )
    if out is not None and name == PAGE:
        from unmissed.reports.annotation_page import write_annotation_page

        write_annotation_page(found, out)
    elif out is not None:
        write_missing(found, out, name)
    _report(found, out, json)


def _apply(run: "Run", answers: Path, out: Path | None, old_rows: list[str], json: bool) -> None:
    """Write the training data with confirmed labels added, and report what changed."""
    from unmissed.audit import apply_answers, read_answers

    if out is None:
        raise InputError("--apply needs the name of the new file (--out); the training data is never changed")
    with show.stoppable(lambda: show.not_written(out)), show.progress_bar("reading training data") as progress:
        found, log = apply_answers(run, read_answers(answers), out, old_rows=old_rows, progress=progress)
    summary = found.summary()
    if json:
        show.print_json({"run": str(run.folder), **summary, "out": str(out), "log": str(log)})
        return
    show.say(
        f"{out}: {summary['n_added']:,} labels added, by {summary['n_answers']:,} answers to {summary['n_cells']:,} "
        f"cells; {summary['n_already_observed']:,} were there already. Log: {log}"
    )
    if summary["n_contradicted"]:
        show.say(
            f"people contradict each other in {summary['n_contradicted']:,} cells; "
            f"{summary['n_contradicted_added']:,} of them have more yes than no and were added"
        )


def _report(found: "MissingLabels", out: Path | None, json: bool) -> None:
    """Print a summary, and the cells if they are not in a file."""
    from unmissed.audit.unchecked_cells import say_propensity

    if json:
        cells = {} if out is not None else {"cells": [{**cell, "words": dict(cell["words"])} for cell in found]}
        show.print_json({**found.summary(), "out": None if out is None else str(out), **cells})
        return
    if out is None:
        _show_cells(found)
    written = "" if out is None else f"{out}: "
    at_most = "at most " if found.clipped_fraction else ""
    show.say(
        f"{written}{len(found):,} of {found.n_candidates:,} cells without a label; {at_most}{found.expected:,.0f} of "
        "them are expected to be true"
    )
    if found.clipped_fraction:
        show.say(
            f"{100 * found.clipped_fraction:.1f} % of the probabilities were clipped at 1: the label is observed more "
            "often than p there"
        )
    show.say(
        f"probabilities follow from {say_propensity(found.cells.propensity)}; "
        "`unmissed audit plan` and `audit duplicates` estimate them"
    )
    if found.n_scored_rows < found.cells.n_samples:
        show.say(
            f"only {found.n_scored_rows:,} of {found.cells.n_samples:,} rows were held out and are listed; "
            f"`unmissed calibrate {found.run.folder} --folds 3` holds out all"
        )


def _show_cells(found: "MissingLabels") -> None:
    rows = [
        [
            str(cell.get("id", cell["row"])),
            cell.get("title", cell["label"]),
            f"{cell['missing_probability']:.3f}",
            f"{cell['observed_probability']:.3f}",
            "-" if cell["count"] is None else f"{cell['count']:,}",
            ", ".join(name for name, _ in cell["words"]),
        ]
        for cell in found
    ]
    columns = ["row", "label", "missing_probability", "observed", "training rows", "words"]
    show.print_table(f"{found.run.folder}: labels that are probably missing", columns, rows)
