"""Output of the commands: text, tables, JSON, progress bars and messages after Ctrl-C."""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli.terminal_text import HIDDEN, escape_control
from unmissed.progress import Progress, ProgressLines

if TYPE_CHECKING:
    from unmissed.data import TextFeatures

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
PATIENCE = 2.0  # seconds before a progress bar appears
PAUSE = 30.0  # seconds between progress lines if standard error is not a terminal


def say(text: object, *, err: bool = False) -> None:
    """Print a line; control characters, which names from files may contain, are escaped."""
    stream = sys.stderr if err else sys.stdout
    typer.echo(escape_control(text, terminal=stream.isatty()), err=err)


def counted(number: int, what: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def warn(line: str) -> None:
    """Print a warning on standard error."""
    say(f"warning: {line}", err=True)


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    typer.echo(HIDDEN.sub(lambda match: f"\\u{ord(match.group()):04x}", text))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is left-aligned, the others are right-aligned."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()

    def cell(text: str) -> Text:  # not markup: a label may be called [red] or :smile:
        return Text(escape_control(text, terminal=console.is_terminal))

    table = Table(title=cell(title), title_justify="left")
    for position, column in enumerate(columns):
        table.add_column(cell(column), justify="left" if position == 0 else "right", no_wrap=position > 0)
    for row in rows:
        table.add_row(*map(cell, row))
    if not console.is_terminal:  # a pipe has no width: do not truncate columns
        console.width = 240
    console.print(table)


@contextmanager
def progress_bar(description: str) -> Iterator[Progress]:
    """Yield a progress callback: a bar after two seconds of work, or lines if it is no terminal or shows a log."""
    if not sys.stderr.isatty() or logging.getLogger("unmissed").isEnabledFor(logging.INFO):
        yield ProgressLines(description, "", partial(say, err=True), pause=PAUSE)
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
    shown = _Bar(bar, bar.add_task(description, total=None))
    try:
        yield shown
    finally:
        if shown.started:
            bar.stop()


class _LogLines(logging.Handler):
    """Prints log records on standard error, as `say` does."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record), err=True)


class _Bar:
    """A progress callback that updates a bar, which appears after two seconds."""

    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task = bar, task
        self._begin = time.monotonic()
        self.started = False

    def __call__(self, done: int, total: int | None) -> None:
        """Report progress."""
        self._start()
        self._bar.update(self._task, completed=done, total=total)

    def describe(self, text: str) -> None:
        """Replace the description."""
        self._start()
        self._bar.update(self._task, description=text)

    def _start(self) -> None:
        if not self.started and time.monotonic() - self._begin > PATIENCE:
            self._bar.start()
            self.started = True


@contextmanager
def logs(level: int | None) -> Iterator[None]:
    """Print the records of the package from this level on; None for none."""
    if level is None:
        yield
        return
    logger, handler = logging.getLogger("unmissed"), _LogLines()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


_kept: list[str] = []


AGAIN = "nothing is kept; the same command starts again"


def not_written(*files: object) -> str:
    """Return the message for Ctrl-C before these files were written."""
    return f"{' and '.join(map(str, files))} {'was' if len(files) == 1 else 'were'} not written; {AGAIN}"


@contextmanager
def stoppable(what_is_kept: Callable[[], str] = lambda: AGAIN) -> Iterator[None]:
    """Let the message after Ctrl-C say what is kept and how to resume; of nested contexts, the innermost is used."""
    try:
        yield
    except KeyboardInterrupt:
        if not _kept:
            _kept.append(what_is_kept())
        raise


def keeping_embeddings(text: "TextFeatures | None") -> AbstractContextManager[None]:
    """Let the message after Ctrl-C say that embeddings are kept, if the text features have an encoder."""
    if text is None or text.encoder is None:
        return nullcontext()
    return stoppable(lambda: "the embeddings so far are kept; the same command resumes")


def what_is_kept() -> str:
    """Return the message that `stoppable` recorded, and clear it."""
    return f"; {_kept.pop()}" if _kept else ""


def features(n_features: int, n_dense: int, unit: str = " features") -> str:
    """Return the number of features in words: in total, or of both parts if some are dense."""
    if not n_dense:
        return f"{n_features:,}{unit}"
    return f"{n_features - n_dense:,} sparse, {n_dense:,} dense{unit}"
