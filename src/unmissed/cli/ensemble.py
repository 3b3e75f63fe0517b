"""`unmissed ensemble`: combine trained runs into one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.options import PROPENSITIES, Jobs, RowOptions, with_groups
from unmissed.cli.train import kept_of, load_rows
from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.runs import Run


@with_groups
def ensemble(
    reading: RowOptions,
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN...", help="The folders of at least two runs.")],
    data: Annotated[
        str | None, typer.Option(metavar="DATA", help="The rows that the runs were trained on. Required.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The folder of the new run. Required.")
    ] = None,
    metric: Annotated[
        str,
        typer.Option(metavar="METRIC,METRIC", help="The metrics whose mean the weights maximize."),
    ] = "P@1,P@5,PSP@5",
    propensity: Annotated[str | None, typer.Option(help=f"{PROPENSITIES}.")] = None,
    jobs: Jobs = None,
    json: show.JsonOption = False,
) -> None:
    """Combine trained runs into a new run that scores a label by the weighted mean of their calibrated scores.

    The models are copied into the new run, which is used like any other and does not need the old ones. Weights are
    chosen on held-out rows of DATA: each method is trained again without these rows, so the command takes about as long
    as the trainings. A run that adds nothing gets the weight 0 and costs no time in prediction.

    Runs that differ gain most, such as a linear method and instance trees. The same command resumes after an
    interruption.

    Example: unmissed ensemble linear trees --data train.jsonl --out both
    """
    from unmissed.models.selection import Goal
    from unmissed.propensity import parse
    from unmissed.runs import combine, open_run

    if data is None or out is None:
        missing = "--data DATA, the rows that the runs were trained on" if data is None else "--out DIR, the new run"
        raise InputError(f"{missing}, is missing: unmissed ensemble RUN RUN --data DATA --out DIR")
    if len(runs) < 2:
        raise InputError(f"an ensemble needs at least 2 different runs; got only {runs[0]}")
    Goal(metric)  # refused before anything is read
    params: dict[str, Any] = {"metric": metric, "n_jobs": jobs}
    params["propensity"] = None if propensity is None else parse(propensity)
    with show.stoppable(lambda: kept_of(out)):
        opened = [open_run(run) for run in runs]
        dataset = load_rows(opened[0], data, reading)
        with show.progress_bar("combining members") as progress:
            combined = combine(opened, dataset, out, params, progress=progress)
    _report(combined, runs, json)


def _report(run: "Run", members: list[Path], json: bool) -> None:
    """Print the weights of the members and the gains on held-out rows."""
    model: Any = run.model
    metadata = model.metadata()
    if json:
        named = {"run": str(run.folder), "method": run.recipe.method, "n_labels": run.n_labels}
        show.print_json({**named, "members": [str(one) for one in members], "model": metadata})
        return
    show.print_table(str(run.folder), ["", ""], [[title, str(value)] for title, value in metadata.items()])
    used = [path for path, weight in zip(members, model.weights_, strict=True) if weight]
    if len(used) == 1:
        show.say(f"no combination is likely better than {used[0]}, which has all the weight: use it instead")
