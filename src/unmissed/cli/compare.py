"""`unmissed compare`: train and evaluate several methods on one data set."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.options import (
    PROPENSITIES,
    MemoryLimitOption,
    Policy,
    RowOptions,
    TextOptions,
    TimeLimitOption,
    UnseenOption,
    list_methods,
    with_groups,
)
from unmissed.cli.train import parse_time
from unmissed.errors import InputError
from unmissed.models.method_registry import UNWEIGHTED, method_with_role

if TYPE_CHECKING:
    from unmissed.execution import Limits


@with_groups
def compare(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="The training set, in any format that train reads.")],
    test: Annotated[str, typer.Argument(metavar="TEST", help="The test set.")],
    out: Annotated[Path, typer.Option("--out", help="The output folder.", file_okay=False)],
    reading: RowOptions,
    text: TextOptions,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            help="Methods, separated by commas, with parameters after a colon (parabel:n_trees=1). Default: all.",
            autocompletion=list_methods,
        ),
    ] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option("--scores", metavar="NAME=FILE", help="Scores of another system on TEST; repeatable."),
    ] = None,
    test_dense: Annotated[
        str | None, typer.Option(metavar="E.npy", help="Dense features of TEST, if TRAIN has --dense.")
    ] = None,
    baseline: Annotated[
        str, typer.Option(help="The method that paired differences refer to.", autocompletion=list_methods)
    ] = method_with_role(UNWEIGHTED),
    propensity: Annotated[
        str | None,
        typer.Option(help=f"{PROPENSITIES}. Default: jain with the data set's A and B."),
    ] = None,
    time_limit: TimeLimitOption = None,
    memory_limit: MemoryLimitOption = None,
    name: Annotated[str | None, typer.Option(help="The name of the data set. Default: its folder's name.")] = None,
    unseen_labels: UnseenOption = Policy.KEEP,
    only: Annotated[
        bool,
        typer.Option("--only", help="Omit methods of earlier comparisons in the folder from the page."),
    ] = False,
    bootstrap: Annotated[int, typer.Option(help="Bootstrap resamples.", min=1)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.", min=0)] = 0,
    jobs: Annotated[int | None, typer.Option(help="Threads per method. Default: all cores.")] = None,
    json: show.JsonOption = False,
) -> None:
    """Train and evaluate several methods on one data set and write an HTML page with the results.

    Each method runs in its own process. The output folder gets index.html with tables and figures, results.json,
    tables/ (Markdown, LaTeX), figures/ (PNG, SVG), and the runs and rankings of all methods.

    The same command resumes an interrupted comparison. Methods of earlier comparisons in the folder stay in the page
    unless they were trained with other settings; --only omits them. A method that reaches a limit is reported in the
    table; a higher limit resumes it.

    Data sets of the paper are recognized by name or size; the page then also has the published figures.

    Example: unmissed compare train.txt.gz test.txt.gz --out side-by-side

    Example: unmissed compare train.jsonl.xz test.jsonl.xz --out few --methods dismec,pw-dismec,parabel --time-limit 2h
    """
    from unmissed.propensity import parse
    from unmissed.runs.compare.comparison import Comparison
    from unmissed.runs.compare.comparison import compare as compare_methods
    from unmissed.runs.compare.method_specs import read_method_specs

    features = text.features(train, reading.columns)
    comparison = Comparison(
        read_method_specs(methods or ()),
        dict(_pair(word) for word in scores or ()),
        baseline=baseline,
        propensity=None if propensity is None else parse(propensity),
        n_resamples=bootstrap,
        seed=seed,
        limits=read_limits(time_limit, memory_limit),
        n_jobs=jobs,
        name=name,
        unseen_labels=unseen_labels.value,
        only=only,
    )
    from unmissed.reports.comparison_page import write_report

    with show.stoppable(lambda: _kept(out)):
        results = compare_methods(
            train,
            test,
            out,
            comparison,
            text=features,
            test_dense=test_dense,
            stage=show.progress_bar,
            warn=show.warn,
            **reading.words(),
        )
        files = write_report(results, out)
    if json:
        show.print_json({**results, "files": [str(path) for path in files]})
        return
    _report(results)
    show.say(f"Report: {out / 'index.html'}")


def _report(results: dict[str, Any]) -> None:
    """Print the figures of all methods, and which of them did not finish."""
    from unmissed.reports.comparison_page import earlier_lines, figures_table, settings_lines

    show.print_table(*figures_table(results))
    for one in results["methods"]:
        if one["state"] != "finished":
            show.say(f"{one['title']} {one['state']}: {one['reason']}", err=True)
    for line in [*settings_lines(results), *earlier_lines(results)]:
        show.say(line)


def _kept(out: Path) -> str:
    """Return what an interrupted comparison keeps and how to resume it."""
    from unmissed.runs.compare.trials import n_ranked

    if not (out / "data" / "train").is_dir():
        return show.AGAIN
    n_methods = n_ranked(out / "methods")
    methods = show.counted(n_methods, "finished method")
    return f"{out} keeps the data, {methods} and partial results of the others; the same command resumes"


def _pair(word: str) -> tuple[str, str]:
    name, equals, path = word.partition("=")
    if not (name and equals and path):
        raise InputError(f"--scores must be NAME=FILE, such as SLEEC=sleec.npz; got {word!r}")
    return name, path


def read_limits(time: str | None, memory: str | None) -> "Limits":
    """Parse --time-limit and --memory-limit."""
    from unmissed.execution import Limits

    return Limits(
        None if time is None else parse_time(time, "--time-limit"), None if memory is None else parse_memory(memory)
    )


def parse_memory(word: str) -> int:
    """Return the bytes of an amount such as 800M or 4G; a number without a unit is in bytes."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kKMGT]?)(?:i?B)?", word)
    if match is None or not float(match[1]):
        raise InputError(f"--memory-limit must be an amount such as 800M or 4G; got {word!r}")
    return int(float(match[1]) * 1024 ** " kMGT".index(match[2].replace("K", "k") or " "))
