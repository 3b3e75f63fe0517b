"""`unmissed tune`: select the weighting, C or other parameters on held-out rows."""

import shlex
from typing import Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.methods import flag_of
from unmissed.cli.options import Jobs, ReadingOptions, TextOptions, given_words, list_methods, with_groups
from unmissed.cli.train import Data, load_training_set, report_choice
from unmissed.models.registry import DEFAULT, method_with_role


@with_groups
def tune(
    data: Data,
    reading: ReadingOptions,
    text: TextOptions,
    method: Annotated[str, typer.Option(help="The method to tune.", autocompletion=list_methods)] = method_with_role(
        DEFAULT
    ),
    metric: Annotated[str, typer.Option(help="The metric to maximize: P, nDCG, PSP, PSnDCG or recall @k.")] = "PSP@5",
    keep: Annotated[str, typer.Option(help="The metric that must not drop significantly below the baseline.")] = "P@1",
    tries: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="NAME=VALUE,VALUE", help="Candidates instead of weightings and C; repeatable."),
    ] = None,
    propensity: Annotated[str | None, typer.Option(help="jain, jain:A,B, constant:P or table:FILE.")] = None,
    rows: Annotated[int, typer.Option(help="Maximum number of training rows.", min=100)] = 20_000,
    labels: Annotated[int, typer.Option(help="Maximum number of labels.", min=2)] = 50_000,
    seed: Annotated[int, typer.Option(help="Seed of the split and the samples.", min=0)] = 0,
    jobs: Jobs = None,
    json: show.JsonOption = False,
) -> None:
    """Select a method's parameters on held-out training rows, and report the gains and losses.

    Parameters are tuned one after the other, each with the best values of the earlier ones. A candidate is accepted if
    --metric is higher than the baseline's in at least 80 % of the bootstrap resamples, and if the loss in --keep is
    neither significant (its interval includes 0) nor above half a point. The best accepted candidate is selected, or
    else the baseline (for pw-dismec: weighting none). `train pw-dismec --weighting auto` selects only the weighting.

    Example: unmissed tune train.jsonl --metric PSP@5 --keep P@1

    Example: unmissed tune train.txt --method parabel --try n_trees=1,3 --try C=0.3,1,3
    """
    from unmissed.models.model_selection import Goal, Sampling
    from unmissed.propensity import parse
    from unmissed.runs.tuning import read_tries
    from unmissed.runs.tuning import tune as tune_method

    goal = Goal(metric, keep)
    tried = read_tries(method, tries or [])
    params: dict[str, Any] = {"propensity": parse(propensity)} if propensity is not None else {}
    if jobs is not None:
        params["n_jobs"] = jobs
    sampling = Sampling(most_fit=rows, most_labels=labels, seed=seed)
    with show.stoppable():
        dataset = load_training_set(data, text, reading)
        with show.progress_bar("evaluating candidates") as progress:
            selected = tune_method(method, dataset, params, tried, goal=goal, sampling=sampling, progress=progress)
    if json:
        show.print_json({"data": data, "method": method, **selected.to_json()})
        return
    report_choice(selected.to_json())
    words = ["unmissed", "train", method, data, "--run", "DIR", *given_words(reading, text)]
    words += [word for name, value in selected.params.items() for word in (flag_of(name), str(value))]
    words += [] if propensity is None else ["--propensity", propensity]
    show.say(shlex.join(words))
