"""The order in which the labels of a block are solved, LANES at a time; independent of loss and penalty.

A method takes a group of labels from the initial solution to working sets of their own (`approach`), then certifies and
improves them (`round`). Labels that are not done after a few rounds wait until enough of them fill the lanes again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from unmissed.models.linear.dismec.passes import MAX_PER_LABEL
from unmissed.numerics.simd import LANES


class Scheduled(Protocol):
    """The interface of a label for the schedule."""

    done: bool

    def leave_lanes(self) -> None:
        """Copy the label's weights out of the workspace that the next group reuses."""


L = TypeVar("L", bound=Scheduled)
M = TypeVar("M", bound=Scheduled, contravariant=True)


class BlockMethod(Protocol[M]):
    """A solver of up to LANES labels at a time for one loss and penalty."""

    def approach(self, group: Sequence[M]) -> None:
        """Take labels from the initial solution to working sets that rounds can improve."""

    def round(self, group: Sequence[M]) -> None:
        """Certify labels that are not done; set `done`, and improve the others."""


def run(
    todo: Sequence[int],
    begin: Callable[[int], L],
    method: BlockMethod[L],
    keep: Callable[[L], None],
    *,
    rounds_together: int = 2,
) -> None:
    """Solve labels with a method; call `begin` with the number of each label, and `keep` with each that is done.

    Labels begin with their group, so that few have a state at a time. After `rounds_together` rounds of a full group,
    by which most of its labels should be done, the others wait. The result of a label does not depend on its group:
    groups only share passes over X.
    """
    waiting: list[L] = []

    def settle(group: Sequence[L]) -> None:
        """Pass labels that are done to `keep`; queue the others for their next round."""
        for label in group:
            if label.done:
                keep(label)
            else:
                label.leave_lanes()
                waiting.append(label)

    for first in range(0, len(todo), LANES):
        group = [begin(at) for at in todo[first : first + LANES]]
        method.approach(group)
        unsolved: Sequence[L] = group
        for _ in range(rounds_together):
            if unsolved:
                method.round(unsolved if len(unsolved) <= MAX_PER_LABEL else group)
            unsolved = [label for label in group if not label.done]
        settle(group)
        enough = LANES if first + LANES < len(todo) else 1
        while len(waiting) >= enough:
            group, waiting = waiting[:LANES], waiting[LANES:]
            method.round(group)
            settle(group)
