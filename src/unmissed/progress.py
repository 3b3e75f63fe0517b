"""Progress callbacks of long-running functions."""

import sys
import time
from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """A progress callback, called as `progress(done, total)`; `total` is None if it is unknown."""

    def __call__(self, done: int, total: int | None) -> None:
        """Report that `done` of `total` units of work are completed."""


def describe(progress: Progress, text: str) -> None:
    """Show what is being done next to the progress, if the callback has a method `describe`."""
    show = getattr(progress, "describe", None)
    if show is not None:
        show(text)


def silent(done: int, total: int | None) -> None:
    """Ignore progress; the default of every `progress` parameter."""


class AllProgress:
    """A progress callback that calls several."""

    def __init__(self, *callbacks: Progress) -> None:
        self._callbacks = callbacks

    def __call__(self, done: int, total: int | None) -> None:
        """Report progress to all callbacks."""
        for callback in self._callbacks:
            callback(done, total)

    def describe(self, text: str) -> None:
        """Describe the work to the callbacks that show it."""
        for callback in self._callbacks:
            describe(callback, text)


class ProgressLines:
    """A progress callback that writes a line with the remaining time at the current rate.

    Where `done` falls, other work has begun, such as a second file, and the rate is measured again.

    Parameters
    ----------
    description : the begin of each line
    unit : what `done` counts, such as labels; may be empty
    write : writes a line
    pause : seconds between two lines
    last : whether the end of the work is always reported
    """

    def __init__(
        self, description: str, unit: str, write: Callable[[str], None], *, pause: float, last: bool = False
    ) -> None:
        self._description, self._unit, self._write, self._pause = description, unit, write, pause
        self._begin = self._since = self._latest = time.monotonic()
        self._ended, self._done = not last, 0

    def __call__(self, done: int, total: int | None) -> None:
        """Report progress."""
        now, unit = time.monotonic(), self._unit
        if done == 0 or done < self._done:
            self._since = now
        self._done = done
        ends = not self._ended and done == total
        if now - self._latest < self._pause and not ends:
            return
        self._latest, self._ended = now, self._ended or ends
        share = f" of {total:,}{' ' * bool(unit)}{unit} ({100 * done / total:.0f} %)" if total else ""
        rest = (
            f", about {_span((now - self._since) * (total - done) / done)} to go" if total and 0 < done < total else ""
        )
        self._write(f"{self._description}: {done:,}{share} after {_span(now - self._begin)}{rest}")

    def describe(self, text: str) -> None:
        """Write what is being done, if the last line is old enough, and begin the next lines with it."""
        self._description = text
        now = time.monotonic()
        if now - self._latest >= self._pause:
            self._latest = now
            self._write(text)


def print_progress(description: str, unit: str) -> Progress:
    """Return a progress callback that prints at most one line per second, and one at the end, on standard error."""

    def write(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    return ProgressLines(description, unit, write, pause=1.0, last=True)


def _span(seconds: float) -> str:
    """Return a duration in the largest suitable unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} s"
