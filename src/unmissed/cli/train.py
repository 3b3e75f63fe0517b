"""`unmissed train` and `unmissed extend`: learn from a data set into the folder of a run."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.data import FORMS
from unmissed.cli.methods import Methods, flag_of
from unmissed.cli.options import MANY, ClusterOptions, Jobs, ReadingOptions, TextOptions, with_groups
from unmissed.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unmissed.data import Dataset
    from unmissed.execution import Share, Unfinished
    from unmissed.models import Model
    from unmissed.runs import Run

Data = Annotated[
    str,
    typer.Argument(metavar="DATA", help=f"Rows with labels: {FORMS}."),
]
RunPath = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")]
OldRows = Annotated[
    list[str] | None,
    typer.Option(metavar="DATA", help="What the run was trained on, if it is no longer where it was; may be repeated."),
]


@with_groups
def train_method(
    method: str,
    params: dict[str, Any],
    ctx: typer.Context,
    data: Data,
    reading: ReadingOptions,
    text: TextOptions,
    cluster: ClusterOptions,
    run: Annotated[
        Path | None, typer.Option("--run", metavar="DIR", help="The folder of the run, new or begun. Needed.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check/--no-check", help="First check on held-out rows whether the plain method is better."),
    ] = True,
    share: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Train every N-th task, from the I-th on, and stop.", rich_help_panel=MANY),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="Stop after this time: 90s, 50m, 2h, 1d.", rich_help_panel=MANY),
    ] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="Train nothing; complete the run of all shares.", rich_help_panel=MANY)
    ] = False,
    json: show.JsonOption = False,
) -> None:
    """If training is stopped, even killed, the same command goes on where it stopped and ends with the same bytes.
    Another recipe or other data is refused. Where the data is text (a table with the columns text and labels, or JSON
    lines with such fields), features are learned from it and remembered, and predict takes text.

    Many machines can train one run: through Dask (--cluster), or in shares without any engine (--share), of which any
    number can fill one folder on a shared disk at the same time. The share that finds the others finished completes the
    run. Exit code 3 means that this command has more to do.

    Example: unmissed train METHOD train.jsonl.xz --run laws --min-df 3

    Example: unmissed train METHOD posts.csv --text-column body --labels-column tags --run posts

    Example: unmissed train METHOD store --run laws --share 3/16 --for 50m

    Example: unmissed train METHOD train.txt.gz --run plain
    """
    from unmissed.execution import Unfinished
    from unmissed.models.registry import make_model
    from unmissed.runs import train
    from unmissed.runs.folder import RunFolder

    model = make_model(method, params)
    if run is None:
        again = shlex.join(["unmissed", "train", method, data, "--run", "DIR"])
        raise InputError(f"--run is missing: it names the folder that the trained run is written to: {again}")
    part = _share(share, time, finish)
    try:
        with show.stoppable(lambda: kept_of(run)):
            dataset = load_training_set(data, text, reading)
            if check and model.plain and part.is_all and not _given(ctx, model.plain) and RunFolder(run).is_new():
                _warn_of_loss(model, dataset)
            bar = show.progress_bar(f"training {model.unit}")
            with bar as progress, cluster.executor() as executor:
                trained = train(model, dataset, run, executor=executor, progress=progress, share=part)
    except Unfinished as error:
        _tell_unfinished(run, error, json, all_own=not finish and not error.own)
        return
    tell(trained, json)


def _given(ctx: typer.Context, names: "Iterable[str]") -> bool:
    """Tell whether one of these parameters was named on the command line."""
    sources = [ctx.get_parameter_source(name) for name in names]
    return any(source is not None and source.name != "DEFAULT" for source in sources)


def _warn_of_loss(model: "Model", dataset: "Dataset") -> None:
    """Say with figures when the method's own default is worse than its plain form."""
    from unmissed.reports.choice_tables import warning_sentence
    from unmissed.runs.tuning import look

    with show.progress_bar("looking at held-out rows") as progress:
        found = look(model, dataset, progress)
    sentence = None if found is None else warning_sentence(found.to_json())
    if found is not None and sentence is not None:
        flags = " or ".join(f"{flag_of(name)} auto" for name in found.params)
        show.say(f"warning: {sentence}; {flags} looks for one without such a loss", err=True)


class _Methods(Methods):
    handler = staticmethod(train_method)


app = typer.Typer(
    cls=_Methods,
    no_args_is_help=True,
    subcommand_metavar="METHOD [OPTIONS] DATA",
    rich_markup_mode="rich",
    help="Train a method on a data set; the run's folder remembers all that prediction needs.\n\n"
    "`unmissed train METHOD --help` shows a method's parameters.",
)


@with_groups
def extend(
    run: RunPath,
    data: Data,
    reading: ReadingOptions,
    old_rows: OldRows = None,
    without_old_rows: Annotated[
        bool, typer.Option("--without-old-rows", help="New labels learn from DATA alone, and will be given too often.")
    ] = False,
    jobs: Jobs = None,
    json: show.JsonOption = False,
) -> None:
    """Train the labels of a data set that a run does not have yet; its other labels are not touched.

    A new label also needs rows that do not have it: the run's own training rows, which are read again where they were.
    A row of DATA that the run has seen, with the same features, takes the place of the old one. Labels are told apart
    by name; without names, columns after the run's last label are new. Text goes through the features that the run
    remembers. Stopped and started again it goes on, as train does; until it is finished the run answers with its old
    labels.

    Example: unmissed extend laws news.jsonl.xz
    """
    from unmissed.runs import extend as extend_run
    from unmissed.runs import open_run
    from unmissed.runs.training import new_columns, was_extended_by

    with show.stoppable(lambda: f"{kept_of(run)}; meanwhile the run answers with its old labels"):
        found = open_run(run)
        dataset = load_rows(found, data, reading)
        if without_old_rows and not was_extended_by(found, dataset):
            _warn_of_few_rows(dataset.n_samples, dataset.label_counts[new_columns(found, dataset)])
        with show.progress_bar("training labels") as progress:
            trained = extend_run(
                run, dataset, old_rows=old_rows or [], without_old_rows=without_old_rows, n_jobs=jobs, progress=progress
            )
    tell(trained, json)


