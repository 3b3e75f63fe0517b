"""How verbs speak: tables for people, JSON for programs, progress for those who wait."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from unmissed.cli.letters import HIDDEN
from unmissed.cli.letters import plain as plain
from unmissed.progress import Progress

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
PATIENCE = 2.0  # seconds of work before a bar appears
PAUSE = 30.0  # seconds between the lines that stand in for a bar where there is no terminal


def say(text: object, *, err: bool = False) -> None:
    """Print a line in which names from outside may stand."""
    stream = sys.stderr if err else sys.stdout
    typer.echo(plain(text, terminal=stream.isatty()), err=err)


def warn(line: str) -> None:
    """Print a warning on standard error."""
    say(f"warning: {line}", err=True)


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    typer.echo(HIDDEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: first column to the left, the others to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()

    def cell(text: str) -> Text:  # not markup: a label may be called [red] or :smile:
        return Text(plain(text, terminal=console.is_terminal))

    table = Table(title=cell(title), title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(cell(column), justify="left" if place == 0 else "right", no_wrap=place > 0)
    for row in rows:
        table.add_row(*map(cell, row))
    if not console.is_terminal:  # a pipe has no width: let no column be cut
        console.width = 240
    console.print(table)


@contextmanager
def progress_bar(description: str) -> Iterator[Progress]:
    """Give a `Progress` that draws a bar once the work has taken two seconds; without a terminal, lines in a log."""
    if not sys.stderr.isatty():
        yield _log_lines(description)
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


def _log_lines(description: str) -> Progress:
    """Give a `Progress` that says every half minute how far the work is, at the pace since its first step."""
    begin = since = last = time.monotonic()

    def tell(done: int, total: int | None) -> None:
        nonlocal since, last
        now = time.monotonic()
        since = since if done else now
        if now - last < PAUSE:
            return
        last = now
        share = f" of {total:,} ({100 * done / total:.0f} %)" if total else ""
        rest = f", about {_span((now - since) * (total - done) / done)} to go" if total and done else ""
        say(f"{description}: {done:,}{share} after {_span(now - begin)}{rest}", err=True)

    return tell


def _span(seconds: float) -> str:
    """Return a time as people say it."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} s"


_kept: list[str] = []


AGAIN = "nothing is kept; the same command begins again"


def not_written(*files: object) -> str:
    """Say that Ctrl-C came before these files were written."""
    return f"{' and '.join(map(str, files))} {'was' if len(files) == 1 else 'were'} not written; {AGAIN}"


@contextmanager
def stoppable(what_is_kept: Callable[[], str] = lambda: AGAIN) -> Iterator[None]:
    """Have the command say after Ctrl-C what is kept and how to go on; of several, the innermost speaks."""
    try:
        yield
    except KeyboardInterrupt:
        if not _kept:
            _kept.append(what_is_kept())
        raise


def what_is_kept() -> str:
    """Return what `stoppable` had to say, once."""
    return f"; {_kept.pop()}" if _kept else ""
