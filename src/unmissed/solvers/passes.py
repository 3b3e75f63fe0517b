"""Passes: the buffers of one thread, and the passes over X that serve up to LANES labels at once, for any loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from unmissed.kernels.exact import label_slack_exact, scores_exact, touch
from unmissed.kernels.lanes import by_row
from unmissed.kernels.near import bounds_of, exact_slack, list_near, list_near_one
from unmissed.kernels.rare import list_rare
from unmissed.kernels.transpose import round_weights
from unmissed.kernels.vectors import LANES
from unmissed.solvers.buffers import scratch
from unmissed.solvers.design import Design, Floats, Rows
from unmissed.solvers.rounded import Rounded

Violated = tuple[Rows, Floats]  # rows that a label violates, and by how much
Passed = tuple[float, Rows, Floats]  # the same, and before it the label's loss over negatives

ALONE = 2  # up to this many labels a pass label by label is cheaper than one in lanes
_SAMPLE = 16, 1024  # one row in so many tells what a label violates, unless these are fewer than that


class Linear(Protocol):
    """A label as passes see it: its positives, and the weights that its rows are scored by.

    Exact passes rely on two things. `square` is |w|^2; for rough passes it need only be near. And a rare feature (see
    `Rounded`) that no positive has weighs at most 0, as it does in any sum of a z x with a >= 0.
    """

    positives: Rows
    w: Floats
    bias: np.float32
    square: float


L = TypeVar("L", bound=Linear)


@dataclass(frozen=True)
class InLanes:
    """The weights of a group side by side, in whole numbers: of frequent features, and those listed of rare ones.

    `bias` has the biases, `lanes_of_rows` in CSR form the lanes whose label a row has.
    """

    weights: npt.NDArray[np.int16]
    bias: Floats
    listed: tuple[Any, ...]
    lanes_of_rows: tuple[Any, ...]

    def positives(self, part: slice) -> tuple[Any, ...]:
        """Return the lanes whose label some rows have."""
        starts, lanes = self.lanes_of_rows
        return starts[part.start : part.stop + 1], lanes


def _by_lane_and_row(group: Sequence[Linear], n_samples: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the positives of a group in CSR form, lane by lane and row by row."""
    rows = np.concatenate([label.positives for label in group])
    starts = np.cumsum([0, *(len(label.positives) for label in group)])
    return (rows, starts), by_row(rows, np.ones(len(rows), np.float32), starts, 0, n_samples)[:2]


