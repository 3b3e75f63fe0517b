"""The schedule that solvers share: LANES labels at a time, a first approach, rounds together, then waiting.

It knows nothing of losses and penalties. A method brings the labels of a group from the start to weights of their own
(`approach`) and certifies and mends them (`round`); labels left over after two rounds wait until the block has enough
of them to fill the lanes again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from unmissed.kernels.lanes import LANES
from unmissed.solvers.passes import ALONE

_ROUNDS_TOGETHER = 2  # most labels are done after two; then those that are not wait for one another


class Scheduled(Protocol):
    """A label as the schedule sees it."""

    rounds: int
    gap: float

    def leave_lanes(self) -> None:
        """Move what the label owns out of buffers that the next group takes over."""


L = TypeVar("L", bound=Scheduled)
M = TypeVar("M", bound=Scheduled, contravariant=True)


class Method(Protocol[M]):
    """How a loss with a penalty is solved for up to LANES labels at a time."""

    def approach(self, group: Sequence[M]) -> None:
        """Bring labels from their start to where rounds can mend them."""

    def round(self, group: Sequence[M]) -> None:
        """Certify labels and count the round; those whose gap is too wide are improved, except in their last one."""


def run(labels: Sequence[L], method: Method[L], tol: float, max_rounds: int, keep: Callable[[L], None]) -> None:
    """Solve labels to a gap of `tol` or for `max_rounds` rounds; `keep` takes each one that is done.

    What happens to a label depends on nothing but itself: groups decide only who shares a pass over X.
    """
    waiting: list[L] = []

    def settle(group: Sequence[L]) -> None:
        """Hand over labels that are done; the others wait for their next round."""
        for label in group:
            if label.gap <= tol or label.rounds >= max_rounds:
                keep(label)
            else:
                label.leave_lanes()
                waiting.append(label)

    for left in range(0, len(labels), LANES):
        group = labels[left : left + LANES]
        method.approach(group)
        left_over: Sequence[L] = group
        for _ in range(min(_ROUNDS_TOGETHER, max_rounds)):
            method.round(left_over if len(left_over) <= ALONE else group)
            left_over = [label for label in group if not label.gap <= tol]
        settle(group)
        enough = LANES if left + LANES < len(labels) else 1
        while len(waiting) >= enough:
            group, waiting = waiting[:LANES], waiting[LANES:]
            method.round(group)
            settle(group)
