"""`unmissed tune`: select parameters of a method, or a method, on held-out rows."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.methods import option_words
from unmissed.cli.options import PROPENSITIES, Jobs, RowOptions, TextOptions, given_words, list_methods, with_groups
from unmissed.cli.train import Data, load_training_set, report_choice
from unmissed.errors import InputError
from unmissed.models.method_registry import DEFAULT, method_with_role

if TYPE_CHECKING:
    from unmissed.data import Dataset


@with_groups
def tune(
    data: Data,
    reading: RowOptions,
    text: TextOptions,
    method: Annotated[str, typer.Option(help="The method to tune.", autocompletion=list_methods)] = method_with_role(
        DEFAULT
    ),
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="Compare methods with their defaults instead, and recommend one."),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            metavar="METRIC,METRIC",
            help="The metrics to maximize, any of `unmissed evaluate` at a cut-off; of several, their mean.",
        ),
    ] = "P@1,P@5,PSP@5",
    keep: Annotated[
        str | None, typer.Option(metavar="METRIC,METRIC", help="Further metrics that must not drop.")
    ] = None,
    tries: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="NAME=VALUE,VALUE", help="Values to try instead of the defaults; repeatable."),
    ] = None,
    try_text: Annotated[
        list[str] | None,
        typer.Option(
            "--try-text",
            metavar="OPTIONS",
            help="Compare text options instead, such as '--stemmer german --min-df 2', with those of this command; "
            "repeatable.",
        ),
    ] = None,
    fastest_within: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            help="With --methods: recommend the fastest training within this distance of the best.",
            min=0,
        ),
    ] = None,
    propensity: Annotated[str | None, typer.Option(help=f"{PROPENSITIES}.")] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Cost of the search in trainings on all rows. Small data takes more.", min=0.1),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Maximum number of training rows of a candidate.", min=100)] = None,
    labels: Annotated[int | None, typer.Option(help="Maximum number of labels.", min=2)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split and the samples.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="A folder for results.json, table.md, table.csv and figure.svg.")
    ] = None,
    jobs: Jobs = None,
    json: show.JsonOption = False,
) -> None:
    """Select a method's parameters on held-out training rows, and report the gains and losses.

    All combinations of the values are candidates: by default all weightings with multiples of C (or of l1 or penalty).
    They are trained in rungs on more and more rows, and at most a third of them goes on. A candidate is allowed if no
    metric falls against the baseline (for pw-dismec C = 1 without weighting): its interval reaches 0, and the loss is
    at most half a point. The best allowed one is selected. `train METHOD --tuned` trains with it.

    --methods compares methods on the same rows; the baseline is dismec or else the first.

    Example: unmissed tune train.jsonl --metric PSP@5 --keep P@1 --out tuned

    Example: unmissed tune train.txt --method parabel --try n_trees=1,3 --try C=0.3,1,3

    --try-text compares text options on the same rows; the baseline has those of this command.

    Example: unmissed tune train.jsonl --min-df 2 --try-text "--stemmer german" --try-text "--ngrams 2"

    Example: unmissed tune train.txt --methods dismec,pw-dismec,parabel,fastxml --metric P@1 --fastest-within 1
    """
    from unmissed.models.selection import Goal, Sampling
    from unmissed.propensity import parse
    from unmissed.runs.tuning import compare_methods, compare_text_options, read_tries
    from unmissed.runs.tuning import tune as tune_method

    goal = Goal(metric, keep or ())
    tried = read_tries(method, tries or [])
    if methods is None and fastest_within is not None:
        raise InputError("--fastest-within needs --methods")
    if methods is not None and tried:
        raise InputError("--methods compares methods with their defaults; leave out --try")
    if try_text and (methods is not None or tried):
        raise InputError("--try-text compares text options; leave out --methods and --try")
    variants = {
        shlex.join(given_words(one)) or "defaults": one for one in [text, *map(text.changed_by, try_text or [])]
    }
    params: dict[str, Any] = {"propensity": parse(propensity)} if propensity is not None else {}
    if jobs is not None:
        params["n_jobs"] = jobs
    sizes = {"budget": budget, "most_fit": rows, "most_labels": labels}
    sampling = Sampling(**{name: value for name, value in sizes.items() if value is not None}, seed=seed)  # type: ignore[arg-type]
    with show.stoppable():
        dataset = load_training_set(data, text, reading)
        datasets = {name: _load_variant(data, one, reading) for name, one in list(variants.items())[1:]}
        with show.progress_bar("rows trained on") as progress:
            if datasets:
                datasets = {next(iter(variants)): dataset, **datasets}
                selected = compare_text_options(
                    method, datasets, params, goal=goal, sampling=sampling, progress=progress
                )
            elif methods is None:
                selected = tune_method(method, dataset, params, tried, goal=goal, sampling=sampling, progress=progress)
            else:
                within = None if fastest_within is None else fastest_within / 100
                selected = compare_methods(
                    methods.split(","),
                    dataset,
                    params,
                    goal=goal,
                    sampling=sampling,
                    fastest_within=within,
                    progress=progress,
                )
    found = {"data": data, **({"method": method} if methods is None else {}), **selected.to_json()}
    written = []
    if out is not None:
        from unmissed.reports.choice_figures import write_choice

        written = write_choice(found, out)
    if json:
        show.print_json(found)
        return
    report_choice(found)
    if written:
        show.say(f"{out}: {', '.join(path.name for path in written)}")
    chosen = dict(selected.params)
    best = chosen.pop("method", method)
    text = variants[chosen.pop("text options", next(iter(variants)))]
    words = ["unmissed", "train", best, data, "--run", "DIR", *given_words(reading, text), *option_words(best, chosen)]
    words += [] if propensity is None else ["--propensity", propensity]
    show.say(shlex.join(words))


def _load_variant(data: str, text: TextOptions, reading: RowOptions) -> "Dataset":
    """Read a training set with other text options; its labels were checked before."""
    from unmissed.data import load

    with show.progress_bar("reading") as progress:
        return load(data, text=text.features(data, reading.columns), progress=progress, **reading.words())
