"""The root of the command line: the list of verbs, and what happens when one fails."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from unmissed import __version__
from unmissed.cli import data, demo, evaluate, inspect, predict, study, train
from unmissed.errors import UnmissedError

app = typer.Typer(
    name="unmissed",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unmissed {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
) -> None:
    """Tag things with the few right labels out of thousands, learning from data whose labels are incomplete."""


app.add_typer(data.app, name="data")
app.add_typer(train.app, name="train")
app.command()(predict.predict)
app.command()(evaluate.evaluate)
app.command()(inspect.inspect)
app.command()(train.extend)
app.command()(demo.demo)
app.add_typer(study.app, name="study")


def run(arguments: Sequence[str] | None = None) -> None:
    """Run a verb; bad input ends as one line on standard error and exit code 2, with `--debug` as a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        app(args=words, prog_name="unmissed")
    except (UnmissedError, OSError, MemoryError) as error:
        if debug:
            raise
        typer.echo(f"unmissed: {' '.join(str(error).split()) or type(error).__name__}", err=True)
        sys.exit(2)
