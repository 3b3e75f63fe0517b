"""`unmissed update`: retrain a run on its old rows and new rows."""

from pathlib import Path
from typing import Annotated

import typer

from unmissed.cli import show
from unmissed.cli.options import Jobs, RowOptions, with_groups
from unmissed.cli.train import OldRows, RunPath, load_rows, report_run
from unmissed.data.readers.format_registry import SOURCES
from unmissed.errors import InputError


@with_groups
def update(
    run: RunPath,
    reading: RowOptions,
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help=f"New rows with labels, if there are any: {SOURCES}.")
    ] = None,
    old_rows: OldRows = None,
    vocabulary_growth: Annotated[
        bool,
        typer.Option(
            "--vocabulary-growth",
            help="Learn new words, too: fit the text features again, on the texts of all rows. They must come from "
            "files of documents.",
        ),
    ] = False,
    remove: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Withdraw old rows: a file with one id (--id-column) per line."),
    ] = None,
    drop_labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Drop labels: a file with one name or title per line.")
    ] = None,
    keep_rows: Annotated[
        bool,
        typer.Option(
            "--keep-rows",
            help="Keep the counts of the words of all texts in the run: later updates then read new texts only.",
        ),
    ] = False,
    jobs: Jobs = None,
    json: show.JsonOption = False,
) -> None:
    """Retrain all labels of a run, and new ones, on its old rows and DATA, with the same parameters.

    The old rows are read again from their paths. A row of DATA with the same features as an old row replaces it. Text
    is converted with the features that the run stores; --vocabulary-growth learns new words. The same command resumes
    an interrupted update. The old run is used for prediction until the new one is complete and replaces it.

    The result is the one that a training on the same rows and labels gives, and takes as long. With train --keep-dual,
    labels start from their earlier solutions and are certified again; together with --keep-rows, updates take about
    half as long.

    Example: unmissed update laws news.jsonl.xz

    Example: unmissed update laws news.jsonl.xz --vocabulary-growth --remove withdrawn.txt

    Example: unmissed update laws --drop-labels obsolete.txt

    Example: unmissed update laws news.jsonl.xz --vocabulary-growth --keep-rows
    """
    from unmissed.runs import open_run
    from unmissed.runs import update as update_run
    from unmissed.runs.training_sources import sources_of
    from unmissed.runs.updating import has_rows

    ids, dropped = (_read_lines(one) for one in (remove, drop_labels))
    if data is None and not (ids or dropped or vocabulary_growth or keep_rows):
        raise InputError("update needs DATA, --remove FILE, --drop-labels FILE or --vocabulary-growth")
    with show.stoppable(lambda: f"{run} is unchanged; the same command resumes"):
        opened = open_run(run)
        dataset = None if data is None else load_rows(opened, data, reading)
        is_known = dataset is not None and has_rows(opened, dataset)
        with show.progress_bar("training") as progress:
            trained = update_run(
                run,
                dataset,
                old_rows=old_rows or [],
                vocabulary_growth=vocabulary_growth,
                remove=ids,
                drop_labels=dropped,
                keep_rows=keep_rows,
                n_jobs=jobs,
                progress=progress,
            )
    if not json and trained.n_trained:
        n_samples = trained.parts[0].n_samples
        n_new = 0 if dataset is None or is_known else dataset.n_samples
        replaced = sum(source.n_samples for source in sources_of(trained)) - n_samples
        note = f"; {replaced:,} old rows replaced or removed" if replaced else ""
        words = f"; {trained.n_sparse:,} words, before {opened.n_sparse:,}" if vocabulary_growth else ""
        show.say(f"{n_samples:,} rows, {n_new:,} of them given now{note}{words}")
    if not json and is_known:
        growth = "" if vocabulary_growth else "; --vocabulary-growth learns their words"
        show.say(f"{run} was trained on these rows already{growth if trained.text is not None else ''}")
    report_run(trained, json)
    if opened.calibration is not None and trained.calibration is None:
        show.warn(
            f"{run} has no probabilities any more: they were made with {opened.calibration.groups}, which are not "
            f"known of the new rows; `unmissed calibrate {run}` makes new ones"
        )


def _read_lines(path: Path | None) -> list[str]:
    """Return the lines of a file that are not blank, URIs without their brackets; none without a file."""
    from unmissed.data.readers.annif_corpora import strip_brackets
    from unmissed.files import read_text

    if path is None:
        return []
    found = [strip_brackets(line.strip()) for line in read_text(path).splitlines() if line.strip()]
    if not found:
        raise InputError(f"{path}: has no lines; expected one id or name per line")
    return found