def _warn_of_few_rows(n_samples: int, counts: Any) -> None:
    show.say(
        f"warning: new labels learn from {n_samples:,} rows alone and will be given too often; {counts.size:,} new, "
        f"{(counts == n_samples).sum():,} of them on every row, which will be given to everything",
        err=True,
    )


def kept_of(run: Path) -> str:
    """Say what a stopped training leaves, and how it goes on."""
    from unmissed.runs.folder import RunFolder

    n_pieces = RunFolder(run).n_finished()
    if not n_pieces:
        return f"nothing is trained in {run} yet; the same command begins again"
    pieces = f"{n_pieces:,} finished piece{'s' if n_pieces > 1 else ''}"
    return f"{run} keeps {pieces}; the same command goes on where it stopped"


def load_rows(run: "Run", data: str, reading: ReadingOptions) -> "Dataset":
    """Read a data set whose texts go through a run's features."""
    from unmissed.data import load

    with show.progress_bar("reading") as progress:
        return load(data, text=run.text, progress=progress, **reading.words())


def _share(share: str | None, time: str | None, finish: bool) -> "Share":
    """Read --share, --for and --finish."""
    from unmissed.execution import Share

    if finish:
        if share is not None or time is not None:
            raise InputError("--finish trains nothing; leave out --share and --for")
        return Share(seconds=0)
    number, slash, of = (share or "1/1").partition("/")
    if not slash or not number.isdecimal() or not of.isdecimal():
        raise InputError(f"--share is I/N, such as 3/16; got {share!r}")
    return Share(int(number), int(of), None if time is None else parse_time(time))


def parse_time(word: str, option: str = "--for") -> float:
    """Return the seconds of a time such as 90s, 50m, 2h, 1d; a bare number is seconds."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", word)
    if found is None or not float(found[1]):
        raise InputError(f"{option} is a time such as 90s, 50m, 2h or 1d; got {word!r}")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def _tell_unfinished(run: Path, error: "Unfinished", json: bool, *, all_own: bool) -> None:
    """Say how far all shares are; exit code 3 unless this one has done its part."""
    if json:
        facts = {"run": str(run), "finished": error.finished, "missing": error.missing, "own_missing": error.own}
        show.print_json(facts)
    else:
        show.say(f"{run}: {error}" + ("; this share is done" if all_own else ""))
    if not all_own:
        raise typer.Exit(3)


def load_training_set(data: str, text: TextOptions, reading: ReadingOptions) -> "Dataset":
    """Read a data set from which features of text are learned, and say what looks wrong with it.

    Options of text are refused for anything else.
    """
    from unmissed.data import load
    from unmissed.data.checks import check_labels

    features = text.features(data, reading.columns)
    with show.progress_bar("reading") as progress:
        dataset = load(data, text=features, progress=progress, **reading.words())
    for line in check_labels(data, dataset.Y, dataset.label_names, dataset.documents):
        show.warn(line)
    return dataset


def tell(run: "Run", json: bool) -> None:
    """Say what was trained now, and how well."""
    from unmissed.runs.inspection import certificate

    solved, chosen = certificate(run), run.model.choice()
    if json:
        facts = {
            "run": str(run.folder),
            "method": run.recipe.method,
            "n_labels": run.n_labels,
            "n_trained": run.n_trained,
            "certificate": solved,
            **({} if chosen is None else {"choice": chosen}),
        }
        show.print_json(facts)
        return
    if chosen is not None:
        tell_choice(chosen)
    show.say(f"{run.folder}: {run.recipe.method}, {_trained(run)}")
    if solved is not None:
        show.say(f"{_counted(solved['met'], solved['unit'])} met the relative duality gap {solved['tol']:g}")
        if solved["missed"]:
            named = ", ".join(solved["missed_names"][:10])
            more = "" if solved["missed"] <= 10 else ", ..."
            show.say(f"{_counted(solved['missed'], solved['unit'])} did not: {named}{more}", err=True)


def _counted(n: int, unit: str) -> str:
    """Return a number with its unit, given in the plural: 1 label, 2 labels."""
    return f"{n:,} {unit.removesuffix('s') if n == 1 else unit}"


def _trained(run: "Run") -> str:
    if not run.n_trained:
        return f"{_counted(run.n_labels, 'labels')}, all trained before; nothing was left to do"
    more = "" if run.n_trained == run.n_labels else f"; the run has {run.n_labels:,} now"
    return f"{_counted(run.n_trained, 'labels')} trained{more}"


def tell_choice(choice: dict[str, Any]) -> None:
    """Print what was tried, and what was chosen."""
    from unmissed.reports.choice_tables import choice_sentence, choice_table

    if choice["trials"]:
        show.print_table(*choice_table(choice))
    show.say(choice_sentence(choice))
