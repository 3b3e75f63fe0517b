"""`unmissed compare`: methods side by side on a data set."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmissed.cli import show
from unmissed.cli.options import Policy, ReadingOptions, TextOptions, list_methods, with_groups
from unmissed.cli.train import parse_time
from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.execution import Limits


@with_groups
def compare(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="Rows to train on, in any form that train takes.")],
    test: Annotated[str, typer.Argument(metavar="TEST", help="Rows to evaluate on.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write into.", file_okay=False)],
    reading: ReadingOptions,
    text: TextOptions,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            help="Methods, separated by commas, with parameters after a colon (parabel:n_trees=1); all if not given.",
            autocompletion=list_methods,
        ),
    ] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option("--scores", metavar="NAME=FILE", help="Scores of another system on the same rows; repeatable."),
    ] = None,
    baseline: Annotated[
        str, typer.Option(help="The method that others are compared with.", autocompletion=list_methods)
    ] = "dismec",
    propensity: Annotated[
        str | None,
        typer.Option(help="jain, jain:A,B, constant:P or table:FILE; jain with the usual A and B if not given."),
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(help="The most time for one method: 90s, 50m, 2h. The others go on.")
    ] = None,
    memory_limit: Annotated[str | None, typer.Option(help="The most memory for one method: 800M, 4G.")] = None,
    name: Annotated[str | None, typer.Option(help="The name of the data set; by default that of its folder.")] = None,
    unseen_labels: Annotated[
        Policy, typer.Option(help="True labels without a training row: they count as evaluate has it, or do not.")
    ] = Policy.KEEP,
    only: Annotated[
        bool,
        typer.Option("--only", help="Leave methods of earlier comparisons in the folder out of the page."),
    ] = False,
    bootstrap: Annotated[int, typer.Option(help="Resamples for intervals.", min=1)] = 1000,
    seed: Annotated[int, typer.Option(help="The seed of resampling.", min=0)] = 0,
    jobs: Annotated[int | None, typer.Option(help="Threads per method; all cores if not given.")] = None,
    json: show.JsonOption = False,
) -> None:
    """Train and evaluate every method on one data set, each in a process of its own, and write a page of results.

    The folder gets results.json, index.html with tables and figures, tables/ (Markdown, LaTeX), figures/ (PNG, SVG),
    the runs and rankings of all methods. Started again, the same command trains only what is not finished. Methods of
    earlier comparisons in the folder stay in the page, unless they were trained with other settings (--only leaves them
    out). A method that reaches a limit is named in the table; with a larger limit it goes on.

    A data set of the paper is recognised by its name or its sizes: the printed figures then stand beside ours.

    Example: unmissed compare train.txt.gz test.txt.gz --out side-by-side

    Example: unmissed compare train.jsonl.xz test.jsonl.xz --out few --methods dismec,pw-dismec,parabel --time-limit 2h
    """
    from unmissed.propensity import parse
    from unmissed.runs.compare import Comparison
    from unmissed.runs.compare import compare as compare_methods
    from unmissed.runs.contenders import read_contenders

    features = text.features(train, reading.columns)
    comparison = Comparison(
        read_contenders(methods or ()),
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
    from unmissed.reports.compare import earlier_lines, figures_table, settings_lines, write_report

    with show.stoppable(lambda: _kept(out)):
        results = compare_methods(
            train,
            test,
            out,
            comparison,
            text=features,
            stage=show.progress_bar,
            warn=show.warn,
            **reading.words(),
        )
        files = write_report(results, out)
    if json:
        show.print_json({**results, "files": [str(path) for path in files]})
        return
    show.print_table(*figures_table(results))
    for one in results["methods"]:
        if one["state"] != "finished":
            show.say(f"{one['title']}: {one['state']}: {one['reason']}", err=True)
    for line in [*settings_lines(results), *earlier_lines(results)]:
        show.say(line)
    show.say(f"The page with all tables and figures: {out / 'index.html'}")


def _kept(out: Path) -> str:
    """Say what a stopped comparison leaves, and how it goes on."""
    from unmissed.runs.bouts import n_ranked

    if not (out / "data" / "train").is_dir():
        return show.AGAIN
    n_methods = n_ranked(out / "methods")
    methods = f"{n_methods} finished method{'' if n_methods == 1 else 's'}"
    return f"{out} keeps the data, {methods} and what the others have begun; the same command goes on where it stopped"


def _pair(word: str) -> tuple[str, str]:
    name, equals, path = word.partition("=")
    if not (name and equals and path):
        raise InputError(f"--scores is NAME=FILE, such as SLEEC=sleec.npz; got {word!r}")
    return name, path


def read_limits(time: str | None, memory: str | None) -> "Limits":
    """Read --time-limit and --memory-limit."""
    from unmissed.execution import Limits

    return Limits(
        None if time is None else parse_time(time, "--time-limit"), None if memory is None else parse_memory(memory)
    )


def parse_memory(word: str) -> int:
    """Return the bytes of an amount such as 800M or 4G; a bare number is bytes."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kKMGT]?)(?:i?B)?", word)
    if found is None or not float(found[1]):
        raise InputError(f"--memory-limit is an amount such as 800M or 4G; got {word!r}")
    return int(float(found[1]) * 1024 ** " kMGT".index(found[2].replace("K", "k") or " "))