class Passes:
    """W in lanes and by label, and for each lane a list of rows with a number each: whatever the pass is about.

    The buffers belong to the thread: only one object of this class is in use in it at a time.
    """

    def __init__(self, design: Design, rounded: Rounded) -> None:
        self.design, self.rounded = design, rounded
        self.weights = scratch("weights by label", (LANES, design.n_features))
        self.rows = scratch("rows of lanes", (LANES, design.n_samples), np.int32)
        self.numbers = scratch("numbers of rows of lanes", (LANES, design.n_samples))
        self._group: Sequence[Linear] = ()
        self._positives: tuple[tuple[Any, ...], tuple[Any, ...]]

    def exact(self, group: Sequence[Linear]) -> Iterator[Passed]:
        """Return each label's loss over its negatives and the rows it violates.

        Rows that may be violated are found in whole numbers, and scored in float64.
        """
        return self._exact_alone(group) if len(group) <= ALONE else self._exact_in_lanes(group)

    def rough(self, group: Sequence[L], least: Callable[[L, Floats, float], float]) -> Iterator[Violated]:
        """Return the rows that each label violates by more than it says when it has seen a share of them.

        `least(label, slack, share)` is told by how much a share of the rows is violated. All is in whole numbers.
        """
        return self._rough_alone(group, least) if len(group) <= ALONE else self._rough_in_lanes(group, least)

    def gather(self, group: Sequence[Linear]) -> None:
        """Move the weights of labels to the buffer that lanes are filled from."""
        for lane, label in enumerate(group):
            if not np.may_share_memory(label.w, self.weights[lane]):
                self.weights[lane] = label.w
                label.w = self.weights[lane]

    def into_lanes(self, group: Sequence[Linear], steps: npt.ArrayLike) -> InLanes:
        """Put the weights of a group side by side, as whole numbers times a step for each.

        Lanes without a label have weights of 0 and a bias with which no row is violated.
        """
        self.gather(group)
        self.weights[len(group) :] = 0
        of_lanes, bias = np.zeros(LANES), np.full(LANES, -2, np.float32)
        of_lanes[: len(group)] = steps
        bias[: len(group)] = [label.bias for label in group]
        weights = scratch("weights in lanes", (self.rounded.n_frequent, LANES), np.int16)
        round_weights(self.weights, of_lanes, weights)
        if group is not self._group:
            self._group, self._positives = group, _by_lane_and_row(group, self.design.n_samples)
        (rows, starts), lanes_of_rows = self._positives
        return InLanes(weights, bias, self._list_rare(rows, starts, self.weights, of_lanes), lanes_of_rows)

    def _list_rare(self, rows: Rows, starts: npt.NDArray[np.int64], weights: Floats, steps: Any) -> tuple[Any, ...]:
        """List what lanes with these positives have of rare features."""
        n_frequent = self.rounded.n_frequent
        listed: tuple[Any, ...] = list_rare(*self.design.rows[:2], rows, starts, weights, n_frequent, steps)
        return listed

    def lists(self, counts: npt.NDArray[np.int64]) -> list[tuple[Rows, Floats]]:
        """Return the rows and numbers that a pass has listed for each lane, until the next pass."""
        return [(self.rows[lane, :n], self.numbers[lane, :n]) for lane, n in enumerate(counts)]

    def scores(self, label: Linear, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the scores of some rows under one label, in float64."""
        scores = np.empty(len(rows))
        scores_exact(*self.design.rows, rows, label.w, label.bias, scores)
        return scores

    def _exact_in_lanes(self, group: Sequence[Linear]) -> Iterator[Passed]:
        bounds = self._bounds(group)
        lanes = self.into_lanes(group, bounds[0, : len(group)])
        every = slice(0, self.design.n_samples)
        for label, (rows, slack) in zip(group, self._near(every, self.rounded.bounds, lanes, bounds), strict=False):
            touch(label.w)
            loss, n = exact_slack(*self.design.rows, label.w, label.bias, rows, slack)
            yield float(loss), rows[:n], slack[:n]

    def _rough_in_lanes(self, group: Sequence[L], least: Callable[[L, Floats, float], float]) -> Iterator[Violated]:
        bounds = self._bounds(group)
        bounds[1:] = 0
        lanes = self.into_lanes(group, bounds[0, : len(group)])
        sample, share = self._sample()
        near = self._near(sample, self.rounded.steps_alone, lanes, bounds)
        for lane, (label, (_, slack)) in enumerate(zip(group, near, strict=False)):
            bounds[3, lane] = -least(label, slack, share)
        every = slice(0, self.design.n_samples)
        yield from self._near(every, self.rounded.steps_alone, lanes, bounds)[: len(group)]

    def _bounds(self, group: Sequence[Linear]) -> Floats:
        """Return what `bounds_of` has for the label of each lane."""
        bounds = np.zeros((4, LANES), np.float32)
        for lane, label in enumerate(group):
            bounds[:, lane] = bounds_of(label.square, float(label.bias))
        return bounds

    def _near(self, part: slice, row_bounds: tuple[Floats, ...], lanes: InLanes, bounds: Floats) -> list[Violated]:
        """List for each lane which of some rows may be violated, until the next pass."""
        counts = np.zeros(LANES, np.int64)
        lists = self.rows, self.numbers, counts
        for piece, frequent, given in self.rounded.pieces(part, lanes.listed):
            of_rows = tuple(bound[piece] for bound in row_bounds)
            X = piece.start, frequent, given, of_rows
            list_near(*X, lanes.weights, lanes.bias, bounds, lanes.positives(piece), *lists)
        return self.lists(counts)

    def _exact_alone(self, group: Sequence[Linear]) -> Iterator[Passed]:
        slack = self.numbers[0]
        for label in group:
            is_positive = self._is_positive(label)
            loss = label_slack_exact(*self.design.rows, label.w, label.bias, is_positive, slack)
            violated = np.flatnonzero(slack > 0).astype(np.int32)
            yield float(loss), violated, slack[violated]

    def _rough_alone(self, group: Sequence[L], least: Callable[[L, Floats, float], float]) -> Iterator[Violated]:
        sample, share = self._sample()
        for label in group:
            steps = np.array([bounds_of(label.square, float(label.bias))[0]], np.float32)
            starts = np.array([0, len(label.positives)])
            listed = self._list_rare(label.positives, starts, label.w[None], steps.astype(np.float64))
            arguments = label, steps[0], listed, self._is_positive(label)
            _, slack = self._near_one(sample, 0.0, *arguments)
            yield self._near_one(slice(0, self.design.n_samples), -least(label, slack, share), *arguments)

    def _near_one(self, part: slice, extra: float, label: Linear, step: Any, listed: Any, is_positive: Any) -> Violated:
        """List which of some rows one label may violate, as `_near` does."""
        rows, slack = self.rows[0], self.numbers[0]
        weights, n = label.w[: self.rounded.n_frequent], 0
        of_label = weights, step, label.bias, np.float32(extra), is_positive
        for piece, frequent, given in self.rounded.pieces(part, listed):
            X = piece.start, frequent, given, self.rounded.steps[piece]
            n += list_near_one(*X, *of_label, rows[n:], slack[n:])
        return rows[:n], slack[:n]

    def _is_positive(self, label: Linear) -> npt.NDArray[np.bool_]:
        is_positive = scratch("positives of one label", (self.design.n_samples,), np.bool_)
        is_positive[:] = False
        is_positive[label.positives] = True
        return is_positive

    def _sample(self) -> tuple[slice, float]:
        """Return the last rows, and their share.

        All rows are in random order; but labels have had more time to come to terms with those that they saw first.
        """
        n = self.design.n_samples
        size = min(n, max(n // _SAMPLE[0], _SAMPLE[1]))
        return slice(n - size, n), size / n if n else 1.0
