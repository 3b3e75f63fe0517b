"""Passes over X that serve up to LANES labels at a time, for any margin loss, and their workspaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.certificate import Doubles
from unmissed.models.linear.design import Design, Floats, RowIndices
from unmissed.models.linear.dismec.lane_ascent import sort_by_row
from unmissed.models.linear.dismec.near_margin import error_bounds, exact_slack, list_near, list_near_one
from unmissed.models.linear.dismec.quantized_rows import QuantizedRows
from unmissed.models.linear.dismec.rare_features import list_rare_weights
from unmissed.numerics.dense_rows import add_dense_scores
from unmissed.numerics.float64_sums import load_into_cache, scores_exact
from unmissed.numerics.simd import LANES
from unmissed.numerics.transpose import pair_lines, quantize_weights
from unmissed.numerics.workspace import workspace

Listed = tuple[RowIndices, Floats, Floats]  # rows that a label may violate, their slack, scores of its positives
Passed = tuple[float, RowIndices, Floats, Doubles]  # the same after the loss over the negatives

MAX_PER_LABEL = 2  # Up to this many labels, per-label passes are cheaper than one in lanes.
_FEW_POSITIVES = 64  # Scoring up to this many positives is cheaper than finding out which may be violated.
_SAMPLING = 16, 1024  # The threshold is estimated from 1 row in 16, but from at least 1024 rows.


class LinearClassifier(Protocol):
    """The interface of a label for passes: its positives and its weights.

    With dense features, positives must be in ascending order. Exact passes rely on two properties. `square` is |w|^2
    (approximate passes need only an estimate). A rare feature (see `QuantizedRows`) that no positive has must have a
    weight of at most 0, as in any sum of a z x with a >= 0. `h` has a number above 0 per positive, for sweeps.
    """

    positives: RowIndices
    h: Floats
    w: Floats
    bias: np.float32
    square: float


L = TypeVar("L", bound=LinearClassifier)


@dataclass(frozen=True)
class LaneWeights:
    """The quantized weights of a group: lines of frequent features, pairs of dense ones, and lists of rare ones.

    `bias` has a bias per lane; `lanes_of_rows` has in CSR form, for each row, the lanes whose label it has, and h.
    """

    weights: tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]
    bias: Floats
    rare_weights: tuple[Any, ...]
    lanes_of_rows: tuple[Any, ...]

    def positives(self, part: slice) -> tuple[Any, ...]:
        """Return, in CSR form, the lanes whose label each row of a range has, and their h."""
        starts, lanes, h = self.lanes_of_rows
        return starts[part.start : part.stop + 1], lanes, h


def _by_lane_and_row(group: Sequence[LinearClassifier], n_samples: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the positives of a group in CSR form, by lane and by row."""
    rows, h = (np.concatenate(parts) for parts in zip(*((one.positives, one.h) for one in group), strict=True))
    starts = np.cumsum([0, *(len(label.positives) for label in group)])
    return (rows, starts), sort_by_row(rows, h, starts, 0, n_samples)


