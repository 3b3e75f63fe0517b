"""Passes: the buffers of one thread, and the passes over X that serve up to LANES labels at once, for any loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from unmissed.kernels.exact import label_slack_exact, scores_exact, squared_length
from unmissed.kernels.lanes import list_awake, turn
from unmissed.kernels.near import bounds_of, exact_slack, list_near, list_violated, round_rows, round_weights
from unmissed.kernels.vectors import LANES
from unmissed.solvers.buffers import scratch
from unmissed.solvers.design import Design, Floats, Rows

Passed = tuple[float, Rows, Floats]  # a label's loss over negatives, its violated rows, by how much

ALONE = 5  # up to this many labels a pass label by label is cheaper than one in lanes


class Linear(Protocol):
    """A label as passes see it: its positives, and the weights that its rows are scored by."""

    positives: Rows
    w: Floats
    bias: np.float32


class Rounded:
    """Rows of a design in 16-bit whole numbers, and what rounding did to them; see `kernels.near`."""

    def __init__(self, design: Design) -> None:
        self.numbers = np.empty(len(design.values), np.int16)
        self.steps, self.sizes, self.errors = (np.empty(design.n_samples, np.float32) for _ in range(3))
        round_rows(design.indptr, design.values, self.numbers, *self.bounds)

    @property
    def bounds(self) -> tuple[Floats, Floats, Floats]:
        """The step of each row, and bounds of its size and of its error."""
        return self.steps, self.sizes, self.errors


class Passes:
    """W in lanes and by label, and one number per row and lane: whatever the pass is about.

    The buffers belong to the thread: only one object of this class is in use in it at a time.
    """

    def __init__(self, design: Design, rounded: Rounded) -> None:
        self.design, self.rounded = design, rounded
        self.lanes = scratch("weights in lanes", (design.n_features, LANES))
        self.weights = scratch("weights by label", (LANES, design.n_features))
        self.table = scratch("rows by lanes", (design.n_samples, LANES))
        self._rows = scratch("rows near their margin", (LANES, design.n_samples), np.int32)
        self._slack = scratch("slack of rows near their margin", (LANES, design.n_samples))

    def slack(self, group: Sequence[Linear], exact: bool) -> Iterator[Passed]:
        """Return each label's loss over its negatives and the rows it violates.

        Rows are found in whole numbers; if the pass is to be `exact`, all that may be violated are scored in float64.
        """
        return self._alone(group, exact) if len(group) <= ALONE else self._in_lanes(group, exact)

    def gather(self, group: Sequence[Linear]) -> None:
        """Move the weights of labels to the buffer that lanes are filled from."""
        for lane, label in enumerate(group):
            if not np.may_share_memory(label.w, self.weights[lane]):
                self.weights[lane] = label.w
                label.w = self.weights[lane]

    def into_lanes(self, group: Sequence[Linear]) -> Floats:
        """Put the weights of a group side by side; return the biases of the lanes."""
        self.gather(group)
        turn(self.weights, self.lanes)
        self.lanes[:, len(group) :] = 0
        bias = np.full(LANES, -2, np.float32)  # lanes without a label: no row is violated, none is updated
        bias[: len(group)] = [label.bias for label in group]
        return bias

    def out_of_lanes(self) -> None:
        """Copy weights that changed in lanes back to the labels."""
        turn(self.lanes, self.weights)

    def lanes_of_rows(self, group: Sequence[Linear]) -> tuple[npt.NDArray[np.int64], Rows]:
        """Return, in CSR form, the lanes whose label a row has."""
        rows = np.concatenate([label.positives for label in group])
        lanes = np.repeat(np.arange(len(group), dtype=np.int32), [len(label.positives) for label in group])
        order = np.argsort(rows, kind="stable")
        indptr = np.zeros(self.design.n_samples + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=self.design.n_samples), out=indptr[1:])
        return indptr, lanes[order]

    def positive_entries(self, table: Floats, counts: npt.NDArray[np.int64]) -> list[tuple[Rows, Floats]]:
        """Return for each lane the rows and values of a table's positive entries, `counts` of them."""
        starts = np.zeros(LANES + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        rows = np.empty(starts[-1], np.int32)
        entries = np.empty(starts[-1], np.float32)
        list_awake(table, starts, rows, entries)
        parts = [slice(starts[lane], starts[lane + 1]) for lane in range(LANES)]
        return [(rows[part], entries[part]) for part in parts]

    def scores(self, label: Linear, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the scores of some rows under one label, in float64."""
        scores = np.empty(len(rows))
        scores_exact(*self.design.rows, rows, label.w, label.bias, scores)
        return scores

    def _in_lanes(self, group: Sequence[Linear], exact: bool) -> Iterator[Passed]:
        self.gather(group)
        bias = np.full(LANES, -2, np.float32)  # lanes without a label: no row is violated
        bounds = np.zeros((4, LANES))
        for lane, label in enumerate(group):
            bias[lane] = label.bias
            bounds[:, lane] = bounds_of(label.w, label.bias)
        weights = scratch("whole weights in lanes", (self.design.n_features, LANES), np.int16)
        round_weights(self.weights, bounds[0], weights)
        counts = np.zeros(LANES, np.int64)
        X = self.design.indptr, self.design.indices, self.rounded.numbers, self.rounded.bounds
        positives = self.lanes_of_rows(group)
        list_near(*X, weights, bias, bounds.astype(np.float32), *positives, self._rows, self._slack, counts)
        for lane, label in enumerate(group):
            near = self._rows[lane, : counts[lane]], self._slack[lane, : counts[lane]]
            yield self._score(label, *near) if exact else self._violated(*near)

    def _alone(self, group: Sequence[Linear], exact: bool) -> Iterator[Passed]:
        rows, slack = self._rows[0], self._slack[0]
        is_positive = scratch("positives of one label", (self.design.n_samples,), np.bool_)
        for label in group:
            is_positive[:] = False
            is_positive[label.positives] = True
            if exact:
                loss = label_slack_exact(*self.design.rows, label.w, label.bias, is_positive, slack)
                violated = np.flatnonzero(slack > 0).astype(np.int32)
                yield float(loss), violated, slack[violated]
            else:
                X = self.design.indptr, self.design.indices, self.rounded.numbers, self.rounded.steps
                step, *_ = bounds_of(label.w, label.bias)
                n = list_violated(*X, label.w, step, label.bias, is_positive, rows, slack)
                yield self._violated(rows[:n], slack[:n])

    def _score(self, label: Linear, rows: Rows, slack: Floats) -> Passed:
        loss, n = exact_slack(*self.design.rows, label.w, label.bias, rows, slack)
        return float(loss), rows[:n], slack[:n]

    def _violated(self, rows: Rows, slack: Floats) -> Passed:
        violated = slack > 0
        slack = slack[violated]
        return float(squared_length(slack)), rows[violated], slack
