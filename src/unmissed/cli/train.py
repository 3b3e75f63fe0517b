"""`unmissed train` and `unmissed extend`: train a run, and add labels to it."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.methods import MethodCommands, flag_of
from unmissed.cli.options import MANY, ClusterOptions, Jobs, RowOptions, TextOptions, with_groups
from unmissed.cli.vocabulary_options import VocabularyOptions
from unmissed.data.readers.format_registry import SOURCES
from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.data import Dataset
    from unmissed.execution import Partition, Unfinished
    from unmissed.models import Model
    from unmissed.runs import Run

Data = Annotated[
    str,
    typer.Argument(metavar="DATA", help=f"Rows with labels: {SOURCES}."),
]
RunPath = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")]
OldRows = Annotated[
    list[str] | None,
    typer.Option(metavar="DATA", help="The run's training data, if its path has changed; repeatable."),
]


@with_groups
def train_method(
    method: str,
    params: dict[str, Any],
    ctx: typer.Context,
    data: Data,
    reading: RowOptions,
    text: TextOptions,
    concepts: VocabularyOptions,
    cluster: ClusterOptions,
    run: Annotated[
        Path | None, typer.Option("--run", metavar="DIR", help="The folder of the run, new or unfinished. Required.")
    ] = None,
    tuned: Annotated[
        bool,
        typer.Option("--tuned", help="Select parameters on held-out rows first, as `unmissed tune` does by default."),
    ] = False,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Train the literal objective of the method's paper."),
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check/--no-check", help="Warn if a weighting loses P@1 on held-out rows."),
    ] = True,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Make probabilities after training, as `unmissed calibrate` does by default."),
    ] = False,
    partition: Annotated[
        str | None,
        typer.Option(
            metavar="I/N", help="Train partition I of N: every N-th task from the I-th on.", rich_help_panel=MANY
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="Stop after this time: 90s, 50m, 2h, 1d.", rich_help_panel=MANY),
    ] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="Train nothing; complete the run of all partitions.", rich_help_panel=MANY)
    ] = False,
    json: show.JsonOption = False,
) -> None:
    """The same command resumes an interrupted training, even after a kill, with the same result bit for bit. Other
    parameters or other data are refused. If the data is text (a table with the columns text and labels, or JSON lines
    with such fields), the run stores its TF-IDF features, and predict takes text.

    Many machines can train one run: through a cluster (--cluster), or in partitions without an engine (--partition).
    Any number of them can fill one folder on a shared disk at the same time. The one that finds all others finished
    completes the run. Exit code 3 means that this command has more to do.

    Example: unmissed train METHOD train.jsonl.xz --run laws --min-df 3

    Example: unmissed train METHOD posts.csv --text-column body --labels-column tags --run posts

    Example: unmissed train METHOD train.jsonl --dense embeddings.npy --run laws

    Example: unmissed train METHOD train.tsv --run library --vocabulary gnd.ttl --language de

    Example: unmissed train METHOD train.jsonl --run laws --tuned

    Example: unmissed train METHOD train.jsonl --run laws --calibrate

    Example: unmissed train METHOD store --run laws --partition 3/16 --for 50m

    Example: unmissed train METHOD train.txt.gz --run plain
    """
    from unmissed.execution import Unfinished
    from unmissed.models.method_registry import make_model
    from unmissed.runs import calibrate as calibrate_run
    from unmissed.runs import train
    from unmissed.runs.run_folder import RunFolder

    model = make_model(method, params)
    if paper:
        model = _paper_model(model, _given(ctx, params), tuned)
    if run is None:
        again = shlex.join(["unmissed", "train", method, data, "--run", "DIR"])
        raise InputError(f"--run is missing: it names the folder that the trained run is written to: {again}")
    tasks = _read_partition(partition, time, finish)
    try:
        with show.stoppable(lambda: kept_of(run)):
            dataset = load_training_set(data, text, reading, **concepts.words(unseen=model.ranks_untrained))
            if model.uses_label_terms:
                _check_names(method, dataset)
            conversion = model.dense_support.check(type(model).__name__, dataset.features)
            if conversion is not None:
                show.say(conversion, err=True)
            if tuned:
                model.set_params(**_tune(method, dataset, _given(ctx, params), run, json))
            if check and tasks.is_all and RunFolder(run).is_new():
                _warn_of_loss(model, dataset)
            bar = show.progress_bar(f"training {model.unit}")
            with bar as progress, cluster.executor() as executor:
                trained = train(model, dataset, run, executor=executor, progress=progress, partition=tasks)
                if calibrate and trained.calibration is None:
                    n_trained = trained.n_trained
                    trained = calibrate_run(run, old_rows=[dataset], executor=executor, progress=progress)
                    trained.n_trained = n_trained
    except Unfinished as error:
        _report_unfinished(run, error, json, all_own=not finish and not error.own)
        return
    report_run(trained, json)


def _given(ctx: typer.Context, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that were set on the command line."""
    sources = {name: ctx.get_parameter_source(name) for name in params}
    return {name: params[name] for name, source in sources.items() if source is not None and source.name != "DEFAULT"}


