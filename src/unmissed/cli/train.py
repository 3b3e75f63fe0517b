"""`unmissed train` and `unmissed extend`: learn from a data set into the folder of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.data import MaxFeatures, NoHeader, OneBased, SmoothIdf
from unmissed.cli.methods import Methods
from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.runs import Run

Data = Annotated[
    str,
    typer.Argument(metavar="DATA", help="Rows with labels: .txt, .jsonl (also .gz, .xz), a store, X.npz,Y.npz."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")]
Jobs = Annotated[int | None, typer.Option(help="Threads; all cores if not given. No effect on the result.")]


def train_method(
    method: str,
    params: dict[str, Any],
    data: Data,
    run: Annotated[Path, typer.Option("--run", metavar="DIR", help="The folder of the run, new or begun.")],
    ngrams: Annotated[int | None, typer.Option(help="Text: the longest run of words that is a feature.", min=1)] = None,
    min_df: Annotated[int | None, typer.Option(help="Text: leave out terms that fewer documents have.", min=1)] = None,
    max_features: MaxFeatures = None,
    smooth_idf: SmoothIdf = False,
    no_header: NoHeader = False,
    one_based: OneBased = False,
    json: show.JsonOption = False,
) -> None:
    """Stopped at any moment, even killed, the same command goes on where it stopped and ends with the same bytes.
    Another recipe or other data is refused. From JSON lines ({"text": ..., "labels": \\[...]}) features are learned and
    remembered, and predict takes text.

    Example: unmissed train METHOD train.jsonl.xz --run laws --min-df 3

    Example: unmissed train METHOD train.txt.gz --run plain
    """
    from unmissed.models.registry import make_model
    from unmissed.runs import train

    model = make_model(method, params)
    text = {"ngrams": ngrams, "min_df": min_df, "max_features": max_features, "smooth": smooth_idf or None}
    dataset = _load_training_set(data, text, header=not no_header, one_based=one_based)
    with show.progress_bar(f"training {model.unit}") as progress:
        trained = train(model, dataset, run, progress=progress)
    _tell(trained, json)


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


def extend(
    run: RunFolder,
    data: Data,
    jobs: Jobs = None,
    no_header: NoHeader = False,
    one_based: OneBased = False,
    json: show.JsonOption = False,
) -> None:
    """Train the labels of a data set that a run does not have yet; its other labels are not touched.

    Labels are told apart by name; without names, columns after the run's last label are new. Text goes through the
    features that the run remembers. Stopped and started again it goes on, as train does; until it is finished the run
    answers with its old labels.

    Example: unmissed extend laws news.jsonl.xz
    """
    from unmissed.data import load
    from unmissed.runs import extend as extend_run
    from unmissed.runs import open_run

    text = open_run(run).text
    with show.progress_bar("reading") as progress:
        dataset = load(data, text=text, header=not no_header, one_based=one_based, progress=progress)
    with show.progress_bar("training labels") as progress:
        trained = extend_run(run, dataset, n_jobs=jobs, progress=progress)
    _tell(trained, json)


def _load_training_set(data: str, text: dict[str, Any], *, header: bool, one_based: bool) -> Any:
    from unmissed.data import TextFeatures, load
    from unmissed.data.sources import holds_text

    options = {name: value for name, value in text.items() if value is not None}
    if options and not holds_text(data):
        names = ", ".join("--" + name.replace("_", "-") for name in options)
        raise InputError(f"{data}: holds features already; {names} is for text (JSON lines)")
    if "ngrams" in options:
        options["ngrams"] = (1, options["ngrams"])
    with show.progress_bar("reading") as progress:
        return load(data, text=TextFeatures(**options), header=header, one_based=one_based, progress=progress)


def _tell(run: "Run", json: bool) -> None:
    from unmissed.runs.inspection import certificate

    solved = certificate(run)
    if json:
        facts = {"run": str(run.folder), "method": run.recipe.method, "n_labels": run.n_labels, "certificate": solved}
        show.print_json(facts)
        return
    typer.echo(f"{run.folder}: {run.recipe.method}, {run.n_labels:,} labels trained")
    if solved is not None:
        typer.echo(f"{solved['met']:,} {solved['unit']} met the relative duality gap {solved['tol']:g}")
        if solved["missed"]:
            named = ", ".join(solved["missed_names"][:10])
            more = "" if solved["missed"] <= 10 else ", ..."
            typer.echo(f"{solved['missed']:,} {solved['unit']} did not: {named}{more}", err=True)
