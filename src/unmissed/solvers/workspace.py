"""Workspace: the buffers of one thread, and the passes over X that serve up to LANES labels at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from unmissed.kernels.ascent import best_shift, dots, row_add
from unmissed.kernels.lanes import LANES, count_awake, label_slack, lane_slack, lane_sweep, list_awake, turn
from unmissed.losses.margin import squared_hinge_value
from unmissed.solvers.design import Design, Floats
from unmissed.solvers.label import Label, Rows, Start

Passed = tuple[float, Rows, Floats]  # a label's loss over negatives, its violated rows, by how much

_SWEEPS = 2
ALONE = 8  # up to this many labels a pass label by label is cheaper than one in lanes
_EARLY = 1e-2  # how far, relative to the dual objective, a label goes alone between two sweeps
_EARLY_EPOCHS = 1
_LATE_EPOCHS = 30
_LATE = 0.1  # the same between two rounds, relative to the tolerance
_TAKE = 0.7  # rows violated by more than this share of the bias's overshoot are taken in


class Workspace:
    """W in lanes and by label, and one number a row and lane: dual variables during sweeps, slack during rounds."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.lanes = np.empty((design.n_features, LANES), np.float32)
        self.weights = np.empty((LANES, design.n_features), np.float32)
        self.table = np.empty((design.n_samples, LANES), np.float32)

    def sweep(self, group: Sequence[Label], start: Start) -> None:
        """Bring labels from the common start to where their own working sets are known."""
        design = self.design
        self._begin(group, start)
        pos_indptr, pos_lanes, h_positive, h_negative = self._lane_facts(group)
        self.table[:] = 0
        self.table[start.rows, : len(group)] = start.a[:, None]
        for sweep in range(_SWEEPS):
            if sweep:
                self.table[:] = 0
            for lane, label in enumerate(group):
                if sweep:
                    self.table[label.rows, lane] = label.a
                else:
                    self.table[label.positives, lane] = label.a
            turn(self.weights, self.lanes)
            bias = self._biases(group)
            lane_sweep(
                *design.rows,
                design.norms,
                design.use_bias,
                self.lanes,
                bias,
                pos_indptr,
                pos_lanes,
                h_positive,
                h_negative,
                self.table,
            )
            turn(self.lanes, self.weights)
            self._collect(group, bias)
            for label in group:
                label.ascend(design, _EARLY * abs(label.dual()), _EARLY_EPOCHS)

    def round(self, group: Sequence[Label], tol: float, max_rounds: int) -> None:
        """Certify labels; those whose gap exceeds `tol` take in the rows they missed and go on alone.

        A label in its last round is certified and left as it is, so that its certificate is that of its weights.
        """
        passed = self._pass_alone(group) if len(group) <= ALONE else self._pass_in_lanes(group)
        for label, (loss, rows, slack) in zip(group, passed, strict=True):
            scores = self._positive_scores(label)
            missed = float(np.sum(squared_hinge_value(scores.astype(np.float64))))
            label.certify(self.design, label.cost_negative * loss + label.cost_positive * missed)
            label.rounds += 1
            if not label.gap <= tol and label.rounds < max_rounds:
                self._improve(label, rows, slack, scores, tol)

    def _pass_in_lanes(self, group: Sequence[Label]) -> list[Passed]:
        """Pass over X once for all labels; return each label's loss over negatives and its violated rows."""
        for lane, label in enumerate(group):
            if not np.may_share_memory(label.w, self.weights[lane]):
                self.weights[lane] = label.w
                label.w = self.weights[lane]
        turn(self.weights, self.lanes)
        pos_indptr, pos_lanes, _, _ = self._lane_facts(group)
        loss = np.zeros(LANES)
        counts = np.zeros(LANES, np.int64)
        bias = self._biases(group)
        lane_slack(*self.design.rows, self.lanes, bias, pos_indptr, pos_lanes, self.table, loss, counts)
        starts, rows, slack = self._list(counts)
        parts = [slice(starts[lane], starts[lane + 1]) for lane in range(len(group))]
        return [(float(loss[lane]), rows[part], slack[part]) for lane, part in enumerate(parts)]

    def _pass_alone(self, group: Sequence[Label]) -> Iterator[Passed]:
        """Give the same bits label by label, which is cheaper while few are left."""
        slack = np.empty(self.design.n_samples, np.float32)
        for label in group:
            is_positive = np.zeros(self.design.n_samples, np.bool_)
            is_positive[label.positives] = True
            loss = label_slack(*self.design.rows, label.w, label.bias, is_positive, slack)
            rows = np.flatnonzero(slack > 0).astype(np.int32)
            yield float(loss), rows, slack[rows]

    def _improve(self, label: Label, rows: Rows, slack: Floats, scores: Floats, tol: float) -> None:
        """Take in the rows that stay violated when the bias falls to its best value, and go on alone."""
        shift = 0.0
        if self.design.use_bias:
            shift = best_shift(slack, scores, label.cost_positive, label.cost_negative, label.offset)
        missed = rows[slack > -_TAKE * shift]
        label.take_in(np.setdiff1d(missed, label.rows, assume_unique=True))
        if label.free:
            label.recentre()
        late = _LATE * 0.5 ** max(label.rounds - 3, 0)  # a label that keeps coming back stopped at gains that add up
        label.ascend(self.design, late * tol * label.objective, _LATE_EPOCHS)

    def _begin(self, group: Sequence[Label], start: Start) -> None:
        """Give each label the common weights, take out the rows that are its positives, and visit those once."""
        self.weights[:] = start.w
        for lane, label in enumerate(group):
            label.w = self.weights[lane]
            _, _, at = np.intersect1d(label.positives, start.rows, assume_unique=True, return_indices=True)
            for row, a in zip(start.rows[at], start.a[at], strict=True):
                begin, end = self.design.indptr[row], self.design.indptr[row + 1]
                row_add(self.design.indices[begin:end], self.design.values[begin:end], a, label.w)
                label.bias = np.float32(label.bias + self.design.use_bias * a)
            label.ascend(self.design, 0.0, 1)

    def _lane_facts(
        self, group: Sequence[Label]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Floats, Floats]:
        """Return the lanes of each row's labels in CSR form, and the h of positives and negatives of each lane."""
        rows = np.concatenate([label.positives for label in group])
        lanes = np.repeat(np.arange(len(group), dtype=np.int32), [len(label.positives) for label in group])
        order = np.argsort(rows, kind="stable")
        indptr = np.zeros(self.design.n_samples + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=self.design.n_samples), out=indptr[1:])
        h_positive, h_negative = np.ones(LANES, np.float32), np.ones(LANES, np.float32)
        h_positive[: len(group)] = [label.h_positive for label in group]
        h_negative[: len(group)] = [label.h_negative for label in group]
        return indptr, lanes[order], h_positive, h_negative

    def _biases(self, group: Sequence[Label]) -> Floats:
        bias = np.full(LANES, -2, np.float32)  # lanes without a label: no row is violated, none is updated
        bias[: len(group)] = [label.bias for label in group]
        self.lanes[:, len(group) :] = 0
        return bias

    def _collect(self, group: Sequence[Label], bias: Floats) -> None:
        """Make each label's working set of its positives and the rows that the sweep left awake."""
        awake_positives = [self.table[label.positives, lane] for lane, label in enumerate(group)]
        for lane, label in enumerate(group):
            self.table[label.positives, lane] = 0
        counts = np.zeros(LANES, np.int64)
        count_awake(self.table, counts)
        starts, rows, a = self._list(counts)
        for lane, label in enumerate(group):
            begin, end = starts[lane], starts[lane + 1]
            label.bias = bias[lane]
            label.set_rows(awake_positives[lane], rows[begin:end], a[begin:end])

    def _list(self, counts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Rows, Floats]:
        """List the rows and values of the table's positive entries, lane after lane."""
        starts = np.zeros(LANES + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        rows = np.empty(starts[-1], np.int32)
        entries = np.empty(starts[-1], np.float32)
        list_awake(self.table, starts, rows, entries)
        return starts, rows, entries

    def _positive_scores(self, label: Label) -> Floats:
        scores = np.empty(len(label.positives), np.float32)
        dots(*self.design.rows, label.positives, label.w, label.bias, scores)
        return scores