def _paper_model(model: "Model", given: dict[str, Any], tuned: bool) -> "Model":
    """Return a model with its paper's objective and the parameters of the command line; raise if they contradict."""
    if tuned:
        raise InputError("--paper and --tuned both set parameters; leave one of them out")
    try:
        return type(model).paper(**given)
    except InputError as error:
        raise InputError(f"--paper: {error}") from error


def _tune(method: str, dataset: "Dataset", given: dict[str, Any], run: Path, json: bool) -> dict[str, Any]:
    """Return the selected parameters; those of the run if its training has begun."""
    from unmissed.runs.run_folder import RunFolder
    from unmissed.runs.tuning import tune

    folder = RunFolder(run)
    if not folder.is_new():
        return {name: value for name, value in folder.read().recipe.constructor_params().items() if name not in given}
    with show.progress_bar("selecting parameters") as progress:
        found = tune(method, dataset, given, progress=progress)
    if not json:
        report_choice(found.to_json())
    return found.params


def _check_names(method: str, dataset: "Dataset") -> None:
    """Raise InputError if the features are no words; warn if most labels have no name of known words."""
    from unmissed.data.label_terms import find_label_terms

    terms = find_label_terms(dataset)
    if terms is None:
        raise InputError(
            f"{method} finds labels by the words of their names, and the features are not named by single words"
        )
    n_found = len(set(terms.labels.tolist()))
    if n_found < dataset.n_labels / 2:
        show.warn(f"{n_found:,} of {dataset.n_labels:,} labels have a name of known words; --vocabulary gives names")


def _warn_of_loss(model: "Model", dataset: "Dataset") -> None:
    """Warn with held-out figures if the model's weighting loses against plain costs."""
    from unmissed.models.selection import find_loss

    if model.risky_params():
        found = find_loss(model, model.check_rows(dataset))
        if found is not None:
            flags = " or ".join(f"{flag_of(name)} auto" for name in found.params)
            show.warn(f"{found}; {flags} selects values without such a loss, --no-check turns this check off")


class _TrainCommands(MethodCommands):
    handler = staticmethod(train_method)


app = typer.Typer(
    cls=_TrainCommands,
    no_args_is_help=True,
    subcommand_metavar="METHOD [OPTIONS] DATA",
    rich_markup_mode="rich",
    help="Train a method on a data set; the run's folder contains all that prediction needs.\n\n"
    "`unmissed train METHOD --help` shows a method's parameters.",
)


@with_groups
def extend(
    run: RunPath,
    data: Data,
    reading: RowOptions,
    old_rows: OldRows = None,
    without_old_rows: Annotated[
        bool,
        typer.Option("--without-old-rows", help="Train new labels only on DATA; they will be predicted too often."),
    ] = False,
    jobs: Jobs = None,
    json: show.JsonOption = False,
) -> None:
    """Train the labels of DATA that a run does not have yet; its other labels do not change.

    The negatives of a new label are the run's own training rows, which are read again from their paths. A row of DATA
    with the same features as an old row replaces it. Labels are matched by name; without names, columns after the run's
    last label are new. Text is converted with the features that the run stores.

    The same command resumes an interrupted extension. Until it is finished, the run predicts with its old labels.

    Example: unmissed extend laws news.jsonl.xz
    """
    from unmissed.runs import extend as extend_run
    from unmissed.runs import open_run
    from unmissed.runs.training import new_columns, was_extended_by

    with show.stoppable(lambda: f"{kept_of(run)}; until then the run predicts with its old labels"):
        opened = open_run(run)
        dataset = load_rows(opened, data, reading)
        if without_old_rows and not was_extended_by(opened, dataset):
            _warn_of_few_rows(dataset.n_samples, dataset.label_counts[new_columns(opened, dataset)])
        with show.progress_bar("training labels") as progress:
            trained = extend_run(
                run, dataset, old_rows=old_rows or [], without_old_rows=without_old_rows, n_jobs=jobs, progress=progress
            )
    report_run(trained, json)


def _warn_of_few_rows(n_samples: int, counts: Any) -> None:
    show.say(
        f"warning: {counts.size:,} new labels are trained only on {n_samples:,} rows and will be predicted too often; "
        f"{(counts == n_samples).sum():,} of them have no negative row and will be predicted for every row",
        err=True,
    )


def kept_of(run: Path) -> str:
    """Return what an interrupted training keeps and how to resume it."""
    from unmissed.runs.run_folder import RunFolder

    n_pieces = RunFolder(run).n_finished()
    if not n_pieces:
        return f"nothing is trained in {run} yet; the same command starts again"
    pieces = f"{n_pieces:,} finished piece{'s' if n_pieces > 1 else ''}"
    return f"{run} keeps {pieces}; the same command resumes"


