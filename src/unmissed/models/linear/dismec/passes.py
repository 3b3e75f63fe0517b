"""Passes over X that serve up to LANES labels at a time, for any margin loss, and their workspaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.design import Design, Floats, RowIndices
from unmissed.models.linear.dismec.lane_ascent import sort_by_row
from unmissed.models.linear.dismec.near_margin import (
    error_bounds,
    exact_slack,
    label_slack_exact,
    list_near,
    list_near_one,
)
from unmissed.models.linear.dismec.quantized_rows import QuantizedRows
from unmissed.models.linear.dismec.rare_features import list_rare_weights
from unmissed.numerics.dense_rows import add_dense_scores
from unmissed.numerics.float64_sums import load_into_cache, scores_exact
from unmissed.numerics.simd import LANES
from unmissed.numerics.transpose import pair_lines, quantize_weights
from unmissed.numerics.workspace import workspace

Violated = tuple[RowIndices, Floats]  # rows with a positive slack under a label, and their slack
Passed = tuple[float, RowIndices, Floats]  # loss over the negatives, violated rows, slack

MAX_PER_LABEL = 2  # Up to this many labels, per-label passes are cheaper than one in lanes.
_SAMPLING = 16, 1024  # The threshold is estimated from 1 row in 16, but from at least 1024 rows.


class LinearClassifier(Protocol):
    """The interface of a label for passes: its positives and its weights.

    Exact passes rely on two properties. `square` is |w|^2 (approximate passes need only an estimate). A rare feature
    (see `QuantizedRows`) that no positive has must have a weight of at most 0, as in any sum of a z x with a >= 0.
    """

    positives: RowIndices
    w: Floats
    bias: np.float32
    square: float


L = TypeVar("L", bound=LinearClassifier)


@dataclass(frozen=True)
class LaneWeights:
    """The quantized weights of a group: lines of frequent features, pairs of dense ones, and lists of rare ones.

    `bias` has a bias per lane; `lanes_of_rows` has in CSR form, for each row, the lanes whose label it has.
    """

    weights: tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]
    bias: Floats
    rare_weights: tuple[Any, ...]
    lanes_of_rows: tuple[Any, ...]

    def positives(self, part: slice) -> tuple[Any, ...]:
        """Return, in CSR form, the lanes whose label each row of a range has."""
        starts, lanes = self.lanes_of_rows
        return starts[part.start : part.stop + 1], lanes


def _by_lane_and_row(group: Sequence[LinearClassifier], n_samples: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the positives of a group in CSR form, by lane and by row."""
    rows = np.concatenate([label.positives for label in group])
    starts = np.cumsum([0, *(len(label.positives) for label in group)])
    return (rows, starts), sort_by_row(rows, np.ones(len(rows), np.float32), starts, 0, n_samples)[:2]


