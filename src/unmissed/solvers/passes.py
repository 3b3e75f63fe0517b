"""Passes: the buffers of one thread, and the passes over X that serve up to LANES labels at once, for any loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unmissed.kernels.exact import scores_exact
from unmissed.kernels.lanes import list_awake, turn
from unmissed.kernels.vectors import LANES
from unmissed.solvers.buffers import scratch
from unmissed.solvers.design import Design, Floats, Rows

Passed = tuple[float, Rows, Floats]  # a label's loss over negatives, its violated rows, by how much

ALONE = 8  # up to this many labels a pass label by label is cheaper than one in lanes


class Linear(Protocol):
    """A label as passes see it: its positives, and the weights that its rows are scored by."""

    positives: Rows
    w: Floats
    bias: np.float32


class Passes:
    """W in lanes and by label, and one number per row and lane: whatever the pass is about.

    The buffers belong to the thread: only one object of this class is in use in it at a time.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.lanes = scratch("weights in lanes", (design.n_features, LANES))
        self.weights = scratch("weights by label", (LANES, design.n_features))
        self.table = scratch("rows by lanes", (design.n_samples, LANES))

    def slack(self, group: Sequence[Linear], in_lanes: Any, alone: Any) -> Iterable[Passed]:
        """Return each label's loss over its negatives and the rows it violates.

        `in_lanes` and `alone` are the kernels of a loss, for LANES labels and for one, that give the same bits:
        `kernels.lanes` and `kernels.exact` have those of the squared hinge.
        """
        return self._alone(group, alone) if len(group) <= ALONE else self._in_lanes(group, in_lanes)

    def into_lanes(self, group: Sequence[Linear]) -> Floats:
        """Put the weights of a group side by side; return the biases of the lanes."""
        for lane, label in enumerate(group):
            if not np.may_share_memory(label.w, self.weights[lane]):
                self.weights[lane] = label.w
                label.w = self.weights[lane]
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

    def positive_entries(self, counts: npt.NDArray[np.int64]) -> list[tuple[Rows, Floats]]:
        """Return for each lane the rows and values of the table's positive entries, `counts` of them."""
        starts = np.zeros(LANES + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        rows = np.empty(starts[-1], np.int32)
        entries = np.empty(starts[-1], np.float32)
        list_awake(self.table, starts, rows, entries)
        parts = [slice(starts[lane], starts[lane + 1]) for lane in range(LANES)]
        return [(rows[part], entries[part]) for part in parts]

    def scores(self, label: Linear, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the scores of some rows under one label, in float64."""
        scores = np.empty(len(rows))
        scores_exact(*self.design.rows, rows, label.w, label.bias, scores)
        return scores

    def _in_lanes(self, group: Sequence[Linear], kernel: Any) -> list[Passed]:
        bias = self.into_lanes(group)
        loss = np.zeros(LANES)
        counts = np.zeros(LANES, np.int64)
        kernel(*self.design.rows, self.lanes, bias, *self.lanes_of_rows(group), self.table, loss, counts)
        listed = self.positive_entries(counts)
        return [(float(loss[lane]), *listed[lane]) for lane in range(len(group))]

    def _alone(self, group: Sequence[Linear], kernel: Any) -> Iterator[Passed]:
        slack = scratch("slack of one label", (self.design.n_samples,))
        is_positive = scratch("positives of one label", (self.design.n_samples,), np.bool_)
        for label in group:
            is_positive[:] = False
            is_positive[label.positives] = True
            loss = kernel(*self.design.rows, label.w, label.bias, is_positive, slack)
            rows = np.flatnonzero(slack > 0).astype(np.int32)
            yield float(loss), rows, slack[rows]
