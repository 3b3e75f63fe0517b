"""Progress callbacks of long-running functions."""

import sys
import time
from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """A progress callback, called as `progress(done, total)`; `total` is None if it is unknown."""

    def __call__(self, done: int, total: int | None) -> None:
        """Report that `done` of `total` units of work are completed."""


def silent(done: int, total: int | None) -> None:
    """Ignore progress; the default of every `progress` parameter."""


def progress_lines(
    description: str, unit: str, write: Callable[[str], None], *, pause: float, last: bool = False
) -> Progress:
    """Return a progress callback that writes a line with the remaining time at the current rate.

    Parameters
    ----------
    description : the begin of each line
    unit : what `done` counts, such as labels; may be empty
    write : writes a line
    pause : seconds between two lines
    last : whether the end of the work is always reported
    """
    begin = since = latest = time.monotonic()
    ended = not last

    def report(done: int, total: int | None) -> None:
        nonlocal since, latest, ended
        now = time.monotonic()
        since = since if done else now
        ends = not ended and done == total
        if now - latest < pause and not ends:
            return
        latest, ended = now, ended or ends
        share = f" of {total:,}{' ' * bool(unit)}{unit} ({100 * done / total:.0f} %)" if total else ""
        rest = f", about {_span((now - since) * (total - done) / done)} to go" if total and 0 < done < total else ""
        write(f"{description}: {done:,}{share} after {_span(now - begin)}{rest}")

    return report


def print_progress(description: str, unit: str) -> Progress:
    """Return a progress callback that prints at most one line per second, and one at the end, on standard error."""

    def write(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    return progress_lines(description, unit, write, pause=1.0, last=True)


def _span(seconds: float) -> str:
    """Return a duration in the largest suitable unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} s"
