"""`unmissed update`: retrain a run on its old rows and new rows."""

from unmissed.cli import show
from unmissed.cli.options import Jobs, RowOptions, with_groups
from unmissed.cli.train import Data, OldRows, RunPath, load_rows, report_run


@with_groups
def update(
    run: RunPath,
    data: Data,
    reading: RowOptions,
    old_rows: OldRows = None,
    jobs: Jobs = None,
    json: show.JsonOption = False,
) -> None:
    """Retrain all labels of a run, and new ones, on its old rows and DATA, with the same parameters.

    The old rows are read again from their paths. A row of DATA with the same features as an old row replaces it. Text
    is converted with the features that the run stores; to learn new words, train a new run. The same command resumes an
    interrupted update. The old run is used for prediction until the new one is complete and replaces it.

    Example: unmissed update laws news.jsonl.xz
    """
    from unmissed.runs import open_run
    from unmissed.runs import update as update_run
    from unmissed.runs.training_sources import sources_of

    with show.stoppable(lambda: f"{run} is unchanged; the same command resumes"):
        opened = open_run(run)
        dataset = load_rows(opened, data, reading)
        with show.progress_bar("training") as progress:
            trained = update_run(run, dataset, old_rows=old_rows or [], n_jobs=jobs, progress=progress)
    if not json and trained.n_trained:
        n_samples = trained.parts[0].n_samples
        replaced = sum(source.n_samples for source in sources_of(trained)) - n_samples
        note = f"; {replaced:,} old rows replaced" if replaced else ""
        show.say(f"{n_samples:,} rows, {dataset.n_samples:,} of them new{note}")
    report_run(trained, json)
    if opened.calibration is not None and trained.calibration is None:
        show.warn(
            f"{run} has no probabilities any more: they were made with {opened.calibration.groups}, which are not "
            f"known of the new rows; `unmissed calibrate {run}` makes new ones"
        )