class Passes:
    """Passes over X for groups of labels; each lists for every lane some rows with a number each.

    The workspaces belong to the thread: only one object of this class may be in use in a thread at a time.
    """

    def __init__(self, design: Design, quantized: QuantizedRows) -> None:
        self.design, self.quantized = design, quantized
        self.weights = workspace("weights by label", (LANES, design.n_features))
        lists = LANES, design.n_samples  # of which most labels fill a small part
        self.rows = workspace("rows of lanes", lists, np.int32, on_demand=True)
        self.numbers = workspace("numbers of rows of lanes", lists, on_demand=True)
        self._group: Sequence[LinearClassifier] = ()
        self._positives: tuple[tuple[Any, ...], tuple[Any, ...]]

    def exact(self, group: Sequence[LinearClassifier]) -> Iterator[Passed]:
        """Return each label's loss over its negatives, the rows it violates, and the scores of its positives.

        Rows that may be violated are found in quantized arithmetic and then scored in float64. Scores of positives
        above 1 may be approximate.
        """
        bounds = self._bounds(group)
        lanes = self._lane_weights(group, bounds)
        listed = self._list_near(group, lanes, slice(0, self.design.n_samples), self.quantized.bounds, bounds)
        for lane, (label, (rows, slack, scores)) in enumerate(zip(group, listed, strict=True)):
            load_into_cache(label.w)
            X = *self.design.rows, self.design.dense, self.design.weights
            loss, n = exact_slack(*X, label.w, label.bias, rows, slack)
            yield float(loss), rows[:n], slack[:n], self._rescore(label, scores, bounds[:, lane])

    def approximate(
        self, group: Sequence[L], threshold: Callable[[L, RowIndices, Floats, float], float]
    ) -> Iterator[Listed]:
        """Return the rows that each label violates by more than a threshold, in quantized arithmetic only.

        `threshold(label, rows, slack, share)` returns it from the violations of the violated rows of a sample, the
        fraction `share` of all rows.
        """
        bounds, row_bounds = self._bounds(group), self.quantized.bounds_without_errors
        bounds[1:] = 0
        lanes = self._lane_weights(group, bounds)
        sample, share = self._sample()
        for lane, (label, (rows, slack, _)) in enumerate(
            zip(group, self._list_near(group, lanes, sample, row_bounds, bounds), strict=True)
        ):
            bounds[3, lane] = -threshold(label, rows, slack, share)
        yield from self._list_near(group, lanes, slice(0, self.design.n_samples), row_bounds, bounds)

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
        pairs = workspace("pairs of dense weights", (self.quantized.dense.shape[1] // 2, 2 * LANES), np.int16)
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

    def scores(self, label: LinearClassifier, rows: RowIndices) -> Doubles:
        """Return the scores of the rows under one label, in float64."""
        scores = np.empty(len(rows))
        scores_exact(*self.design.rows, rows, label.w, label.bias, scores)
        add_dense_scores(self.design.dense, rows, label.w, scores)
        return scores

    def _rescore(self, label: LinearClassifier, scores: Floats, bounds: Floats) -> Doubles:
        """Replace quantized scores of many positives by float64 ones, unless they are certain to be above 1.

        Quantized scores leave out negative weights of rare features: they are then no lower bounds. Without dense
        features all positives are scored, as that is cheap, and `scores` is not used.
        """
        has_rare_features = self.quantized.n_frequent < self.design.n_features
        if not self.design.n_dense or has_rare_features or len(scores) <= _FEW_POSITIVES:
            return self.scores(label, label.positives)
        _, sizes, errors = self.quantized.bounds
        with np.errstate(invalid="ignore"):  # NaN, if rows or weights are not quantized, counts as uncertain
            error = sizes[label.positives] * bounds[1] + errors[label.positives] * bounds[2] + bounds[3]
            uncertain = ~(scores - error > 1)
        exact: Doubles = scores.astype(np.float64)
        exact[uncertain] = self.scores(label, label.positives[uncertain])
        return exact

    def _lane_weights(self, group: Sequence[LinearClassifier], bounds: Floats) -> LaneWeights | None:
        """Return the weights of a group in lanes, or None if per-label passes are cheaper."""
        return None if len(group) <= MAX_PER_LABEL else self.to_lanes(group, bounds[0, : len(group)])

    def _bounds(self, group: Sequence[LinearClassifier]) -> Floats:
        """Return `error_bounds` of the label of each lane."""
        bounds = np.zeros((4, LANES), np.float32)
        for lane, label in enumerate(group):
            bounds[:, lane] = error_bounds(label.square, float(label.bias))
        return bounds

    def _list_near(
        self,
        group: Sequence[LinearClassifier],
        lanes: LaneWeights | None,
        part: slice,
        row_bounds: tuple[Floats, ...],
        bounds: Floats,
    ) -> list[Listed]:
        """Return for each label the rows of a range that it may violate; valid until the next pass."""
        starts = np.cumsum([0, *(len(label.positives) for label in group)])
        scores = np.empty(starts[-1], np.float32)
        counts, ends = np.zeros(LANES, np.int64), np.append(starts[:-1], np.zeros(LANES - len(group), np.int64))
        if lanes is None:
            for lane, label in enumerate(group):
                sizes = self._list_near_one(lane, label, part, row_bounds, bounds[:, lane], scores[starts[lane] :])
                counts[lane], ends[lane] = sizes[0], starts[lane] + sizes[1]
        else:
            lists = self.rows, self.numbers, counts, scores, ends
            for batch, frequent, rare_scores in self.quantized.row_batches(part, lanes.rare_weights):
                X = batch.start, frequent, rare_scores, tuple(bound[batch] for bound in row_bounds)
                list_near(*X, lanes.weights, len(group), lanes.bias, bounds, lanes.positives(batch), *lists)
        of_positives = (scores[begin:end] for begin, end in zip(starts[:-1], ends, strict=False))
        return [(*listed, of_label) for listed, of_label in zip(self.lists(counts), of_positives, strict=False)]

    def _list_near_one(
        self,
        lane: int,
        label: LinearClassifier,
        part: slice,
        row_bounds: tuple[Floats, ...],
        bounds: Floats,
        scores: Floats,
    ) -> tuple[int, int]:
        """List the rows of one label as `list_near` does, at its place in the lists; return the numbers of rows."""
        is_positive, weights = self._is_positive(label), label.w[: self.quantized.n_frequent]
        starts, steps = np.array([0, len(label.positives)]), bounds[:1].astype(np.float64)
        rare_weights = self._list_rare_weights(label.positives, starts, label.w[None], steps)
        n, n_positives = 0, 0
        for batch, frequent, rare_scores in self.quantized.row_batches(part, rare_weights):
            X = batch.start, frequent, rare_scores, tuple(bound[batch] for bound in row_bounds)
            of_label = weights, label.bias, tuple(bounds), is_positive
            lists = self.rows[lane, n:], self.numbers[lane, n:], scores[n_positives:]
            found = list_near_one(*X, *of_label, *lists)
            n, n_positives = n + found[0], n_positives + found[1]
        return n, n_positives

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
