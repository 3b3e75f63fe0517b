"""How verbs speak: tables for people, JSON for programs, progress for those who wait."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from unmissed.progress import Progress, silent

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
PATIENCE = 2.0  # seconds of work before a bar appears


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: first column to the left, the others to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right", no_wrap=place > 0)
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:  # a pipe has no width: let no column be cut
        console.width = 240
    console.print(table)


@contextmanager
def progress_bar(description: str) -> Iterator[Progress]:
    """Give a `Progress` that draws a bar once the work has taken two seconds; quiet when not on a terminal."""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(description, total=None)
    begin = time.monotonic()
    started = False

    def tell(done: int, total: int | None) -> None:
        nonlocal started
        if not started and time.monotonic() - begin > PATIENCE:
            bar.start()
            started = True
        bar.update(task, completed=done, total=total)

    try:
        yield tell
    finally:
        if started:
            bar.stop()
