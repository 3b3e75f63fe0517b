"""`unmissed tune`: choose weighting and C, or other parameters, on held-out rows."""

from typing import Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.data import (
    Analyzer,
    LabelsColumn,
    MaxFeatures,
    MinDf,
    Ngrams,
    NoHeader,
    OneBased,
    Separator,
    SmoothIdf,
    StopWords,
    TextColumn,
    columns_of,
    text_options,
)
from unmissed.cli.methods import flag_of
from unmissed.cli.train import Data, Jobs, load_training_set, tell_choice


def tune(
    data: Data,
    method: Annotated[str, typer.Option(help="The method whose parameters are chosen.")] = "pw-dismec",
    metric: Annotated[str, typer.Option(help="What is to be raised: P, nDCG, PSP, PSnDCG or recall @k.")] = "PSP@5",
    keep: Annotated[str, typer.Option(help="What must not fall below that of the plain method.")] = "P@1",
    tries: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="NAME=VALUE,VALUE", help="What to try instead of weightings and C; repeatable."),
    ] = None,
    propensity: Annotated[str | None, typer.Option(help="jain, jain:A,B, constant:P or table:FILE.")] = None,
    rows: Annotated[int, typer.Option(help="Learn from at most so many rows.", min=100)] = 20_000,
    labels: Annotated[int, typer.Option(help="Compare on at most so many labels.", min=2)] = 2_000,
    seed: Annotated[int, typer.Option(help="The seed of the split and the samples.", min=0)] = 0,
    jobs: Jobs = None,
    ngrams: Ngrams = None,
    min_df: MinDf = None,
    max_features: MaxFeatures = None,
    smooth_idf: SmoothIdf = False,
    analyzer: Analyzer = None,
    stop_words: StopWords = None,
    text_column: TextColumn = None,
    labels_column: LabelsColumn = None,
    separator: Separator = None,
    no_header: NoHeader = False,
    one_based: OneBased = False,
    json: show.JsonOption = False,
) -> None:
    """Choose a method's parameters on held-out training rows, and say what the choice gains and costs.

    One parameter after the other, each with the best of those before it. The plain method (for pw-dismec: weighting
    none) stays unless the interval of the gain in --metric is above 0 and --keep is not likely to fall. `train
    pw-dismec --weighting auto` does the same for the weighting alone.

    Example: unmissed tune train.jsonl --metric PSP@5 --keep P@1

    Example: unmissed tune train.txt --method parabel --try n_trees=1,3 --try C=0.3,1,3
    """
    from unmissed.models.choosing import Goal, Sampling
    from unmissed.propensity import parse
    from unmissed.runs.tuning import read_tries
    from unmissed.runs.tuning import tune as tune_method

    goal = Goal(metric, keep)
    tried = read_tries(method, tries or [])
    params: dict[str, Any] = {"propensity": parse(propensity)} if propensity is not None else {}
    if jobs is not None:
        params["n_jobs"] = jobs
    columns = columns_of(text_column, labels_column, separator)
    text = text_options(ngrams, min_df, max_features, smooth_idf, analyzer, stop_words)
    dataset = load_training_set(data, text, columns=columns, header=not no_header, one_based=one_based)
    sampling = Sampling(most_fit=rows, most_labels=labels, seed=seed)
    with show.progress_bar("trying candidates") as progress:
        found = tune_method(method, dataset, params, tried, goal=goal, sampling=sampling, progress=progress)
    if json:
        show.print_json({"data": data, "method": method, **found.to_json()})
        return
    tell_choice(found.to_json())
    words = " ".join(f"{flag_of(name)} {value}" for name, value in found.params.items())
    show.say(f"unmissed train {method} {data} --run DIR {words}")
