"""`unmissed update`: train a run again with rows that came later."""

from unmissed.cli import show
from unmissed.cli.options import Jobs, ReadingOptions, with_groups
from unmissed.cli.train import Data, OldRows, RunPath, load_rows, tell


@with_groups
def update(
    run: RunPath,
    data: Data,
    reading: ReadingOptions,
    old_rows: OldRows = None,
    jobs: Jobs = None,
    json: show.JsonOption = False,
) -> None:
    """Train all labels of a run, and new ones, on its old rows and DATA together, by the same recipe.

    The old rows are read again where they were. The old run answers until the new one is complete, which then takes its
    name. Stopped and started again it goes on. A row of DATA that the run has seen, with the same features, takes the
    place of the old one. Text goes through the features that the run remembers: for new words, train a new run.

    Example: unmissed update laws news.jsonl.xz
    """
    from unmissed.runs import open_run
    from unmissed.runs import update as update_run
    from unmissed.runs.sources import sources_of

    with show.stoppable(lambda: f"{run} answers as before; the same command goes on where it stopped"):
        dataset = load_rows(open_run(run), data, reading)
        with show.progress_bar("training") as progress:
            trained = update_run(run, dataset, old_rows=old_rows or [], n_jobs=jobs, progress=progress)
    if not json and trained.n_trained:
        n_samples = trained.parts[0].n_samples
        replaced = sum(source.n_samples for source in sources_of(trained)) - n_samples
        again = f"; {replaced:,} old rows came again and gave way" if replaced else ""
        show.say(f"{n_samples:,} rows, {dataset.n_samples:,} of them new{again}")
    tell(trained, json)
