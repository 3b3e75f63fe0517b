"""How long work tells how far it is: a callable that takes what is done and what there is to do."""

from typing import Protocol


class Progress(Protocol):
    """Called as `progress(done, total)`; `total` is None where it cannot be known beforehand."""

    def __call__(self, done: int, total: int | None) -> None:
        """Tell that `done` of `total` units of work are done."""


def silent(done: int, total: int | None) -> None:
    """Tell nobody: the default of every function that takes a `progress`."""
