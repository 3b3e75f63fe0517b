"""`unmissed calibrate`: probabilities for a trained run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.options import ClusterOptions, Jobs, with_groups
from unmissed.cli.train import OldRows, RunPath
from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.runs import Run


@with_groups
def calibrate(
    run: RunPath,
    cluster: ClusterOptions,
    group_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The column of the training file whose equal values belong together, such as the source of a record. "
            "Default: rows with nearly equal features belong together.",
        ),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A text file with the group of each training row, one per line."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option("--folds", min=2, help="Number of folds. Default: 3; from 200,000 rows on, one held-out tenth."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds.")] = 0,
    old_rows: OldRows = None,
    jobs: Jobs = None,
    json: show.JsonOption = False,
) -> None:
    """Give a trained run probabilities: how likely is each suggested label?

    The run's method is trained again without some of its training rows, for each of three parts in turn, and the scores
    of these held-out rows show which scores turn out right how often. This takes two to three times as long as the
    training. Nearly equal rows are held out together, since a copy of a held-out row in training would make the scores
    look too good.

    A probability is that of a label being *observed*, that is, recorded in data like the training data. Where labels
    are missing there, `unmissed predict --true-probability` estimates how likely the label is true.

    The same command resumes after an interruption. Afterwards `predict` prints a probability beside each score.

    Example: unmissed calibrate laws

    Example: unmissed calibrate packages --group-column source
    """
    from unmissed.runs import calibrate as calibrate_run

    if groups is not None and group_column is not None:
        raise InputError("--groups and --group-column both name groups; leave one of them out")
    options: dict[str, Any] = {"group_column": group_column, "n_folds": folds, "seed": seed, "n_jobs": jobs}
    options["groups"] = None if groups is None else groups.read_text(encoding="utf-8").splitlines()
    with (
        show.stoppable(lambda: f"{run} is unchanged; finished folds are kept, and the same command resumes"),
        show.progress_bar("calibrating") as progress,
        cluster.executor() as executor,
    ):
        found = calibrate_run(run, old_rows=old_rows or [], executor=executor, progress=progress, **options)
    report_calibration(found, json)


def report_calibration(run: "Run", json: bool) -> None:
    """Print how the probabilities were made, of how many rows and labels."""
    from unmissed.runs.inspection import describe_calibration

    entry = run.calibration
    assert entry is not None  # it was just calibrated
    if json:
        show.print_json({"run": str(run.folder), "calibration": describe_calibration(run)})
        return
    show.say(
        f"{run.folder}: probabilities of {entry.n_labels:,} labels from {entry.n_samples:,} held-out rows (held out "
        f"together: {entry.groups}); each is the probability that a label is observed"
    )
