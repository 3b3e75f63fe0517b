"""`unmissed train` and `unmissed extend`: learn from a data set into the folder of a run."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.data import MaxFeatures, NoHeader, OneBased, SmoothIdf
from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.runs import Run

Data = Annotated[str, typer.Argument(help="Rows with labels: .txt, .jsonl (also .gz, .xz), a store, X.npz,Y.npz.")]
RunFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")]
Jobs = Annotated[int | None, typer.Option(help="Threads; all cores if not given. No effect on the result.")]


def train(
    method: Annotated[str, typer.Argument(help="dismec, pw-dismec or popularity.")],
    data: Data,
    run: Annotated[Path, typer.Option("--run", metavar="DIR", help="The folder of the run, new or begun.")],
    weighting: Annotated[
        str | None, typer.Option(help="pw-dismec: tail (default), surrogate, balanced or none.")
    ] = None,
    propensity: Annotated[
        str | None, typer.Option(help="pw-dismec: jain (default), jain:A,B, constant:P or table:FILE.")
    ] = None,
    C: Annotated[float | None, typer.Option("--C", help="What losses cost beside |w|^2/2; default 1.")] = None,
    tol: Annotated[float | None, typer.Option(help="Relative duality gap at which a label is solved.")] = None,
    max_rounds: Annotated[int | None, typer.Option(help="Rounds after which a label is given up and named.")] = None,
    prune: Annotated[float | None, typer.Option(help="Weights smaller than this are dropped; default 0.01.")] = None,
    unit_rows: Annotated[
        bool, typer.Option("--unit-rows/--raw-rows", help="Scale each row to length 1, as the paper's are; or do not.")
    ] = True,
    no_bias: Annotated[bool, typer.Option("--no-bias", help="Fit no constant.")] = False,
    block_size: Annotated[int | None, typer.Option(help="Labels in a shard, the unit that is saved.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the order of rows; default 0.")] = None,
    jobs: Jobs = None,
    ngrams: Annotated[int | None, typer.Option(help="Text: the longest run of words that is a feature.", min=1)] = None,
    min_df: Annotated[int | None, typer.Option(help="Text: leave out terms that fewer documents have.", min=1)] = None,
    max_features: MaxFeatures = None,
    smooth_idf: SmoothIdf = False,
    no_header: NoHeader = False,
    one_based: OneBased = False,
    json: show.JsonOption = False,
) -> None:
    """Train a method on a data set; the run's folder remembers all that prediction needs.

    Stopped at any moment, even killed, the same command goes on where it stopped and ends with the same bytes. Another
    recipe or other data is refused. From JSON lines ({"text": ..., "labels": [...]}) features are learned and
    remembered, and predict takes text.

    Example: unmissed train pw-dismec train.jsonl.xz --run laws --min-df 3

    Example: unmissed train dismec train.txt.gz --run plain --C 1 --jobs 2
    """
    from unmissed.runs import train as train_run
    from unmissed.runs.recipe import make_model

    given = {
        "C": C,
        "tol": tol,
        "max_rounds": max_rounds,
        "prune": prune,
        "weighting": weighting,
        "block_size": block_size,
        "n_jobs": jobs,
    }
    params: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if seed is not None:
        params["random_state"] = seed
    if no_bias:
        params["fit_bias"] = False
    if method == "popularity":
        params.pop("n_jobs", None)
    else:
        params["unit_rows"] = unit_rows
    if propensity is not None:
        from unmissed.propensity import parse

        params["propensity"] = parse(propensity)
    make_model(method, params)  # complain about a name before data is read
    text = {"ngrams": ngrams, "min_df": min_df, "max_features": max_features, "smooth": smooth_idf or None}
    dataset = _load_training_set(data, text, header=not no_header, one_based=one_based)
    with _own_words(), show.progress_bar("training labels") as progress:
        trained = train_run(method, dataset, run, params, progress=progress)
    _tell(trained, json)


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
    with _own_words(), show.progress_bar("training labels") as progress:
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


@contextmanager
def _own_words() -> Iterator[None]:
    """Leave it to `_tell` to name labels that missed the tolerance."""
    from unmissed.models import UncertifiedWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertifiedWarning)
        yield


def _tell(run: "Run", json: bool) -> None:
    from unmissed.runs.inspection import certificate

    solved = certificate(run)
    if json:
        facts = {"run": str(run.folder), "method": run.recipe.method, "n_labels": run.n_labels, "certificate": solved}
        show.print_json(facts)
        return
    typer.echo(f"{run.folder}: {run.recipe.method}, {run.n_labels:,} labels trained")
    if solved is not None:
        typer.echo(f"{solved['met']:,} labels met the relative duality gap {solved['tol']:g}")
        if solved["missed"]:
            named = ", ".join(solved["missed_labels"][:10])
            more = "" if solved["missed"] <= 10 else ", ..."
            typer.echo(f"{solved['missed']:,} labels did not: {named}{more}", err=True)