def load_rows(run: "Run", data: str, reading: RowOptions) -> "Dataset":
    """Read a data set; texts are converted with the features of a run."""
    from unmissed.data import load
    from unmissed.runs.training_sources import reading_of

    with show.progress_bar("reading") as progress, show.keeping_embeddings(run.text):
        return load(data, text=run.text, progress=progress, **reading.words(reading_of(run)))


def _read_partition(partition: str | None, time: str | None, finish: bool) -> "Partition":
    """Return the partition that --partition, --for and --finish describe."""
    from unmissed.execution import Partition

    if finish:
        if partition is not None or time is not None:
            raise InputError("--finish trains nothing; leave out --partition and --for")
        return Partition(seconds=0)
    number, slash, of = (partition or "1/1").partition("/")
    if not slash or not number.isdecimal() or not of.isdecimal():
        raise InputError(f"--partition is I/N, such as 3/16; got {partition!r}")
    return Partition(int(number), int(of), None if time is None else parse_time(time))


def parse_time(word: str, option: str = "--for") -> float:
    """Return the seconds of a time such as 90s, 50m, 2h, 1d; a number without a unit is in seconds."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", word)
    if match is None or not float(match[1]):
        raise InputError(f"{option} must be a time such as 90s, 50m, 2h or 1d; got {word!r}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


def _report_unfinished(run: Path, error: "Unfinished", json: bool, *, all_own: bool) -> None:
    """Print the progress of all partitions; exit code 3 unless this one is finished."""
    if json:
        metadata = {"run": str(run), "finished": error.finished, "missing": error.missing, "own_missing": error.own}
        show.print_json(metadata)
    else:
        show.say(f"{run}: {error}" + ("; this partition is done" if all_own else ""))
    if not all_own:
        raise typer.Exit(3)


def load_training_set(data: str, text: TextOptions, reading: RowOptions, **vocabulary: Any) -> "Dataset":
    """Read a training set, fit text features if it has texts, and print warnings about its labels.

    Options of text features are refused if it has no texts. `vocabulary` has further arguments of `load`.
    """
    from unmissed.data import load
    from unmissed.data.checks import check_labels, check_vocabulary

    features = text.features(data, reading.columns)
    with show.progress_bar("reading") as progress, show.keeping_embeddings(features):
        dataset = load(data, text=features, progress=progress, **reading.words(), **vocabulary)
    warnings = check_labels(data, dataset.Y, dataset.label_names, dataset.documents)
    for line in [*warnings, *(f"{data}: {warning}" for warning in check_vocabulary(dataset))]:
        show.warn(line)
    return dataset


def report_run(run: "Run", json: bool) -> None:
    """Print the number of trained labels and of those that converged."""
    from unmissed.runs.inspection import certificate

    solved, chosen = certificate(run), run.model.choice()
    if json:
        metadata = {
            "run": str(run.folder),
            "method": run.recipe.method,
            "n_labels": run.n_labels,
            "n_trained": run.n_trained,
            "certificate": solved,
            **({} if chosen is None else {"choice": chosen}),
        }
        show.print_json(metadata)
        return
    if chosen is not None:
        report_choice(chosen)
    show.say(f"{run.folder}: {run.recipe.method}, {_trained(run)}")
    if run.calibration is not None:
        n_added = run.n_labels - run.calibration.n_labels
        later = f"; those of {n_added:,} new labels are approximate: `unmissed calibrate {run.folder}` makes new ones"
        show.say(f"probabilities of {_counted(run.calibration.n_labels, 'labels')}{later if n_added else ''}")
    if solved is not None:
        show.say(f"{_counted(solved['met'], solved['unit'])} converged to a relative duality gap of {solved['tol']:g}")
        if solved["missed"]:
            named = ", ".join(solved["missed_names"][:10])
            more = "" if solved["missed"] <= 10 else ", ..."
            show.say(f"{_counted(solved['missed'], solved['unit'])} did not converge: {named}{more}", err=True)


def _counted(n: int, unit: str) -> str:
    """Return a number with its unit, which is given in the plural: 1 label, 2 labels."""
    return show.counted(n, unit.removesuffix("s"))


def _trained(run: "Run") -> str:
    if not run.n_trained:
        return f"{_counted(run.n_labels, 'labels')}, all trained already"
    more = "" if run.n_trained == run.n_labels else f"; the run has {run.n_labels:,} now"
    return f"{_counted(run.n_trained, 'labels')} trained{more}"


def report_choice(choice: dict[str, Any]) -> None:
    """Print the candidates and the selected parameters."""
    from unmissed.reports.choice_tables import choice_sentence, choice_table

    if choice["candidates"]:
        show.print_table(*choice_table(choice))
    show.say(choice_sentence(choice))
