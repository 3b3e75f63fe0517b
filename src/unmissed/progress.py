"""Progress callbacks of long-running functions."""

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
