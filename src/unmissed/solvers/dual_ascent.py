"""DualAscent: how labels of the squared hinge go from the common start to their optimum, LANES at a time."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from unmissed.kernels.ascent import ascend, best_shift, row_add
from unmissed.kernels.lanes import count_awake, lane_sweep
from unmissed.kernels.vectors import LANES
from unmissed.losses.margin import squared_hinge_value
from unmissed.solvers.certificate import Doubles
from unmissed.solvers.design import Design, Floats, Rows
from unmissed.solvers.label import Label, Start, half_inverse
from unmissed.solvers.newton import Newton
from unmissed.solvers.packed import Packed
from unmissed.solvers.passes import Passes, Rounded

_SWEEPS = 0.25, 1.0  # the share of rows that each sweep goes over, the first of their random order
_EARLY = 3e-3  # how far, relative to the dual objective, a label goes alone between two sweeps
_EARLY_EPOCHS = 1
_LATE_EPOCHS = 30
_LATE = 0.1  # the same between two rounds, relative to the tolerance
_PACKED_ROUNDS = 2  # a label that is not done after so many is solved over rows as they are
_TAKE = 0.6  # rows violated by more than this share of the bias's overshoot are taken in
_MOST_STARTS = 16
_SLOW = 0.5  # a round that leaves more of the gap than this is one too many
_MOST_ROUNDS = (
    20  # after so many rounds, or epochs (a share of the number of features, within limits), Newton is cheaper
)
_PATIENCE = 0.25, 8, 500


def _swept(design: Design) -> list[int]:
    """Return how many rows each sweep goes over."""
    return [math.ceil(share * design.n_samples) for share in _SWEEPS]


class Starts:
    """The common start of labels whose negatives cost the same, made when it is first asked for."""

    def __init__(self, design: Design, packed: Packed, free: bool, seed: int) -> None:
        self._design, self._packed, self._free, self._seed = design, packed, free, seed
        self._made: OrderedDict[float, Start] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, cost: float) -> Start:
        """Return the start of labels whose negatives cost `cost`; only the last few costs are remembered."""
        with self._lock:
            if cost not in self._made:
                self._made[cost] = self._make(cost)
                if len(self._made) > _MOST_STARTS:
                    self._made.popitem(last=False)
            self._made.move_to_end(cost)
            return self._made[cost]

    def _make(self, cost: float) -> Start:
        """Go one epoch towards the solution of the label without positives, over the rows of the first sweep."""
        n = _swept(self._design)[0]
        w = np.zeros(self._design.n_features, np.float32)
        a = np.zeros(n, np.float32)
        centre = -1.0 if self._free else 0.0  # at -1 every negative is satisfied
        bias, _ = ascend(
            *self._packed.exact,
            self._design.norms,
            self._design.use_bias,
            np.arange(n, dtype=np.int32),
            np.full(n, -1, np.float32),
            np.full(n, half_inverse(cost)),
            a,
            w,
            np.float32(centre),
            0.0,
            1,  # every label goes on from here, and a better start was seen to save nothing
            self._seed,
        )
        awake = np.flatnonzero(a > 0).astype(np.int32)
        return Start(w, np.float32(bias), self._free, centre, awake, a[awake])


class DualAscent:
    """Sweeps in lanes over all rows, then rounds over each label's working set; a method of `schedule.run`."""

    def __init__(self, design: Design, packed: Packed, rounded: Rounded, tol: float, max_rounds: int) -> None:
        self._design, self._packed, self._tol, self._max_rounds = design, packed, tol, max_rounds
        self._passes = Passes(design, rounded)
        share, least, most = _PATIENCE
        self._patience = int(min(max(share * design.n_features, least), most))

    def approach(self, group: Sequence[Label]) -> None:
        """Bring labels from the common start to where their own working sets are known."""
        design, passes = self._design, self._passes
        for lane, label in enumerate(group):
            passes.weights[lane] = label.start.w
            label.w = passes.weights[lane]
            self._visit_positives(label)
        lanes_of_rows = passes.lanes_of_rows(group)
        h_positive, h_negative = np.ones(LANES, np.float32), np.ones(LANES, np.float32)
        h_positive[: len(group)] = [label.h_positive for label in group]
        h_negative[: len(group)] = [label.h_negative for label in group]
        for sweep, n in enumerate(_swept(design)):
            table = passes.table[:n]
            table[:] = 0
            if not sweep:
                self._spread_starts(group)
            for lane, label in enumerate(group):
                inside = label.rows < n
                table[label.rows[inside], lane] = label.a[inside]
            bias = passes.into_lanes(group)
            lane_sweep(
                design.indptr[: n + 1],
                design.indices,
                design.values,
                design.norms,
                design.use_bias,
                passes.lanes,
                bias,
                *lanes_of_rows,
                h_positive,
                h_negative,
                table,
            )
            passes.out_of_lanes()
            self._collect(group, bias, table)
            for label in group:
                label.ascend(design, self._packed.rows, _EARLY * abs(label.dual()), _EARLY_EPOCHS)

    def round(self, group: Sequence[Label]) -> None:
        """Certify labels; those whose gap is too wide take in the rows they missed and go on alone.

        A label in its last round is certified and left as it is, so that its certificate is that of its weights.
        """
        exact = all(label.rounds for label in group) or self._max_rounds == 1  # no label is done in its first round
        if exact:
            for label in group:
                label.refresh(self._design)
        for label, (loss, rows, slack) in zip(group, self._passes.slack(group, exact), strict=True):
            if label.done:
                continue
            scores = self._passes.scores(label, label.positives)
            missed = float(np.sum(squared_hinge_value(scores)))
            label.rounds += 1
            self._judge(label, label.cost_negative * loss + label.cost_positive * missed, exact)
            if not label.done:
                self._improve(label, rows, slack, scores)

    def _judge(self, label: Label, loss: float, exact: bool) -> None:
        """Certify a label; one that makes no headway is handed to Newton's method, which has the last word."""
        if not exact:
            label.objective = label.penalty + loss
            return
        before = label.gap
        label.certify(self._design, loss)
        label.done = label.gap <= self._tol or label.rounds >= self._max_rounds
        tried = label.epochs >= self._patience or label.rounds >= _MOST_ROUNDS
        if not label.done and tried and (label.spent or label.gap > _SLOW * before):
            Newton(self._design, label).solve(self._tol)
            label.done = True

    def _improve(self, label: Label, rows: Rows, slack: Floats, scores: Doubles) -> None:
        """Take in the rows that stay violated when the bias falls to its best value, and go on alone."""
        shift = 0.0
        if self._design.use_bias:
            shift = best_shift(slack, scores, label.cost_positive, label.cost_negative, label.offset)
        missed = rows[slack > -_TAKE * shift]
        label.take_in(np.setdiff1d(missed, label.rows, assume_unique=True))
        if label.free:
            label.recentre()
        late = _LATE * 0.5 ** max(label.rounds - 3, 0)  # a label that keeps coming back stopped at gains that add up
        X = self._packed.rows if label.rounds <= _PACKED_ROUNDS else self._packed.exact
        label.ascend(self._design, X, late * self._tol * label.objective, min(_LATE_EPOCHS, self._patience))

    def _visit_positives(self, label: Label) -> None:
        """Take the rows that are a label's positives out of the common start, and visit those once."""
        design, start = self._design, label.start
        _, _, at = np.intersect1d(label.positives, start.rows, assume_unique=True, return_indices=True)
        for row, a in zip(start.rows[at], start.a[at], strict=True):
            begin, end = design.indptr[row], design.indptr[row + 1]
            row_add(design.indices[begin:end], design.values[begin:end], a, label.w)
            label.bias = np.float32(label.bias + design.use_bias * a)
        label.ascend(design, self._packed.rows, 0.0, 1)

    def _spread_starts(self, group: Sequence[Label]) -> None:
        """Give each lane the dual variables of its label's start."""
        lanes_of: dict[int, list[int]] = {}
        for lane, label in enumerate(group):
            lanes_of.setdefault(id(label.start), []).append(lane)
        for lanes in lanes_of.values():
            start = group[lanes[0]].start
            self._passes.table[start.rows[:, None], lanes] = start.a[:, None]

    def _collect(self, group: Sequence[Label], bias: Floats, table: Floats) -> None:
        """Make each label's working set of its positives and the rows that a sweep, whose table this is, left awake."""
        awake_positives = []
        for lane, label in enumerate(group):
            a, inside = label.a[: len(label.positives)], label.positives < len(table)
            a[inside] = table[label.positives[inside], lane]
            table[label.positives[inside], lane] = 0
            awake_positives.append(a)
        counts = np.zeros(LANES, np.int64)
        count_awake(table, counts)
        for lane, (label, listed) in enumerate(zip(group, self._passes.positive_entries(table, counts), strict=False)):
            label.bias = bias[lane]
            label.set_rows(awake_positives[lane], *listed)
