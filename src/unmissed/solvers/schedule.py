"""The schedule that solvers share: LANES labels at a time, a first approach, rounds together, then waiting.

It knows nothing of losses and penalties. A method brings the labels of a group from the start to weights of their own
(`approach`) and certifies and mends them (`round`); labels left over after two rounds wait until the block has enough
of them to fill the lanes again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from unmissed.kernels.vectors import LANES
from unmissed.solvers.passes import ALONE

_ROUNDS_TOGETHER = 2  # most labels are done after two; then those that are not wait for one another


class Scheduled(Protocol):
    """A label as the schedule sees it."""

    done: bool

    def leave_lanes(self) -> None:
        """Move what the label owns out of buffers that the next group takes over."""


L = TypeVar("L", bound=Scheduled)
M = TypeVar("M", bound=Scheduled, contravariant=True)


class Method(Protocol[M]):
    """How a loss with a penalty is solved for up to LANES labels at a time."""

    def approach(self, group: Sequence[M]) -> None:
        """Bring labels from their start to where rounds can mend them."""

    def round(self, group: Sequence[M]) -> None:
        """Certify labels that are not done; note who is, and improve the others."""


def run(labels: Sequence[L], method: Method[L], keep: Callable[[L], None]) -> None:
    """Take labels through the rounds of a method until all are done; `keep` takes each one then.

    What happens to a label depends on nothing but itself: groups decide only who shares a pass over X.
    """
    waiting: list[L] = []

    def settle(group: Sequence[L]) -> None:
        """Hand over labels that are done; the others wait for their next round."""
        for label in group:
            if label.done:
                keep(label)
            else:
                label.leave_lanes()
                waiting.append(label)

    for left in range(0, len(labels), LANES):
        group = labels[left : left + LANES]
        method.approach(group)
        left_over: Sequence[L] = group
        for _ in range(_ROUNDS_TOGETHER):
            if left_over:
                method.round(left_over if len(left_over) <= ALONE else group)
            left_over = [label for label in group if not label.done]
        settle(group)
        enough = LANES if left + LANES < len(labels) else 1
        while len(waiting) >= enough:
            group, waiting = waiting[:LANES], waiting[LANES:]
            method.round(group)
            settle(group)