class Passes:
    """Passes over X for groups of labels; each lists for every lane some rows with a number each.

    The workspaces belong to the thread: only one object of this class may be in use in a thread at a time.
    """

    def __init__(self, design: Design, quantized: QuantizedRows) -> None:
        self.design, self.quantized = design, quantized
        self.weights = workspace("weights by label", (LANES, design.n_features))
        self.rows = workspace("rows of lanes", (LANES, design.n_samples), np.int32)
        self.numbers = workspace("numbers of rows of lanes", (LANES, design.n_samples))
        self._group: Sequence[LinearClassifier] = ()
        self._positives: tuple[tuple[Any, ...], tuple[Any, ...]]

    def exact(self, group: Sequence[LinearClassifier]) -> Iterator[Passed]:
        """Return each label's loss over its negatives and the rows it violates, exactly.

        Rows that may be violated are found in quantized arithmetic and then scored in float64.
        """
        return self._exact_per_label(group) if len(group) <= MAX_PER_LABEL else self._exact_in_lanes(group)

    def approximate(self, group: Sequence[L], threshold: Callable[[L, Floats, float], float]) -> Iterator[Violated]:
        """Return the rows that each label violates by more than a threshold, in quantized arithmetic only.

        `threshold(label, slack, share)` returns it from the violations of a sample, the fraction `share` of the rows.
        """
        return (
            self._approximate_per_label(group, threshold)
            if len(group) <= MAX_PER_LABEL
            else self._approximate_in_lanes(group, threshold)
        )

    def gather(self, group: Sequence[LinearClassifier]) -> None:
        """Copy the weights of labels to the label-major workspace."""
        for lane, label in enumerate(group):
            if not np.may_share_memory(label.w, self.weights[lane]):
                self.weights[lane] = label.w
                label.w = self.weights[lane]

    def to_lanes(self, group: Sequence[LinearClassifier], steps: npt.ArrayLike) -> LaneWeights:
        """Return the weights of a group quantized with one step per lane, as feature-major lines.

        Lanes without a label get weights of 0 and a bias with which no row is violated.
        """
        self.gather(group)
        self.weights[len(group) :] = 0
        lane_steps, bias = np.zeros(LANES), np.full(LANES, -2, np.float32)
        lane_steps[: len(group)] = steps
        bias[: len(group)] = [label.bias for label in group]
        weights = workspace("weights in lanes", (self.quantized.n_frequent, LANES), np.int16)
        quantize_weights(self.weights, lane_steps, weights)
        if group is not self._group:
            self._group, self._positives = group, _by_lane_and_row(group, self.design.n_samples)
        (rows, starts), lanes_of_rows = self._positives
        pairs = np.zeros((self.quantized.dense.shape[1] // 2, 2 * LANES), np.int16)
        pair_lines(weights[: self.design.n_dense], pairs)
        return LaneWeights(
            (weights, pairs), bias, self._list_rare_weights(rows, starts, self.weights, lane_steps), lanes_of_rows
        )

    def _list_rare_weights(
        self, rows: RowIndices, starts: npt.NDArray[np.int64], weights: Floats, steps: Any
    ) -> tuple[Any, ...]:
        """Return the positive weights of rare features of lanes with these positives (see `list_rare_weights`)."""
        n_frequent = self.quantized.n_frequent
        rare_weights: tuple[Any, ...] = list_rare_weights(
            *self.design.rows[:2], rows, starts, weights, n_frequent, steps
        )
        return rare_weights

    def lists(self, counts: npt.NDArray[np.int64]) -> list[tuple[RowIndices, Floats]]:
        """Return the rows and numbers that a pass listed for each lane; valid until the next pass."""
        return [(self.rows[lane, :n], self.numbers[lane, :n]) for lane, n in enumerate(counts)]

    def scores(self, label: LinearClassifier, rows: RowIndices) -> npt.NDArray[np.float64]:
        """Return the scores of the rows under one label, in float64."""
        scores = np.empty(len(rows))
        scores_exact(*self.design.rows, rows, label.w, label.bias, scores)
        add_dense_scores(self.design.dense, rows, label.w, scores)
        return scores

    def _exact_in_lanes(self, group: Sequence[LinearClassifier]) -> Iterator[Passed]:
        bounds = self._bounds(group)
        lanes = self.to_lanes(group, bounds[0, : len(group)])
        all_rows = slice(0, self.design.n_samples)
        for label, (rows, slack) in zip(
            group, self._list_near(all_rows, self.quantized.bounds, lanes, bounds), strict=False
        ):
            load_into_cache(label.w)
            loss, n = exact_slack(*self.design.rows, self.design.dense, label.w, label.bias, rows, slack)
            yield float(loss), rows[:n], slack[:n]

    def _approximate_in_lanes(
        self, group: Sequence[L], threshold: Callable[[L, Floats, float], float]
    ) -> Iterator[Violated]:
        bounds = self._bounds(group)
        bounds[1:] = 0
        lanes = self.to_lanes(group, bounds[0, : len(group)])
        sample, share = self._sample()
        near = self._list_near(sample, self.quantized.bounds_without_errors, lanes, bounds)
        for lane, (label, (_, slack)) in enumerate(zip(group, near, strict=False)):
            bounds[3, lane] = -threshold(label, slack, share)
        all_rows = slice(0, self.design.n_samples)
        yield from self._list_near(all_rows, self.quantized.bounds_without_errors, lanes, bounds)[: len(group)]

    def _bounds(self, group: Sequence[LinearClassifier]) -> Floats:
        """Return `error_bounds` of the label of each lane."""
        bounds = np.zeros((4, LANES), np.float32)
        for lane, label in enumerate(group):
            bounds[:, lane] = error_bounds(label.square, float(label.bias))
        return bounds

    def _list_near(
        self, part: slice, row_bounds: tuple[Floats, ...], lanes: LaneWeights, bounds: Floats
    ) -> list[Violated]:
        """Return for each lane the rows of a range that may be violated; valid until the next pass."""
        counts = np.zeros(LANES, np.int64)
        lists = self.rows, self.numbers, counts
        for batch, frequent, rare_scores in self.quantized.row_batches(part, lanes.rare_weights):
            batch_bounds = tuple(bound[batch] for bound in row_bounds)
            X = batch.start, frequent, rare_scores, batch_bounds
            list_near(*X, lanes.weights, lanes.bias, bounds, lanes.positives(batch), *lists)
        return self.lists(counts)

    def _exact_per_label(self, group: Sequence[LinearClassifier]) -> Iterator[Passed]:
        slack = self.numbers[0]
        for label in group:
            is_positive = self._is_positive(label)
            X = *self.design.rows, self.design.dense
            loss = label_slack_exact(*X, label.w, label.bias, is_positive, slack)
            violated = np.flatnonzero(slack > 0).astype(np.int32)
            yield float(loss), violated, slack[violated]

    def _approximate_per_label(
        self, group: Sequence[L], threshold: Callable[[L, Floats, float], float]
    ) -> Iterator[Violated]:
        sample, share = self._sample()
        for label in group:
            steps = np.array([error_bounds(label.square, float(label.bias))[0]], np.float32)
            starts = np.array([0, len(label.positives)])
            rare_weights = self._list_rare_weights(label.positives, starts, label.w[None], steps.astype(np.float64))
            arguments = label, steps[0], rare_weights, self._is_positive(label)
            _, slack = self._list_near_one(sample, 0.0, *arguments)
            yield self._list_near_one(slice(0, self.design.n_samples), -threshold(label, slack, share), *arguments)

    def _list_near_one(
        self, part: slice, extra: float, label: LinearClassifier, step: Any, rare_weights: Any, is_positive: Any
    ) -> Violated:
        """Return the rows of a range that one label may violate, as `_list_near` does."""
        rows, slack = self.rows[0], self.numbers[0]
        weights, n = label.w[: self.quantized.n_frequent], 0
        of_label = weights, step, label.bias, np.float32(extra), is_positive
        for batch, frequent, rare_scores in self.quantized.row_batches(part, rare_weights):
            X = batch.start, frequent, rare_scores, self.quantized.steps[batch]
            n += list_near_one(*X, *of_label, rows[n:], slack[n:])
        return rows[:n], slack[:n]

    def _is_positive(self, label: LinearClassifier) -> npt.NDArray[np.bool_]:
        is_positive = workspace("positives of one label", (self.design.n_samples,), np.bool_)
        is_positive[:] = False
        is_positive[label.positives] = True
        return is_positive

    def _sample(self) -> tuple[slice, float]:
        """Return the range of the last rows, and the fraction of all rows that it has.

        All rows are in random order, but labels have converged further on the rows that they saw first.
        """
        n = self.design.n_samples
        size = min(n, max(n // _SAMPLING[0], _SAMPLING[1]))
        return slice(n - size, n), size / n if n else 1.0
